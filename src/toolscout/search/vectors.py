"""The vectors of a catalog: compared exactly if few, by principal components first if many."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..embedders.arrays import Doubles, Floats, Ints, Mask
from ..embedders.threads import one_thread

# A scan is limited by memory bandwidth. Up to EXACT_UP_TO vectors it reads them whole; beyond, only
# their projections on the first principal components, and the best are compared again exactly.
# docs/decisions/ranking.md has the comparison with the exact scan: no difference in recall@5.
EXACT_UP_TO = 5_000
PRINCIPAL_DIRECTIONS = 96
# The components are computed again when there are four times as many vectors. They change little
# with each new tool, and computing them reads all vectors.
REFIT_FACTOR = 4
# Beyond this, vectors are stored in half precision, which halves their memory.
FLOAT32_UP_TO = 20_000
_OVERSAMPLING = 16
_POWER_ITERATIONS = 4
_BLOCK_ROWS = 512
# The prior for score statistics: mean and variance of the cosine between a sentence and an
# unrelated tool. It counts as ten tools, so it only matters in small catalogs, which have no
# statistics.
_PRIOR_WEIGHT = 10.0
_PRIOR_MEAN = 0.08
_PRIOR_VARIANCE = 0.01


@dataclass(frozen=True, slots=True)
class Vectors:
    """A snapshot of the vectors of slots `0..size`; larger snapshots share its buffers.

    `rows` has the vectors, in single precision if few and in half precision if many. `lead` has
    their projections on the `basis` of principal components, for a scan at a quarter of the cost;
    None while there are few. `fitted` is the number of vectors when the basis was computed. `total`
    and `gram` are the sum and the Gram matrix of all present vectors, from which the mean and the
    variance of any query's scores follow.
    """

    dimensions: int
    size: int
    present: Mask
    rows: npt.NDArray[np.float32] | npt.NDArray[np.float16]
    total: Doubles
    gram: Doubles
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
        """Add slots without vectors."""
        if size <= self.size:
            return self
        present = np.zeros(size, np.bool_)
        present[: self.size] = self.present
        after = replace(self, size=size, present=present)
        if size > len(self.rows):
            # Half more than needed, so that repeated growth is cheap. Zeroed pages take no memory
            # until they are written.
            room = size + size // 2 + 64
            after = replace(after, rows=_grow(self.rows, room))
            if self.lead is not None:
                after = replace(after, lead=_grow(self.lead, room))
        return after

    def put(self, slots: Ints, vectors: Floats) -> Vectors:
        """Add the vectors of slots that have none."""
        present = self.present.copy()
        present[slots] = True
        # Written in place although older snapshots share the buffer: their `present` is false here,
        # so they do not read these rows.
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

    def fit(self, *, added: int) -> Vectors:
        """Compute the components again if the last `added` vectors are most of all."""
        # Added in batches, they were computed from those that had come first.
        limit = max(EXACT_UP_TO, REFIT_FACTOR * (self.count - added))
        is_due = self.fitted < self.count and self.count > limit
        return self._fit_basis() if is_due else self

    def drop(self, slots: Ints) -> Vectors:
        """Remove slots; their rows stay in the buffer and are no longer read."""
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
        """Keep some slots only, renumbered without gaps; the others must have been dropped."""
        after = Vectors.empty(self.dimensions).resize(len(slots))
        rows = np.zeros(after.rows.shape, self.rows.dtype)
        rows[: len(slots)] = self.rows[slots]
        lead = None if self.lead is None else np.zeros((len(rows), self.lead.shape[1]), np.float32)
        if lead is not None and self.lead is not None:
            lead[: len(slots)] = self.lead[slots]
        present = self.present[slots]
        # A catalog that shrank and then fills with other tools must get a new basis soon.
        fitted = min(self.fitted, self.count)
        return replace(self, size=len(slots), present=present, rows=rows, lead=lead, fitted=fitted)

    def score_statistics(self, queries: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each query's similarity to the catalog's tools."""
        # Without a pass over the tools. For a query q, with s the sum and G the Gram matrix of the
        # n vectors: the mean is q·s / n, and the mean square is qᵀGq / n.
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

    def scan(self, queries: Floats, allowed: Mask, *, count: int) -> tuple[Ints, Floats]:
        """The allowed slots with a vector, and their approximate similarity to some queries.

        Exact without a basis. All zeros if there are at most `count`: none has to be left out.
        """
        chosen = np.flatnonzero(allowed[: self.size] & self.present)
        if len(chosen) <= count:
            return chosen.astype(np.int32), np.zeros((len(chosen), len(queries)), np.float32)
        scanned: Floats = self.rows if self.lead is None else self.lead  # pyright: ignore[reportAssignmentType] # rows are single precision exactly when lead is None
        probes = queries if self.basis is None else queries @ self.basis
        # Gathering scattered rows is several times slower per row than reading all rows in order,
        # so it is done only for less than a quarter of them.
        if len(chosen) * 4 < self.size:
            scores = scanned[chosen] @ probes.T
        else:
            scores = scanned[: self.size] @ probes.T
            scores = scores[chosen] if len(chosen) < self.size else scores
        return chosen.astype(np.int32), scores

    def _fit_basis(self) -> Vectors:
        """Compute the principal components of the present vectors, and project all rows."""
        with one_thread():
            basis = _principal_directions(self.gram)
            lead = np.zeros((len(self.rows), basis.shape[1]), np.float32)
            for start in range(0, self.size, _BLOCK_ROWS):
                block = slice(start, min(start + _BLOCK_ROWS, self.size))
                lead[block] = self.rows[block].astype(np.float32, copy=False) @ basis
        return replace(self, basis=basis, lead=lead, fitted=self.count)

    def _to_half_precision(self) -> Vectors:
        """Store the rows in half precision."""
        if self.rows.dtype == np.float16:
            return self
        half = np.zeros(self.rows.shape, np.float16)
        half[: self.size] = self.rows[: self.size]
        return replace(self, rows=half)


def _principal_directions(gram: Doubles) -> Floats:
    """The leading eigenvectors of a Gram matrix, approximately.

    The matrix is not centred: the scan approximates dot products, not distances from the mean.
    """
    # Randomized subspace iteration (Halko, Martinsson and Tropp, 2011): start from a random
    # subspace a little larger than wanted, multiply and orthonormalise a few times, then solve the
    # small eigenproblem inside it. A full decomposition takes seconds for vectors with thousands of
    # dimensions. The fixed seed makes the result reproducible.
    shape = len(gram), min(len(gram), PRINCIPAL_DIRECTIONS + _OVERSAMPLING)
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal(shape))
    for _ in range(_POWER_ITERATIONS):
        basis, _ = np.linalg.qr(gram @ basis)
    _, rotation = np.linalg.eigh(basis.T @ gram @ basis)
    # eigh sorts eigenvalues in ascending order: the leading ones are last.
    return np.ascontiguousarray(
        (basis @ rotation)[:, ::-1][:, :PRINCIPAL_DIRECTIONS], dtype=np.float32
    )


def _gram_matrix(vectors: Floats) -> Doubles:
    """The sum of the outer products of all vectors with themselves."""
    # Products in single precision, sums over blocks in double: fast, and errors do not pile up.
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS]
        total += block.T @ block
    return total


def _grow(rows: npt.NDArray[np.floating], room: int) -> npt.NDArray[np.floating]:
    grown = np.zeros((room, rows.shape[1]), rows.dtype)
    grown[: len(rows)] = rows
    return grown
