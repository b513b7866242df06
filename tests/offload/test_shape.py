"""The shape of JSON, found without holding it."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.offload.json_cursor import Cursor, stream_items
from toolscout.offload.json_shape import infer_shape, render_shape

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=25,
)
_WINDOWS = st.sampled_from([32, 40, 64, 1 << 18])


@given(value=_VALUES, window=_WINDOWS, indent=st.sampled_from([None, 1]))
def test_the_shape_does_not_depend_on_how_the_text_is_cut(value, window: int, indent: int | None):
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    whole = infer_shape(io.StringIO(text).read)
    cut = infer_shape(io.StringIO(text).read, window=window)
    assert cut == whole
    assert whole is not None
    assert render_shape(whole)


@given(value=_VALUES, window=_WINDOWS, data=st.data())
def test_broken_json_has_no_shape_however_it_is_cut(value, window: int, data: st.DataObject):
    text = json.dumps(value, ensure_ascii=False)
    at = data.draw(st.integers(0, len(text)))
    broken = (
        text[:at]
        + data.draw(st.sampled_from(["", "}", ",", "]", '"', "nul", "[", ":"]))
        + text[at + 1 :]
    )
    try:
        json.loads(broken)
        is_json = True
    except ValueError:
        is_json = False
    assert (infer_shape(io.StringIO(broken).read, window=window) is not None) is is_json


def test_a_number_that_breaks_off_where_the_text_was_read_to_its_end_is_not_stepped_over():
    broken = '[[false, -1000"0000000], [false, "0000"]]'
    assert infer_shape(io.StringIO(broken).read, window=len(broken) - 1) is None


@given(rows=st.lists(_VALUES, max_size=30), window=_WINDOWS)
def test_items_are_the_elements_one_by_one(rows: list, window: int):
    text = json.dumps({"skip": rows, "a": {"skip": [rows], "b": rows, "z": 1}})
    cursor = Cursor(io.StringIO(text).read, window=window)
    assert [json.loads(item) for item in stream_items(cursor, ["a", "b"])] == rows


@pytest.mark.parametrize(
    "text", ["[" * 300_000, '{"a":' * 300_000, "", "   ", "[1,", "[1 2]", "nope", "1" * 5_000]
)
def test_hopeless_text_has_no_shape(text: str):
    assert infer_shape(io.StringIO(text).read) is None


def test_long_lists_of_paths_are_cut():
    value = {f"key {n}": {"x": n} for n in range(100)}
    shown = render_shape(infer_shape(io.StringIO(json.dumps(value)).read))
    assert ". object (100 keys)" in shown
    assert '.["key 0"] object (1 key): x number' in shown
    assert "60 more" in shown
    assert len(shown.splitlines()) == 31
