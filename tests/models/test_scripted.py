from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolscout.disclosure.target import Target
from toolscout.errors import ConfigError, ModelError
from toolscout.models.deltas import TextDelta, Usage
from toolscout.models.messages import user_message
from toolscout.models.model import ModelRequest, complete
from toolscout.models.scripted import ScriptedCall, ScriptedFailure, ScriptedModel, Turn
from toolscout.models.spec import open_model

ASK = ModelRequest(
    messages=(user_message("hello"),), instructions="Be kind.", tools=({"name": "f"},)
)


async def test_a_script_is_played_turn_by_turn() -> None:
    model = ScriptedModel(["Hello.", Turn(say="Let me see.", calls=(ScriptedCall("f", {"a": 1}),))])
    assert (await complete(model, ASK)).message.text == "Hello."
    reply = await complete(model, ASK)
    assert (reply.message.calls[0].name, reply.message.calls[0].values()) == ("f", {"a": 1})
    assert reply.reason == "calls"
    assert model.requests == [ASK, ASK]


async def test_a_script_that_has_ended_says_so() -> None:
    with pytest.raises(ModelError, match="has ended"):
        await complete(ScriptedModel([]), ASK)


async def test_words_come_in_pieces_without_losing_a_space() -> None:
    said = "  two  words\nand a line "
    deltas = [d async for d in ScriptedModel([said]).stream(ASK)]
    pieces = [d.text for d in deltas if isinstance(d, TextDelta)]
    assert len(pieces) > 3
    assert "".join(pieces) == said


async def test_a_turn_may_depend_on_the_request() -> None:
    model = ScriptedModel([lambda request: Turn(say=f"You said {request.messages[-1].text}.")])
    assert (await complete(model, ASK)).message.text == "You said hello."


async def test_a_script_can_fail_as_services_do() -> None:
    model = ScriptedModel(
        [
            Turn(error=ScriptedFailure(status=429, message="slow")),
            Turn(say="Ha", error=ScriptedFailure(is_cut=True)),
        ]
    )
    with pytest.raises(ModelError, match="429: slow") as busy:
        await complete(model, ASK)
    with pytest.raises(ModelError, match="before the reply was complete") as cut:
        await complete(model, ASK)
    assert busy.value.is_transient
    assert cut.value.is_transient


async def test_tokens_are_counted_when_a_counter_is_given() -> None:
    model = ScriptedModel(["one two"], count=lambda text: len(text.split()))
    usage = (await complete(model, ASK)).usage
    assert usage.output_tokens == 2
    assert usage.input_tokens > len(["Be", "kind."])


async def test_usage_in_the_script_is_taken_as_it_is() -> None:
    model = ScriptedModel([Turn(say="x", usage=Usage(5, 6))], count=len)
    assert (await complete(model, ASK)).usage == Usage(5, 6)


async def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    turns = ["Hi.", {"calls": [{"name": "f", "arguments": '{"broken'}]}, {"error": {"status": 500}}]
    path.write_text(json.dumps(turns), encoding="utf-8")
    model = open_model(f"scripted:{path}")
    assert (await complete(model, ASK)).message.text == "Hi."
    assert (await complete(model, ASK)).message.calls[0].values() is None
    with pytest.raises(ModelError):
        await complete(model, ASK)
    await model.close()


@pytest.mark.parametrize("content", ["", "{}", '[{"say": 5}]', '[{"calls": [{}]}]'])
def test_a_script_that_is_wrong_says_where(tmp_path: Path, content: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="script"):
        ScriptedModel.read(path)


def test_a_script_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        open_model(f"scripted:{tmp_path / 'none.json'}")


@pytest.mark.parametrize("spec", ["", "gpt", "nobody:x", "openai:", "scripted:"])
def test_a_spec_that_names_no_model_lists_the_providers(spec: str) -> None:
    with pytest.raises(ConfigError, match="anthropic, gemini, google, openai"):
        open_model(spec)


@pytest.mark.parametrize(
    ("spec", "provider"),
    [
        ("anthropic:claude", "anthropic"),
        ("openai:gpt", "openai-responses"),
        ("openai-responses:gpt", "openai-responses"),
        ("openai-chat:llama", "openai-chat"),
        ("google:gemini", "gemini"),
    ],
)
async def test_a_spec_opens_the_client_of_its_provider(spec: str, provider: str) -> None:
    model = open_model(spec, api_key="k", base_url="http://127.0.0.1:9/v1")
    assert (model.provider, model.name) == (provider, spec.partition(":")[2])
    await model.close()
    # What an agent makes of a name and what a view makes of it are the same.
    target = Target.of(spec)
    assert (target.provider.name, target.model) == (model.provider, model.name)


def test_a_missing_key_is_reported_to_programs_and_at_the_prompt_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigError) as caught:
        open_model("anthropic:claude")
    assert "Set ANTHROPIC_API_KEY, give the client its api_key" in caught.value.hint
    assert "--" not in caught.value.hint


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        ("anthropic:x", "anthropic", "anthropic"),
        ("openai:x", "openai", "openai"),
        ("google:x", "google.genai", "google"),
    ],
)
def test_a_missing_sdk_names_the_pip_command(spec: str, package: str, extra: str) -> None:
    """In a process of its own, where the package is made unimportable."""
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from toolscout.models.spec import open_model\n"
        f"open_model({spec!r}, api_key='k')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode != 0
    assert f"pip install 'toolscout[{extra}]'" in ran.stderr
