from collections.abc import Sequence

import numpy as np
import pytest
from bench.plain_recipe import PlainRecipe, standardized, weigh_terms
from bench.ranking import Difference, Variant, print_plain
from bench.siblings import measure_siblings, sibling_groups

from bench import ranking
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.embedders.universal_encoder import default_encoder
from toolscout.evals.dataset import LabelledQuery
from toolscout.search import fields
from toolscout.search.engine import Engine

TOOLS = [
    Tool(name="mail_send", description="Send an email to somebody.", server="mail"),
    Tool(name="mail_delete", description="Delete an email for good.", server="mail"),
    Tool(name="weather_get", description="The weather of a city today.", server="weather"),
]


def asked(query: str, *names: str) -> LabelledQuery:
    return LabelledQuery(query, query, (frozenset(names),))


def plain(tools: list[Tool]) -> PlainRecipe:
    made = PlainRecipe(Catalog(tools), embedder=default_encoder(), cache=None)
    made.fill()
    return made


def test_the_plain_recipe_finds_keywords_and_meaning():
    found = plain(TOOLS)
    assert found.search("delete an email", limit=1).names == ["mail_delete"]
    assert found.search("will it rain in Paris?", limit=1).names == ["weather_get"]


def test_the_plain_recipe_lifts_the_tools_of_the_best_server():
    filler = [Tool(name=f"other_{n}", description="Nothing.", server=f"o{n}") for n in range(3)]
    tools = [*TOOLS, *filler, Tool(name="mail_x", description="Nothing.", server="mail")]
    names = plain(tools).search("send an email", limit=len(tools)).names
    assert names.index("mail_x") < min(names.index(tool.name) for tool in filler)


def test_rare_terms_weigh_more_in_the_plain_recipe():
    idf, gains = weigh_terms(TOOLS)
    assert idf["weather"] > idf["mail"]
    assert dict(gains["mail"]).keys() == {0, 1}
    assert standardized(np.ones(3)).tolist() == [0, 0, 0]


def test_a_variant_changes_constants_only_while_it_is_measured():
    before = fields.K1
    seen: list[float] = []

    def make(tools: Sequence[Tool]) -> Engine:
        seen.append(fields.K1)
        return Engine(Catalog(tools))

    sets = {"azure_mcp": ranking.Asked(TOOLS, [asked("send an email", "mail_send")])}
    scores = ranking.measure(Variant(make, fields, {"K1": 7.0}), sets, "K1")
    assert scores["azure_mcp"].tolist() == [[1, 1, 1]]
    assert (seen, fields.K1) == ([7.0], before)


def test_a_changed_part_shares_the_index_and_changes_the_ranks():
    variants = ranking.Variants()
    variants.engines[id(TOOLS)] = TOOLS, Engine(Catalog(TOOLS))
    default, nothing = variants.changed(TOOLS), variants.changed(TOOLS, rankers=())
    assert default.engine is nothing.engine
    assert default.search("send an email", limit=1).names == ["mail_send"]
    assert nothing.search("send an email", limit=1).names == []
    variants.cache.close()


def test_the_comparison_with_the_plain_recipe_says_how_far_the_default_is_ahead(
    capsys: pytest.CaptureFixture[str],
):
    default, other = {"seal_tools": np.ones((4, 3))}, {"seal_tools": np.full((4, 3), 0.5)}
    assert Difference(default, other).points().tolist() == [50, 50, 50]
    print_plain(default, other)
    rows = capsys.readouterr().out.splitlines()
    assert "| seal_tools | 0.500 | 0.500 | 0.500 | +50.00 | [+50.00, +50.00] * |" in rows


def test_siblings_are_judged_inside_the_right_server():
    queries = [asked("send an email", "mail_send"), asked("send an email", "mail_delete")]
    found = measure_siblings(Engine(Catalog(TOOLS)), TOOLS, queries)
    assert found.row() == "2 | 2 | 1.000 | 0.500"


def test_a_tool_of_another_server_that_comes_first_counts_against_the_server_only():
    found = measure_siblings(
        Engine(Catalog(TOOLS)), TOOLS, [asked("weather of a city: send it", "mail_send")]
    )
    assert (found.right_server, found.right_tool) == (0, 1)


def test_in_a_catalog_of_one_server_the_tools_of_a_category_are_siblings():
    tools = [Tool(name=n, description=n, category=n[0]) for n in ("a1", "a2", "b1")]
    assert set(sibling_groups(tools).values()) == {"a", "b"}
