"""Looking over rules: too long, missing, or for nothing."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence

from ..catalog.problem import Problem
from ..catalog.tool import Tool
from ..tokens import Counter, default_counter
from .rulebook import Key, Rulebook

BUDGET_TOKENS = 200


def lint(
    book: Rulebook,
    tools: Sequence[Tool],
    *,
    budget_tokens: int = BUDGET_TOKENS,
    budgets: Mapping[str, int],
    counter: Counter | None = None,
) -> tuple[Problem, ...]:
    """Advice on rules, as warnings; `budgets` overrides the budget by name."""
    counter = counter or default_counter()
    found = [
        Problem(str(key), f"has {tokens} tokens; its budget is {budget}.", "Shorten it.", "warning")
        for key, text in book.texts.items()
        if (tokens := counter.count(text)) > (budget := budgets.get(key.name, budget_tokens))
    ]
    return (*found, *_without_rules(book, tools), *_without_tools(book, tools))


def _without_rules(book: Rulebook, tools: Sequence[Tool]) -> Iterator[Problem]:
    counts = Tally(tool.category for tool in tools if tool.category)
    for category, count in counts.items():
        probe = Tool(name="", category=category)
        if not book.keys_for([probe]):
            message = f"has no rules ({count} tools)."
            remedy = f"Write {category}.md, or leave it if none are needed."
            yield Problem(str(Key("category", category)), message, remedy, "warning")


def _without_tools(book: Rulebook, tools: Sequence[Tool]) -> Iterator[Problem]:
    needed = set(book.keys_for(tools))
    for key in book.texts:
        if key not in needed:
            message = f"is for a {key.kind} that no tool has."
            yield Problem(str(key), message, "Mend its name, or remove it.", "warning")
