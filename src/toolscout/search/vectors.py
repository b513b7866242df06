"""Vectors of a catalog: exact while few, scanned along their leading directions when many."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

# Spinning BLAS threads cost more than they bring on matrices of this size.
_threadpools: Any = import_module("threadpoolctl")  # it brings no types
_blas: Any = _threadpools.ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Keep the matrix work inside on the calling thread."""
    return _blas.limit(limits=1, user_api="blas")


EXACT_UP_TO = 5_000
FLOAT32_UP_TO = 20_000
PRINCIPAL_DIRECTIONS = 96
REFIT_FACTOR = 4
_OVERSAMPLING = 16
_POWER_ITERATIONS = 4
_BLOCK_ROWS = 512
# How similar a sentence and a tool that have nothing to do with each other are; what a catalog too
# small to tell by itself is judged by.
_PRIOR_WEIGHT = 10.0
_PRIOR_MEAN = 0.08
_PRIOR_VARIANCE = 0.01


@dataclass(frozen=True, slots=True)
class Vectors:
    """A snapshot of the vectors of slots `0..size`; growing shares the buffers with older ones.

    `rows` has them all, in single precision while few and in half precision when many. `lead` has
    them along the `basis` of their leading principal directions, for a scan at a quarter of the
    cost, once they are worth it; that was worked out when there were `fitted` of them. `total` and
    `gram` are sums over the living, from which the mean and spread of any query's scores follow.
    """

    dimensions: int
    size: int
    present: Mask
    rows: npt.NDArray[np.float32] | npt.NDArray[np.float16]
    total: npt.NDArray[np.float64]
    gram: npt.NDArray[np.float64]
    count: int = 0
    basis: Floats | None = None
    lead: Floats | None = None
    fitted: int = 0

    @classmethod
    def empty(cls, dimensions: int) -> Vectors:
        """No vectors yet."""
        return cls(
            dimensions=dimensions,
            size=0,
            present=np.zeros(0, np.bool_),
            rows=np.zeros((0, dimensions), np.float32),
            total=np.zeros(dimensions),
            gram=np.zeros((dimensions, dimensions)),
        )

    def resize(self, size: int) -> Vectors:
        """Room for more slots, their vectors still to come."""
        if size <= self.size:
            return self
        present = np.zeros(size, np.bool_)
        present[: self.size] = self.present
        after = replace(self, size=size, present=present)
        if size > len(self.rows):
            room = size + size // 2 + 64  # pages never written to cost nothing
            after = replace(after, rows=_grow(self.rows, room))
            if self.lead is not None:
                after = replace(after, lead=_grow(self.lead, room))
        return after

    def put(self, slots: Ints, vectors: Floats) -> Vectors:
        """Fill slots that had no vector; older snapshots do not look at them."""
        present = self.present.copy()
        present[slots] = True
        self.rows[slots] = vectors
        with one_thread():
            if self.lead is not None and self.basis is not None:
                self.lead[slots] = vectors @ self.basis
            gram = self.gram + _gram_matrix(vectors)
        after = replace(
            self,
            present=present,
            total=self.total + vectors.sum(axis=0, dtype=np.float64),
            gram=gram,
            count=self.count + len(slots),
        )
        if after.count > max(EXACT_UP_TO, REFIT_FACTOR * after.fitted):
            after = after._fit_basis()
        return after._to_half_precision() if after.count > FLOAT32_UP_TO else after

    def drop(self, slots: Ints) -> Vectors:
        """Forget slots; their rows stay where they are, unseen."""
        slots = slots[self.present[slots]]
        if not len(slots):
            return self
        present = self.present.copy()
        present[slots] = False
        gone = self.rows[slots].astype(np.float32)
        with one_thread():
            gram = self.gram - _gram_matrix(gone)
        return replace(
            self,
            present=present,
            total=self.total - gone.sum(axis=0, dtype=np.float64),
            gram=gram,
            count=self.count - len(slots),
        )

    def compact(self, slots: Ints) -> Vectors:
        """Some slots alone, closed up; the rest must have been dropped."""
        after = Vectors.empty(self.dimensions).resize(len(slots))
        rows = np.zeros(after.rows.shape, self.rows.dtype)
        rows[: len(slots)] = self.rows[slots]
        lead = None if self.lead is None else np.zeros((len(rows), self.lead.shape[1]), np.float32)
        if lead is not None and self.lead is not None:
            lead[: len(slots)] = self.lead[slots]
        present = self.present[slots]
        fitted = min(self.fitted, self.count)  # what comes later may be of another kind
        return replace(self, size=len(slots), present=present, rows=rows, lead=lead, fitted=fitted)

    def score_statistics(self, queries: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each query's similarity to the catalog's tools."""
        count = max(self.count, 1)
        mean = queries @ self.total / count
        square = np.einsum("ij,ij->i", queries @ self.gram, queries) / count
        share = self.count / (self.count + _PRIOR_WEIGHT)
        variance = share * np.maximum(0.0, square - mean * mean) + (1 - share) * _PRIOR_VARIANCE
        centre = share * mean + (1 - share) * _PRIOR_MEAN
        return centre.astype(np.float32), np.sqrt(variance).astype(np.float32)

    def similarity(self, queries: Floats, slots: Ints) -> Floats:
        """The exact similarity of some slots (rows) to some queries (columns)."""
        return self.rows[slots].astype(np.float32, copy=False) @ queries.T

    def scan(self, query: Floats, allowed: Mask, *, count: int) -> tuple[Ints, Floats]:
        """The slots among those allowed, and how similar they are to a query.

        Along leading directions where they are many; not worked out where they are few enough.
        """
        seen = allowed[: self.size] & self.present
        chosen = np.flatnonzero(seen)
        if len(chosen) <= count:
            return chosen.astype(np.int32), np.zeros(len(chosen), np.float32)
        scanned: Floats = self.rows if self.lead is None else self.lead  # pyright: ignore[reportAssignmentType] # rows are single precision exactly when lead is None
        probe = query if self.basis is None else query @ self.basis
        if len(chosen) * 4 < self.size:
            scores = scanned[chosen] @ probe
        else:
            scores = scanned[: self.size] @ probe
            scores = scores[chosen] if len(chosen) < self.size else scores
        return chosen.astype(np.int32), scores

    def _fit_basis(self) -> Vectors:
        """Work out the leading directions of what there is now."""
        with one_thread():
            basis = _principal_directions(self.gram)
            lead = np.zeros((len(self.rows), basis.shape[1]), np.float32)
            for start in range(0, self.size, _BLOCK_ROWS):
                some = slice(start, min(start + _BLOCK_ROWS, self.size))
                lead[some] = self.rows[some].astype(np.float32, copy=False) @ basis
        return replace(self, basis=basis, lead=lead, fitted=self.count)

    def _to_half_precision(self) -> Vectors:
        """Move to half precision."""
        if self.rows.dtype == np.float16:
            return self
        half = np.zeros(self.rows.shape, np.float16)
        half[: self.size] = self.rows[: self.size]
        return replace(self, rows=half)


def _principal_directions(gram: npt.NDArray[np.float64]) -> Floats:
    """The directions that lead in a sum of squares, nearly: a few rounds, however long vectors are.

    All directions would take seconds where an embedder's vectors have thousands of numbers.
    """
    shape = len(gram), min(len(gram), PRINCIPAL_DIRECTIONS + _OVERSAMPLING)
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal(shape))
    for _ in range(_POWER_ITERATIONS):
        basis, _ = np.linalg.qr(gram @ basis)
    _, turned = np.linalg.eigh(basis.T @ gram @ basis)
    return np.ascontiguousarray(
        (basis @ turned)[:, ::-1][:, :PRINCIPAL_DIRECTIONS], dtype=np.float32
    )


def _gram_matrix(vectors: Floats) -> npt.NDArray[np.float64]:
    """The sum of every vector times itself, in blocks short enough for single precision."""
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, len(vectors), _BLOCK_ROWS):
        some = vectors[start : start + _BLOCK_ROWS]
        total += some.T @ some
    return total


def _grow(rows: npt.NDArray[np.floating], room: int) -> npt.NDArray[np.floating]:
    grown = np.zeros((room, rows.shape[1]), rows.dtype)
    grown[: len(rows)] = rows
    return grown
