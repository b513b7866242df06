"""The rules of the scanner: data in TOML, of Toolscout and of users."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import ConfigError
from .fields import FieldKind
from .findings import FindingSeverity
from .patterns import PatternFilter, TextPattern, compile_pattern, insert_fragments
from .word_search import WordSearch, read_common_words, read_languages

_RULES = "rules.toml"
_WORDS = "words.toml"
MAX_USER_RULES = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it looks for, and what it means if it is found."""

    id: str
    severity: FindingSeverity
    summary: str
    remedy: str = ""
    patterns: tuple[TextPattern, ...] = ()
    words: WordSearch | None = None
    check: str = ""
    fields: frozenset[FieldKind] = frozenset()
    weight: int = 1

    def applies_to(self, kind: FieldKind) -> bool:
        """Whether the rule looks at such a part of a definition."""
        return not self.fields or kind in self.fields


class _RuleRow(BaseModel):
    """A rule in a file or in a configuration."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(pattern=r"^[a-z][a-z0-9-]{1,63}$")
    severity: FindingSeverity = "soft"
    summary: str = Field(min_length=1)
    remedy: str = ""
    patterns: list[str] = []
    words: list[str] = []
    within: int = Field(default=60, ge=1, le=1_000)
    check: str = ""
    fields: list[FieldKind] = []
    learned: dict[str, list[str]] = {}
    weight: int = Field(default=1, ge=0, le=3)


@dataclass(frozen=True)
class RuleSet:
    """The rules that a scan applies, in the order of their findings."""

    rules: tuple[Rule, ...]

    @cached_property
    def filter(self) -> PatternFilter:
        """All patterns of the rules, to see at once which of them occur in a text."""
        return PatternFilter([pattern for rule in self.rules for pattern in rule.patterns])

    @cached_property
    def word_filters(self) -> Mapping[str, PatternFilter]:
        """The same for the words of each language."""
        searches = [rule.words for rule in self.rules if rule.words is not None]
        found: dict[str, dict[TextPattern, None]] = {}
        for search in searches:
            for language, patterns in search.languages.items():
                found.setdefault(language, {}).update(dict.fromkeys(patterns))
        return {language: PatternFilter([*patterns]) for language, patterns in found.items()}

    def __getitem__(self, rule: str) -> Rule:
        return next(each for each in self.rules if each.id == rule)

    def __contains__(self, rule: object) -> bool:
        return any(each.id == rule for each in self.rules)

    def without(self, silenced: Iterable[str]) -> RuleSet:
        """The rules without those that a user silenced; an unknown name is an error."""
        names = tuple(silenced)
        if unknown := [name for name in names if name not in self]:
            raise ConfigError(
                f"There is no scan rule {unknown[0]!r}.",
                hint=f"Known: {', '.join(rule.id for rule in self.rules)}.",
            )
        return RuleSet(tuple(rule for rule in self.rules if rule.id not in names))

    def with_rules(self, rows: Sequence[Mapping[str, Any]]) -> RuleSet:
        """The rules and those of a user, who may replace one of the same name."""
        if len(rows) > MAX_USER_RULES:
            raise ConfigError(
                f"There are more than {MAX_USER_RULES} scan rules.", hint="Use fewer."
            )
        added = [_parse_rule(row, {}, is_own=False) for row in rows]
        names = {rule.id for rule in added}
        kept = (rule for rule in self.rules if rule.id not in names)
        return RuleSet((*kept, *added))

    def before(self, family: str) -> RuleSet:
        """The rules as they were before a family of the corpus was looked at."""
        return RuleSet(
            tuple(
                replace(rule, patterns=tuple(p for p in rule.patterns if p.learned_from != family))
                for rule in self.rules
            )
        )

    def with_severity(self, rule: str, severity: FindingSeverity) -> RuleSet:
        """The rules with another severity for one of them."""
        changed = (replace(r, severity=severity) if r.id == rule else r for r in self.rules)
        return RuleSet(tuple(changed))


@lru_cache(maxsize=1)
def default_rules() -> RuleSet:
    """The rules that Toolscout brings."""
    document = _read(_RULES)
    fragments = cast("dict[str, str]", document["fragments"])
    rows = cast("list[dict[str, Any]]", document["rules"])
    return RuleSet(tuple(_parse_rule(row, fragments, is_own=True) for row in rows))


def choose_rules(silenced: Iterable[str] = (), added: Sequence[Mapping[str, Any]] = ()) -> RuleSet:
    """Toolscout's rules, with those of a user, and without those that they silenced."""
    return _choose_rules(tuple(silenced), json.dumps(added, default=dict))


@lru_cache(maxsize=16)
def _choose_rules(silenced: tuple[str, ...], added: str) -> RuleSet:
    # Cached: compiling the rules again for every server would take longer than the scan.
    return default_rules().with_rules(json.loads(added)).without(silenced)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files("toolscout.scanning") / "rules" / name).read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def common_words() -> Mapping[str, frozenset[str]]:
    """The words that tell the languages of the rules apart."""
    return read_common_words(_read(_WORDS))


@lru_cache(maxsize=1)
def _languages() -> Mapping[str, Mapping[str, str]]:
    return read_languages(_read(_WORDS))


def _parse_rule(row: Mapping[str, Any], fragments: Mapping[str, str], *, is_own: bool) -> Rule:
    try:
        read = _RuleRow.model_validate(dict(row))
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"The scan rule {row.get('id', '?')!r} is wrong: {where}: {first['msg']}.",
            hint="A rule has id, severity (hard or soft), summary, and patterns.",
        ) from error
    if not is_own and (read.check or read.words or not read.patterns):
        raise ConfigError(
            f"The scan rule {read.id!r} needs patterns, and neither check nor words.",
            hint="Give one or more regular expressions in patterns.",
        )
    texts = [("", text) for text in read.patterns]
    texts += [(family, text) for family, found in read.learned.items() for text in found]
    patterns = tuple(
        compile_pattern(
            read.id, insert_fragments(text, fragments), is_own=is_own, learned_from=family
        )
        for family, text in texts
    )
    return Rule(
        id=read.id,
        severity=read.severity,
        summary=read.summary,
        remedy=read.remedy,
        patterns=patterns,
        words=WordSearch.of(read.words, read.within, _languages()) if read.words else None,
        check=read.check,
        fields=frozenset(read.fields),
        weight=read.weight,
    )
