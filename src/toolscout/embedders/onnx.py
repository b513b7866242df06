"""An embedder for any sentence model in ONNX format on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError, require
from .arrays import Floats
from .embedder import Prompts, normalize_rows
from .model_folder import ModelFolder, Pooling
from .threads import map_in_threads

TokenArray = npt.NDArray[np.int64]

_DEFAULT_PROMPTS = Prompts()
# Tokenizing takes time; the model reads at most 8,192 tokens of it.
_MAX_TEXT_CHARS = 20_000
_BATCH = 16
_READ_BYTES = 1 << 20


class OnnxEncoder:
    """An exported model, read from its folder, never downloaded; one thread encodes a query.

    Pooling, token limit and prompts come from the files beside the model; `prompts` overrides them.
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
        """The length of a vector; found by a test run if the model does not declare it."""
        declared: object = self._model.output.shape[-1]
        return declared if isinstance(declared, int) else self.encode([" "]).shape[1]

    def encode(self, texts: Sequence[str]) -> Floats:
        """One unit vector per text."""
        return self._encode_rows([f"{self._passage}{t[:_MAX_TEXT_CHARS]}" for t in texts])

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """One unit vector per query, with the model's prefix for queries."""
        return self._encode_rows([f"{self._query}{t[:_MAX_TEXT_CHARS]}" for t in texts])

    def _compute_id(self) -> str:
        """A hash of the model's files and of every setting that changes its vectors."""
        # The contents, not the path: a model that is replaced in place must not use old vectors.
        folder = self._folder
        settings = (folder.pooling, folder.max_tokens, self._query, self._passage)
        digest = hashlib.blake2b(repr(settings).encode(), digest_size=12)
        try:
            for path in (*folder.weights, folder.tokenizer):
                with path.open("rb") as file:
                    while block := file.read(_READ_BYTES):
                        digest.update(block)
        except OSError as error:
            raise _file_error(folder.model, error) from error
        return f"onnx-{digest.hexdigest()}"

    @cached_property
    def _tokenizer(self) -> Any:
        folder = self._folder
        try:
            tokenizer = self._tokenizers.Tokenizer.from_file(str(folder.tokenizer))
            tokenizer.no_padding()  # batches are padded here, to their longest row only
            tokenizer.enable_truncation(max_length=folder.max_tokens)
        except Exception as error:  # the library raises plain Exception only
            raise _file_error(folder.tokenizer, error) from error
        return tokenizer

    @cached_property
    def _model(self) -> _OnnxModel:
        options = self._runtime.SessionOptions()
        # One thread: the caller decides how many cores a search may use.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # fatal errors only; the others are raised
        path = self._folder.model
        try:
            session = self._runtime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # one class per cause, without a common base class
            raise _file_error(path, error) from error
        return _OnnxModel(session, self._folder.pooling)

    def _encode_rows(self, texts: Sequence[str]) -> Floats:
        # Not encode_batch, which starts threads that do not survive a fork.
        tokenizer, _ = self._tokenizer, self._model  # loaded before threads start
        encodings = [tokenizer.encode(t) for t in texts]
        # Texts of similar length share a batch, so that little is padded.
        order = sorted(range(len(encodings)), key=lambda i: len(encodings[i].ids))
        batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        # Each run of the model has one thread; a session may be used from several.
        pooled = map_in_threads(lambda b: self._run_model([encodings[i] for i in b]), batches)
        rows = dict(zip(order, chain.from_iterable(pooled), strict=True))
        if not rows:
            return np.zeros((0, self.dimensions), np.float32)
        return normalize_rows(np.stack([rows[i] for i in range(len(encodings))]))

    def _run_model(self, encodings: Sequence[Any]) -> Floats:
        try:
            return self._model.run(encodings)
        except EmbedderError:
            raise
        except Exception as error:
            raise EmbedderError(
                f"The model {self._folder.model.name} failed: {_first_line(error)}.",
                hint="Export it again with dynamic batch and sequence axes.",
            ) from error


class _OnnxModel:
    """An inference session with its inputs checked and its output chosen."""

    def __init__(self, session: Any, pooling: Pooling) -> None:
        self._session = session
        self._pooling: Pooling = pooling
        self._inputs = {item.name: item.type for item in session.get_inputs()}
        self.output = self._sentence_output(list(session.get_outputs()))
        if unknown := set(self._inputs) - _TokenBatch.KNOWN:
            raise EmbedderError(
                f"The model needs the inputs {', '.join(sorted(unknown))}, which a text does not "
                f"have.",
                hint="Use an export of a sentence encoder: input_ids and attention_mask go in.",
            )

    def run(self, encodings: Sequence[Any]) -> Floats:
        """One row per tokenized text."""
        batch = _TokenBatch.of(encodings)
        inputs = {n: batch.tensor(n, self._inputs[n]) for n in self._inputs}
        (output,) = self._session.run([self.output.name], inputs)
        values = np.asarray(output, dtype=np.float32)
        return values if values.ndim == 2 else _pool(values, batch.mask, self._pooling)

    @staticmethod
    def _sentence_output(outputs: list[Any]) -> Any:
        """The sentence embedding, else the token embeddings, else any pooled output."""
        ranks = {item.name: len(item.shape or ()) for item in outputs}
        for item in outputs:
            if item.name in ("sentence_embedding", "sentence_embeddings"):
                return item
        # Rank 3 before rank 2: (batch, token, dimension) is pooled here as the model's files say,
        # while a rank 2 output such as BERT's `pooler_output` is trained for another task.
        for rank in (3, 2):
            for item in outputs:
                if ranks[item.name] == rank:
                    return item
        raise EmbedderError(
            f"The model has no output of vectors, only {', '.join(ranks) or 'none'}.",
            hint="Use an export of a sentence encoder, as Optimum makes for feature-extraction.",
        )


class _TokenBatch:
    """The model inputs of a batch of texts, padded to the longest."""

    KNOWN = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})

    def __init__(self, ids: TokenArray, mask: TokenArray, types: TokenArray) -> None:
        self.mask = mask
        positions = np.zeros_like(ids) + np.arange(ids.shape[1], dtype=np.int64)
        self._tensors: dict[str, TokenArray] = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": types,
            "position_ids": positions,
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
        """One input in the integer type that the model declares."""
        return self._tensors[name].astype(np.int32 if "int32" in kind else np.int64)


def _encoding_columns(encoding: Any) -> Iterator[Sequence[int]]:
    yield encoding.ids
    yield encoding.attention_mask
    yield encoding.type_ids


def _pool(values: Floats, mask: TokenArray, pooling: Pooling) -> Floats:
    """Pool the token vectors of each row into one vector; padding does not count."""
    if pooling == "cls":
        return values[:, 0]
    if pooling == "lasttoken":
        last = np.maximum(mask.sum(axis=1) - 1, 0)
        return values[np.arange(len(values)), last]
    weights = mask[:, :, None].astype(np.float32)
    if pooling == "max":
        return np.where(weights > 0, values, np.float32(-1e9)).max(axis=1)
    return (values * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)


def _file_error(path: Path, error: Exception) -> EmbedderError:
    return EmbedderError(
        f"The file {path} cannot be used: {_first_line(error)}.",
        hint="Copy or export it again; it may be cut off, or a pointer to a large file.",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
