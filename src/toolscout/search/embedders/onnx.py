"""Any sentence model in ONNX form on disk, its tokenizer beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import EmbedderError, require
from .embedder import Floats, Prompts, normalize_rows
from .model_folder import ModelFolder, Pooling

Ints = npt.NDArray[np.int64]

_DEFAULT_PROMPTS = Prompts()
_MAX_TEXT_CHARS = 20_000
_BATCH = 16
_BLOCK = 1 << 20


class OnnxEncoder:
    """A model that somebody exported: read from its folder, run on one thread, never downloaded.

    How it pools, how much it reads and what it wants in front of a text are taken from the files
    beside it; prompts given here come before those.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        prompts: Prompts = _DEFAULT_PROMPTS,
        is_latin_only: bool = False,
    ) -> None:
        self._runtime: Any = require("onnxruntime", extra="onnx")
        self._tokenizers: Any = require("tokenizers", extra="onnx")
        self._folder = ModelFolder.read(Path(path))
        found = self._folder.prompts
        self._query = (found.query if prompts.query is None else prompts.query) or ""
        self._passage = (found.passage if prompts.passage is None else prompts.passage) or ""
        self.is_latin_only = is_latin_only
        self.id = self._compute_id()

    @property
    def dimensions(self) -> int:
        """How long a vector is; a model that does not declare it is asked."""
        declared: object = self._model.output.shape[-1]
        return declared if isinstance(declared, int) else self.encode([" "]).shape[1]

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, of length one."""
        return self._encode_rows([f"{self._passage}{t[:_MAX_TEXT_CHARS]}" for t in texts])

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """The same for questions, where the model wants another prefix for them."""
        return self._encode_rows([f"{self._query}{t[:_MAX_TEXT_CHARS]}" for t in texts])

    def _compute_id(self) -> str:
        """The model's files and every setting that changes its vectors, as one hash."""
        found = self._folder
        settings = (found.pooling, found.longest_tokens, self._query, self._passage)
        digest = hashlib.blake2b(repr(settings).encode(), digest_size=12)
        try:
            for path in (*found.weights, found.tokenizer):
                with path.open("rb") as file:
                    while block := file.read(_BLOCK):
                        digest.update(block)
        except OSError as error:
            raise _file_error(found.model, error) from error
        return f"onnx-{digest.hexdigest()}"

    @cached_property
    def _tokenizer(self) -> Any:
        found = self._folder
        try:
            tokenizer = self._tokenizers.Tokenizer.from_file(str(found.tokenizer))
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_length=found.longest_tokens)
        except Exception as error:  # the library raises bare exceptions only
            raise _file_error(found.tokenizer, error) from error
        return tokenizer

    @cached_property
    def _model(self) -> _OnnxModel:
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        path = self._folder.model
        try:
            session = self._runtime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # a class of its own for each cause, none with a common root
            raise _file_error(path, error) from error
        return _OnnxModel(session, self._folder.pooling)

    def _encode_rows(self, texts: Sequence[str]) -> Floats:
        # One text at a time: the library's batches start threads, and forked processes suffer.
        tokenizer, machine = self._tokenizer, self._model
        found = [tokenizer.encode(t) for t in texts]
        order = sorted(range(len(found)), key=lambda i: len(found[i].ids))
        rows: dict[int, Floats] = {}
        for start in range(0, len(order), _BATCH):
            places = order[start : start + _BATCH]
            try:
                pooled = machine.run([found[i] for i in places])
            except EmbedderError:
                raise
            except Exception as error:
                raise EmbedderError(
                    f"The model {self._folder.model.name} failed: {_first_line(error)}.",
                    hint="Export it again with dynamic batch and sequence axes.",
                ) from error
            rows |= dict(zip(places, pooled, strict=True))
        if not rows:
            return np.zeros((0, self.dimensions), np.float32)
        return normalize_rows(np.stack([rows[i] for i in range(len(found))]))


class _OnnxModel:
    """A session that has been looked over: which inputs it wants, which output is the sentence."""

    def __init__(self, session: Any, pooling: Pooling) -> None:
        self._session = session
        self._pooling: Pooling = pooling
        self._inputs = {item.name: item.type for item in session.get_inputs()}
        self.output = self._sentence_output(list(session.get_outputs()))
        if strange := set(self._inputs) - _TokenBatch.KNOWN:
            raise EmbedderError(
                f"The model wants {', '.join(sorted(strange))}, which a text does not have.",
                hint="Use an export of a sentence encoder: input_ids and attention_mask go in.",
            )

    def run(self, encodings: Sequence[Any]) -> Floats:
        """One row an encoding."""
        feed = _TokenBatch.of(encodings)
        given = {n: feed.tensor(n, self._inputs[n]) for n in self._inputs}
        (found,) = self._session.run([self.output.name], given)
        values = np.asarray(found, dtype=np.float32)
        return values if values.ndim == 2 else _pool(values, feed.mask, self._pooling)

    @staticmethod
    def _sentence_output(outputs: list[Any]) -> Any:
        """The output made for sentences, else the tokens' vectors, else whatever is pooled."""
        ranks = {item.name: len(item.shape or ()) for item in outputs}
        for wanted in outputs:
            if wanted.name in ("sentence_embedding", "sentence_embeddings"):
                return wanted
        for rank in (3, 2):
            for item in outputs:
                if ranks[item.name] == rank:
                    return item
        raise EmbedderError(
            f"The model has no output of vectors, only {', '.join(ranks) or 'none'}.",
            hint="Use an export of a sentence encoder, as Optimum makes for feature-extraction.",
        )


class _TokenBatch:
    """A batch of token rows, padded to the longest."""

    KNOWN = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})

    def __init__(self, ids: Ints, mask: Ints, types: Ints) -> None:
        self.mask = mask
        places = np.zeros_like(ids) + np.arange(ids.shape[1], dtype=np.int64)
        self._tensors: dict[str, Ints] = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": types,
            "position_ids": places,
        }

    @classmethod
    def of(cls, encodings: Sequence[Any]) -> _TokenBatch:
        width = max(1, *(len(e.ids) for e in encodings))
        rows = [np.zeros((len(encodings), width), np.int64) for _ in range(3)]
        for row, encoding in enumerate(encodings):
            for table, values in zip(rows, _encoding_columns(encoding), strict=True):
                table[row, : len(values)] = values
        return cls(*rows)

    def tensor(self, name: str, kind: str) -> npt.NDArray[Any]:
        """One input as the model types it."""
        return self._tensors[name].astype(np.int32 if "int32" in kind else np.int64)


def _encoding_columns(encoding: Any) -> Iterator[Sequence[int]]:
    yield encoding.ids
    yield encoding.attention_mask
    yield encoding.type_ids


def _pool(values: Floats, mask: Ints, pooling: Pooling) -> Floats:
    """One vector a row out of one a token; what is padding does not count."""
    if pooling == "cls":
        return values[:, 0]
    if pooling == "lasttoken":
        last = np.maximum(mask.sum(axis=1) - 1, 0)
        return values[np.arange(len(values)), last]
    seen = mask[:, :, None].astype(np.float32)
    if pooling == "max":
        return np.where(seen > 0, values, np.float32(-1e9)).max(axis=1)
    return (values * seen).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)


def _file_error(path: Path, error: Exception) -> EmbedderError:
    return EmbedderError(
        f"The file {path} cannot be used: {_first_line(error)}.",
        hint="Copy or export it again; it may be cut off, or a pointer to a large file.",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
