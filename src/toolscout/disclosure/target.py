"""The target of a view: a provider, a model, and the transport of its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from .providers import PROVIDERS, get_provider
from .providers.provider import Provider

ModelTransport = Literal["direct", "azure", "vertex", "bedrock", "gateway"]
"""How requests reach the provider: directly, through a cloud platform, or through a gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A provider and a model; `is_strict` asks for strict schemas where they are possible."""

    provider: Provider
    model: str = ""
    transport: ModelTransport = "direct"
    is_strict: bool = False

    @classmethod
    def of(cls, text: str | Target) -> Target:
        """Read `anthropic`, `anthropic:claude-opus-4-5`, or the bare id of a known model."""
        if isinstance(text, Target):
            return text
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may give anything
            raise ConfigError(
                f"A {type(text).__name__} is not the name of a model.",
                hint="Give a provider, a provider and a model, or a model: 'anthropic'.",
            )
        name, _, model = text.partition(":")
        if not model and name not in PROVIDERS and (provider := _provider_for_model(name)):
            name, model = provider, name
        # Gateways such as OpenRouter write model ids with a slash: `openai/gpt-5.4`.
        transport: ModelTransport = "gateway" if "/" in model else "direct"
        return cls(provider=get_provider(name), model=model, transport=transport)


# OpenAI models use the Responses API, where they have native tool search.
_PROVIDER_BY_PREFIX = (
    ("claude-", "anthropic"),
    ("gpt-", "openai-responses"),
    ("o1", "openai-responses"),
    ("o3", "openai-responses"),
    ("o4", "openai-responses"),
    ("gemini-", "gemini"),
)


def _provider_for_model(model: str) -> str:
    """The provider of a model by its id; empty for unknown ids and those of gateways."""
    return next((name for prefix, name in _PROVIDER_BY_PREFIX if model.startswith(prefix)), "")
