"""Lint for tool descriptions that a search would miss: empty, vague, repeated, or full of repeated
words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from .problem import Problem
from .sanitization import first_sentence
from .tool import Tool, normalise_name

_WORD = re.compile(r"\w+(?:'\w+)?")
# Thai, Lao, Burmese, Khmer, Japanese and Chinese put no spaces between words: count characters.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_MIN_WORDS = 3
_MIN_UNSPACED_CHARS = 6
# A word counts as stuffing if it occurs this often and is more than this share of all words.
_STUFFING_COUNT = 6
_STUFFING_SHARE = 0.25
_MAX_LABEL_WORDS = 8
_MAX_NAMES_SHOWN = 5


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that say nothing about a tool.
_FILLER = _word_set(
    "a an and any are as at be by can for from has have if in into is it its of on or that the"
    " their then there these this to use used using via when which will with you your"
)
# Words that fit any tool.
_GENERIC = _word_set(
    "action actions api call class command data do does endpoint execute executes function"
    " functionality functions general handle handler handles helper helpers info information"
    " item items manage manager manages method miscellaneous misc object objects operation"
    " operations perform performs process processes program request resource resources result"
    " results return returns run runs service something stuff task tasks thing things tool tools"
    " util utility utilities value values various work works"
)
# A first sentence that begins with one of these, and has neither a verb nor a word of purpose, only
# names the tool.
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
    """Warnings about descriptions, tool by tool."""
    tools = list(tools)
    shared = _tools_by_description(tools)
    return tuple(p for tool in tools for p in _advice(tool, shared.get(_description_key(tool), ())))


def _advice(tool: Tool, same_description: Sequence[str]) -> Iterator[Problem]:
    if not tool.description:
        yield _warning(
            tool,
            "empty",
            "It has no description.",
            "Say in a sentence what it does and what it acts on.",
        )
    elif vague := _vagueness(tool):
        yield vague
    others = [name for name in same_description if name != tool.name]
    if others:
        yield _warning(
            tool,
            "repeated",
            f"Its description is also that of {_format_names(others)}.",
            "Say how they differ.",
        )
    if undescribed := [p.name for p in tool.parameters.top_level() if not p.description]:
        yield _warning(
            tool,
            "arguments",
            f"These arguments have no description: {_format_names(undescribed)}.",
            "Describe each; their words are searched too.",
        )


def _vagueness(tool: Tool) -> Problem | None:
    """The first reason why a description says too little."""
    words = [w.lower() for w in _WORD.findall(tool.description)]
    if _is_short(tool.description, words):
        return _warning(
            tool, "short", "Its description is too short.", "Say what it does and what it acts on."
        )
    content_words = [w for w in words if w not in _FILLER and not w.isdecimal()]
    name_words = {stem(w) for w in normalise_name(f"{tool.name}_{tool.title}").split("_")}
    if all(w in _GENERIC for w in content_words):
        return _warning(
            tool,
            "generic",
            "Its description fits any tool.",
            "Say what it acts on and for what purpose.",
        )
    if all(w in _GENERIC or stem(w) in name_words for w in content_words):
        return _warning(
            tool,
            "name",
            "Its description only repeats its name.",
            "Add what it acts on, and words a user would say.",
        )
    if stuffed := _keyword_stuffing(content_words):
        return _warning(
            tool,
            "stuffed",
            f"Its description repeats {stuffed!r} over and over.",
            "Say it once; repetition does not help search.",
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
        return len(text) < _MIN_UNSPACED_CHARS
    return len(words) < _MIN_WORDS


def _keyword_stuffing(words: Sequence[str]) -> str:
    """The word that a description is stuffed with, if any."""
    most_common = Counter(stem(w) for w in words).most_common(1)
    for word, count in most_common:
        if count >= _STUFFING_COUNT and count > _STUFFING_SHARE * len(words):
            return word
    return ""


def _is_label(tool: Tool) -> bool:
    """Whether the first sentence only names the tool: *The weather service.*"""
    words = [w.lower() for w in _WORD.findall(first_sentence(tool.description))] or [""]
    is_brief = len(words) <= _MAX_LABEL_WORDS and words[0] in _LABELS
    return is_brief and _VERBS.isdisjoint(words) and _PURPOSE.isdisjoint(words)


def stem(word: str) -> str:
    """A crude stem, enough to make `lists`, `listing` and `listed` one word."""
    for ending in ("ing", "ies", "es", "ed", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word.removesuffix(ending)
    return word


def _description_key(tool: Tool) -> str:
    return " ".join(_WORD.findall(tool.description.lower()))


def _tools_by_description(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """The names of tools that share a description, by description."""
    names_by_key: dict[str, list[str]] = {}
    for tool in tools:
        if key := _description_key(tool):
            names_by_key.setdefault(key, []).append(tool.name)
    return {key: names for key, names in names_by_key.items() if len(names) > 1}


def _format_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES_SHOWN])
    more = len(names) - _MAX_NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
