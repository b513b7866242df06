"""Rulebook: which rules apply to tools, which are not delivered yet, and lint warnings."""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from ..catalog.problem import Problem
from ..catalog.tool import Tool, digest, normalise_name
from ..tokens import TokenCounter, default_counter

RuleKind = Literal["server", "category", "tool"]


class RuleKey(NamedTuple):
    """A server, category or tool that a rule applies to."""

    kind: RuleKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules by their keys; names match in any case style (`sendEmail`, `send-email`)."""

    texts: Mapping[RuleKey, str] = field(default_factory=dict[RuleKey, str])

    def keys_for(self, tools: Iterable[Tool]) -> tuple[RuleKey, ...]:
        """The rules that apply to some tools, each once, in the order of the tools."""
        return tuple(dict.fromkeys(key for tool in tools for key in self._tool_keys(tool)))

    def text_for(self, tools: Iterable[Tool]) -> str:
        """All rules that apply to some tools, separated by blank lines."""
        return self._join_texts(self.keys_for(tools))

    def keys_to_deliver(
        self, delivered: Mapping[str, str], tools: Iterable[Tool]
    ) -> tuple[RuleKey, ...]:
        """The rules for some tools that were not delivered before, or changed since."""
        return tuple(
            k for k in self.keys_for(tools) if delivered.get(str(k)) != self.fingerprint(k)
        )

    def fingerprint(self, key: RuleKey) -> str:
        """A digest of a rule's text, to detect changes."""
        return digest(self.texts[key], length=16)

    def deliver(self, section: str | None, tools: Iterable[Tool]) -> tuple[str, str]:
        """The rules not delivered yet, and the section of the session that records them."""
        delivered = _parse_section(section)
        pending = self.keys_to_deliver(delivered, tools)
        after = {**delivered, **{str(key): self.fingerprint(key) for key in pending}}
        return self._join_texts(pending), _serialise_section(after)

    def _join_texts(self, keys: Iterable[RuleKey]) -> str:
        return "\n\n".join(self.texts[key] for key in keys)

    def _tool_keys(self, tool: Tool) -> Iterator[RuleKey]:
        names: tuple[tuple[RuleKind, str], ...] = (
            ("server", tool.server),
            ("category", tool.category),
            ("tool", tool.name),
        )
        for kind, name in names:
            key = self._find_key(kind, name) if name else None
            # Without the prefix of its server: `tools/send_email.md` for `gmail__send_email`.
            if key is None and kind == "tool":
                key = self._find_key(kind, tool.local_name)
            if key is not None:
                yield key

    def _find_key(self, kind: RuleKind, name: str) -> RuleKey | None:
        exact = RuleKey(kind, name)
        if exact in self.texts:
            return exact
        normal = normalise_name(name)
        return next(
            (k for k in self.texts if k.kind == kind and normalise_name(k.name) == normal), None
        )


def _parse_section(section: str | None) -> Mapping[str, str]:
    """The fingerprints of delivered rules; empty if the section cannot be read."""
    # An unreadable section costs a second delivery, which is better than a failed search.
    try:
        row: object = json.loads(section) if section else {}
    except (ValueError, RecursionError):
        return {}
    delivered = cast("dict[str, object]", row).get("given") if isinstance(row, dict) else None
    if not isinstance(delivered, dict):
        return {}
    return {k: v for k, v in cast("dict[str, object]", delivered).items() if isinstance(v, str)}


def _serialise_section(delivered: Mapping[str, str]) -> str:
    # Stored on disk: the keys stay as version 0.1 wrote them.
    row = {"schema": 1, "given": dict(delivered)}
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
    """Warnings about rules; `budgets` overrides the budget by name."""
    counter = counter or default_counter()
    over_budget = [
        Problem(str(key), f"has {tokens} tokens; its budget is {budget}.", "Shorten it.", "warning")
        for key, text in book.texts.items()
        if (tokens := counter.count(text)) > (budget := budgets.get(key.name, budget_tokens))
    ]
    return (
        *over_budget,
        *_categories_without_rules(book, tools),
        *_rules_without_tools(book, tools),
    )


def _categories_without_rules(book: Rulebook, tools: Sequence[Tool]) -> Iterator[Problem]:
    counts = Tally(tool.category for tool in tools if tool.category)
    for category, count in counts.items():
        probe = Tool(name="", category=category)
        if not book.keys_for([probe]):
            message = f"has no rules ({count} tools)."
            remedy = f"Write {category}.md, or ignore this."
            yield Problem(str(RuleKey("category", category)), message, remedy, "warning")


def _rules_without_tools(book: Rulebook, tools: Sequence[Tool]) -> Iterator[Problem]:
    needed = set(book.keys_for(tools))
    for key in book.texts:
        if key not in needed:
            message = f"is for a {key.kind} that does not exist."
            yield Problem(str(key), message, "Fix its name, or remove it.", "warning")
