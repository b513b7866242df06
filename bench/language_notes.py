"""How often a request is said to be in an unknown language, by its language.

    python -m bench.language_notes

Prints for every language of ha_intents_dev, bench/languages.jsonl, bench/written/verbs.jsonl and
bench/home.py how many requests get the note, as written and without accents, and how many in the
English sets. In the sixteen languages of the bundled encoder every note is wrong; in the others
every request without one is a miss. Three requests of bfcl are in Indonesian.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from toolscout.embedders.universal_encoder import default_encoder
from toolscout.evals.dataset import LabelledQuery, read_queries

from .catalogs import DATA
from .home import KNOWN, read_home
from .sets import labelled_sets, written, written_sets

KNOWN_LANGUAGES = frozenset([*KNOWN.split(), "en", "zh", "zh-cn", "zh-tw"])


def print_notes(name: str, queries: Iterable[LabelledQuery]) -> None:
    """A line for the known languages, and one for the others."""
    encoder = default_encoder()
    noted: dict[str, list[bool]] = defaultdict(list)
    for query in queries:
        noted[query.lang].append(not encoder.knows_language(query.query))
    for label in ("known", "other"):
        mine = {
            k: v for k, v in sorted(noted.items()) if (k in KNOWN_LANGUAGES) == (label == "known")
        }
        cells = [f"{language} {sum(some)}/{len(some)}" for language, some in mine.items()]
        if cells:
            total = f"{sum(map(sum, mine.values()))} of {sum(map(len, mine.values()))}"
            print(f"{name}, {label} languages: {total} ({', '.join(cells)})")


def without_accents(query: LabelledQuery) -> LabelledQuery:
    """The same request as it is typed on a keyboard without accents."""
    letters = unicodedata.normalize("NFKD", query.query)
    return replace(query, query="".join(c for c in letters if not unicodedata.combining(c)))


def main() -> None:
    requests = {
        "ha_intents_dev": read_queries(DATA / "ha_intents_dev" / "queries.jsonl").rows,
        "languages": read_queries(Path(__file__).with_name("languages.jsonl")).rows,
        "verbs": written("verbs"),
        "home": read_home()[1],
    }
    for name, queries in requests.items():
        print_notes(name, queries)
        print_notes(f"{name} without accents", map(without_accents, queries))
    for each in (*labelled_sets(), *written_sets()):
        if english := [q for q in each.queries if q.lang == "en"]:
            print_notes(each.name, english)


if __name__ == "__main__":
    main()
