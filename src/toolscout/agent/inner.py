"""A call that goes through a bridge such as `call_tool`, seen as the call it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from ..disclosure.metatools import Role
from ..models.messages import Call

RoleOf = Callable[[str], Role | None]
"""What a name does as a discovery tool; None for every other tool."""


def unwrapped(call: Call, role_of: RoleOf) -> Call:
    """The inner call; the call itself where it is no bridge, or does not say what it is for."""
    if role_of(call.name) != "call":
        return call
    values = call.values() or {}
    name, arguments = values.get("name"), values.get("arguments", {})
    if not isinstance(name, str) or not name.strip():
        return call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return replace(call, name=name.strip(), arguments=text)


def wrapped(inner: Call, bridge: str) -> Call:
    """The call that reaches an inner one through a bridge."""
    values = inner.values()
    given = {"name": inner.name, "arguments": inner.arguments if values is None else values}
    return replace(inner, name=bridge, arguments=json.dumps(given, ensure_ascii=False))
