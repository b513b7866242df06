"""Scan the definition of a tool: a pure function from a definition and rules to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .arguments import find_secret_arguments
from .characters import (
    find_far_away_text,
    find_hidden_characters,
    find_mixed_scripts,
    find_stray_characters,
    find_terminal_escapes,
)
from .fields import DefinitionField, iter_fields
from .findings import PLAIN, Finding, Span, excerpt
from .languages import guess_languages
from .patterns import TextPattern
from .readings import MAX_CHARS, Reading, iter_readings
from .rules import Rule, RuleSet, common_words, default_rules
from .tool_names import KnownTools, find_foreign_names, is_ordered_about

# Findings of one rule in one string; more would say the same.
_MAX_PER_FIELD = 3
_MIN_ENCODED_WORDS = 4
# Soft findings of different rules that weigh as much as this are an attack together.
_SEVERAL = "several_signs"
_SEVERAL_WEIGHT = 4


class ScannedDefinition:
    """A definition with its strings and their readings, each found once."""

    def __init__(self, value: Mapping[str, Any], known_tools: KnownTools) -> None:
        self.fields = tuple(iter_fields(value))
        self.known_tools = known_tools

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """All readings of all strings."""
        return tuple(reading for field in self.fields for reading in iter_readings(field))

    @cached_property
    def text(self) -> str:
        """All readings in one, which tells quickly whether a pattern occurs at all."""
        return "\n".join(reading.folded.text for reading in self.readings)

    @cached_property
    def secret_arguments(self) -> tuple[tuple[DefinitionField, bool], ...]:
        """The arguments that ask for secrets, and whether those are none of the tool's business."""
        return tuple(find_secret_arguments(self.fields))

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages other than English that the definition may be written in."""
        return guess_languages(self.text, common_words())


@dataclass(frozen=True, slots=True)
class _PlacedMatch:
    field: DefinitionField
    span: Span
    layer: str = PLAIN
    text: str = ""


def scan_definition(
    definition: Mapping[str, Any],
    *,
    rules: RuleSet | None = None,
    known_tools: KnownTools | None = None,
) -> tuple[Finding, ...]:
    """What the rules find in a definition, as its server or file has it.

    `definition` is JSON data in the format of MCP, of `tools.jsonl`, or of a provider.
    `known_tools` are the tools of other servers, to which it should not refer.
    """
    chosen = default_rules() if rules is None else rules
    scanned = ScannedDefinition(definition, known_tools or KnownTools())
    occurring = _find_occurring(chosen, scanned)
    found = [f for rule in chosen.rules for f in _apply(rule, scanned, occurring)]
    several = [rule for rule in chosen.rules if rule.check == _SEVERAL]
    return (*found, *_find_several(several, found, chosen))


def _find_occurring(rules: RuleSet, definition: ScannedDefinition) -> frozenset[TextPattern]:
    """The patterns and words that are anywhere in a definition; the rest need not be tried."""
    filters = [rules.word_filters.get(language) for language in definition.languages]
    found = (each.find(definition.text) for each in (rules.filter, *filters) if each is not None)
    return frozenset[TextPattern]().union(*found)


def _apply(
    rule: Rule, definition: ScannedDefinition, occurring: frozenset[TextPattern]
) -> Iterator[Finding]:
    seen: dict[tuple[str, bool], list[Span]] = {}
    for place in (*_find_matches(rule, definition, occurring), *_run_check(rule, definition)):
        spans = seen.setdefault((place.field.pointer, place.field.is_key), [])
        overlaps = any(s.start < place.span.end and place.span.start < s.end for s in spans)
        if overlaps or len(spans) >= _MAX_PER_FIELD:
            continue
        spans.append(place.span)
        yield _finding(rule, place)


def _finding(rule: Rule, place: _PlacedMatch) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        pointer=place.field.pointer,
        span=place.span,
        excerpt=place.text or excerpt(place.field.text, place.span),
        summary=rule.summary,
        layer=place.layer,
        is_key=place.field.is_key,
    )


def _find_matches(
    rule: Rule, definition: ScannedDefinition, occurring: frozenset[TextPattern]
) -> Iterator[_PlacedMatch]:
    patterns = [pattern for pattern in rule.patterns if pattern in occurring]
    words = rule.words
    languages = words.choose_languages(definition.languages, occurring) if words else ()
    if not patterns and not languages:
        return
    for reading in definition.readings:
        if not rule.applies_to(reading.field.kind):
            continue
        text = reading.folded.text
        for pattern in patterns:
            yield from (_place(reading, span) for span in pattern.find(text))
        if words and languages:
            yield from (_place(reading, span) for span in words.find(text, languages))


def _place(reading: Reading, span: Span) -> _PlacedMatch:
    shown = excerpt(reading.folded.source, span) if reading.layer else ""
    return _PlacedMatch(reading.field, reading.locate(span), reading.layer, shown)


def _run_check(rule: Rule, definition: ScannedDefinition) -> Iterable[_PlacedMatch]:
    check = _CHECKS.get(rule.check)
    return check(definition) if check is not None else ()


def _find_in_fields(
    find: Callable[[str], Iterable[Span]],
) -> Callable[[ScannedDefinition], Iterator[_PlacedMatch]]:
    def check(definition: ScannedDefinition) -> Iterator[_PlacedMatch]:
        for field in definition.fields:
            for span in find(field.text[:MAX_CHARS]):
                yield _PlacedMatch(field, span)

    return check


def _find_encoded_text(definition: ScannedDefinition) -> Iterator[_PlacedMatch]:
    for reading in definition.readings:
        is_part = reading.layer and reading.place != Span(0, len(reading.field.text))
        if is_part and len(reading.folded.text.split()) >= _MIN_ENCODED_WORDS:
            yield _place(reading, Span(0, len(reading.folded.source)))


def _find_foreign_tools(definition: ScannedDefinition) -> Iterator[_PlacedMatch]:
    for field, span, _ in _iter_foreign_tools(definition):
        yield _PlacedMatch(field, span)


def _find_steered_tools(definition: ScannedDefinition) -> Iterator[_PlacedMatch]:
    for field, span, is_order in _iter_foreign_tools(definition):
        if is_order:
            yield _PlacedMatch(field, span)


def _iter_foreign_tools(
    definition: ScannedDefinition,
) -> Iterator[tuple[DefinitionField, Span, bool]]:
    for field in definition.fields:
        if field.kind != "name" and not field.is_key:
            for span in find_foreign_names(field.text, definition.known_tools):
                yield field, span, is_ordered_about(field.text, span)


def _find_arguments(*, foreign: bool) -> Callable[[ScannedDefinition], Iterator[_PlacedMatch]]:
    def check(definition: ScannedDefinition) -> Iterator[_PlacedMatch]:
        for field, is_foreign in definition.secret_arguments:
            if is_foreign == foreign:
                yield _PlacedMatch(field, Span(0, len(field.text)))

    return check


_CHECKS: Mapping[str, Callable[[ScannedDefinition], Iterable[_PlacedMatch]]] = {
    "hidden_characters": _find_in_fields(find_hidden_characters),
    "stray_characters": _find_in_fields(find_stray_characters),
    "mixed_scripts": _find_in_fields(find_mixed_scripts),
    "terminal_escapes": _find_in_fields(find_terminal_escapes),
    "far_away_text": _find_in_fields(find_far_away_text),
    "encoded_text": _find_encoded_text,
    "foreign_tools": _find_foreign_tools,
    "steered_tools": _find_steered_tools,
    "credential_arguments": _find_arguments(foreign=False),
    "foreign_credentials": _find_arguments(foreign=True),
}


def _find_several(
    rules: Iterable[Rule], found: Iterable[Finding], chosen: RuleSet
) -> Iterator[Finding]:
    soft = {finding.rule: finding for finding in found if finding.severity == "soft"}
    weights = {rule.id: rule.weight for rule in chosen.rules}
    if sum(weights[rule] for rule in soft) >= _SEVERAL_WEIGHT:
        first = next(iter(soft.values()))
        for rule in rules:
            yield Finding(
                rule=rule.id,
                severity=rule.severity,
                pointer=first.pointer,
                span=first.span,
                excerpt=", ".join(soft),
                summary=rule.summary,
                layer=first.layer,
                is_key=first.is_key,
            )
