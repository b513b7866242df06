"""What the model reads about a program: its result, its mistakes, and the calls that ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..catalog.result import Result
from .sandbox import Failed, Finished, Rejected
from .saved_programs import CallLine

NOT_RUN = "Nothing ran. "


def finished_result(outcome: Finished, lines: Sequence[CallLine]) -> Result:
    """The value of a program, and what it printed."""
    printed = outcome.printed.rstrip("\n")
    if outcome.value is None:
        count = f"{len(lines)} {'call' if len(lines) == 1 else 'calls'}"
        return Result.of(printed or f"The program ended after {count}; it printed nothing.")
    value = Result.of(outcome.value)
    return Result.of(f"{printed}\n{value.text}") if printed else value


def rejected_result(outcome: Rejected, code: str, signatures: Iterable[str]) -> Result:
    """The mistakes that were found before anything ran, each with its line."""
    rows = code.splitlines()
    text = [f"{NOT_RUN}The program does not fit the tools:"]
    for problem in outcome.problems:
        text.append(f"line {problem.line}, column {problem.column}: {problem.message}")
        if 0 < problem.line <= len(rows):
            text.append(f"    {rows[problem.line - 1].strip()}")
    used = [*dict.fromkeys(signatures)]
    text += ["The right calls:", *used] if used else ["Find tools with tool_search or search(...)."]
    return Result.error("\n".join(text), code="invalid_arguments")


def failed_result(outcome: Failed, lines: Sequence[CallLine]) -> Result:
    """Why a program stopped, and what its calls did until then."""
    parts = [outcome.message, describe_calls(lines)]
    parts += [f"Printed:\n{outcome.printed.rstrip()}"] if outcome.printed.strip() else []
    return Result.error("\n".join(parts), code="program")


def waiting_result(lines: Sequence[CallLine]) -> Result:
    """The text while a program waits for a person."""
    waiting = ", ".join(dict.fromkeys(line.tool for line in lines if line.is_waiting))
    text = (
        f"The program waits: {waiting} needs the user. It continues by itself afterwards; do not "
        f"run it again.\n{describe_calls(line for line in lines if not line.is_waiting)}"
    )
    return Result.error(text, code="approval_needed")


def describe_calls(lines: Iterable[CallLine]) -> str:
    """The calls that a program made, with their results."""
    rows = [f"{line.tool}({line.arguments}) -> {_outcome(line)}" for line in lines]
    return "\n".join(["These calls ran:", *rows]) if rows else "No call ran."


def _outcome(line: CallLine) -> str:
    if line.is_waiting:
        return "waits for the user"
    return f"error: {line.result}" if line.is_error else line.result
