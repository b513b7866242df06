"""What may be named as a source: files of tools, and files of servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toolscout.config import Config
from toolscout.errors import SourceError
from toolscout.toolbox.toolbox import Toolbox

ROWS = [
    {"name": "mail__send", "description": "Send mail.", "server": "mail", "parameters": None},
    {"name": "mail__read", "description": "Read mail.", "server": "mail", "parameters": None},
]


async def test_a_catalog_file_is_found_and_described_but_says_it_cannot_run(
    open_box: Any, tmp_path: Path
):
    path = tmp_path / "tools.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS))
    box = await open_box(str(path))
    assert box.search("send mail", limit=1).names == ("mail__send",)
    result = await (await box.session("s")).call("mail__send", {})
    assert result.is_error
    assert "only described" in result.text


async def test_a_catalog_file_that_grew_is_read_again(open_box: Any, tmp_path: Path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(ROWS[:1]))
    box = await open_box(path)
    path.write_text(json.dumps(ROWS))
    await box.refresh()
    assert list(box.catalog.tools) == ["mail__send", "mail__read"]


async def test_two_files_of_one_name_stay_apart(open_box: Any, tmp_path: Path):
    for number, row in enumerate(ROWS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "tools.json").write_text(json.dumps([row]))
    box = await open_box(tmp_path / "0" / "tools.json", tmp_path / "1" / "tools.json")
    assert list(box.catalog.tools) == ["mail__send", "mail__read"]


def test_two_servers_of_one_name_are_refused(tmp_path: Path):
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path in paths:
        path.write_text(json.dumps({"mcpServers": {"time": {"command": "x"}}}))
    with pytest.raises(SourceError, match="same name: time"):
        Toolbox(paths)


def test_a_file_that_is_not_there_is_an_error_at_once(tmp_path: Path):
    with pytest.raises(SourceError, match=r"There is no file .*nowhere\.json"):
        Toolbox([tmp_path / "nowhere.json"])


async def test_the_operations_of_an_api_description_are_tools(
    open_box: Any, office: Any, tmp_path: Path
):
    path = tmp_path / "api.json"
    listed = {"get": {"operationId": "listOrders", "summary": "List all orders"}}
    servers = [{"url": "https://shop.example.com"}]  # not those of an `mcp.json`
    api = {"openapi": "3.1.0", "servers": servers, "paths": {"/orders": listed}}
    path.write_text(json.dumps(api))
    box = await open_box(*office, path)
    assert "send_email" in box.catalog
    assert box.catalog["api__listOrders"].title == "List all orders"


async def test_a_broken_file_is_a_problem_of_that_source_alone(
    open_box: Any, office: Any, tmp_path: Path
):
    path = tmp_path / "tools.json"
    path.write_text("this is not JSON")
    box = await open_box(*office, path)
    assert "send_email" in box.catalog
    assert "not a list of tools" in (await box.health()).parts["catalog"].facts["problems"]["tools"]


async def test_rows_that_could_not_be_read_are_in_the_health_and_the_rest_are_tools(
    open_box: Any, tmp_path: Path
):
    path = tmp_path / "tools.jsonl"
    rows = [json.dumps(ROWS[0]), *(["{broken"] * 5), json.dumps(ROWS[1])]
    path.write_text("\n".join(rows))
    box = await open_box(path)
    assert list(box.catalog.tools) == ["mail__send", "mail__read"]
    health = await box.health()
    assert health.status == "degraded"
    assert "and 2 more" in health.parts["catalog"].facts["problems"]["tools"]
    path.write_text("\n".join(json.dumps(row) for row in ROWS))
    await box.refresh()
    assert (await box.health()).status == "ok"


@pytest.mark.parametrize("suffix", ["json", "toml"])
async def test_the_servers_of_a_client_configuration_are_listed_and_called(
    open_box: Any, tmp_path: Path, suffix: str
):
    path = tmp_path / f"mcp.{suffix}"
    if suffix == "json":
        server = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
        path.write_text(json.dumps({"mcpServers": {"time": server}}))
    else:
        path.write_text(
            f'[servers.time]\ncommand = "{sys.executable}"\nargs = ["-m", "mcp_server_time"]\n'
        )
    config = Config.read(home=tmp_path / "home", start_timeout_seconds=60)
    box = await open_box(path, config=config)
    session = await box.session("s")
    result = await session.call("time__get_current_time", {"timezone": "Europe/Oslo"})
    assert not result.is_error
    assert result.value["timezone"] == "Europe/Oslo"
    wrong = await session.call("time__get_current_time", {"zone": 3})
    assert wrong.code == "invalid_arguments"
    assert "timezone" in wrong.text
