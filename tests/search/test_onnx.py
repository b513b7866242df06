"""Sentence models on disk: real ONNX files and real tokenizers, made here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.search.parts import filled, tool
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from toolscout.embedders import load_embedders
from toolscout.embedders.embedder import Prompts
from toolscout.embedders.onnx import OnnxEncoder
from toolscout.errors import ConfigError, EmbedderError

WIDTH = 16
MEANINGS = ("mail letter post", "send dispatch", "weather forecast climate", "delete erase", "file")
VOCABULARY = ["[PAD]", "[CLS]", "ask", "tell", *(w for line in MEANINGS for w in line.split())]
MAIL, WEATHER = tool("send_mail", "send mail"), tool("weather", "weather forecast")


def table() -> np.ndarray:
    """A row a word; words of one meaning are close, [CLS] and padding are far from everything."""
    rng = np.random.default_rng(7)
    rows = {word: rng.normal(size=WIDTH) for word in VOCABULARY[:4]}
    for line in MEANINGS:
        centre = rng.normal(size=WIDTH)
        rows |= {w: centre + 0.1 * rng.normal(size=WIDTH) for w in line.split()}
    return np.stack([rows[w] for w in VOCABULARY]).astype(np.float32)


def write_model(
    path: Path,
    *,
    inputs: Sequence[str] = ("input_ids", "attention_mask"),
    outputs: Sequence[str] = ("last_hidden_state",),
    kind: int = TensorProto.INT64,
) -> None:
    """A lookup table as a network: one vector a token, and their plain sum as a pooled output."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    if len(outputs) > 1 or outputs[0] != "last_hidden_state":
        nodes.append(
            helper.make_node("ReduceSum", ["last_hidden_state", "axis"], [outputs[-1]], keepdims=0)
        )
    shapes = {"last_hidden_state": ["batch", "length", WIDTH]}
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info(n, kind, ["batch", "length"]) for n in inputs],
        [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes.get(n, ["batch", WIDTH]))
            for n in outputs
        ],
        [
            numpy_helper.from_array(table(), "table"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def write_tokenizer(folder: Path) -> None:
    vocabulary = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[PAD]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model+v1"  # a plus in a path joins nothing
    write_model(path / "model.onnx")
    write_tokenizer(path)
    return path


def row(*words: str) -> np.ndarray:
    return table()[[VOCABULARY.index(w) for w in words]]


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.mark.behaviour("E47")
def test_a_model_on_disk_finds_what_shares_no_word_with_the_request(folder: Path) -> None:
    engine = filled(
        [MAIL, WEATHER, tool("delete_file", "delete file")],
        embedders=load_embedders(f"onnx:{folder}"),
    )

    assert engine.search("dispatch letter").names[0] == "send_mail"
    assert engine.search("climate").names[0] == "weather"
    assert engine.search("erase").names[0] == "delete_file"
    assert engine.search("climate").hits[0].why[0].arm == "meaning"
    engine.close()


def test_vectors_are_of_length_one_and_as_wide_as_the_model_says(folder: Path) -> None:
    encoder = OnnxEncoder(folder)

    rows = encoder.encode(["send mail", "", "weather"])

    assert encoder.dimensions == WIDTH
    assert rows.shape == (3, WIDTH)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert encoder.encode([]).shape == (0, WIDTH)


def test_a_text_has_the_same_vector_alone_and_in_a_batch_of_any_lengths(folder: Path) -> None:
    encoder = OnnxEncoder(folder)
    texts = [" ".join(["send mail weather file"] * n) for n in (9, 1, 40, 3)] * 12

    together = encoder.encode(texts)

    alone = np.concatenate([encoder.encode([t]) for t in texts])
    assert together == pytest.approx(alone, abs=1e-5)


POOLINGS = {
    "mean": (unit(row("[CLS]", "send", "mail").mean(axis=0)), "pooling_mode_mean_tokens"),
    "cls": (unit(row("[CLS]")[0]), "pooling_mode_cls_token"),
    "max": (unit(row("[CLS]", "send", "mail").max(axis=0)), "pooling_mode_max_tokens"),
    "last": (unit(row("mail")[0]), "pooling_mode_lasttoken"),
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_tokens_become_a_sentence_as_the_files_beside_the_model_say(
    folder: Path, pooling: str
) -> None:
    expected, chosen = POOLINGS[pooling]
    modes = {key: key == chosen for _, key in POOLINGS.values()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH, **modes})

    rows = OnnxEncoder(folder).encode(["weather and weather and weather", "send mail"])

    assert rows[1] == pytest.approx(expected, abs=1e-5)


def test_the_mean_over_tokens_is_taken_where_no_file_says_otherwise(folder: Path) -> None:
    assert OnnxEncoder(folder).encode(["send mail"])[0] == pytest.approx(
        POOLINGS["mean"][0], abs=1e-5
    )


@pytest.mark.parametrize(
    ("outputs", "pooled"),
    [
        (("last_hidden_state", "sentence_embedding"), True),
        (("embedding",), True),
        (("last_hidden_state", "pooler_output"), False),
    ],
)
def test_an_output_that_is_pooled_already_is_taken_as_it_is(
    folder: Path, outputs: tuple[str, ...], pooled: bool
) -> None:
    write_model(folder / "model.onnx", outputs=outputs)
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})

    found = OnnxEncoder(folder).encode(["send mail"])[0]

    summed = unit(row("[CLS]", "send", "mail").sum(axis=0))
    assert found == pytest.approx(summed if pooled else POOLINGS["cls"][0], abs=1e-5)


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("sentence_bert_config.json", {"max_seq_length": 3}),
        ("tokenizer_config.json", {"model_max_length": 3}),
        ("config.json", {"max_position_embeddings": 3}),
    ],
)
def test_a_text_is_cut_where_the_model_stops_reading(
    folder: Path, file: str, value: object
) -> None:
    write_json(folder / file, value)

    rows = OnnxEncoder(folder).encode(["send mail weather file", "send mail"])

    assert rows[0] == pytest.approx(rows[1], abs=1e-6)


def test_a_text_of_a_megabyte_is_cut(folder: Path) -> None:
    assert OnnxEncoder(folder).encode(["mail " * 200_000]).shape == (1, WIDTH)


def test_models_are_found_where_exporters_put_them(folder: Path) -> None:
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model_quantized.onnx")

    by_folder = OnnxEncoder(folder)
    by_file = OnnxEncoder(folder / "onnx" / "model_quantized.onnx")

    assert by_folder.id == by_file.id
    assert by_folder.encode(["mail"]) == pytest.approx(by_file.encode(["mail"]))


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_inputs_are_fed_by_name_and_type(folder: Path, kind: int) -> None:
    names = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    write_model(folder / "model.onnx", inputs=names, kind=kind)

    assert OnnxEncoder(folder).encode(["send mail"])[0] == pytest.approx(
        POOLINGS["mean"][0], abs=1e-5
    )


def test_prompts_stand_before_questions_and_texts(folder: Path) -> None:
    plain = OnnxEncoder(folder)
    write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": {"query": "ask ", "document": "tell "}},
    )
    prompted = OnnxEncoder(folder)
    (overruled,) = load_embedders(f"onnx:{folder}?query=&passage=ask%20&latin")

    assert prompted.encode(["mail"]) == pytest.approx(plain.encode(["tell mail"]))
    assert prompted.encode_queries(["mail"]) == pytest.approx(plain.encode(["ask mail"]))
    assert overruled.encode(["mail"]) == pytest.approx(plain.encode(["ask mail"]))
    assert isinstance(overruled, OnnxEncoder)
    assert overruled.encode_queries(["mail"]) == pytest.approx(plain.encode(["mail"]))
    assert overruled.is_latin_only
    assert not plain.is_latin_only


def test_searching_asks_with_the_prompt_for_questions(folder: Path) -> None:
    """The prompt is a word about the weather, so that every question is, once it is there."""
    tools = [MAIL, WEATHER]
    plain = filled(tools, embedders=[OnnxEncoder(folder)])
    swayed = filled(tools, embedders=[OnnxEncoder(folder, prompts=Prompts(query="climate " * 9))])

    assert plain.search("letter").names[0] == "send_mail"
    assert swayed.search("letter").names[0] == "weather"


@pytest.mark.behaviour("E43")
def test_the_id_follows_everything_that_changes_vectors(folder: Path, tmp_path: Path) -> None:
    first = OnnxEncoder(folder).id
    ids = {first, OnnxEncoder(folder, prompts=Prompts(query="ask ")).id}
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 9})
    ids.add(OnnxEncoder(folder).id)
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
    ids.add(OnnxEncoder(folder).id)
    model = onnx.load(folder / "model.onnx")
    model.doc_string = "another training run"
    onnx.save(model, folder / "model.onnx")
    ids.add(OnnxEncoder(folder).id)
    assert len(ids) == 5

    copy = tmp_path / "elsewhere"
    write_model(copy / "model.onnx")
    write_tokenizer(copy)
    assert OnnxEncoder(copy).id == first


def test_weights_in_a_file_of_their_own_count_too(folder: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    onnx.save_model(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=0,
    )
    before = OnnxEncoder(folder)
    assert before.encode(["send mail"])[0] == pytest.approx(POOLINGS["mean"][0], abs=1e-5)

    weights = folder / "model.onnx_data"
    weights.write_bytes(weights.read_bytes()[::-1])
    assert OnnxEncoder(folder).id != before.id


MISSING = {
    "folder": ("There is no model folder", lambda f: f.rename(f.parent / "gone")),
    "model": ("has no ONNX model", lambda f: (f / "model.onnx").unlink()),
    "tokenizer": ("There is no tokenizer.json", lambda f: (f / "tokenizer.json").unlink()),
    "settings": (
        "cannot be read",
        lambda f: (f / "sentence_bert_config.json").write_text("{half", encoding="utf-8"),
    ),
    "pooling": (
        "pools by weightedmean",
        lambda f: write_json(
            f / "1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True}
        ),
    ),
    "modules": (
        "a module sentence_transformers.models.Dense",
        lambda f: write_json(
            f / "modules.json",
            [
                {"idx": 0, "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "type": "sentence_transformers.models.Pooling"},
                {"idx": 2, "type": "sentence_transformers.models.Dense"},
            ],
        ),
    ),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_or_unsupported_parts_are_reported_when_the_model_is_named(
    folder: Path, kind: str
) -> None:
    says, break_it = MISSING[kind]
    break_it(folder)

    with pytest.raises(ConfigError, match=says) as caught:
        load_embedders(f"onnx:{folder}")

    assert caught.value.hint


BROKEN = {
    "cut off": lambda f: (f / "model.onnx").write_bytes((f / "model.onnx").read_bytes()[:200]),
    "a pointer": lambda f: (f / "model.onnx").write_text(
        "version https://git-lfs", encoding="utf-8"
    ),
    "no tokenizer": lambda f: (f / "tokenizer.json").write_text("{}", encoding="utf-8"),
    "strange inputs": lambda f: write_model(f / "model.onnx", inputs=("input_ids", "pixel_values")),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.behaviour("E49")
def test_a_model_that_cannot_be_run_leaves_keyword_search_and_says_why(
    folder: Path, kind: str
) -> None:
    BROKEN[kind](folder)
    (encoder,) = load_embedders(f"onnx:{folder}")
    with pytest.raises(EmbedderError) as caught:
        encoder.encode(["mail"])
    assert caught.value.hint

    engine = filled([MAIL, WEATHER], embedders=[encoder])
    found = engine.search("mail")

    assert found.names == ("send_mail",)
    assert found.notes == (f"Searched with keywords only: {caught.value}",)
    assert engine.status.problem == str(caught.value)
