import json
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscout.catalog.problem import Problem
from toolscout.catalog.sanitization import clean, clean_line
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import DEFERRALS, RISKS, Annotations, Extraction, Tool
from toolscout.errors import SourceError
from toolscout.sources.files import FileContents, FileSource, read_tools, write_tools


def rows(count: int) -> list[str]:
    return [json.dumps({"name": f"tool_{i}", "description": f"Does {i}."}) for i in range(count)]


def load(path: Path, content: str | bytes) -> FileContents:
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content)
    return read_tools(path)


def names(loaded: FileContents) -> list[str]:
    return [t.name for t in loaded.tools]


LINE = st.text(max_size=20).map(clean_line)
WORD = LINE.filter(bool)
HINT = st.none() | st.booleans()
TOOLS = st.builds(
    Tool,
    name=WORD,
    description=st.text(max_size=40).map(clean),
    title=LINE,
    parameters=st.dictionaries(st.text(), st.text() | st.integers()).map(Schema.of),
    output=st.none() | st.dictionaries(st.text(), st.booleans(), min_size=1).map(Schema.of),
    server=LINE,
    category=LINE,
    phrases=st.lists(WORD, unique=True, max_size=3).map(tuple),
    tags=st.lists(WORD, unique=True, max_size=3).map(tuple),
    related=st.lists(WORD, unique=True, max_size=3).map(tuple),
    usage=st.text(max_size=20).map(clean),
    skill=LINE,
    risk=st.none() | st.sampled_from(RISKS),
    requires_confirmation=st.booleans(),
    defer=st.sampled_from(DEFERRALS),
    annotations=st.none()
    | st.builds(Annotations, HINT, HINT, HINT, HINT).filter(lambda a: a != Annotations()),
    extraction=st.none() | st.builds(Extraction, WORD, WORD, WORD, WORD, st.booleans()),
    metadata=st.sampled_from(["{}", '{"a":[1,"ü"]}']),
    local=LINE,
)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml"])
@settings(max_examples=60)
@given(tools=st.lists(TOOLS, unique_by=lambda t: t.name, max_size=3))
def test_written_tools_are_read_back_unchanged(suffix, tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("round") / f"tools{suffix}"
    write_tools(path, tools)
    loaded = read_tools(path)
    assert list(loaded.tools) == tools
    assert [p for p in loaded.problems if p.code != "empty"] == []


def test_one_bad_row_in_ten_thousand_costs_only_itself(tmp_path):
    lines = rows(10_000)
    lines[4_321] = '{"name": "broken", "description'
    loaded = load(tmp_path / "tools.jsonl", "\n".join(lines))
    assert len(loaded.tools) == 9_999
    (problem,) = loaded.problems
    assert problem.where == f"{tmp_path / 'tools.jsonl'}:4322"
    assert "Not valid JSON" in problem.message
    assert problem.remedy


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("3", "must be an object, not a number"),
        ('"x"', "must be an object, not text"),
        ("null", "must be an object, not null"),
        ("{}", "has no name"),
        ('{"name": ""}', "has no name"),
        ('{"name": "\\u200b"}', "has no name"),
        ('{"name": 7}', "name must be text, not a number"),
        (json.dumps({"name": "x" * 600}), "more than 512 characters"),
        ('{"name": "x", "description": 4}', "description must be text"),
        ('{"name": "x", "parameters": []}', "must be a JSON object, not list"),
        ('{"name": "x", "parameters": {"a": NaN}}', "not plain JSON"),
        ('{"name": "x", "risk": "deadly"}', "use safe, moderate, destructive"),
        ('{"name": "x", "defer": 3}', "use auto, always, never"),
        ('{"name": "x", "phrases": [1]}', "phrases must be a list of texts"),
        ('{"name": "x", "requires_confirmation": "yes"}', "must be true or false, not text"),
        ('{"name": "x", "annotations": {"readOnlyHint": 1}}', "readOnlyHint must be true or false"),
        ('{"name": "x", "extraction": {"path": "p"}}', "extraction needs 'type'"),
        ('{"name": "x", "metadata": []}', "metadata must be an object"),
        ('{"name": "x", "parameters": ' + '{"a":' * 300 + "1" + "}" * 301, "nested more than"),
        ("[" * 100_000, "Nested too deeply"),
        ("[" * 900 + "]" * 900, "must be an object, not a list"),
        ('{"name": "x", "n": ' + "9" * 5_000 + "}", "Not valid JSON"),
    ],
)
def test_a_bad_row_reports_its_place_the_problem_and_the_fix(row, expected, tmp_path):
    loaded = load(tmp_path / "tools.jsonl", f"{rows(1)[0]}\n{row}\n{rows(2)[1]}\n")
    assert names(loaded) == ["tool_0", "tool_1"]
    (problem,) = loaded.problems
    assert problem.where.endswith("tools.jsonl:2")
    assert expected in problem.message
    assert problem.remedy


def test_all_problems_of_a_row_are_reported_at_once(tmp_path):
    row = '{"name": "x", "description": 4, "risk": "deadly", "tags": 9}'
    (problem,) = load(tmp_path / "t.jsonl", row).problems
    assert problem.message.startswith("'x': ")
    for expected in ("description", "risk", "tags"):
        assert expected in problem.message


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml", ".yml"])
@pytest.mark.parametrize("content", ["", "\n\n  \n", "\ufeff"])
def test_an_empty_file_is_said_to_be_empty(suffix, content, tmp_path):
    loaded = load(tmp_path / f"tools{suffix}", content)
    assert loaded.tools == ()
    assert [(p.message, p.severity) for p in loaded.problems] == [("The file is empty.", "warning")]


@pytest.mark.parametrize("content", ["[]", '{"tools": []}', "[\n]"])
def test_an_empty_list_is_not_a_problem(content, tmp_path):
    assert load(tmp_path / "tools.json", content) == FileContents()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_does_no_harm(encoding, tmp_path):
    loaded = load(tmp_path / "tools.jsonl", '{"name": "läsa"}\n{"name": "b"}'.encode(encoding))
    assert names(loaded) == ["läsa", "b"]


def test_invalid_bytes_cost_only_their_row(tmp_path):
    content = b'{"name": "a"}\n{"name": "b", "description": "caf\xe9"}\n{"name": "c"}\n'
    loaded = load(tmp_path / "tools.jsonl", content)
    assert names(loaded) == ["a", "c"]
    assert [(p.where[-2:], p.message) for p in loaded.problems] == [(":2", "Not valid UTF-8.")]
    whole = load(tmp_path / "tools.json", b'[{"name": "a"}, {"name": "caf\xe9"}]')
    assert names(whole) == ["a"]
    assert [p.code for p in whole.problems] == ["encoding"]
    assert load(tmp_path / "tools.yaml", b"- name: caf\xe9\n").tools == ()


def test_a_half_written_file_gives_what_was_written(tmp_path):
    lines = "\n".join(rows(5))
    loaded = load(tmp_path / "tools.jsonl", lines[:-7])
    assert len(loaded.tools) == 4
    assert "cut off" in loaded.problems[0].remedy
    document = json.dumps({"note": "n", "tools": [json.loads(r) for r in rows(5)]}, indent=1)
    for cut in (document[:-20], document[:-3], document[:-1]):
        loaded = load(tmp_path / "tools.json", cut)
        assert len(loaded.tools) in (4, 5)
        (problem,) = loaded.problems
        assert "cut off" in problem.remedy
        assert int(problem.where.rpartition(":")[2]) > 10


def problem_lines(loaded: FileContents) -> list[str]:
    return [p.where.rpartition(":")[2] for p in loaded.problems]


def test_a_half_written_document_is_called_cut_off_wherever_it_ends(tmp_path):
    document = json.dumps([{"name": "a"}, {"name": "b", "description": "B \u00e9", "defer": True}])
    for end in range(document.index('"b"'), len(document)):
        loaded = load(tmp_path / "tools.json", document[:end])
        assert names(loaded)[:1] == ["a"]
        (problem,) = loaded.problems
        assert "cut off" in problem.remedy
        assert " at at " not in problem.message
    assert names(loaded) == ["a", "b"]
    wrong = load(tmp_path / "tools.json", '[{"name": "a"}] rest')
    assert "cut off" not in wrong.problems[0].remedy


SPOILT = {
    "a comma too many": lambda row: row[:-1] + ",}",
    "a comma missing": lambda row: row.replace(",", "", 1),
    "a quote missing": lambda row: row.replace('"Does', "Does"),
    "a quote inside": lambda row: row.replace("Does", 'Does "it'),
    "a bracket missing": lambda row: row[:-1],
    "the wrong bracket": lambda row: row[:-1] + "]",
    "an inner bracket missing": lambda row: row.replace("]", ""),
    "cut off": lambda row: row[:20],
    "not JSON at all": lambda row: "nope",
    "in single quotes": lambda row: row.replace('"', "'"),
    "a line break in a text": lambda row: row.replace("Does", "Does\n"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("between", [", ", ",", ",\n  "])
@pytest.mark.parametrize("around", ["[{}]", '{{"server": "s", "tools": [{}], "more": [1]}}'])
def test_a_broken_item_in_a_document_costs_only_itself(spoil, between, around, tmp_path):
    choices = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    items = [
        json.dumps(
            {"name": f"t{i}", "tags": ["x"], "description": f"Does, {i}.", "parameters": choices}
        )
        for i in range(6)
    ]
    items[2] = spoil(items[2])
    loaded = load(tmp_path / "tools.json", around.format(between.join(items)))
    before = "s__" if "server" in around else ""
    assert names(loaded) == [f"{before}t{i}" for i in (0, 1, 3, 4, 5)]
    (problem,) = loaded.problems
    assert problem.remedy == "Fix or delete this item."
    assert problem_lines(loaded) == ["3" if "\n" in between else "1"]


def test_one_bad_item_in_a_compact_list_of_ten_thousand_costs_only_itself(tmp_path):
    items = rows(10_000)
    items[4_321] = items[4_321][:-1] + ",}"
    items[5_000] = items[5_000].replace('"Does', "Does")
    loaded = load(tmp_path / "tools.json", "[" + ",".join(items) + "]")
    assert len(loaded.tools) == 9_998
    assert len(loaded.problems) == 2


def test_where_only_a_comma_is_missing_both_items_are_good(tmp_path):
    loaded = load(tmp_path / "tools.json", '[{"name": "a"} {"name": "b"}]')
    assert names(loaded) == ["a", "b"]
    (problem,) = loaded.problems
    assert problem.message == "Not valid JSON: Expecting ',' at line 1, column 16."


def test_a_bracket_too_many_after_an_item_is_reported_and_costs_nothing(tmp_path):
    items = rows(3)
    loaded = load(tmp_path / "tools.json", f"[{items[0]},\n{items[1]}}},\n{items[2]}]")
    assert names(loaded) == ["tool_0", "tool_1", "tool_2"]
    assert problem_lines(loaded) == ["2"]


def test_a_document_is_read_up_to_an_item_that_is_nested_too_deeply(tmp_path):
    items = rows(3)
    items[1] = '{"name": "deep", "x": ' + "[" * 50_000 + "]" * 50_000 + "}"
    loaded = load(tmp_path / "tools.json", "[\n" + ",\n".join(items) + "\n]")
    assert names(loaded) == ["tool_0"]
    (problem,) = loaded.problems
    assert "Nested too deeply" in problem.message
    assert problem.remedy == "Fix the file from here on."
    assert problem_lines(loaded) == ["3"]


def test_a_tool_with_a_list_of_tools_in_it_is_one_tool_also_in_a_file_that_breaks_off(tmp_path):
    whole = '{"tools": [{"name": "inner"}], "name": "outer", "description": "Runs others."}'
    assert names(load(tmp_path / "tools.json", whole)) == ["outer"]
    assert names(load(tmp_path / "tools.yaml", whole)) == ["outer"]
    assert names(load(tmp_path / "tools.json", whole[:-4])) == []


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_server_behind_the_list_counts_and_rows_have_their_own_lines(suffix, tmp_path):
    text = (
        '{"result": {"tools": [\n{"name": "a"},\n{"name": 3},\n{"name": "c"}\n]},\n"server": "s"}'
    )
    loaded = load(tmp_path / f"tools{suffix}", text)
    assert names(loaded) == ["s__a", "s__c"]
    assert problem_lines(loaded) == ["3"]


def test_a_list_of_tools_on_several_lines_continues_after_a_bad_one(tmp_path):
    choices = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    items: list[dict[str, object]] = [
        {"type": "function", "function": {"name": f"t{i}", "parameters": choices}} for i in range(4)
    ]
    items[2] = {"description": "Starts with another key.", "name": "t2"}
    for indent in (None, 2):
        text = json.dumps(items, indent=indent).replace('"t1",', '"t1"')
        loaded = load(tmp_path / "tools.json", text)
        assert names(loaded) == ["t0", "t2", "t3"]
        assert len(loaded.problems) == 1


def test_an_object_inside_a_bad_item_is_not_taken_for_a_tool(tmp_path):
    bad = '{"name": oops, "examples": [{"name": "inner_a"}, {"name": "inner_b"}]}'
    text = f'[{{"name": "a"}}, {bad}, {{"description": "Another key first.", "name": "b"}}]'
    loaded = load(tmp_path / "tools.json", text)
    assert names(loaded) == ["a", "b"]
    assert len(loaded.problems) == 1


def test_a_document_of_nothing_but_faults_is_given_up_in_time(tmp_path):
    for content in ('[{"a":"x"y' + (',{"a":[1,' + "1," * 200) * 900, "[{" + ",{" * 100_000):
        loaded = load(tmp_path / "tools.json", content)
        assert loaded.tools == ()
        assert len(loaded.problems) < 1_100
        assert loaded.problems[-1].remedy.startswith(("Fix the file", "The file seems to be cut"))


def test_a_bad_row_in_yaml_is_reported_with_its_line(tmp_path):
    loaded = load(tmp_path / "t.yaml", "tools:\n- name: a\n- description: none\n- name: c\n")
    assert names(loaded) == ["a", "c"]
    assert problem_lines(loaded) == ["3"]
    broken = load(tmp_path / "t.yaml", "- name: a\n- name: [b\n- name: c\n")
    assert names(broken) == ["a", "c"]
    assert "Not valid YAML" in broken.problems[0].message
    assert problem_lines(broken) == ["2"]


BROKEN = {
    "colons": "  description: Does: 5: x",
    "a quote": '  description: "unclosed',
    "a tag": "  description: !foo bar",
    "a key that is a list": "  ? [x, y]\n  : 2",
    "a flow": "  tags: [x, {y: z]",
    "a tab": "\tdescription: x",
    "a control character": "  description: \x07",
    "too deep": "  parameters: " + "[" * 300 + "]" * 300,
    "a cycle": "  parameters: &me {a: *me}",
    "a number": "  version: " + "9" * 5_000,
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("indent", ["", "  "])
@pytest.mark.parametrize("head", ["", "server: s\ntools:\n", "result:\n tools:\n"])
def test_a_broken_item_in_yaml_costs_only_itself(broken, indent, head, tmp_path):
    if head.startswith("result"):
        indent += " "
    good = "  description: |\n    - like an item"
    text = "".join(f"- name: t{i}\n{broken if i == 2 else good}\n" for i in range(5))
    body = "".join(f"{indent}{line}\n" for line in text.split("\n") if line)
    tail = "note: x\n" if head.startswith("server") else ""
    loaded = load(tmp_path / "t.yaml", head + body + tail)
    before = "s__" if "server" in head else ""
    assert names(loaded) == [f"{before}t{i}" for i in (0, 1, 3, 4)]
    assert loaded.tools[0].description == "- like an item"
    assert problem_lines(loaded) == [str(head.count("\n") + 7)]
    assert loaded.problems[0].remedy == "Fix or delete this item."


def test_one_bad_row_in_a_yaml_file_of_ten_thousand_costs_only_itself(tmp_path):
    items = [f"- name: n{i}\n  description: Does {i}\n" for i in range(10_000)]
    items[5_000] = items[5_000].replace("Does ", "Does: 5: ")
    loaded = load(tmp_path / "t.yaml", "".join(items))
    assert len(loaded.tools) == 9_999
    assert problem_lines(loaded) == ["10001"]
    assert "line 10002, column 20" in loaded.problems[0].message


def test_half_written_yaml_gives_what_was_written(tmp_path):
    for end in ('"unclo', "[x", "{a: ", "'x"):
        loaded = load(tmp_path / "t.yaml", f"- name: a\n- name: b\n  description: {end}")
        assert names(loaded) == ["a"]
        (problem,) = loaded.problems
        assert "cut off" in problem.remedy
        assert problem_lines(loaded) == ["2"]
    assert names(load(tmp_path / "t.yaml", "tools:\n- name: a\n- name: b\n  desc")) == ["a"]


def test_good_rows_in_yaml_keep_their_anchors_beside_a_bad_one(tmp_path):
    content = """
shared: &head {type: object, properties: {h: {}}}
tools:
- {name: a, parameters: &good {type: object, properties: {g: {}}}}
- name: b
  description: Does: 5: x
- {name: c, parameters: *good}
- {name: e, parameters: *head}
"""
    loaded = load(tmp_path / "t.yaml", content)
    assert {t.name: list(t.parameters.value["properties"]) for t in loaded.tools} == {
        "a": ["g"], "c": ["g"], "e": ["h"]
    }  # fmt: skip
    assert problem_lines(loaded) == ["5"]


@pytest.mark.parametrize(
    ("content", "expected", "line"),
    [
        ("- name: a\n- {name: b, parameters: *lost}\n", "undefined alias", "2"),
        ("- {name: a, x: &x 1}\n- {name: b, x: &x 1}\n", "second occurrence", "2"),
        ("- name: a\n- name: b\ndescription: x\n", "'-' indicator", "3"),
        ("- name: a\n---\nx: [\n", "node content", "4"),
    ],
)
def test_a_yaml_document_that_cannot_be_read_is_one_error_with_its_line(
    content, expected, line, tmp_path
):
    loaded = load(tmp_path / "t.yaml", content)
    assert loaded.tools == ()
    (problem,) = loaded.problems
    assert expected in problem.message
    assert f"line {line}, column" in problem.message
    assert problem_lines(loaded) == [line]
    assert problem.remedy == "Fix the file from here on."


@pytest.mark.parametrize(
    ("content", "kept", "lines"),
    [
        (
            "tools:\n- functionDeclarations:\n  - name: a\n  - name: b: b: b\n- name: c\n",
            ["c"],
            ["2"],
        ),
        (
            "- name: z\n- name: n\n  tools:\n  - name: a\n  - name: b: b: b\n  type: namespace\n",
            ["z"],
            ["2"],
        ),
        ("tools:\n- tools:\n  - name: b: b: b\n- name: c\n", ["c"], ["2"]),
        (
            "- name: a\n- name: b: b\n---\n- name: c\n---\ntools:\n- name: d: d\n- name: e\n",
            ["a", "c", "e"],
            ["2", "7"],
        ),
        (
            "messages:\n- role: user\ntools:\n- name: a\n- name: b: b\nmodel: m\nother:\n- x\n",
            ["a"],
            ["5"],
        ),
        ("tools:\n- name: b: b\n", [], ["2"]),
    ],
)
def test_yaml_is_repaired_wherever_its_lists_are(content, kept, lines, tmp_path):
    loaded = load(tmp_path / "t.yaml", content)
    assert names(loaded) == kept
    assert problem_lines(loaded) == lines


@given(
    junk=st.text("-:[]{}\"'&*!|>%@#?, \tabc", min_size=1, max_size=12),
    row=st.integers(0, 3),
    head=st.sampled_from(["", "tools:\n"]),
)
def test_whatever_stands_in_one_row_of_yaml_the_others_load(junk, row, head, tmp_path_factory):
    items = [f"- name: t{i}\n  description: Does {i}\n" for i in range(4)]
    items[row] += f"  title: x{junk}\n"
    loaded = load(tmp_path_factory.mktemp("junk") / "t.yaml", head + "".join(items))
    others = [f"t{i}" for i in range(4) if i != row]
    assert [name for name in names(loaded) if name != f"t{row}"] == others
    assert len(loaded.problems) == 4 - len(loaded.tools)


def test_yaml_is_read_as_json_would_be(tmp_path):
    content = """
    - name: on
      description: "yes"
      phrases: [no, yes, 2020-01-01]
      parameters: {properties: {day: {enum: [on, off, true], default: 2020-01-01}}}
    """
    (tool,) = load(tmp_path / "t.yaml", content).tools
    assert (tool.name, tool.phrases) == ("on", ("no", "yes", "2020-01-01"))
    assert tool.parameters.value["properties"]["day"] == {
        "enum": ["on", "off", True], "default": "2020-01-01"
    }  # fmt: skip


def test_yaml_that_would_explode_is_refused(tmp_path):
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    for content, expected in [
        (bomb, "each alias written out"),
        ("- &a [*a]", "each alias written out"),
        ("a: &a [x]\n" * 2, "second occurrence"),
        ("- " * 100_000 + "x", "nested"),
        ("[" * 100_000, "nested"),
        ("- !!python/object/apply:os.system [ls]", "Not valid YAML"),
    ]:
        (problem,) = load(tmp_path / "t.yaml", content).problems
        assert expected in problem.message


def test_yaml_anchors_may_share_a_schema(tmp_path):
    content = """
    - name: a
      parameters: &same {type: object, properties: {x: {type: string}}}
    - name: b
      parameters: *same
    """
    first, second = load(tmp_path / "t.yaml", content).tools
    assert first.parameters == second.parameters


def test_a_name_that_comes_twice_keeps_the_first_and_says_where(tmp_path):
    path = tmp_path / "t.jsonl"
    content = '{"name": "a"}\n{"name": "a"}\n{"name": "a", "description": "Other."}\n{"name": "A"}'
    loaded = load(path, content)
    assert names(loaded) == ["a", "A"]
    assert [(p.severity, p.where) for p in loaded.problems] == [
        ("warning", f"{path}:2"), ("error", f"{path}:3")
    ]  # fmt: skip
    assert f"{path}:1" in loaded.problems[1].message


@pytest.mark.parametrize("name", ["読む_ファイル", "قراءة", "चलाएँ", "x" * 500, "a b", "emoji 👩‍💻"])
def test_names_may_be_in_any_script_and_long(name, tmp_path):
    loaded = load(tmp_path / "t.jsonl", json.dumps({"name": name}))
    assert names(loaded) == [name]
    assert loaded.problems == ()


def test_a_tool_without_description_and_with_a_null_schema_loads(tmp_path):
    (tool,) = load(
        tmp_path / "t.jsonl", '{"name": "a", "description": null, "parameters": null}'
    ).tools
    assert (tool.description, tool.parameters) == ("", Schema())


def test_texts_are_cleaned_and_capped(tmp_path):
    row = {
        "name": "re\u200bad",
        "description": "Reads\u202e.\r\n" + "x" * 30_000,
        "tags": ["a\x00"],
    }
    (tool,) = load(tmp_path / "t.jsonl", json.dumps(row)).tools
    assert tool.name == "read"
    assert tool.description.startswith("Reads.\nxx")
    assert len(tool.description) == 20_000
    assert tool.tags == ("a",)


def test_a_schema_of_five_megabytes_loads(tmp_path):
    properties = {f"p{i}": {"type": "string", "description": "é" * 480} for i in range(10_000)}
    row = {"name": "big", "parameters": {"type": "object", "properties": properties}}
    (tool,) = load(tmp_path / "t.jsonl", json.dumps(row, ensure_ascii=False)).tools
    assert len(tool.parameters.text) > 5_000_000
    assert tool.parameters.parameters()[0].name == "p0"


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ""])
def test_lines_and_documents_are_distinguished_by_their_content(suffix, tmp_path):
    assert names(load(tmp_path / f"a{suffix}", "\n".join(rows(3)))) == [
        "tool_0",
        "tool_1",
        "tool_2",
    ]
    pretty = json.dumps([json.loads(r) for r in rows(2)], indent=2)
    assert names(load(tmp_path / f"b{suffix}", pretty)) == ["tool_0", "tool_1"]
    one = json.dumps(json.loads(rows(1)[0]), indent=2)
    assert names(load(tmp_path / f"c{suffix}", one)) == ["tool_0"]
    assert names(load(tmp_path / f"d{suffix}", one + one.replace("_0", "_9"))) == [
        "tool_0",
        "tool_9",
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("photo.png", b"\x89PNG\r\n\x1a\n\0\0\0", "binary"),
        ("notes.txt", b"Dear diary", "neither JSON nor YAML"),
        ("tools.json", b"<html></html>", "neither JSON nor YAML"),
        ("tools.jsonl", b"name,description\na,b\n", "neither JSON nor YAML"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused(name, content, expected, tmp_path):
    with pytest.raises(SourceError, match=expected) as caught:
        load(tmp_path / name, content)
    assert ".jsonl" in caught.value.hint


def test_a_configuration_is_distinguished_from_a_list_of_tools(tmp_path):
    config = load(tmp_path / "mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    assert "MCP configuration" in config.problems[0].message
    document = load(tmp_path / "api.json", '{"openapi": "3.1.0", "paths": {}}')
    assert "OpenAPI" in document.problems[0].message


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        read_tools(tmp_path / "gone.jsonl")
    with pytest.raises(SourceError, match="Cannot write"):
        write_tools(tmp_path / "no" / "tools.jsonl", [])


def test_a_folder_gives_the_tools_of_all_its_files(tmp_path):
    (tmp_path / "more").mkdir()
    load(tmp_path / "b.jsonl", rows(1)[0])
    load(tmp_path / "more" / "c.yaml", "- name: c")
    load(tmp_path / "a.json", '[{"name": "a"}, {"name": "tool_0", "description": "Other."}]')
    (tmp_path / "readme.md").write_text("Not a catalog.")
    (tmp_path / "odd.json").write_bytes(b"\0")
    loaded = read_tools(tmp_path)
    assert names(loaded) == ["a", "tool_0", "c"]
    assert [p.code for p in loaded.problems] == ["duplicate", "source"]


def test_in_a_folder_only_files_are_read_and_the_rest_is_reported(tmp_path):
    load(tmp_path / "a.jsonl", rows(1)[0])
    os.mkfifo(tmp_path / "b.json")
    (tmp_path / "c.yaml").symlink_to(os.devnull)
    (tmp_path / "d.json").symlink_to(tmp_path / "gone.json")
    (tmp_path / "e.json").symlink_to(tmp_path / "a.jsonl")

    loaded = read_tools(tmp_path)

    assert names(loaded) == ["tool_0"]
    reported = [(Path(p.where.partition(":")[0]).name, p.message) for p in loaded.problems]
    assert [name for name, _ in reported] == ["b.json", "c.yaml", "d.json", "e.json"]
    assert reported[0][1] == reported[1][1] == "This is a pipe, a socket or a device, not a file."
    assert "No such file" in reported[2][1]
    assert "already exists" in reported[3][1]


def test_a_pipe_that_is_named_itself_is_read(tmp_path):
    os.mkfifo(pipe := tmp_path / "tools.json")
    with ThreadPoolExecutor(1) as writer:
        writer.submit(pipe.write_text, "\n".join(rows(2)))
        assert names(read_tools(pipe)) == ["tool_0", "tool_1"]


@pytest.mark.parametrize("words", ["foo", "city, or latitude and longitude", '{"type": "obj'])
def test_text_in_place_of_a_schema_is_kept_and_reported(words, tmp_path):
    row = {"name": "x", "description": "Does it.", "parameters": words}
    loaded = load(tmp_path / "tools.jsonl", f"{rows(1)[0]}\n{json.dumps(row)}")
    assert loaded.tools[1].meta == {"arguments": words}
    (problem,) = loaded.problems
    assert problem.where.endswith("tools.jsonl:2")
    assert (problem.code, problem.severity) == ("schema", "warning")
    assert "parameters are prose" in problem.message
    write_tools(tmp_path / "again.yaml", loaded.tools)
    assert [p.code for p in read_tools(tmp_path / "again.yaml").problems] == ["schema"]


@pytest.mark.parametrize(
    "given",
    [
        {"parameters": "none"},
        {"parameters": ""},
        {"parameters": '{"type": "object"}'},
        {"parameters": "a city", "inputSchema": {"type": "object"}},
    ],
)
def test_text_beside_a_schema_and_text_for_nothing_are_not_problems(given, tmp_path):
    assert load(tmp_path / "tools.json", json.dumps([{"name": "x"} | given])).problems == ()


async def test_a_file_is_a_source_that_lists_but_cannot_run(tmp_path):
    path = tmp_path / "tools.jsonl"
    load(path, rows(2)[0] + "\nbad\n" + rows(2)[1])
    source = FileSource(path)
    tools = await source.tools()
    assert source.name == "tools"
    assert [t.name for t in tools] == ["tool_0", "tool_1"]
    assert len(source.problems) == 1
    result = await source.call(tools[0], {})
    assert result.is_error
    assert "cannot be run" in result.text
    await source.close()


KEYS = [
    *Tool.__dataclass_fields__,
    "type",
    "policy",
    "inputSchema",
    "hints",
    "deferrable",
    "function",
    "tools",
    "result",
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "auto", "x", "{}", "namespace"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "path", "name", "readOnlyHint", "title"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(row=st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_whatever_a_row_holds_it_gives_tools_or_problems(row, tmp_path_factory):
    path = tmp_path_factory.mktemp("row") / "t.jsonl"
    path.write_text(json.dumps(row))
    loaded = read_tools(path)
    assert all(p.where.endswith("t.jsonl:1") and p.remedy for p in loaded.problems)
    if isinstance(row.get("name"), str) and row.get("type") != "namespace":
        assert len(loaded.tools) + len(loaded.problems) == 1


def read_problems(path: Path) -> list[Problem]:
    try:
        return list(read_tools(path).problems)
    except SourceError as error:
        return [Problem(str(path), error.message, error.hint)]


@given(content=st.binary(max_size=200))
def test_no_bytes_make_reading_fail_with_another_error(content, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bytes")
    for suffix in (".jsonl", ".json", ".yaml", ".txt"):
        path = folder / f"t{suffix}"
        path.write_bytes(content)
        assert all(p.where and p.message and p.remedy for p in read_problems(path))


@given(content=st.text('[]{}",:ntools resultnamefunction\n 1\\', max_size=60))
def test_no_text_makes_reading_fail_with_another_error(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "t.json"
    path.write_text(content)
    assert all(p.where and p.message and p.remedy for p in read_problems(path))


def test_a_rare_character_does_not_multiply_the_memory_of_json_lines(tmp_path: Path) -> None:
    line = json.dumps({"name": "tool", "description": "x" * 1_000_000 + "\U0001f600"})
    path = tmp_path / "tools.jsonl"
    path.write_text(
        "\n".join([line.replace("\\ud83d\\ude00", "\U0001f600")] * 20), encoding="utf-8"
    )

    tracemalloc.start()
    loaded = read_tools(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert names(loaded) == ["tool"]
    assert peak < 2.5 * path.stat().st_size


def test_utf_16_without_any_line_end_is_read(tmp_path: Path) -> None:
    text = json.dumps({"name": "größer"}, ensure_ascii=False)
    assert names(load(tmp_path / "t.jsonl", text.encode("utf-16"))) == ["größer"]
    text = f"\n{text}\n\n{json.dumps({'name': 'b'})}\n"
    assert names(load(tmp_path / "t.jsonl", text.encode("utf-16"))) == ["größer", "b"]
