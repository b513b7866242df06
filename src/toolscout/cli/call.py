"""`toolscout call`: run one tool of your servers, as a gateway would."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..errors import CallRefusedError, InvalidArgumentsError
from .config_options import find_servers_file
from .output import json_option, print_json, print_line
from .pins import config_option

if TYPE_CHECKING:
    from ..gateway.setup import Setup
    from ..toolbox.call_record import CallRecord

EXIT_FAILED = 1


@click.command(name="call")
@click.argument("tool")
@click.argument("arguments", default="{}")
@click.option("--principal", default="", help="Call as this principal, under its policies.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Run a tool not known to be safe.")
@config_option
@json_option
def command(
    *,
    tool: str,
    arguments: str,
    principal: str,
    is_confirmed: bool,
    path: Path | None,
    is_json: bool,
) -> int:
    """Run TOOL once, with ARGUMENTS as a JSON object.

    The call takes the path of a gateway: policies, pins, checks of arguments, journal. A tool that
    is not annotated as read-only runs only with --yes. The exit code is 1 if the call failed.
    """
    from ..gateway.setup import Setup

    values = _read_arguments(arguments)
    setup = Setup.read(find_servers_file(path))
    record = asyncio.run(_call(setup, tool, values, principal, is_confirmed=is_confirmed))
    if is_json:
        print_json(
            {
                "tool": record.tool,
                "outcome": record.outcome,
                "took_ms": round(record.took_ms, 1),
                "text": record.full.text,
            }
        )
    else:
        print_line(record.full.text)
    return EXIT_FAILED if record.result.is_error else 0


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentsError(
            f"The arguments are not valid JSON: {error}.",
            hint="""Write an object in quotes: '{"city": "Ghent"}'.""",
        ) from error
    if not isinstance(value, dict):
        raise InvalidArgumentsError("The arguments are not a JSON object.", hint="Write {…}.")
    return cast("dict[str, Any]", value)


async def _call(
    setup: Setup, name: str, arguments: dict[str, Any], principal: str, *, is_confirmed: bool
) -> CallRecord:
    from ..gateway.gateway import Gateway
    from ..gateway.identity.roles import Identity
    from ..toolbox.permissions import ApprovalDecision, approval_reason, ask_unless_safe

    gateway = Gateway(setup, quiet_seconds=0)
    await gateway.start()
    try:
        await gateway.wait_until_ready()
        tool = gateway.box.catalog.get(name)
        if tool is not None and ask_unless_safe(tool) == "ask" and not is_confirmed:
            raise CallRefusedError(
                f"{name} was not run: {approval_reason(tool)}.", hint="Confirm it with --yes."
            )
        return await gateway.clients.call_as(
            Identity(principal),
            name,
            arguments,
            approver=lambda _: ApprovalDecision(is_approved=is_confirmed),
        )
    finally:
        await gateway.close()
