import gc
from types import FunctionType, ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from toolscout.catalog.catalog import Catalog, Diff
from toolscout.catalog.tool import Tool

NAMES = ["search", "read", "a__search", "b__search", "search--0123abcd", "a__b__read", "b__read"]
SERVERS = ["", "a", "b", "a__b"]
SOURCES = ["one", "two", "three", "a"]
CLAIMS = st.dictionaries(
    st.tuples(st.sampled_from(SOURCES), st.sampled_from(NAMES)),
    st.sampled_from(SERVERS),
    max_size=12,
)


def named(name: str, server: str = "", description: str = "") -> Tool:
    return Tool(name=name, server=server, description=description)


def claimed(claims: list[tuple[tuple[str, str], str]]) -> Catalog:
    catalog = Catalog()
    for (source, name), server in claims:
        catalog = catalog.add(named(name, server), source=source)
    return catalog


def outcome(catalog: Catalog) -> dict[str, tuple[str | None, Tool]]:
    return {t.name: (catalog.source_of(t.name), t) for t in catalog}


def test_an_empty_catalog_is_a_catalog():
    catalog = Catalog()
    assert len(catalog) == 0
    assert list(catalog) == []
    assert catalog.sources == ()
    assert catalog.get("x") is None
    assert catalog.resolve("x") == ()
    assert "x" not in catalog


def test_a_tool_is_found_by_its_name():
    catalog = Catalog([named("read"), named("write")])
    assert catalog["read"].name == "read"
    assert "write" in catalog
    assert [t.name for t in catalog] == ["read", "write"]
    with pytest.raises(KeyError):
        catalog["gone"]


def test_every_change_makes_a_new_snapshot_and_leaves_the_old_one_alone():
    before = Catalog([named("read")])
    after = before.add(named("write"))
    assert [t.name for t in before] == ["read"]
    assert [t.name for t in after] == ["read", "write"]
    assert (before.version, after.version) == (0, 1)
    assert before.fingerprint != after.fingerprint
    with pytest.raises(TypeError):
        after.tools["read"] = named("read")  # type: ignore[index]


def test_a_change_that_changes_nothing_is_the_same_snapshot():
    catalog = Catalog([named("read")])
    assert catalog.add(named("read")) is catalog
    assert catalog.remove("gone") is catalog
    assert catalog.with_source("default", [named("read")]) is catalog
    assert catalog.without_source("nowhere") is catalog


@pytest.mark.behaviour("B54")
def test_registering_a_name_again_replaces_the_tool_and_keeps_one_entry_in_its_place():
    catalog = Catalog([named("read"), named("write")]).add(named("read", description="Better."))
    assert [(t.name, t.description) for t in catalog] == [("read", "Better."), ("write", "")]
    assert (
        Catalog([named("read"), named("read", description="Later.")])["read"].description
        == "Later."
    )


def test_a_source_added_again_is_replaced_whole():
    catalog = Catalog().with_source("s", [named("a"), named("b")])
    after = catalog.with_source("s", [named("b", description="new"), named("c")])
    assert after.diff(catalog) == Diff(
        added=(named("c"),), changed=(named("b", description="new"),), removed=("a",)
    )
    assert after.names_of("s") == ("b", "c")
    assert after.without_source("s").sources == ()


def test_a_new_source_goes_to_its_place_in_an_order_and_a_known_one_stays():
    order = ("one", "two", "three")
    catalog = Catalog([named("z")], source="own")
    catalog = catalog.with_source("three", [named("c", "three")], order=order)
    catalog = catalog.with_source("two", [named("b", "two"), named("c", "two")], order=order)
    catalog = catalog.with_source("one", [named("a", "one")], order=order)
    assert catalog.sources == (*order, "own")
    assert [t.name for t in catalog] == ["a", "b", "two__c", "three__c", "z"]
    again = catalog.with_source("one", [named("d", "one")], order=())
    assert [t.name for t in again] == ["a", "b", "two__c", "three__c", "z", "d"][1:]
    assert again.diff(catalog) == Diff(added=(named("d", "one"),), removed=("a",))


def test_two_claimants_of_a_name_both_get_their_server_in_front():
    catalog = Catalog().with_source("one", [named("search", "github")])
    catalog = catalog.with_source("two", [named("search", "gitlab")])
    assert sorted(catalog.tools) == ["github__search", "gitlab__search"]
    assert catalog.source_of("gitlab__search") == "two"
    assert [t.local_name for t in catalog] == ["search", "search"]
    assert catalog.resolve("search") == ("github__search", "gitlab__search")


def test_the_last_claimant_has_the_plain_name_again():
    catalog = Catalog().with_source("one", [named("search", "github")])
    both = catalog.with_source("two", [named("search", "gitlab")])
    assert outcome(both.without_source("two")) == outcome(catalog)
    assert outcome(both.remove("gitlab__search")) == outcome(catalog)


def test_claimants_without_a_server_are_distinguished_by_their_source():
    catalog = Catalog([named("search")], source="one").with_source("two", [named("search")])
    assert sorted(catalog.tools) == ["one__search", "two__search"]
    assert {t.local_name for t in catalog} == {"search"}


def test_claimants_of_one_server_get_a_hash_and_keep_the_name_their_source_knows():
    catalog = Catalog([named("web__get", "web")], source="one")
    catalog = catalog.with_source("two", [named("web__get", "web")])
    assert len(catalog) == 2
    assert all(t.name.startswith("web__get--") for t in catalog)
    assert {t.local_name for t in catalog} == {"get"}


def test_nobody_can_take_a_name_that_was_given_to_another():
    catalog = Catalog().with_source("one", [named("search", "github")])
    catalog = catalog.with_source("two", [named("search", "gitlab")])
    taken = catalog.with_source("evil", [named("github__search")])
    assert taken.source_of("github__search") == "evil"
    (moved,) = taken.names_of("one")
    assert moved.startswith("search--")
    again = taken.with_source("evil", [named("github__search"), named(moved)])
    assert again.names_of("one") == (moved,)
    assert again[moved].server == "github"


@given(CLAIMS, st.randoms())
def test_names_depend_on_the_set_of_claims_and_not_on_their_order(claims, random):
    items = list(claims.items())
    shuffled = random.sample(items, len(items))
    assert outcome(claimed(items)) == outcome(claimed(shuffled))


def test_tools_compare_as_sets_in_the_fingerprint():
    one, two = named("a"), named("b")
    assert Catalog([one, two]).fingerprint == Catalog([two, one]).fingerprint
    catalog = Catalog([one])
    assert catalog.fingerprint
    assert catalog.add(two).fingerprint == Catalog([two, one]).fingerprint
    assert catalog.add(two).remove("b").fingerprint == catalog.fingerprint


def test_a_diff_reaches_over_several_steps():
    first = Catalog([named("a"), named("b")])
    last = first.add(named("c")).remove("a").add(named("b", description="new"))
    assert last.diff(first) == Diff(
        added=(named("c"),), changed=(named("b", description="new"),), removed=("a",)
    )
    assert not last.diff(last)
    assert first.diff(last).removed == ("c",)


def test_a_snapshot_does_not_keep_the_earlier_ones_alive():
    first = Catalog([named("a")])
    assert first.resolve("A") == ("a",)
    second = first.add(named("b"))
    last = second.remove("a")
    assert last.diff(second).removed == ("a",)
    kept = reachable(last)
    assert id(first) not in kept
    assert id(second) not in kept
    assert id(second.tools["a"]) not in kept


def reachable(start: object) -> set[int]:
    seen: set[int] = set()
    todo: list[object] = [start]
    while todo:
        thing = todo.pop()
        if id(thing) not in seen and not isinstance(thing, type | ModuleType | FunctionType):
            seen.add(id(thing))
            todo += gc.get_referents(thing)
    return seen


def test_names_that_differ_only_by_case_are_two_tools():
    catalog = Catalog([named("Read"), named("read")])
    assert catalog.resolve("read") == ("read",)
    assert catalog.resolve("READ") == ("Read", "read")


def test_a_loose_spelling_finds_a_name_in_another_style_or_without_its_server():
    catalog = Catalog([named("github__create_issue", "github"), named("readFile")])
    assert catalog.resolve("createIssue") == ("github__create_issue",)
    assert catalog.resolve("github.create-issue") == ("github__create_issue",)
    assert catalog.resolve("read_file") == ("readFile",)
    assert catalog.resolve("nothing") == ()


class Changes(RuleBasedStateMachine):
    """Whatever happens to a catalog, it is what a newly built one would be."""

    def __init__(self):
        super().__init__()
        self.catalog = Catalog()
        self.claims: dict[tuple[str, str], Tool] = {}

    @rule(
        source=st.sampled_from(SOURCES),
        name=st.sampled_from(NAMES),
        server=st.sampled_from(SERVERS),
    )
    def add(self, source, name, server):
        tool = named(name, server, f"{source} {name}")
        self.claims[source, name] = tool
        self.step(self.catalog.add(tool, source=source))

    @rule(source=st.sampled_from(SOURCES), names=st.sets(st.sampled_from(NAMES)))
    def replace(self, source, names):
        self.claims = {k: t for k, t in self.claims.items() if k[0] != source}
        tools = {(source, n): named(n, "b", f"{source} {n}") for n in names}
        self.claims |= tools
        self.step(self.catalog.with_source(source, tools.values()))

    @rule(position=st.integers(0, 20))
    def remove(self, position):
        if len(self.catalog):
            tool = list(self.catalog)[position % len(self.catalog)]
            source, name = tool.description.split()
            del self.claims[source, name]
            self.step(self.catalog.remove(tool.name))

    @rule(source=st.sampled_from(SOURCES))
    def leave(self, source):
        self.claims = {k: t for k, t in self.claims.items() if k[0] != source}
        self.step(self.catalog.without_source(source))

    @rule(spelling=st.sampled_from(["SEARCH", "aSearch", "b-read", "Read"]))
    def ask(self, spelling):
        assert self.catalog.resolve(spelling) == self.rebuilt().resolve(spelling)

    def step(self, after: Catalog):
        before, self.catalog = self.catalog, after
        diff = after.diff(before)
        patched = {n: t for n, t in before.tools.items() if n not in diff.removed}
        patched |= {t.name: t for t in (*diff.changed, *diff.added)}
        assert patched == dict(after.tools)
        assert after.fingerprint

    def rebuilt(self) -> Catalog:
        catalog = Catalog()
        for source in sorted({s for s, _ in self.claims}):
            catalog = catalog.with_source(
                source, [t for (s, _), t in self.claims.items() if s == source]
            )
        return catalog

    @invariant()
    def is_what_a_new_one_would_be(self):
        assert outcome(self.catalog) == outcome(self.rebuilt())
        assert self.catalog.fingerprint == self.rebuilt().fingerprint
        assert len(self.catalog) == len(self.claims)
        for name, tool in self.catalog.tools.items():
            source, wanted = tool.description.split()
            assert self.catalog.source_of(name) == source
            assert tool.local_name == self.claims[source, wanted].local_name
        assert all(name == tool.name for name, tool in self.catalog.tools.items())


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=50, stateful_step_count=25)
