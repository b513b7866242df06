from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.wire.server import Wire

from toolscout.models.anthropic import AnthropicModel
from toolscout.models.google import GoogleModel
from toolscout.models.model import Model
from toolscout.models.openai_chat import ChatModel
from toolscout.models.openai_responses import ResponsesModel

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
TOOLS: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "find", "description": "Find.", "input_schema": SCHEMA},
    "openai-chat": {"type": "function", "function": {"name": "find", "parameters": SCHEMA}},
    "openai-responses": {"type": "function", "name": "find", "parameters": SCHEMA, "strict": False},
    "gemini": {"name": "find", "description": "Find.", "parameters_json_schema": SCHEMA},
}
CLIENTS: dict[str, tuple[Callable[..., Model], str]] = {
    "anthropic": (AnthropicModel, ""),
    "openai-chat": (ChatModel, "/v1"),
    "openai-responses": (ResponsesModel, "/v1"),
    "gemini": (GoogleModel, ""),
}


@dataclass
class Service:
    """A client of one provider and the loopback service it talks to."""

    model: Model
    wire: Wire

    @property
    def tool(self) -> dict[str, Any]:
        return TOOLS[self.model.provider]


@pytest.fixture(params=CLIENTS)
async def service(request: pytest.FixtureRequest) -> AsyncIterator[Service]:
    """Each provider in turn."""
    async for one in _connected(request.param):
        yield one


@pytest.fixture
async def anthropic() -> AsyncIterator[Service]:
    async for one in _connected("anthropic"):
        yield one


@pytest.fixture
async def chat() -> AsyncIterator[Service]:
    async for one in _connected("openai-chat"):
        yield one


@pytest.fixture
async def responses() -> AsyncIterator[Service]:
    async for one in _connected("openai-responses"):
        yield one


@pytest.fixture
async def gemini() -> AsyncIterator[Service]:
    async for one in _connected("gemini"):
        yield one


async def _connected(provider: str) -> AsyncIterator[Service]:
    client, path = CLIENTS[provider]
    async with Wire() as wire:
        model = client("test-model", api_key="key-of-the-test", base_url=wire.url + path)
        yield Service(model, wire)
        await model.close()
