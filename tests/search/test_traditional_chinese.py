"""Traditional Chinese, read as simplified by the bundled encoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.parts import use

from toolscout.embedders.universal_encoder import simplify_chinese


def test_traditional_characters_are_read_as_simplified_ones() -> None:
    assert simplify_chinese("重新載入設定檔") == "重新载入设定档"


@pytest.mark.parametrize("text", ["電話をかける", "電話", "délai à la côte", "重新加载配置"])
def test_japanese_single_words_and_everything_else_stay_as_they_are(text: str) -> None:
    assert simplify_chinese(text) == text


@given(st.text())
def test_simplifying_keeps_the_length_and_is_done_once(text: str) -> None:
    once = simplify_chinese(text)

    assert len(once) == len(text)
    assert simplify_chinese(once) == once


def test_both_ways_of_writing_have_one_vector() -> None:
    traditional, simple = use().encode(["關閉客廳的燈", "关闭客厅的灯"])

    assert traditional.tolist() == simple.tolist()
