"""Advice on descriptions that a search would miss: vague, empty, repeated or stuffed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from .names import normalise_name
from .problem import Problem
from .tool import Tool
from .tool_text import first_sentence

_WORD = re.compile(r"\w+(?:'\w+)?")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_FEWEST_WORDS = 3
_FEWEST_UNSPACED = 6
_STUFFED_TIMES = 6
_STUFFED_SHARE = 0.25
_LONGEST_LABEL = 8
_MOST_NAMED = 5


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLER = _word_set(
    "a an and any are as at be by can for from has have if in into is it its of on or that the"
    " their then there these this to use used using via when which will with you your"
)
_GENERIC = _word_set(
    "action actions api call class command data do does endpoint execute executes function"
    " functionality functions general handle handler handles helper helpers info information"
    " item items manage manager manages method miscellaneous misc object objects operation"
    " operations perform performs process processes program request resource resources result"
    " results return returns run runs service something stuff task tasks thing things tool tools"
    " util utility utilities value values various work works"
)
_LABELS = _word_set("a an the tool tools utility function helper wrapper interface api service")
_VERBS = _word_set(
    "add adds allow allows analyze analyzes are build builds calculate calculates can change"
    " changes check checks compute computes convert converts create creates delete deletes do does"
    " download enable enables extract extracts fetch fetches find finds generate generates get gets"
    " give gives help helps is let lets list lists make makes manage manages move open perform"
    " performs post provide provides read reads remove removes retrieve retrieves return returns"
    " run runs save saves search searches send sends set sets show shows sort start stop store"
    " stores take takes tell tells turn update updates upload use used view will write writes"
)
_PURPOSE = _word_set("that which to for when how")


def lint(tools: Iterable[Tool]) -> tuple[Problem, ...]:
    """What to write better, tool by tool; all of it advice."""
    listed = list(tools)
    twins = _tools_by_description(listed)
    return tuple(p for tool in listed for p in _advice(tool, twins.get(_description_key(tool), ())))


def _advice(tool: Tool, twins: Sequence[str]) -> Iterator[Problem]:
    if not tool.description:
        yield _warning(
            tool, "empty", "It has no description.", "Say in a sentence what it does and to what."
        )
    elif vague := _vagueness(tool):
        yield vague
    others = [name for name in twins if name != tool.name]
    if others:
        yield _warning(
            tool,
            "repeated",
            f"Its description is also that of {_format_names(others)}.",
            "Say what tells them apart.",
        )
    if silent := [p.name for p in tool.parameters.top_level() if not p.description]:
        yield _warning(
            tool,
            "arguments",
            f"These arguments have no description: {_format_names(silent)}.",
            "Describe each; their words are searched too.",
        )


def _vagueness(tool: Tool) -> Problem | None:
    """The first reason why a description says too little."""
    words = [w.lower() for w in _WORD.findall(tool.description)]
    if _is_short(tool.description, words):
        return _warning(
            tool, "short", "Its description is too short.", "Say what it does, and to what."
        )
    telling = [w for w in words if w not in _FILLER and not w.isdecimal()]
    named = {_stem(w) for w in normalise_name(f"{tool.name}_{tool.title}").split("_")}
    if all(w in _GENERIC for w in telling):
        return _warning(
            tool, "generic", "Its description fits any tool.", "Name what it acts on and what for."
        )
    if all(w in _GENERIC or _stem(w) in named for w in telling):
        return _warning(
            tool,
            "name",
            "Its description only repeats its name.",
            "Add what it acts on, and words a user would say.",
        )
    if stuffed := _keyword_stuffing(telling):
        return _warning(
            tool,
            "stuffed",
            f"Its description repeats {stuffed!r} over and over.",
            "Say it once; repetition does not help it to be found.",
        )
    if _is_label(tool):
        return _warning(
            tool,
            "verb",
            "Its description says what it is, not what it does.",
            "Begin with a verb: Read, Create, Send …",
        )
    return None


def _warning(tool: Tool, code: str, message: str, remedy: str) -> Problem:
    return Problem(tool.name, message, remedy, "warning", code)


def _is_short(text: str, words: Sequence[str]) -> bool:
    if _UNSPACED.search(text):
        return len(text) < _FEWEST_UNSPACED
    return len(words) < _FEWEST_WORDS


def _keyword_stuffing(words: Sequence[str]) -> str:
    """The word that a description is stuffed with, if any."""
    counted = Counter(_stem(w) for w in words).most_common(1)
    for word, times in counted:
        if times >= _STUFFED_TIMES and times > _STUFFED_SHARE * len(words):
            return word
    return ""


def _is_label(tool: Tool) -> bool:
    """Whether the first sentence only names the tool: *The weather service.*"""
    words = [w.lower() for w in _WORD.findall(first_sentence(tool.description))] or [""]
    is_brief = len(words) <= _LONGEST_LABEL and words[0] in _LABELS
    return is_brief and _VERBS.isdisjoint(words) and _PURPOSE.isdisjoint(words)


def _stem(word: str) -> str:
    """Crude and enough: `lists`, `listing` and `listed` are one word."""
    for ending in ("ing", "ies", "es", "ed", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word.removesuffix(ending)
    return word


def _description_key(tool: Tool) -> str:
    return " ".join(_WORD.findall(tool.description.lower()))


def _tools_by_description(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """By description: the tools that share it."""
    found: dict[str, list[str]] = {}
    for tool in tools:
        if said := _description_key(tool):
            found.setdefault(said, []).append(tool.name)
    return {said: names for said, names in found.items() if len(names) > 1}


def _format_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
