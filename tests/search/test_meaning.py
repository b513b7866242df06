"""Search by meaning with the bundled encoder: other words, other languages, other scripts."""

from __future__ import annotations

import pytest
from tests.search.parts import filled, tool, use

from toolscout.embedders.embedder import vocabulary_coverage
from toolscout.search.engine import LANGUAGE_NOTE, Engine

TOOLS = [
    tool("get_weather", "Get the weather forecast for a city.", parameters={"city": "The city."}),
    tool("send_email", "Send an email to a person.", parameters={"to": "Who gets the message."}),
    tool("translate_text", "Translate a text into another language."),
    tool("book_flight", "Book a plane ticket between two airports."),
    tool("create_invoice", "Create an invoice for a customer."),
    tool("delete_file", "Delete a file from the disk."),
    tool("play_music", "Play a song or an album."),
    tool("search_images", "Search for pictures by what they show."),
    tool("convert_currency", "Convert an amount of money from one currency to another."),
    tool("set_alarm", "Set an alarm that wakes the user up."),
    tool("find_restaurant", "Find a place to eat nearby."),
    tool("update_navigation", "Change the menu of the website."),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return filled(TOOLS, embedders=[use()])


@pytest.mark.behaviour("E4", "E51")
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Wie wird das Wetter morgen in Berlin?", "get_weather"),
        ("Schicke Anna eine E-Mail", "send_email"),
        ("Rechne Euro in Dollar um", "convert_currency"),
        ("Jaka będzie jutro pogoda w Krakowie?", "get_weather"),
        ("Wyślij wiadomość e-mail do Anny", "send_email"),
        ("Zarezerwuj bilet na samolot do Rzymu", "book_flight"),
        ("كيف سيكون الطقس غدا في القاهرة؟", "get_weather"),
        ("أرسل بريدا إلكترونيا إلى أحمد", "send_email"),
        ("ترجم هذا النص إلى الفرنسية", "translate_text"),
        ("明天北京的天气怎么样", "get_weather"),
        ("给小王发一封电子邮件", "send_email"),
        ("播放一首歌", "play_music"),
        ("明日の東京の天気を教えて", "get_weather"),
        ("このファイルを削除してください", "delete_file"),
        ("近くのレストランを探して", "find_restaurant"),
        ("내일 서울 날씨 알려줘", "get_weather"),
        ("로마행 비행기 표를 예약해 줘", "book_flight"),
        ("노래 틀어줘", "play_music"),
        ("Какая завтра погода в Москве?", "get_weather"),
        ("Удали этот файл", "delete_file"),
        ("Разбуди меня в семь утра", "set_alarm"),
        ("Quel temps fera-t-il demain à Paris ?", "get_weather"),
        ("Busca fotos de gatos", "search_images"),
        ("Yarın İstanbul'da hava nasıl?", "get_weather"),
    ],
)
def test_a_request_in_another_language_finds_the_english_tool(
    engine: Engine, query: str, name: str
) -> None:
    found = engine.search(query)

    assert found.names[0] == name
    assert "meaning" in [reason.arm for reason in found.hits[0].why]


@pytest.mark.behaviour("E51")
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("is it going to rain tomorrow", "get_weather"),
        ("I am hungry", "find_restaurant"),
        ("wake me up at seven", "set_alarm"),
        ("how many yen is that in euros", "convert_currency"),
        ("bill the client", "create_invoice"),
    ],
)
def test_other_words_for_the_same_thing_find_the_tool(
    engine: Engine, query: str, name: str
) -> None:
    assert engine.search(query).names[0] == name


@pytest.mark.behaviour("E50", "E51")
def test_keyword_search_finds_nothing_in_another_language_and_say_so() -> None:
    words = filled(TOOLS)

    for query in ("明天北京的天气怎么样", "Какая завтра погода?"):
        found = words.search(query)
        assert (found.names, found.confidence) == ((), 0)


@pytest.mark.behaviour("E51")
def test_similarities_are_shares_and_scores_fall(engine: Engine) -> None:
    found = engine.search("Wetter", limit=12)

    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert found.evidence is not None
    assert found.evidence.similarity is not None
    assert -1 <= found.evidence.similarity <= 1


def test_tools_described_in_other_languages_are_found_in_english() -> None:
    foreign = filled(
        [
            tool("wetter_abrufen", "Ruft die Wettervorhersage für eine Stadt ab."),
            tool("发送邮件", "给某人发送一封电子邮件。"),
            tool("удалить_файл", "Удаляет файл с диска."),
        ],
        embedders=[use()],
    )

    assert foreign.search("weather forecast").names[0] == "wetter_abrufen"
    assert foreign.search("send an email").names[0] == "发送邮件"
    assert foreign.search("delete a file").names[0] == "удалить_файл"
    foreign.close()


@pytest.mark.parametrize("query", ["...", "?!", "aaaa" * 2_000, "the of and"])
def test_a_request_without_a_word_is_never_sure(engine: Engine, query: str) -> None:
    assert engine.search(query).confidence == 0


@pytest.mark.parametrize(
    "text",
    [
        "Überweise 3.400,20 € an DE89 3704 0044",
        "what’s the weather?",
        "Удалить файл",
        "احذف الملف",
        "删除文件",
        "파일 삭제",
    ],
)
def test_the_encoder_reads_its_languages_well_whatever_values_they_mention(text: str) -> None:
    assert vocabulary_coverage(use(), text) == 1


@pytest.mark.parametrize("text", ["Διαγράφει ένα αρχείο", "Xóa một tệp khỏi ổ đĩa"])
def test_words_that_the_encoder_has_to_spell_out_have_low_coverage(text: str) -> None:
    assert 0 < vocabulary_coverage(use(), text) < 0.5


def test_the_encoder_reads_nothing_of_a_script_that_it_does_not_know() -> None:
    assert vocabulary_coverage(use(), "फ़ाइल हटाएँ") == 0


@pytest.mark.parametrize(
    "query",
    [
        "Jaké bude zítra počasí v Brně?",  # Czech
        "Milyen idő lesz holnap Győrben?",  # Hungarian
        "Τι καιρό θα κάνει αύριο;",  # Greek
        "Hur blir vädret på Gotland på måndag?",  # Swedish
        "Thời tiết ngày mai thế nào?",  # Vietnamese
        "Яка завтра погода у Києві?",  # Ukrainian
        "Apa cuaca di Jakarta hari ini?",  # Indonesian
        "Zapni svetlo v kuchyni",  # Czech without accents
        "Stäng av lampan i köket",  # Swedish with letters of German
        "Pošli zprávu Jiřímu Dvořákovi",  # Czech with names
        "फ़ाइल हटाएँ",  # Hindi
    ],
)
def test_a_request_in_a_language_that_the_encoder_does_not_know_gets_a_note(
    engine: Engine, query: str
) -> None:
    assert engine.search(query).notes == (LANGUAGE_NOTE,)
    assert engine.search(["send an email", query]).notes == (LANGUAGE_NOTE,)
    assert LANGUAGE_NOTE not in engine.search(query, arms="words").notes


@pytest.mark.parametrize("query", ["Τι καιρό θα κάνει αύριο;", "Jaké bude zítra počasí v Brně?"])
def test_vectors_of_a_text_that_no_embedder_can_read_do_not_count_as_evidence(
    engine: Engine, query: str
) -> None:
    found = engine.search(query)
    assert found.hits
    assert found.evidence is not None
    assert not found.evidence.has_meaning
    assert found.confidence < 0.5
    known = engine.search("Jaka będzie jutro pogoda w Łodzi?").evidence
    assert known is not None
    assert known.has_meaning


@pytest.mark.parametrize(
    "query",
    [
        "Jaka będzie jutro pogoda w Łodzi?",
        "Закрой шторы в спальне",
        "Yarın İzmir'de hava nasıl olacak?",
        "Quel temps fera-t-il demain à Besançon ?",
        "¿Qué tiempo hará mañana en Málaga?",
        "weather in Tromsø",
        "send Nguyễn Văn Đức the report please",
        "Schick Jiří Dvořák und Ondřej Kovář bitte den Bericht",
        "show the smörgåsbord menu of the restaurant",
        "Tokyo Osaka Kyoto Nara trip",
        "kubectl get pods -n kube-system | grep nginx",
        "npm install lodash && git rebase -i main",
        "zet de verlichting in de keuken aan",
        "Allume la lumiere de la cuisine",
        "จะส่งอีเมลถึงแอนนา",
        "select:get_weather",
        "get_weather",
        "✨",
    ],
)
def test_a_request_in_a_known_language_gets_no_note(engine: Engine, query: str) -> None:
    assert LANGUAGE_NOTE not in engine.search(query).notes


@pytest.mark.parametrize(
    "query", ["sänk volymen på TV till 90 procent", "vart sparas min data någonstans"]
)
def test_one_word_in_letters_of_another_language_is_enough_among_unfamiliar_ones(
    engine: Engine, query: str
) -> None:
    assert LANGUAGE_NOTE in engine.search(query).notes


MEASURED = "地区γ射线水平为0.05 Grays，α粒子水平为0.03 Grays，温度为20摄氏度；"
INVITED = "参与者D（ID：P004，角色：评论者），参与者E（ID：P005，角色：审阅者）；"
SEQUENCES = "ATGCGTAC, GCTAGCTA, CGTAGCAT, TAGCGATC, ATCGTACG"


@pytest.mark.parametrize(
    "query",
    [
        f"请分析当前宇宙辐射对大气的影响：{3 * MEASURED}",
        f"请邀请以下人员参与审阅文档：{4 * INVITED}",
        f"请对这五个基因序列进行分析，预测他们的功能区，核苷酸分别是：{SEQUENCES}。请启用突变检测。",
    ],
)
def test_values_in_latin_or_greek_letters_do_not_make_a_request_foreign(query: str) -> None:
    assert use().knows_language(query)
