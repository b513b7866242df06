"""Reads the folder of an ONNX sentence model: its files, pooling, prompts and token limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ..errors import ConfigError
from .embedder import Prompts

Pooling = Literal["mean", "cls", "max", "lasttoken"]

_POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
_DEFAULT_MAX_TOKENS = 512
# Some tokenizers declare 10**30 tokens for "no limit"; larger values than this are ignored.
_MAX_TOKENS = 8_192
_LAYOUT = "A model folder has model.onnx (or onnx/model.onnx) and tokenizer.json."
_SUPPORTED_MODULES = ("Transformer", "Pooling", "Normalize", "Dropout")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model as described by its files."""

    model: Path
    weights: tuple[Path, ...]
    tokenizer: Path
    pooling: Pooling
    max_tokens: int
    prompts: Prompts

    @classmethod
    def read(cls, path: Path) -> ModelFolder:
        """Read a folder, or the folder of a model file; raises ConfigError if a file is missing."""
        path = path.expanduser()
        model = _find_model(path)
        root = next(
            (f for f in _candidate_folders(path, model) if (f / "tokenizer.json").is_file()), None
        )
        if root is None:
            raise ConfigError(f"There is no tokenizer.json beside {model}.", hint=_LAYOUT)
        # Large models keep their weights in files named after the model.
        beside = sorted(p for p in model.parent.glob(f"{model.name}*") if p != model)
        return cls(
            model=model,
            weights=(model, *beside),
            tokenizer=root / "tokenizer.json",
            pooling=_read_pooling(root),
            max_tokens=_read_max_tokens(root),
            prompts=_read_prompts(root),
        )


def _find_model(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise ConfigError(f"There is no model folder {path}.", hint=_LAYOUT)
    for folder in (path, path / "onnx"):
        # The shortest name is the plain model; others are quantised or optimised variants.
        found = sorted(folder.glob("model*.onnx"), key=lambda p: (len(p.name), p.name))
        if found:
            return found[0]
    raise ConfigError(
        f"The folder {path} has no ONNX model.",
        hint=f"{_LAYOUT} Optimum exports one: optimum-cli export onnx --model NAME {path.name}",
    )


def _candidate_folders(path: Path, model: Path) -> Iterator[Path]:
    if path.is_dir():
        yield path
    yield model.parent
    yield model.parent.parent


def _read_pooling(root: Path) -> Pooling:
    """The pooling from the configuration of Sentence Transformers; the mean by default."""
    _reject_extra_modules(root)
    settings = _read_settings(root / "1_Pooling" / "config.json")
    # Two formats: a flag for each mode ("pooling_mode_cls_token": true), or one name.
    prefix = "pooling_mode_"
    chosen = [k.removeprefix(prefix) for k, v in settings.items() if k.startswith(prefix) and v]
    if isinstance(settings.get("pooling_mode"), str):
        chosen = [settings["pooling_mode"]]
    names = [c.removesuffix("_tokens").removesuffix("_token") for c in chosen] or ["mean"]
    for pooling in _POOLINGS:
        if names == [pooling]:
            return pooling
    raise ConfigError(
        f"The model in {root} pools by {' and '.join(names)}, which is not supported.",
        hint=f"Use a model that pools by one of: {', '.join(_POOLINGS)}.",
    )


def _reject_extra_modules(root: Path) -> None:
    """Refuse a model with layers after pooling: without them its vectors would be wrong."""
    modules = _read_json(root / "modules.json")
    listed = cast("list[object]", modules) if isinstance(modules, list) else []
    kinds = [str(cast("dict[str, Any]", m).get("type")) for m in listed if isinstance(m, dict)]
    unsupported = [k for k in kinds if k.rpartition(".")[2] not in _SUPPORTED_MODULES]
    if unsupported:
        raise ConfigError(
            f"The model in {root} has a module {unsupported[0]}, which is not part of its ONNX"
            " file.",
            hint="Export the whole sentence model, with the output sentence_embedding, into a"
            " folder without modules.json.",
        )


def _read_max_tokens(root: Path) -> int:
    """The number of tokens that the model reads."""
    # From the most to the least specific file.
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
        ("config.json", "max_position_embeddings"),
    ):
        value = _read_settings(root / name).get(key)
        if isinstance(value, int) and 0 < value <= _MAX_TOKENS:
            return value
    return _DEFAULT_MAX_TOKENS


def _read_prompts(root: Path) -> Prompts:
    settings = _read_settings(root / "config_sentence_transformers.json").get("prompts")
    prompts = cast("dict[str, Any]", settings) if isinstance(settings, dict) else {}
    passage = prompts.get("passage") or prompts.get("document") or ""
    return Prompts(str(prompts.get("query") or ""), str(passage))


def _read_settings(path: Path) -> dict[str, Any]:
    found = _read_json(path)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _read_json(path: Path) -> object:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The file {path} cannot be read: {error}.", hint="Copy it from the model again."
        ) from error
