"""Phrases and aliases from an overlay file, in a toolbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.errors import ConfigError
from toolscout.events import CatalogChangeEvent, Event
from toolscout.toolbox.toolbox import Toolbox

REQUEST = "drop my cousin a line"
ENTRY = f'[custom.send_email]\nphrases = ["{REQUEST}"]\naliases = ["post_letter"]\n'


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    path = tmp_path / "phrases.toml"
    path.write_text(ENTRY)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 -- the toolbox polls the file
            await asyncio.sleep(0)


def first(box: Toolbox) -> tuple[str, ...]:
    return box.search(REQUEST, limit=1).names


async def test_a_phrase_finds_its_tool(open_box: Any, overlay: Path) -> None:
    assert first(await open_box()) != ("send_email",)
    assert first(await open_box(overlay=overlay)) == ("send_email",)
    assert first(await open_box(config=Config.read(overlay=str(overlay)))) == ("send_email",)


async def test_an_alias_finds_its_tool_and_can_be_called(open_box: Any, overlay: Path) -> None:
    box = await open_box(overlay=str(overlay))
    assert box.search("post letter", limit=1).names == ("send_email",)
    session = await box.session("ann", approver=lambda *_: True)
    sent = await session.call("postLetter", {"to": "bo", "subject": "tea"})
    assert sent.text == "1 sent to bo: tea"


async def test_an_alias_never_hides_a_tool(open_box: Any, overlay: Path) -> None:
    write(overlay, '[custom.send_email]\naliases = ["getWeather"]\n')
    box = await open_box(overlay=overlay)
    session = await box.session("ann")
    assert "clear" in (await session.call("getWeather", {"city": "Oslo"})).text
    (problem,) = box.overlay_problems
    assert problem.startswith("line 1, custom.send_email: The alias 'getWeather' cannot be called")
    hidden = await box.session("bo", allow=lambda tool: tool.name != "get_weather")
    refused = await hidden.call("getWeather", {"to": "bo", "subject": "tea"})
    assert refused.is_error, "even where the caller cannot see the tool of that name"


async def test_a_tool_can_be_selected_by_its_alias(open_box: Any, overlay: Path) -> None:
    write(overlay, f'{ENTRY}[custom.delete_page]\naliases = ["get_weather", "scrap"]\n')
    box = await open_box(overlay=overlay)
    found = box.search("select:postLetter,scrap,get_weather")
    assert found.names == ("send_email", "delete_page", "get_weather")
    assert not found.notes
    write(overlay, "")
    await box.refresh()
    gone = box.search("select:post_letter")
    assert (gone.names, gone.notes) == ((), ("No tool is named post_letter.",))


async def test_the_alias_of_a_hidden_tool_is_unknown(open_box: Any, overlay: Path) -> None:
    write(overlay, f'{ENTRY}[custom.delete_page]\naliases = ["get_weather"]\n')
    box = await open_box(overlay=overlay)
    hidden = box.search("select:post_letter", allow=lambda tool: tool.name != "send_email")
    assert (hidden.names, hidden.notes) == ((), ("No tool is named post_letter.",))
    taken = box.search("select:get_weather", allow=lambda tool: tool.name != "get_weather")
    assert taken.names == (), "an alias never stands for a tool that the caller may not see"
    session = await box.session("bo", allow=lambda tool: tool.name != "send_email")
    reply = await session.call("tool_search", {"query": "select:post_letter"})
    assert "send_email" not in reply.text


async def test_json_lines_are_read_live(open_box: Any, tmp_path: Path) -> None:
    rows = tmp_path / "phrases.jsonl"
    write(rows, json.dumps({"tool": "send_email", "phrases": [REQUEST]}))
    box = await open_box(overlay=rows)
    assert first(box) == ("send_email",)
    write(rows, '{"tool": "send_email",')
    await box.refresh()
    assert first(box) == ("send_email",), "the last good state"
    assert "line 1: not JSON" in box.overlay_problems[0]
    write(rows, "")
    await box.refresh()
    assert first(box) != ("send_email",)


async def test_an_alias_of_two_tools_is_ambiguous(open_box: Any, overlay: Path) -> None:
    write(overlay, f'{ENTRY}[custom.delete_page]\naliases = ["post-letter"]\n')
    box = await open_box(overlay=overlay)
    refused = await (await box.session("ann")).call("post_letter", {})
    assert "it may mean: delete_page, send_email" in refused.text
    assert "ambiguous" in box.overlay_problems[0]


async def test_an_edit_takes_effect_while_the_toolbox_is_open(open_box: Any, overlay: Path) -> None:
    write(overlay, "")
    events: list[Event] = []
    box = await open_box(overlay=overlay, sink=events.append)
    write(overlay, ENTRY)
    await until(lambda: first(box) == ("send_email",))
    write(overlay, "# nothing any more\n")
    await box.refresh()  # reads it at once
    assert first(box) != ("send_email",)
    changes = [e for e in events if isinstance(e, CatalogChangeEvent)]
    assert [(c.source, c.changed) for c in changes[-2:]] == [("overlay phrases.toml", 1)] * 2


async def test_a_broken_edit_keeps_the_last_good_state_and_says_which_line(
    open_box: Any, overlay: Path
) -> None:
    events: list[Event] = []
    box = await open_box(overlay=overlay, sink=events.append)
    write(overlay, "[custom.send_email]\nphrases = oops\n")
    await box.refresh()
    assert first(box) == ("send_email",)
    (problem,) = box.problems.values()
    assert "line 2" in problem
    assert "The last good state is used." in problem
    health = (await box.health()).to_dict()
    assert health["parts"]["overlay"]["status"] == "degraded"
    assert [e.kind for e in events].count("source_failed") == 1
    write(overlay, ENTRY)
    await box.refresh()
    assert not box.problems
    assert (await box.health()).to_dict()["parts"]["overlay"] == {
        "status": "ok",
        "file": str(overlay),
        "tools": 1,
    }


async def test_a_missing_file_is_a_problem_and_is_read_once_it_exists(
    open_box: Any, tmp_path: Path
) -> None:
    path = tmp_path / "late.toml"
    box = await open_box(overlay=path)
    assert "cannot be read: No such file" in box.overlay_problems[0]
    write(path, ENTRY)
    await box.refresh()
    assert first(box) == ("send_email",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[custom.send_mail]\n",
            "has no tool 'send_mail'",
        ),
        (
            "\n\n[costum.send_email]\n",
            "line 3, costum.send_email: There is no server 'costum' here",
        ),
    ],
)
async def test_an_entry_without_a_tool_is_reported(
    open_box: Any, overlay: Path, text: str, problem: str
) -> None:
    write(overlay, f'{text}phrases = ["x"]\n')
    box = await open_box(overlay=overlay)
    (found,) = box.overlay_problems
    assert problem in found
    assert "Did you mean custom" in found
    assert (await box.health()).status == "degraded"


async def test_an_entry_of_a_source_that_is_not_listed_is_not_reported(overlay: Path) -> None:
    class Slow:
        name = "slow"

        async def tools(self) -> list[Tool]:
            raise ConnectionError

        async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
            return Result.of("done")

        async def close(self) -> None: ...

    write(overlay, '[slow.look]\nphrases = ["x"]\n')
    async with Toolbox(Slow(), store="memory", overlay=overlay) as box:
        assert not box.overlay_problems


async def test_models_are_sent_the_same_with_and_without_an_overlay(
    open_box: Any, overlay: Path
) -> None:
    plain, extended = await open_box(), await open_box(overlay=overlay)
    before, after = plain.catalog["send_email"], extended.catalog["send_email"]
    assert after.phrases == ("write to someone", REQUEST, "post letter")
    assert after.fingerprint == before.fingerprint
    assert extended.catalog.fingerprint == plain.catalog.fingerprint
    assert after.row() == before.row()
    assert after.definition == before
    sent: list[str] = []
    for box in (plain, extended):
        session = await box.session("ann")
        found = await session.call("tool_search", {"query": "select:send_email"})
        view = session.view()
        sent.append(f"{found.text}{view.text}{view.instructions}")
    assert sent[0] == sent[1]
    assert REQUEST not in sent[1]


async def test_an_overlay_does_not_end_an_approval(
    open_box: Any, overlay: Path, office: Any
) -> None:
    write(overlay, "")
    box = await open_box(*office, overlay=overlay)
    session = await box.session("ann")
    held = await session.step().call("delete_page", {"page": 7})
    assert held.needs is not None
    write(overlay, '[custom.delete_page]\nphrases = ["shred it"]\n')
    await box.refresh()
    assert box.search("shred it", limit=1).names == ("delete_page",)
    done = await session.approve(held.needs.id)
    assert "page 7 is gone" in done.result.text


async def test_a_tool_whose_name_two_sources_share_keeps_its_phrases(
    open_box: Any, overlay: Path
) -> None:
    class Notes:
        def __init__(self, name: str) -> None:
            self.name = name

        async def tools(self) -> list[Tool]:
            return [Tool(name="look", server=self.name, description="Look at notes.")]

        async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
            return Result.of("done")

        async def close(self) -> None: ...

    write(overlay, "")
    box = await open_box(Notes("one"), Notes("two"), overlay=overlay)
    write(overlay, f'[two.look]\nphrases = ["{REQUEST}"]\n')
    await box.refresh()
    assert first(box) == ("two__look",)
    write(overlay, "")
    await box.refresh()
    assert box.catalog["two__look"].phrases == ()


def test_a_path_in_the_home_of_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown user"):
        Toolbox(overlay="~nobody-of-this-name/phrases.toml")


def test_a_settings_file_names_an_overlay_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "toolscout.toml"
    file.write_text('[settings]\noverlay = "phrases.toml"\n')
    assert Config.read(file, environment={}).overlay == tmp_path / "phrases.toml"
    variables = {"TOOLSCOUT_OVERLAY": "~/other.toml"}
    assert Config.read(file, environment=variables).overlay == Path.home() / "other.toml"
