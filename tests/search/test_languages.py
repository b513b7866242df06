"""In which language a text is: its script or its trigrams say so."""

from __future__ import annotations

import pytest

from toolscout.embedders.languages import is_probably_in, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Creates an invoice for a customer.", "en"),
        ("Erstellt eine Rechnung für einen Kunden.", "de"),
        ("Devuelve la lista de los correos del usuario.", "es"),
        ("Показывает прогноз погоды в городе.", "ru"),
        ("查询城市的天气预报。", "zh"),
        ("カレンダーに予定を追加します。", "ja"),
        ("도시의 날씨를 보여 줍니다.", "ko"),
        ("يعرض حالة الطقس في المدينة", "ar"),
        ("GET /v1/repos", "en"),
        ("", "en"),
    ],
)
def test_a_text_of_a_catalog_is_in_english_until_it_clearly_is_not(
    text: str, language: str
) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "language", "is_in"),
    [
        ("was steht heute an", "de", True),
        ("was steht heute an", "fr", False),
        ("brauche ich einen Regenschirm", "en", False),
        ("do I need an umbrella tomorrow morning", "en", True),
        ("我明天想请假", "zh", True),
        ("我明天想请假", "ja", False),
        ("明日の会議をキャンセルして", "ja", True),
        ("", "en", False),
    ],
)
def test_a_short_request_may_be_in_the_language_that_it_nearly_looks_like(
    text: str, language: str, is_in: bool
) -> None:
    assert is_probably_in(text, language) is is_in
