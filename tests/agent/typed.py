"""Loops as users write them over the official SDKs; pyright checks them strictly."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionSystemMessageParam
from openai.types.responses import ResponseInputItemParam

from toolscout import Session


async def messages(client: AsyncAnthropic, session: Session, text: str) -> str:
    """Over Messages, with a model that has no tool search of its own."""
    said: list[MessageParam] = [{"role": "user", "content": text}]
    while True:
        view = session.view(model="claude-haiku-4-5")
        reply = await client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=1024,
            system=view.instructions,
            tools=view.tools,
            messages=said,
        )
        more = await session.answer(reply)
        if not more:
            return "".join(block.text for block in reply.content if block.type == "text")
        said += more


async def responses(client: AsyncOpenAI, session: Session, text: str) -> str:
    """Over Responses, with a model that has no tool search of its own."""
    said: list[ResponseInputItemParam] = [{"role": "user", "content": text}]
    while True:
        view = session.view(model="openai:gpt-4o")
        reply = await client.responses.create(
            model="gpt-4o", instructions=view.instructions, tools=view.tools, input=said
        )
        more = await session.answer(reply)
        if not more:
            return reply.output_text
        said += more


async def chat(client: AsyncOpenAI, session: Session, text: str) -> str:
    """Over Chat Completions."""
    said: list[ChatCompletionMessageParam] = [{"role": "user", "content": text}]
    while True:
        view = session.view(model="openai-chat:gpt-4o")
        system: ChatCompletionSystemMessageParam = {
            "role": "system",
            "content": view.instructions,
        }
        reply = await client.chat.completions.create(
            model="gpt-4o", tools=view.tools, messages=[system, *said]
        )
        more = await session.answer(reply)
        if not more:
            return reply.choices[0].message.content or ""
        said += more
