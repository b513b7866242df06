"""Languages that the bundled encoder reads badly: what is done for them, and what that is worth.

    python bench/home.py

The tools are the actions of Home Assistant, described in English; the requests are their
descriptions in other languages, both from its package, which is fetched by name. Prints a Markdown
table of recall@5 and nDCG@10, and the difference that each part makes, with the 95 % interval of a
paired bootstrap.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from zipfile import ZipFile

from ablation import Figures, told
from packaged import wheel_of
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.evals.metrics import ndcg, recall
from toolscout.search.embedders.universal_encoder import UniversalEncoder
from toolscout.search.engine import Engine

PACKAGE = "homeassistant==2026.10.4"
LANGUAGES = {
    "traditional Chinese": "zh-Hant",
    "unknown languages, used for the choice": "cs sv hu el bg he uk vi id fi da ro",
    "unknown languages, added afterwards": "sk lt et ca nb sl sr lv eu ga mk is",
    "known languages": "ar de es fr it ja ko nl pl pt ru th tr zh-Hans",
}
AT_MOST = 80
"""How many requests are taken of each language; of traditional Chinese alone, as many as of six."""

_FILE = re.compile(r"homeassistant/components/([^/]+)/translations/([^/]+)\.json")
_MOST_ALIKE = 3

Services = Mapping[str, Mapping[str, Any]]
"""Actions by their full name, with what is said of each."""


class Trusting(UniversalEncoder):
    """Trusts itself in every language whose script it knows."""

    def vocabulary_coverage(self, text: str) -> float:
        return float(super().vocabulary_coverage(text) > 0)


def services(wheel: ZipFile, language: str) -> dict[str, Mapping[str, Any]]:
    """What is said of every action in a language."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(wheel.namelist()):
        if (match := _FILE.fullmatch(path)) and match[2] == language:
            said: Services = json.loads(wheel.read(path)).get("services") or {}
            found |= {f"{match[1]}.{name}": one for name, one in said.items()}
    return found


def tool(name: str, said: Mapping[str, Any]) -> Tool:
    fields: Services = said.get("fields") or {}
    parts = {
        n: {"type": "string", "description": f.get("description", "")} for n, f in fields.items()
    }
    return Tool(
        name=name,
        description=". ".join(filter(None, (said.get("name", ""), said.get("description", "")))),
        parameters=Schema.of({"type": "object", "properties": parts}),
        server=name.partition(".")[0],
    )


def requests(
    english: Services, said: Services, alike: Mapping[str, list[str]]
) -> Iterator[tuple[str, set[str]]]:
    """Descriptions in a language, with the actions that are described alike in English."""
    for name, one in english.items():
        text = said.get(name, {}).get("description", "")
        right = alike[one.get("description", "")]
        if text and text != one.get("description") and len(right) <= _MOST_ALIKE:
            yield text, set(right)


def asked(wheel: ZipFile, english: Services, languages: list[str]) -> list[tuple[str, set[str]]]:
    alike: dict[str, list[str]] = defaultdict(list)
    for name, one in english.items():
        alike[one.get("description", "")].append(name)
    chosen: list[tuple[str, set[str]]] = []
    for language in languages:
        every = list(requests(english, services(wheel, language), alike))
        random.Random(5).shuffle(every)
        chosen += every[: AT_MOST if len(languages) > 1 else 6 * AT_MOST]
    return chosen


def measured(engine: Engine, queries: list[tuple[str, set[str]]]) -> Figures:
    found: Figures = []
    for query, right in queries:
        names = engine.search(query, limit=10).names
        found.append((recall(names, [right], at=5), ndcg(names, [right], at=10)))
    return found


def main() -> None:
    wheel = ZipFile(wheel_of(PACKAGE))
    english = {n: one for n, one in services(wheel, "en").items() if one.get("description")}
    catalog = Catalog(tool(name, one) for name, one in english.items())
    encoders = (UniversalEncoder(), UniversalEncoder(preprocess=str), Trusting())
    engines = [Engine(catalog, embedders=[encoder]) for encoder in encoders]
    for engine in engines:
        engine.fill()
    print("| recall@5 / nDCG@10 | requests | default | characters unchanged", end="")
    print(" | equal weights |\n|---|---|---|---|---|")
    for label, languages in LANGUAGES.items():
        print(f"{label} …", file=sys.stderr)
        queries = asked(wheel, english, languages.split())
        default, *others = [measured(engine, queries) for engine in engines]
        means = " / ".join(f"{sum(c) / len(default):.3f}" for c in zip(*default, strict=True))
        cells = [means, *(told(other, default) for other in others)]
        print(f"| {label} | {len(queries)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
