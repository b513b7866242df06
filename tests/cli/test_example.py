"""One example everywhere: the same question finds the same tool in every command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from toolscout.examples import CATALOG, QUESTIONS

PROJECT = Path(__file__).parents[2]
TOOLSCOUT = str(Path(sys.executable).with_name("toolscout"))
DATA = Path(os.environ.get("TOOLSCOUT_DATA", PROJECT.parent / "shared" / "data"))
EXPECTED = dict(QUESTIONS)
QUICK_STARTS = ("docs/quickstart-library.md", "docs/quickstart-agent.md")
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(home: Path, *arguments: str) -> str:
    env = {**os.environ, "TOOLSCOUT_HOME": str(home)}
    done = subprocess.run(arguments, capture_output=True, text=True, env=env, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def demo(home: Path) -> dict:
    return json.loads(run(home, TOOLSCOUT, "demo", "--json"))


def test_search_finds_the_tool_of_each_question(home: Path) -> None:
    for question, tool in EXPECTED.items():
        found = json.loads(run(home, TOOLSCOUT, "search", question, "--json"))
        assert found["hits"][0]["name"] == tool


def test_the_demo_finds_the_tool_of_each_question(demo: dict) -> None:
    assert {row["question"]: row["found"] for row in demo["questions"]} == EXPECTED
    assert demo["tools"] == len(CATALOG.read_text(encoding="utf-8").splitlines())


async def test_the_gateway_s_example_finds_the_tool_of_each_question(home: Path) -> None:
    command = StdioServerParameters(
        command=TOOLSCOUT,
        args=["serve", "--stdio", "--example", "--wait", "60"],
        env={"TOOLSCOUT_HOME": str(home)},
    )
    async with Client(command) as client:
        for question, tool in EXPECTED.items():
            best = f"Run with call_tool:\noffice__{tool}: "
            # Vectors of tools, and then of words, come in the background.
            async with asyncio.timeout(60):
                while not (await search(client, question)).startswith(best):  # noqa: ASYNC110 -- no event
                    await asyncio.sleep(0.2)
        assert (await search(client, "xkqz vbnwt")).startswith("Nothing fits 'xkqz vbnwt'.")
        assert (await search(client, "fly me to mars")).startswith("Unsure: nothing fits well")
        for foreign in ("Rezervuj zasedací místnost", "boka ett konferensrum imorgon"):
            assert "Semantic search does not know this language" in await search(client, foreign)


async def search(client: Client, query: str) -> str:
    content = (await client.call_tool("tool_search", {"query": query})).content
    return "\n".join(str(block.text) for block in content)


@pytest.mark.parametrize("page", ["README.md", *QUICK_STARTS])
def test_the_programs_of_the_quick_starts_find_the_same_tool(page: str, home: Path) -> None:
    question, tool = QUESTIONS[1]
    programs = PYTHON.findall((PROJECT / page).read_text(encoding="utf-8"))
    asking = [p for p in programs if question in p and tool in p]
    assert asking
    for program in asking:
        run(home, sys.executable, "-c", program)  # each has assertions, or prints the tool


def test_the_demo_is_a_table_with_a_header(home: Path) -> None:
    printed = run(home, TOOLSCOUT, "demo").splitlines()
    header = "question\ttool found\twith Toolscout\teverything loaded\tsaved"
    assert printed[1] == header
    assert all(line.count("\t") == header.count("\t") for line in printed[1 : 3 + len(EXPECTED)])


def test_the_readme_quotes_the_figures_that_the_demo_prints(demo: dict) -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    first, last = demo["saved"], 1 - demo["questions"][-1]["tokens"] / demo["everything"]
    assert (
        f"the first request saves {first:.1%}, the last one {last:.1%}".replace("%", " %") in readme
    )


@pytest.mark.parametrize(
    ("catalog", "label"),
    [
        ("example", "81 tools of the example (`--catalog example`)"),
        ("github_mcp_catalog", "117 tools of GitHub's MCP server"),
        ("docker_catalog", "755 tools of Docker's MCP catalog"),
        ("toucan_catalog", "5,248 tools of many servers"),
    ],
)
def test_the_readme_quotes_the_tokens_that_its_command_prints(
    catalog: str, label: str, home: Path
) -> None:
    path = catalog if catalog == "example" else str(DATA / catalog / "tools.jsonl")
    if catalog != "example" and not Path(path).is_file():
        pytest.skip("the public sets are not here")
    command = ("tokens", "--catalog", path, "--profile", "default", "--json")
    report = json.loads(run(home, TOOLSCOUT, *command))
    cost = report["profiles"]["default"]
    figures = f"{report['everything']:,} | {cost['start']:,} | {cost['saved']:.1%}"
    row = f"| {label} | {figures.replace('%', ' %')} | {cost['after_5']:,} |"
    assert row in (PROJECT / "README.md").read_text(encoding="utf-8")
