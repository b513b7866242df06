"""Words of another language, read as the catalog's words that mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.parts import Bag, filled, tool, use

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.embedders.arrays import Floats
from toolscout.embedders.cache import VectorCache
from toolscout.errors import EmbedderError
from toolscout.search.engine import Engine
from toolscout.search.glossary import usual_forms
from toolscout.search.hit import Hit
from toolscout.search.rankers.bm25f import BM25F
from toolscout.search.rankers.cross_lingual import split_words

TOOLS = [
    tool("create_invoice", "Create an invoice for a customer."),
    tool("create_customer", "Create a customer with name and address."),
    tool("list_prices", "List the prices of all products."),
    tool("delete_file", "Delete a file from the disk."),
    tool("upload_file", "Upload a file to a folder."),
    tool("get_weather", "Get the weather forecast for a city."),
]
MEANINGS = ("invoice rechnung", "customer kunde", "create erstelle", "file datei", "upload lade")


class Dictionary(Bag):
    """A bag that says from where on words mean the same."""

    translation_threshold = 0.9

    def __init__(self, *meanings: str) -> None:
        super().__init__(meanings=meanings, name="dictionary")


def translated(hit: Hit) -> tuple[str, ...]:
    return next((reason.words for reason in hit.why if reason.arm == "translation"), ())


@pytest.mark.parametrize(
    ("query", "name", "word"),
    [
        ("crear una factura", "create_invoice", "invoice"),
        ("eine neue Rechnung für einen Kunden ausstellen", "create_invoice", "customer"),
        ("müşteri için fatura oluştur", "create_invoice", "invoice"),
        ("показать все цены", "list_prices", "prices"),
        ("احذف الملف", "delete_file", "file"),
        ("列出所有价格", "list_prices", "prices"),
        ("ファイルをアップロード", "upload_file", "file"),
        ("가격을 보여 줘", "list_prices", "prices"),
    ],
)
def test_a_word_of_another_language_is_found_by_its_meaning(
    query: str, name: str, word: str
) -> None:
    best = filled(TOOLS, embedders=[use()]).search(query).hits[0]
    assert best.name == name
    assert word in translated(best)


GERMAN = [
    tool("termine_auflisten", "Listet alle Termine eines Tages auf."),
    tool("lieferung_verfolgen", "Zeigt, wo sich ein Paket gerade befindet."),
    tool("gehalt_anzeigen", "Zeigt die Gehaltsabrechnung eines Monats."),
    tool("rechnung_stornieren", "Storniert eine bestehende Rechnung."),
    tool("krankmeldung_einreichen", "Meldet einen Mitarbeiter krank."),
]
CHINESE = [
    tool("查询天气", "查询城市的天气预报。"),
    tool("播放音乐", "播放指定的歌曲或歌手。"),
    tool("设置闹钟", "设置一个闹钟提醒。"),
    tool("订外卖", "从附近餐厅订餐并配送上门。"),
]


@pytest.mark.parametrize("others", [(), TOOLS])
@pytest.mark.parametrize(
    ("tools", "query"),
    [
        (GERMAN, "was steht heute an"),
        (GERMAN, "der Kunde hat immer noch nicht bezahlt"),
        (GERMAN, "haben wir noch Schrauben da?"),
        (CHINESE, "我饿了，想吃披萨"),
        (CHINESE, "来首周杰伦的歌"),
    ],
)
def test_nothing_is_translated_into_the_language_of_the_request(
    tools: Sequence[Tool], query: str, others: Sequence[Tool]
) -> None:
    engine = filled([*tools, *others], embedders=[use()])
    mine = {t.name for t in tools}
    assert not any(translated(hit) for hit in engine.search(query).hits if hit.name in mine)


def test_a_request_is_translated_for_the_tools_of_another_language() -> None:
    engine = filled([*GERMAN, *CHINESE, *TOOLS], embedders=[use()])
    best = engine.search("je suis malade").hits[0]
    assert (best.name, translated(best)) == ("krankmeldung_einreichen", ("krank",))


def test_nothing_is_translated_into_a_word_without_a_meaning_of_its_own() -> None:
    engine = filled([*GERMAN, *TOOLS], embedders=[use()])
    words = engine.words_to_embed(use()) or engine.word_vectors(use())
    assert "rechnung" in words
    assert not {"die", "einen", "auf", "sich"} & words.keys()
    assert not any(
        {"die", "einen", "auf", "sich"} & {*translated(hit)}
        for hit in engine.search("où est mon colis").hits
    )


def test_english_names_are_translated_where_descriptions_are_in_the_language_asked() -> None:
    tools = [tool("send_email", "发送电子邮件。"), tool("play_song", "播放指定的歌曲。")]
    engine = filled([*tools, *CHINESE], embedders=[use()])
    assert translated(engine.search("我想写信给张三").hits[0]) == ("send",)


def test_words_that_the_catalog_knows_are_not_translated() -> None:
    engine = filled(TOOLS, embedders=[Dictionary(*MEANINGS)])
    for query in ("create an invoice", "upload the file rechnung into a folder"):
        assert not any(translated(hit) for hit in engine.search(query).hits)


def test_nothing_is_translated_where_the_catalog_has_half_of_the_words() -> None:
    engine = filled(TOOLS, embedders=[Dictionary("invoice فاتورة", *MEANINGS)])
    best = engine.search("create a new فاتورة for the customer").hits[0]
    assert (best.name, translated(best)) == ("create_invoice", ())


def test_the_more_words_the_catalog_has_the_less_a_translation_counts() -> None:
    engine = filled(TOOLS, embedders=[Dictionary("invoice فاتورة", *MEANINGS)])

    def share(query: str) -> float:
        hit = next(h for h in engine.search(query).hits if h.name == "create_invoice")
        return sum(reason.score for reason in hit.why if reason.arm == "translation")

    assert share("فاتورة zzz yyy") > share("فاتورة zzz create") > 0


def test_every_clause_of_a_foreign_request_has_its_turn() -> None:
    engine = filled(TOOLS, embedders=[Dictionary(*MEANINGS)])
    found = engine.search("erstelle bitte eine rechnung. lade dann noch die datei.", limit=2)
    assert set(found.names) == {"create_invoice", "upload_file"}


def test_no_hidden_word_is_chosen_as_a_meaning() -> None:
    engine = filled(TOOLS, embedders=[Dictionary(*MEANINGS)])
    visible = [t.name for t in TOOLS if "invoice" not in t.name]
    hidden = engine.search("rechnung", allow=visible)
    without = filled(
        [t for t in TOOLS if "invoice" not in t.name], embedders=[Dictionary(*MEANINGS)]
    ).search("rechnung")
    assert not any(translated(hit) for hit in hidden.hits)
    assert hidden.confidence == pytest.approx(without.confidence, abs=0.02)


def test_an_embedder_that_does_not_translate_is_not_asked_about_words() -> None:
    engine = filled(TOOLS, embedders=[Bag(meanings=MEANINGS)])
    assert not any(translated(hit) for hit in engine.search("erstelle eine rechnung").hits)


def test_rankers_of_ones_own_learn_no_words() -> None:
    embedder = Dictionary(*MEANINGS)
    filled(TOOLS, embedders=[embedder], rankers=[BM25F()])
    assert "invoice" not in embedder.encoded


def test_words_are_kept_on_disk_and_not_encoded_again(tmp_path: Path) -> None:
    first = filled(TOOLS, embedders=[Dictionary(*MEANINGS)], cache=VectorCache(tmp_path / "v.db"))
    before = first.search("erstelle rechnung")
    first.close()
    embedder = Dictionary(*MEANINGS)
    again = filled(TOOLS, embedders=[embedder], cache=VectorCache(tmp_path / "v.db"))
    assert embedder.encoded == []
    after = again.search("erstelle rechnung")
    assert (after.names, translated(after.hits[0])) == (before.names, translated(before.hits[0]))


def test_words_of_tools_that_came_later_are_learnt() -> None:
    engine = filled(TOOLS[:2], embedders=[Dictionary(*MEANINGS)])
    assert not any(translated(hit) for hit in engine.search("datei").hits)
    engine.update(Catalog(TOOLS))
    engine.fill()
    assert translated(engine.search("datei").hits[0]) == ("file",)


def test_a_word_is_encoded_once_however_often_the_catalog_grows() -> None:
    embedder = Dictionary(*MEANINGS)
    engine = filled(TOOLS[:1], embedders=[embedder])
    for count in range(2, len(TOOLS) + 1):
        engine.update(Catalog(TOOLS[:count]))
        engine.fill()
    assert embedder.encoded.count("invoice") == embedder.encoded.count("weather") == 1


def test_words_of_removed_tools_are_not_translations() -> None:
    engine = filled(TOOLS, embedders=[Dictionary(*MEANINGS)])
    engine.update(Catalog(t for t in TOOLS if "file" not in t.name))
    assert not any(translated(hit) for hit in engine.search("datei").hits)


def test_a_catalog_that_has_lost_all_its_tools_has_no_words_left_to_learn() -> None:
    engine = filled(TOOLS, embedders=[Dictionary(*MEANINGS)])
    engine.update(Catalog())
    assert engine.fill().problem == ""
    emptied = Engine(Catalog(TOOLS), embedders=[Dictionary(*MEANINGS)])
    emptied.update(Catalog())
    assert emptied.fill().problem == ""
    assert usual_forms(()) == {}


def test_an_embedder_that_fails_at_a_word_is_reported_and_the_search_continues() -> None:
    class Failing(Dictionary):
        is_down = False

        def encode_queries(self, texts: Sequence[str]) -> Floats:
            if self.is_down:
                raise EmbedderError("It is down.")
            return self.encode(texts)

    embedder = Failing(*MEANINGS)
    engine = filled(TOOLS, embedders=[embedder])
    embedder.is_down = True
    found = engine.search("invoice datei rechnung")
    assert found.hits[0].name == "create_invoice"
    assert found.notes == ("Searched without vectors: It is down.",)


def test_a_term_goes_by_the_word_it_mostly_stands_for() -> None:
    tools = [
        tool("calculate_area", "Calculates an area. Calculate it."),
        tool("CalculateSum", "To calculate."),
        tool("查询天气", "Weather."),
    ]
    words = {term: word for term, (word, _) in usual_forms(tools).items()}
    assert words["calcul"] == "calculate"
    assert {"查询", "询天", "天气"} <= words.keys()
    assert "an" not in words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("für Müller", ["für", "müller"]),
        ("新发票", ["新发票", "新发", "发票"]),
        ("所有价格表", ["所有", "有价", "价格", "格表"]),
        ("請求書を作成する", ["請求書", "請求", "求書", "作成"]),
        ("クーポンを", ["クーポン"]),
        ("가격을 모두", ["가격을", "모두"]),
        ("a1 b_c 42", ["a", "b", "c"]),
    ],
)
def test_pieces_are_what_may_be_words(text: str, parts: list[str]) -> None:
    assert list(split_words(text)) == parts


@given(st.text(max_size=80))
def test_any_text_has_pieces_and_an_answer(text: str) -> None:
    assert all(piece for piece in split_words(text))
    assert ENGINE.search(text, mode="words").confidence <= 1


ENGINE: Engine = filled(TOOLS, embedders=[Dictionary(*MEANINGS)])
