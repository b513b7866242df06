"""The providers by name: each is a set of facts and one function that renders a tool."""

from __future__ import annotations

from ...errors import ConfigError
from .anthropic import ANTHROPIC
from .gemini import GEMINI
from .mcp import MCP
from .openai import CHAT, RESPONSES
from .plain import PLAIN
from .provider import Provider

__all__ = ["ANTHROPIC", "CHAT", "GEMINI", "MCP", "PLAIN", "PROVIDERS", "RESPONSES", "get_provider"]

PROVIDERS: dict[str, Provider] = {
    p.name: p for p in (PLAIN, CHAT, RESPONSES, ANTHROPIC, GEMINI, MCP)
}
_ALIASES = {"openai": RESPONSES, "google": GEMINI, "claude": ANTHROPIC}


def get_provider(name: str) -> Provider:
    """The provider with this name or alias; raises ConfigError for an unknown one."""
    found = PROVIDERS.get(name) or _ALIASES.get(name)
    if found is None:
        raise ConfigError(
            f"There is no provider {name!r}.",
            hint=f"Choose from: {', '.join((*PROVIDERS, *_ALIASES))}.",
        )
    return found
