"""Rules of use as a value: which some tools need, which are still owed, and what is wrong."""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from ..catalog.names import digest, normalise_name
from ..catalog.problem import Problem
from ..catalog.tool import Tool
from ..tokens import TokenCounter, default_counter

RuleKind = Literal["server", "category", "tool"]


class RuleKey(NamedTuple):
    """What a rule is attached to."""

    kind: RuleKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules by what they are attached to; names are matched whatever their case style."""

    texts: Mapping[RuleKey, str] = field(default_factory=dict[RuleKey, str])

    def keys_for(self, tools: Iterable[Tool]) -> tuple[RuleKey, ...]:
        """The rules that some tools need, each once, in the order the tools ask for them."""
        return tuple(dict.fromkeys(key for tool in tools for key in self._tool_keys(tool)))

    def text_for(self, tools: Iterable[Tool]) -> str:
        """All rules that some tools need, with a blank line between; empty if there are none."""
        return self._join_texts(self.keys_for(tools))

    def keys_to_deliver(
        self, given: Mapping[str, str], tools: Iterable[Tool]
    ) -> tuple[RuleKey, ...]:
        """Those of them that were not given before, or have changed since."""
        return tuple(k for k in self.keys_for(tools) if given.get(str(k)) != self.fingerprint(k))

    def fingerprint(self, key: RuleKey) -> str:
        """A rule's text in short, to notice that it changed."""
        return digest(self.texts[key], length=16)

    def deliver(self, section: str | None, tools: Iterable[Tool]) -> tuple[str, str]:
        """The rules a conversation is still owed, and its section with them noted as given."""
        given = _parse_section(section)
        owed = self.keys_to_deliver(given, tools)
        after = {**given, **{str(key): self.fingerprint(key) for key in owed}}
        return self._join_texts(owed), _serialise_section(after)

    def _join_texts(self, keys: Iterable[RuleKey]) -> str:
        return "\n\n".join(self.texts[key] for key in keys)

    def _tool_keys(self, tool: Tool) -> Iterator[RuleKey]:
        names: tuple[tuple[RuleKind, str], ...] = (
            ("server", tool.server),
            ("category", tool.category),
            ("tool", tool.name),
        )
        for kind, name in names:
            found = self._find_key(kind, name) if name else None
            if found is None and kind == "tool":
                found = self._find_key(kind, tool.local_name)
            if found is not None:
                yield found

    def _find_key(self, kind: RuleKind, name: str) -> RuleKey | None:
        exact = RuleKey(kind, name)
        if exact in self.texts:
            return exact
        loose = normalise_name(name)
        return next(
            (k for k in self.texts if k.kind == kind and normalise_name(k.name) == loose), None
        )


def _parse_section(section: str | None) -> Mapping[str, str]:
    """What was given; a section that cannot be read means that rules come once more."""
    try:
        row: object = json.loads(section) if section else {}
    except (ValueError, RecursionError):
        return {}
    given = cast("dict[str, object]", row).get("given") if isinstance(row, dict) else None
    if not isinstance(given, dict):
        return {}
    return {k: v for k, v in cast("dict[str, object]", given).items() if isinstance(v, str)}


def _serialise_section(given: Mapping[str, str]) -> str:
    row = {"schema": 1, "given": dict(given)}
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


RULE_BUDGET_TOKENS = 200


def lint_rules(
    book: Rulebook,
    tools: Sequence[Tool],
    *,
    budget_tokens: int = RULE_BUDGET_TOKENS,
    budgets: Mapping[str, int],
    counter: TokenCounter | None = None,
) -> tuple[Problem, ...]:
    """Advice on rules, as warnings; `budgets` overrides the budget by name."""
    counter = counter or default_counter()
    found = [
        Problem(str(key), f"has {tokens} tokens; its budget is {budget}.", "Shorten it.", "warning")
        for key, text in book.texts.items()
        if (tokens := counter.count(text)) > (budget := budgets.get(key.name, budget_tokens))
    ]
    return (*found, *_categories_without_rules(book, tools), *_rules_without_tools(book, tools))


def _categories_without_rules(book: Rulebook, tools: Sequence[Tool]) -> Iterator[Problem]:
    counts = Tally(tool.category for tool in tools if tool.category)
    for category, count in counts.items():
        probe = Tool(name="", category=category)
        if not book.keys_for([probe]):
            message = f"has no rules ({count} tools)."
            remedy = f"Write {category}.md, or leave it if none are needed."
            yield Problem(str(RuleKey("category", category)), message, remedy, "warning")


def _rules_without_tools(book: Rulebook, tools: Sequence[Tool]) -> Iterator[Problem]:
    needed = set(book.keys_for(tools))
    for key in book.texts:
        if key not in needed:
            message = f"is for a {key.kind} that no tool has."
            yield Problem(str(key), message, "Mend its name, or remove it.", "warning")
