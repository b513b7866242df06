"""Requests in 36 languages, most of which the bundled encoder does not know.

The tools are the actions of Home Assistant, described in English; the requests are their
descriptions in other languages, both from its package, which is fetched by name.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from zipfile import ZipFile

from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.evals.dataset import LabelledQuery

from .packaged import wheel_of

PACKAGE = "homeassistant==2026.10.4"
KNOWN = "ar de es fr it ja ko nl pl pt ru th tr zh-Hans zh-Hant"
UNKNOWN = "cs sv hu el bg he uk vi id fi da ro sk lt et ca nb sl sr lv eu ga mk is"
EACH = 20
"""How many requests are taken of each language."""

_FILE = re.compile(r"homeassistant/components/([^/]+)/translations/([^/]+)\.json")
_MOST_ALIKE = 3

Services = Mapping[str, Mapping[str, Any]]
"""Actions by their full name, with what is said of each."""


def read_home() -> tuple[list[Tool], list[LabelledQuery]]:
    """The actions as tools, and requests for them in all languages."""
    wheel = ZipFile(wheel_of(PACKAGE))
    english = {n: one for n, one in _services(wheel, "en").items() if one.get("description")}
    alike: dict[str, list[str]] = defaultdict(list)
    for name, one in english.items():
        alike[one["description"]].append(name)
    queries: list[LabelledQuery] = []
    for language in f"{KNOWN} {UNKNOWN}".split():
        every = list(_requests(english, _services(wheel, language), alike, language))
        random.Random(5).shuffle(every)
        queries += every[:EACH]
    return [_tool(name, one) for name, one in english.items()], queries


def _services(wheel: ZipFile, language: str) -> dict[str, Mapping[str, Any]]:
    """What is said of every action in a language."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(wheel.namelist()):
        if (match := _FILE.fullmatch(path)) and match[2] == language:
            said: Services = json.loads(wheel.read(path)).get("services") or {}
            found |= {f"{match[1]}.{name}": one for name, one in said.items()}
    return found


def _tool(name: str, said: Mapping[str, Any]) -> Tool:
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


def _requests(
    english: Services, said: Services, alike: Mapping[str, list[str]], language: str
) -> Iterator[LabelledQuery]:
    """Descriptions in a language, with the actions that are described alike in English."""
    for name, one in english.items():
        text = said.get(name, {}).get("description", "")
        right = alike[one["description"]]
        if text and text != one["description"] and len(right) <= _MOST_ALIKE:
            groups = (frozenset(right),)
            yield LabelledQuery(f"{language} {name}", text, groups, lang=language)
