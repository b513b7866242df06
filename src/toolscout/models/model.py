"""The contract every model client keeps: a request goes in, deltas come out."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..disclosure.target import Transport
from .deltas import Delta, Reply, collect
from .messages import Message

AUTO = "auto"
NONE = "none"
REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request of a model.

    `tools` are in the provider's own form, as a view renders them. `choice` is `auto`, `none`,
    `required`, or the name of the one tool the model must call.
    """

    messages: tuple[Message, ...]
    instructions: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    choice: str = AUTO
    max_tokens: int | None = None


class Model(Protocol):
    """A model service. `provider` names the form in which it takes tools."""

    @property
    def name(self) -> str:
        """The model's name at its service."""
        ...

    @property
    def provider(self) -> str:
        """The dialect of its tools: anthropic, openai-chat, openai-responses, gemini or plain."""
        ...

    @property
    def transport(self) -> Transport:
        """How requests travel: native features are used only where nothing stands between."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Ask, and give what comes as it comes; a failure is a ModelError."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def default_transport(base_url: str | None, *, variable: str) -> Transport:
    """How requests travel if nobody says: at an address of one's own, anything may answer.

    The address may also be in the environment, where every SDK looks for it by itself.
    """
    return "gateway" if base_url or os.environ.get(variable) else "direct"


async def complete(model: Model, request: ModelRequest) -> Reply:
    """Ask, and wait for the whole reply."""
    return collect([delta async for delta in model.stream(request)])
