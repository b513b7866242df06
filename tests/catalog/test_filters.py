import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.filters import NO_SERVERS, Filter
from toolscout.catalog.tool import Tool
from toolscout.sources.functions import tool, tool_of


def of(server: str, name: str) -> Tool:
    return Tool(name=f"{server}__{name}", server=server)


GITHUB = [of("github", "create_issue"), of("github", "readFile")]
SLACK = [of("slack", "post_message")]
SHEETS = [of("google-sheets", "read-range")]
WORKSPACE = [
    Tool(name="read_workspace_file", category="workspace_tools"),
    Tool(name="write_workspace_file", category="workspace_tools"),
]
HUMAN = [
    Tool(name="ask_human", category="human"),
    Tool(name="hand_in", category="structured_output"),
]
VIRTUAL = [Tool(name="get_prompt", category="virtual_tools")]
MINE = [Tool(name="plain"), Tool(name="mail_it", category="mail")]
ALL = [*GITHUB, *SLACK, *SHEETS, *WORKSPACE, *HUMAN, *VIRTUAL, *MINE]


def allowed(chosen: Filter) -> set[str]:
    return {t.name for t in ALL if chosen.allows(t)}


def named(*groups: list[Tool]) -> set[str]:
    return {t.name for group in groups for t in group}


@pytest.mark.behaviour("B57")
def test_without_a_filter_everything_is_allowed():
    assert allowed(Filter()) == named(ALL)
    assert not Filter().is_active


@pytest.mark.behaviour("B56", "B58", "B63", "B64")
def test_selected_servers_bring_all_their_tools_and_no_others():
    chosen = Filter(servers=("github",))
    assert allowed(chosen) == named(GITHUB, WORKSPACE, HUMAN, VIRTUAL)


@pytest.mark.behaviour("B58")
@pytest.mark.parametrize(
    "spelling", ["google-sheets", "google_sheets", "Google-Sheets", " google-sheets "]
)
def test_a_server_is_known_in_any_spelling(spelling):
    assert named(SHEETS) <= allowed(Filter(servers=(spelling,)))


@pytest.mark.behaviour("B59")
def test_selected_tools_bring_only_themselves():
    chosen = Filter(tools=("github:create_issue",))
    assert allowed(chosen) == named(GITHUB[:1], HUMAN, VIRTUAL)
    assert chosen.warnings == ()


@pytest.mark.behaviour("B48")
@pytest.mark.parametrize(
    "chosen",
    [
        Filter(servers=("github",)),
        Filter(servers=(NO_SERVERS, "github")),
        Filter(tools=("github:create_issue",)),
        Filter(tools=("human:somebody_else", "structured_output:something_else")),
        Filter(("slack",), ("human:somebody_else",), "specific_first"),
    ],
)
def test_no_filter_hides_structured_output_and_human_tools(chosen):
    assert named(HUMAN) <= allowed(chosen)
    assert chosen.allows(Tool(name="other", category="structured-output_tools"))


@pytest.mark.behaviour("B59")
def test_an_entry_without_a_colon_is_ignored_with_a_warning_and_opens_nothing():
    chosen = Filter(tools=("create_issue", ":x", "github:", "slack:post_message"))
    assert allowed(chosen) == named(SLACK, HUMAN, VIRTUAL)
    assert [p.where for p in chosen.warnings] == [
        "tools entry 'create_issue'", "tools entry ':x'", "tools entry 'github:'"
    ]  # fmt: skip
    assert all(p.severity == "warning" and "server:tool" in p.remedy for p in chosen.warnings)
    assert allowed(Filter(tools=("nonsense",))) == named(HUMAN, VIRTUAL)


@pytest.mark.behaviour("B60", "K13")
def test_entries_add_to_a_selected_server_or_narrow_it_as_configured():
    both = {
        "servers": ("github", "slack"),
        "tools": ("github:create_issue", "google-sheets:read_range"),
    }
    shared = named(SLACK, SHEETS, WORKSPACE, HUMAN, VIRTUAL)
    assert allowed(Filter(**both)) == shared | named(GITHUB)
    assert allowed(Filter(**both, precedence="specific_first")) == shared | named(GITHUB[:1])


@pytest.mark.behaviour("B61")
@pytest.mark.parametrize("precedence", ["union", "specific_first"])
def test_a_wildcard_takes_the_whole_server_whatever_else_is_said_of_it(precedence):
    chosen = Filter(
        servers=("slack",), tools=("github:create_issue", "github:*"), precedence=precedence
    )
    assert allowed(chosen) == named(GITHUB, SLACK, WORKSPACE, HUMAN, VIRTUAL)


@pytest.mark.behaviour("B62", "B63")
@pytest.mark.parametrize("precedence", ["union", "specific_first"])
def test_the_workspace_can_be_narrowed_to_reading(precedence):
    chosen = Filter(("github", "slack"), ("workspace:read_workspace_file",), precedence)
    assert allowed(chosen) == named(GITHUB, SLACK, WORKSPACE[:1], HUMAN, VIRTUAL)
    assert not chosen.allows(WORKSPACE[1])


@pytest.mark.behaviour("B64")
def test_a_server_cannot_pass_for_the_system_by_naming_its_category():
    disguised = Tool(name="evil__x", server="evil", category="virtual_tools")
    assert not Filter(servers=("github",)).allows(disguised)
    assert not Filter(servers=("github",)).allows(Tool(name="e__x", server="e", category="human"))
    assert not Filter(servers=("github",)).allows(Tool(name="workspace__x", server="workspace"))


@pytest.mark.behaviour("B65")
@pytest.mark.parametrize(
    "spelling", ["readFile", "read_file", "read-file", "ReadFile", "github__readFile"]
)
def test_a_tool_is_known_in_any_spelling(spelling):
    assert Filter(tools=(f"GitHub:{spelling}",)).allows(GITHUB[1])


@pytest.mark.behaviour("B66")
def test_a_server_is_kept_when_anything_of_it_may_be_wanted():
    mixed = Filter(("slack",), ("github:create_issue", "google-sheets:*"))
    assert [s for s in ("slack", "github", "google_sheets", "other") if mixed.allows_server(s)] == [
        "slack", "github", "google_sheets"
    ]  # fmt: skip
    only_tools = Filter(tools=("github:create_issue",))
    assert only_tools.allows_server("other")
    assert not only_tools.allows(of("other", "x"))
    assert Filter().allows_server("other")


@pytest.mark.behaviour("B66")
def test_no_servers_means_none_and_leaves_what_needs_no_server():
    closed = Filter(servers=(NO_SERVERS,))
    assert allowed(closed) == named(WORKSPACE, HUMAN, VIRTUAL, MINE)
    assert not closed.allows_server("github")
    assert allowed(Filter((NO_SERVERS, "github", "mail"))) == named(
        WORKSPACE, HUMAN, VIRTUAL, MINE[1:]
    )
    assert not Filter((NO_SERVERS,), ("github:*",)).allows(GITHUB[0])


@pytest.mark.behaviour("B55")
def test_a_tool_of_no_category_belongs_to_custom():
    @tool
    def anything() -> None: ...

    mine = tool_of(anything)
    assert Filter(servers=("custom",)).allows(mine)
    assert Filter(tools=("custom:anything",)).allows(mine)
    assert not Filter(servers=("mail",)).allows(mine)


ENTRIES = st.lists(
    st.sampled_from(
        ["github:*", "github:create_issue", "slack:x", "workspace:*", "mail:mail_it", "bad"]
    )
).map(tuple)
SERVERS = st.lists(st.sampled_from(["github", "slack", "mail", "custom", "workspace"])).map(tuple)


@pytest.mark.behaviour("B60")
@given(SERVERS, ENTRIES)
def test_narrowing_never_allows_more_than_the_union(servers, tools):
    narrow = allowed(Filter(servers, tools, "specific_first"))
    assert narrow <= allowed(Filter(servers, tools))
