"""Names follow the rules of the project: nouns and verbs, one name for one idea."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.shape import comment_lines, functions, is_participle, measure, python_files

SOURCE = Path(__file__).parents[2] / "src" / "toolscout"
MAX_PARTICIPLE_SHARE = 0.03
MIN_COMMENT_SHARE = 0.02
MAX_MODULE_STEM_USES = 2


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in python_files(SOURCE).values():
        yield path, ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("told", True),
        ("_shown", True),
        ("waited_for", True),
        ("naming", True),
        ("load_session", False),
        ("is_asked_for", False),
        ("embed", False),
        ("_string", False),
        ("without_tools", False),
    ],
)
def test_a_participle_is_recognised_by_the_first_word_of_a_name(name: str, expected: bool):
    assert is_participle(name) is expected


def test_few_functions_are_named_by_a_participle():
    names = [node.name for _, tree in trees() for node in functions(tree)]
    participles = [name for name in names if is_participle(name)]
    assert len(names) > 1_000
    assert len(participles) / len(names) < MAX_PARTICIPLE_SHARE, participles


def test_every_class_name_stands_for_one_class():
    names = Counter(
        node.name
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_module_name_is_used_three_times():
    stems = Counter(
        path.stem for path in python_files(SOURCE).values() if not path.stem.startswith("__")
    )
    assert [stem for stem, count in stems.items() if count > MAX_MODULE_STEM_USES] == []


def test_comments_explain_why_where_a_reader_would_ask():
    shape = measure(SOURCE)
    assert shape.comment_share >= MIN_COMMENT_SHARE


def test_a_comment_that_only_steers_a_tool_does_not_count():
    text = "x = 1  # noqa: E501\n# because the protocol says so\ny = 2  # pyright: ignore[x]\n"
    assert comment_lines(text) == 1


def test_the_public_handle_is_a_session_and_its_frozen_value_a_session_state():
    import toolscout

    assert toolscout.Session.__module__ == "toolscout.toolbox.session"
    assert toolscout.SessionState.__module__ == "toolscout.disclosure.session_state"
