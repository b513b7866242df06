"""Vectors over HTTP: a real service on the loopback interface, well and unwell."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.search.parts import Bag, filled, tool
from tests.search.service import Refuse, Service, serving

from toolscout.embedders import load_embedders
from toolscout.embedders.cache import VectorCache
from toolscout.embedders.embedder import Prompts
from toolscout.embedders.endpoint import (
    EmbeddingsEndpoint,
    EndpointPolicy,
    EndpointRetryPolicy,
)
from toolscout.errors import ConfigError, EmbedderError

SECRET = "sk-very-secret-7391"
TOOLS = [tool("send_mail", "send mail"), tool("weather", "weather forecast")]


@dataclass
class Clock:
    """Time that passes only when somebody sleeps."""

    now: float = 1_000.0
    slept: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[..., EmbeddingsEndpoint]


@pytest.fixture
def make(service: Service, clock: Clock) -> Iterator[Make]:
    made: list[EmbeddingsEndpoint] = []

    def endpoint(**rest: object) -> EmbeddingsEndpoint:
        policy = EndpointPolicy(clock=clock, sleep=clock.sleep)
        made.append(
            EmbeddingsEndpoint("small", **{"base_url": service.url, "policy": policy, **rest})  # type: ignore[arg-type]
        )
        return made[-1]

    yield endpoint
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TOOLSCOUT_EMBEDDINGS_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.behaviour("E47", "E51")
def test_a_service_that_knows_a_language_finds_tools_across_it(service: Service) -> None:
    service.bag = Bag(meanings=["mail brief", "weather wetter"])
    (embedder,) = load_embedders(f"openai:small@{service.url}")
    engine = filled(TOOLS, embedders=[embedder])

    assert engine.search("wetter").names[0] == "weather"
    assert engine.search("brief").names[0] == "send_mail"
    assert service.asked[0]["path"] == "/v1/embeddings"
    assert service.asked[0]["model"] == "small"
    engine.close()
    embedder.close()  # type: ignore[attr-defined]


def test_vectors_come_in_the_order_of_the_texts_and_of_length_one(
    service: Service, make: Make
) -> None:
    service.change = lambda rows: {
        "data": [{**r, "embedding": [5 * x for x in r["embedding"]]} for r in rows]
    }

    rows = make().encode(["mail", "weather", "mail"])

    assert rows == pytest.approx(Bag().encode(["mail", "weather", "mail"]), abs=1e-5)


@pytest.mark.behaviour("S14")
def test_many_texts_go_in_batches_and_a_long_one_is_cut(service: Service, make: Make) -> None:
    endpoint = make()

    rows = endpoint.encode([f"text {i}" for i in range(70)] + ["x" * 1_000_000])

    assert len(rows) == 71
    assert [len(asked["input"]) for asked in service.asked] == [32, 32, 7]
    assert service.asked[-1]["input"][-1] == "x" * 8_000
    assert endpoint.encode([]).shape == (0, 48)


def test_how_wide_vectors_are_is_learnt_and_held_to(service: Service, make: Make) -> None:
    endpoint = make()
    service.bag = Bag(dimensions=12)
    assert endpoint.dimensions == 12

    service.bag = Bag(dimensions=20)
    with pytest.raises(EmbedderError, match="vectors of 12 numbers became vectors of 20"):
        endpoint.encode(["mail"])


def test_an_empty_text_is_not_sent_since_services_refuse_it(service: Service, make: Make) -> None:
    make().encode(["", "  "])

    assert all(text.strip() for text in service.asked[0]["input"])


@pytest.mark.parametrize("status", [408, 429, 500, 503, 0])
def test_a_failure_that_may_pass_is_tried_again_with_growing_pauses(
    service: Service, make: Make, clock: Clock, status: int
) -> None:
    service.plan = [Refuse(status)] * 3

    assert len(make().encode(["mail"])) == 1
    assert clock.slept == [0.5, 1.0, 2.0]


def test_a_pause_that_the_service_asks_for_is_kept_up_to_a_limit(
    service: Service, make: Make, clock: Clock
) -> None:
    waits = ["3", "86400", "soon"]
    service.plan = [Refuse(429, headers={"retry-after": wait}) for wait in waits]

    make().encode(["mail"])

    assert clock.slept == [3.0, 8.0, 2.0]


def test_tries_come_to_an_end(service: Service, make: Make, clock: Clock) -> None:
    service.always = Refuse(503)

    with pytest.raises(EmbedderError, match="answered 503"):
        make().encode(["mail"])

    assert len(service.asked) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_that_will_not_pass_is_not_repeated(
    service: Service, make: Make, clock: Clock, status: int
) -> None:
    service.always = Refuse(status)

    with pytest.raises(EmbedderError, match=f"answered {status}"):
        make().encode(["mail"])

    assert len(service.asked) == 1
    assert clock.slept == []


def data(*rows: object) -> Refuse:
    items = [{"index": number, "embedding": row} for number, row in enumerate(rows)]
    return Refuse(200, json.dumps({"data": items}))


BABBLE = {
    "not JSON": Refuse(200, "<html>"),
    "no data": Refuse(200, "{}"),
    "a list": Refuse(200, "[]"),
    "too few": data([1.0]),
    "words": data(["x"], ["y"]),
    "ragged": data([1.0], [1.0, 2.0]),
    "no numbers": data([float("nan")], [1.0]),
    "zeros": data([0.0, 0.0], [1.0, 0.0]),
}


@pytest.mark.parametrize("kind", BABBLE)
@pytest.mark.behaviour("E49")
def test_an_answer_without_vectors_is_a_failure_and_never_a_vector_of_zeros(
    service: Service, make: Make, kind: str
) -> None:
    service.always = BABBLE[kind]

    with pytest.raises(EmbedderError, match="the answer"):
        make().encode(["mail", "weather"])


def test_nobody_at_the_address_is_a_failure(make: Make) -> None:
    with serving() as gone:
        address = gone.url
    with pytest.raises(EmbedderError, match="no answer"):
        make(base_url=address).encode(["mail"])
    with pytest.raises(EmbedderError, match=r"no answer|address"):
        make(base_url="http://[half").encode(["mail"])


def test_keys_come_from_the_environment(
    service: Service, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make().encode(["mail"])
    monkeypatch.setenv("TOOLSCOUT_EMBEDDINGS_KEY", SECRET)
    make().encode(["mail"])
    monkeypatch.setenv("OPENAI_BASE_URL", service.url)
    monkeypatch.delenv("TOOLSCOUT_EMBEDDINGS_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    make(base_url=None).encode(["mail"])

    assert service.keys == [None, f"Bearer {SECRET}", "Bearer sk-of-openai"]


def test_the_key_of_openai_is_not_sent_to_an_address_of_ones_own(
    service: Service, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    make().encode(["mail"])

    assert service.keys == [None]


def test_openai_itself_wants_a_key() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        load_embedders("openai:text-embedding-3-small")


@pytest.mark.parametrize("status", [401, 403, 404, 400, 429, 500])
def test_no_text_of_a_failure_has_a_secret_in_it(service: Service, make: Make, status: int) -> None:
    said = {"error": {"message": f"Bad key {SECRET} for 'pay_bribe'", "code": "bad_key"}}
    service.always = Refuse(status, json.dumps(said))
    url = service.url.replace("http://", "http://ann:pass-8812@")

    with pytest.raises(EmbedderError) as caught:
        make(key=SECRET, base_url=url).encode(["pay_bribe: a tool that not everybody may see"])

    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        assert "pass-8812" not in str(error)
        error = error.__cause__ or error.__context__
    told = status in (401, 403, 404)
    assert ("pay_bribe" in str(caught.value)) is told
    assert told or "bad_key" in str(caught.value)


def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(key=f"{SECRET}\nX-Other: 1")
    assert SECRET not in str(caught.value)

    monkeypatch.setenv("TOOLSCOUT_EMBEDDINGS_KEY", f" {SECRET}\n")
    assert len(make().encode(["mail"])) == 1


def test_the_id_tells_services_and_prompts_apart_and_has_no_secret(make: Make) -> None:
    one, other = make(base_url="http://ann:pw@one/v1"), make(base_url="http://two/v1")
    prompted = make(base_url="http://two/v1", prompts=Prompts(query="ask: "))

    assert len({one.id, other.id, prompted.id}) == 3
    assert "pw" not in one.id


def test_prompts_stand_before_questions_and_texts(service: Service, make: Make) -> None:
    endpoint = make(prompts=Prompts(query="ask: ", passage="tell: "))

    endpoint.encode_queries(["mail"])
    endpoint.encode(["mail"])

    assert [asked["input"] for asked in service.asked] == [["ask: mail"], ["tell: mail"]]


@pytest.mark.behaviour("E38", "E49")
def test_a_service_that_went_down_slows_one_search_and_is_asked_again_later(
    service: Service, make: Make, clock: Clock
) -> None:
    engine = filled(TOOLS, embedders=[make()])
    service.always = Refuse(500)
    before = len(service.asked)

    first, second = engine.search("mail"), engine.search("send mail")

    assert first.names == ("send_mail",)
    assert second.names == ("send_mail",)
    assert "Searched without vectors" in first.notes[0]
    assert "500" in first.notes[0]
    assert "a moment ago" in second.notes[0]
    assert len(service.asked) == before + 2  # two tries for the first, none for the second

    service.always = None
    clock.now += 60
    assert engine.search("send mail").notes == ()
    engine.close()


def test_a_question_that_is_repeated_is_asked_once(service: Service, make: Make) -> None:
    engine = filled(TOOLS, embedders=[make()])
    engine.search("send a letter")
    before = len(service.asked)

    engine.search("send a letter")

    assert len(service.asked) == before
    engine.close()


def test_filling_works_again_as_soon_as_the_service_does(service: Service, make: Make) -> None:
    service.always = Refuse(401)
    engine = filled(TOOLS, embedders=[make()])
    assert "answered 401" in engine.status.problem
    assert "answered 401" in engine.search("mail").notes[0]

    service.always = None
    engine.fill()

    assert engine.status.problem == ""
    assert engine.search("mail").notes == ()
    engine.close()


def test_another_model_behind_the_same_name_is_noticed(
    service: Service, make: Make, tmp_path: Path
) -> None:
    filled(TOOLS, embedders=[make()], cache=VectorCache(tmp_path / "v.db")).close()
    service.bag = Bag(dimensions=20)

    changed = filled(
        [*TOOLS, tool("clock", "time")], embedders=[make()], cache=VectorCache(tmp_path / "v.db")
    )
    found = changed.search("mail")
    again = VectorCache(tmp_path / "v.db")

    assert "vectors of 20 numbers where it sent 48" in changed.status.problem
    assert found.names[0] == "send_mail"
    assert any("20 numbers" in note for note in found.notes)
    assert filled(TOOLS, embedders=[make()], cache=again).status.vectors == {make().id: 2}
    again.close()
    changed.close()


def test_a_service_that_never_answers_is_given_up(service: Service, clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        brief = EndpointRetryPolicy(timeout_seconds=0.05, max_attempts=2)
        policy = EndpointPolicy(tools=brief, queries=brief, clock=clock, sleep=clock.sleep)
        endpoint = EmbeddingsEndpoint("small", base_url=address, policy=policy)

        with pytest.raises(EmbedderError, match="ReadTimeout"):
            endpoint.encode(["mail"])

        assert clock.slept == [0.5]
        endpoint.close()


def test_vectors_over_the_wire_are_numbers_of_single_precision(make: Make) -> None:
    rows = make().encode(["mail"])

    assert rows.dtype == np.float32
    assert np.linalg.norm(rows) == pytest.approx(1)
