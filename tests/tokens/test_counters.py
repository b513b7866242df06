"""Counting tokens: the true count, and the estimate that stands in for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.errors import ConfigError
from toolscout.tokens import (
    EstimatingCounter,
    count_json,
    default_counter,
    get_counter,
    truncate_to_tokens,
)

SCHEMA = {
    "name": "create_pull_request",
    "description": "Open a pull request in a repository, from one branch into another.",
    "parameters": {
        "type": "object",
        "properties": {
            "owner": {"type": "string", "description": "Who owns the repository"},
            "baseBranch": {"type": "string", "default": "main"},
            "maintainer_can_modify": {"type": "boolean"},
            "reviewers": {"type": "array", "items": {"type": "string"}, "maxItems": 15},
        },
        "required": ["owner"],
    },
}
SAMPLES = {
    "json": json.dumps([SCHEMA] * 5),
    "indented": json.dumps(SCHEMA, indent=2) * 3,
    "english": "The quick brown fox jumps over the lazy dog, and nobody minds it at all. " * 5,
    "chinese": "请帮我把发票发送给安娜，并在日历中创建一个会议。列出订阅中的所有容器注册表。" * 5,
    "japanese": "請求書をアンナに送って、カレンダーに会議を作成してください。" * 5,
    "korean": "송장을 안나에게 보내고 캘린더에 회의를 만들어 주세요. 날씨가 좋습니다." * 5,
    "russian": "Отправьте счёт Анне и создайте встречу в календаре на завтра. " * 5,
    "numbers": " ".join(str(n * 7919) for n in range(200)),
    "code": "def add(first: int, second: int) -> int:\n    return first + second\n" * 5,
}


def test_the_default_is_the_true_count_where_its_vocabulary_is_installed():
    assert default_counter().is_exact
    assert default_counter().name == "o200k_base"
    assert default_counter().count("hello world") == 2


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_near_the_true_count(kind: str):
    true = default_counter().count(SAMPLES[kind])
    assert EstimatingCounter().count(SAMPLES[kind]) == pytest.approx(true, rel=0.2)


def test_an_estimate_says_that_it_is_one():
    assert not get_counter("estimate").is_exact
    assert get_counter("estimate").name == "estimate"


def test_without_the_extra_the_default_is_the_estimate():
    script = (
        "import sys; sys.modules['bpe_openai'] = None\n"
        "from toolscout.tokens import default_counter\n"
        "print(default_counter().name, default_counter().is_exact)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["estimate", "False"]


def test_asking_for_the_true_count_without_the_extra_names_the_pip_command():
    script = (
        "import sys; sys.modules['bpe_openai'] = None\n"
        "from toolscout.tokens import get_counter\n"
        "from toolscout.errors import MissingExtraError\n"
        "try: get_counter('o200k_base')\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install 'toolscout[tokens]'" in done.stdout


def test_an_unknown_counter_is_an_error_that_lists_the_known():
    with pytest.raises(ConfigError, match="o200k_base"):
        get_counter("abacus")


@given(st.text())
def test_any_text_at_all_can_be_counted(text: str):
    for by in (default_counter(), EstimatingCounter()):
        assert (by.count(text) == 0) == (text == "")


def test_json_is_counted_as_it_is_sent():
    value = {"a": [1, 2], "b": "ä"}
    assert count_json(value, counter=default_counter()) == default_counter().count(
        '{"a":[1,2],"b":"ä"}'
    )


@given(st.text(), st.integers(0, 40))
def test_a_head_fits_its_budget_and_is_a_beginning(text: str, budget: int):
    cut = truncate_to_tokens(text, budget_tokens=budget, counter=EstimatingCounter())
    assert text.startswith(cut)
    assert EstimatingCounter().count(cut) <= budget


def test_a_head_of_a_long_text_uses_nearly_all_of_its_budget():
    text = SAMPLES["english"] * 200
    assert (
        450
        <= default_counter().count(
            truncate_to_tokens(text, budget_tokens=500, counter=default_counter())
        )
        <= 500
    )
    assert truncate_to_tokens("short", budget_tokens=500, counter=default_counter()) == "short"
