"""Tools that are held for approval: found by name or by a search, with the command to approve."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool
from ...disclosure.scope import is_allowed
from ...errors import CallRefusedError, ToolscoutError
from ...search.engine import Allow, Engine
from ...sources.mcp import wire

# The command reaches a model and perhaps a shell, so it quotes only names that are plain. Another
# name could carry instructions or options.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./][\w./-]{0,127}", re.ASCII)
# A search that found something mentions a held tool only if that one is likely to be meant. By
# this estimate one common word, such as "get", is not enough.
_MIN_CONFIDENCE = 0.3
_MAX_MENTIONS = 3


def pins_command(action: str, server: str, tool: str = "") -> str:
    """A `toolscout pins` command for a tool, or for its server if the tool's name is unusual."""
    if tool and not _PLAIN_NAME.fullmatch(tool):
        return f"toolscout pins diff {shlex.quote(server)}"
    parts = ("toolscout", "pins", action, server, *((tool,) if tool else ()))
    return shlex.join(parts)


@dataclass(frozen=True, slots=True)
class HeldTool:
    """A tool that is held for approval; `server` is the server as `toolscout pins` calls it."""

    tool: Tool
    server: str

    @property
    def approve_command(self) -> str:
        """The command that approves the tool."""
        return pins_command("approve", self.server, wire.tool_origin(self.tool)[0])

    def refusal(self) -> CallRefusedError:
        """The error for a call of the tool."""
        return CallRefusedError(
            f"{self.tool.name} is held for approval.",
            hint=f"The operator of the gateway can review it ({pins_command('diff', self.server)})"
            f" and approve it: {self.approve_command}",
        )


class HeldTools:
    """The held tools of all servers; `labels` are the servers as `toolscout pins` calls them."""

    def __init__(self, tools: Mapping[str, Iterable[Tool]], labels: Mapping[str, str]) -> None:
        self._labels = labels
        self.catalog = Catalog()
        for server, held in tools.items():
            self.catalog = self.catalog.with_source(server, held)

    def count(self, allow: Allow | None) -> int:
        """How many of the held tools the caller may know of."""
        return sum(is_allowed(tool, allow) for tool in self.catalog)

    def find(self, name: str, allow: Allow | None) -> tuple[HeldTool, ...]:
        """The tools that a name may mean: with or without the server, in any case style."""
        found = (self.catalog[n] for n in self.catalog.resolve(name))
        return tuple(self._held(tool) for tool in found if is_allowed(tool, allow))

    def explain(self, name: str, allow: Allow | None) -> CallRefusedError | None:
        """Why a name cannot be called, if it refers to held tools."""
        found = self.find(name, allow)
        if len(found) < 2:
            return found[0].refusal() if found else None
        names = ", ".join(held.tool.name for held in found)
        commands = "; ".join(held.approve_command for held in found[:_MAX_MENTIONS])
        return CallRefusedError(
            f"{name!r} may mean several tools that are held for approval: {names}.",
            hint=f"The operator of the gateway can approve one: {commands}",
        )

    def search(
        self, queries: Sequence[str], allow: Allow | None, *, is_last_resort: bool
    ) -> tuple[HeldTool, ...]:
        """The tools that a search would have found; as a last resort, any that match a word."""
        found: dict[str, HeldTool] = {}
        for query in queries:
            try:
                results = self._engine.search(query, limit=_MAX_MENTIONS, allow=allow)
            except ToolscoutError:  # a malformed query; the search itself reports it
                continue
            if results.hits and (is_last_resort or results.confidence >= _MIN_CONFIDENCE):
                least = results.hits[0].score / 2
                hits = (hit for hit in results.hits if hit.score >= least)
                found |= {hit.name: self._held(hit.tool) for hit in hits}
        return tuple(found.values())

    def notice(
        self, queries: Sequence[str], allow: Allow | None, *, reply: str, found_nothing: bool
    ) -> str:
        """One line about the held tools that a search would have found; empty if there are none."""
        found = self.search(queries, allow, is_last_resort=found_nothing)
        # The reply to `select:NAME` has explained the tool already.
        held = [each for each in found if each.approve_command not in reply]
        if held:
            return _mention(held)
        count = self.count(allow) if found_nothing and not found else 0
        if not count:
            return ""
        tools = "1 tool is" if count == 1 else f"{count} tools are"
        return (
            f"{tools} held for approval. The operator of the gateway can see them:"
            " toolscout pins list --held"
        )

    @cached_property
    def _engine(self) -> Engine:
        # Without vectors: held tools are few, and their vectors are made once they are approved.
        return Engine(self.catalog)

    def _held(self, tool: Tool) -> HeldTool:
        return HeldTool(tool, self._labels.get(tool.server, tool.server))


def _mention(held: Sequence[HeldTool]) -> str:
    shown = held[:_MAX_MENTIONS]
    names = ", ".join(each.tool.name for each in shown)
    more = f" and {len(held) - len(shown)} more" if len(held) > len(shown) else ""
    commands = "; ".join(dict.fromkeys(each.approve_command for each in shown))
    return (
        f"Held for approval, so not listed: {names}{more}. The operator of the gateway can"
        f" approve: {commands}"
    )
