"""Colourings: which columns, or rows, of a sparse derivative are computed together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.api import jit
from calque.runtime.sparse import greedy
from calque.runtime.sparse.patterns import SparsityPattern

_BAND = 0.8  # of the longest row's entries that rows of a band have, in the mean
_FEW_STEPS = 200_000  # of a colouring that plain Python makes sooner than a compiler starts


@dataclass(frozen=True, eq=False)
class ColoredPattern:
    """A pattern with the colours by which its matrix is computed.

    In ``mode`` "forward" columns of one colour are computed together, by one tangent; in "reverse"
    rows, by one cotangent; "symmetric" is a Hessian's, by columns, of which an entry may be read as
    the one that symmetry gives it. ``colors`` has the colour of each column or row of ``sparsity``.

    >>> pattern = SparsityPattern.of([[1, 1, 0], [0, 1, 1]])
    >>> ColoredPattern(pattern, np.array([0, 1, 0]), "forward").places.tolist()
    [0, 2, 3, 1]
    """

    sparsity: SparsityPattern
    colors: Any
    mode: str = "forward"

    @property
    def num_colors(self) -> int:
        """The number of colours: of tangents or cotangents that are pushed through the program."""
        return int(self.colors.max(initial=-1)) + 1

    @property
    def seeds(self) -> Any:
        """A row for each colour: 1.0 where a column, or row, has it."""
        return (self.colors == np.arange(self.num_colors)[:, None]).astype(float)

    @functools.cached_property
    def places(self) -> Any:
        """For each entry, where it stands in the compressed matrix, flat: a row for each colour.

        Raises ValueError where the colours do not tell the entries apart.
        """
        if self._found is None:
            raise ValueError("these colours do not tell all entries of the pattern apart")
        return self._found

    @functools.cached_property
    def _found(self) -> Any:
        """The places, or None if an entry has none."""
        pattern, count = self.sparsity, self.num_colors
        row, column = pattern.rows.astype(np.int64), pattern.cols.astype(np.int64)
        if self.mode == "reverse":
            row, column = column, row
        height = pattern.shape[1] if self.mode == "reverse" else pattern.shape[0]
        alone = _is_alone(row, self.colors[column], count)
        if self.mode == "symmetric" and not alone.all():
            row, column = np.where(alone, row, column), np.where(alone, column, row)
            alone |= _is_alone(pattern.cols.astype(np.int64), self.colors[pattern.rows], count)
        return self.colors[column] * height + row if alone.all() else None

    def save(self, path: Any) -> None:
        """Write the pattern and its colours into a file of NumPy's, ``.npz``."""
        pattern = self.sparsity
        np.savez_compressed(
            path,
            shape=pattern.shape,
            indptr=pattern.indptr,
            indices=pattern.indices,
            colors=self.colors,
            mode=self.mode,
        )

    @classmethod
    def load(cls, path: Any) -> ColoredPattern:
        """Read what ``save`` has written; raises ValueError where the file is none of these."""
        with np.load(path, allow_pickle=False) as file:
            if {"shape", "indptr", "indices", "colors", "mode"} - {*file.files}:
                raise ValueError(f"{path} holds no coloured pattern")
            shape = (int(file["shape"][0]), int(file["shape"][1]))
            pattern = SparsityPattern(shape, file["indptr"], file["indices"])
            return cls(pattern, file["colors"], str(file["mode"]))

    def __repr__(self) -> str:
        return f"<ColoredPattern of {self.num_colors} colors, {self.mode}: {self.sparsity!r}>"


def _is_alone(row: Any, color: Any, count: int) -> Any:
    """True for an entry if its row has no other of its colour."""
    keys = row * count + color
    return np.bincount(keys, minlength=1)[keys] == 1


def _striped(pattern: SparsityPattern, mode: str) -> ColoredPattern | None:
    """Colours that return after as many columns as the longest row has entries, if these suffice.

    For a band, where nearly all rows are as long, there are no fewer colours: no search is needed.
    """
    along = pattern.transposed() if mode == "reverse" else pattern
    longest = max(1, _longest_row(along))
    if along.nnz < _BAND * longest * along.shape[0]:
        return None
    colors = np.arange(along.shape[1]) % longest
    made = ColoredPattern(pattern, colors, mode)
    return made if made._found is not None else None


def colored(pattern: SparsityPattern, mode: str | None = None) -> ColoredPattern:
    """A Jacobian's pattern with colours: of the mode that needs fewer of them, if none is given."""
    if mode is not None:
        return _striped(pattern, mode) or _greedy(pattern, mode)
    first, second = _longest_row(pattern), _longest_row(pattern.transposed())
    order = ("forward", "reverse") if first <= second else ("reverse", "forward")
    best = _striped(pattern, order[0]) or _greedy(pattern, order[0])
    if best.num_colors > max(first, second):
        other = _greedy(pattern, order[1])
        best = other if other.num_colors < best.num_colors else best
    return best


def _greedy(pattern: SparsityPattern, mode: str) -> ColoredPattern:
    return ColoredPattern(pattern, _of_columns(pattern, mode), mode)


def colored_symmetric(pattern: SparsityPattern) -> ColoredPattern:
    """A Hessian's pattern with the colours of a star colouring."""
    if pattern.shape[0] != pattern.shape[1]:
        have = " x ".join(map(str, pattern.shape))
        raise ValueError(f"the pattern of a Hessian is square, and this one is {have}")
    pattern = pattern.symmetric()
    if (striped := _striped(pattern, "symmetric")) is not None:
        return striped
    graph = _without_diagonal(pattern)
    steps = 2 * pattern.nnz * _longest_row(pattern)
    run = _compiled(greedy.star_colors, steps)
    found = (run(graph.indptr, graph.indices, order) for order in _orders(graph, steps))
    best = _fewest(found, _longest_row(pattern))  # as many as its columns would need, at least
    return ColoredPattern(pattern, best, "symmetric")


def _of_columns(pattern: SparsityPattern, mode: str) -> Any:
    pattern = pattern.transposed() if mode == "reverse" else pattern
    other = pattern.transposed()
    used = np.diff(other.indptr) > 0
    longest = _longest_row(pattern)
    if longest == used.sum():  # every two columns share a row
        return np.where(used, np.cumsum(used) - 1, 0)
    lengths = np.diff(pattern.indptr).astype(np.int64)
    steps = int(np.sum(lengths * lengths))
    run = _compiled(greedy.column_colors, steps)
    arrays = (pattern.indptr, pattern.indices, other.indptr, other.indices)
    orders = (np.arange(pattern.shape[1]), _by_degree(pattern, other))
    return _fewest((run(*arrays, order) for order in orders), longest)


def _by_degree(pattern: SparsityPattern, other: SparsityPattern) -> Any:
    """The columns, those with most others in their rows first."""
    lengths = np.diff(pattern.indptr).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(lengths[other.indices])])
    return np.argsort(-(sums[other.indptr[1:]] - sums[other.indptr[:-1]]), kind="stable")


def _orders(graph: SparsityPattern, steps: int) -> Iterator[Any]:
    """Orders of a graph's nodes: as they are, by degree, and the smallest degree last."""
    yield np.arange(graph.shape[0])
    yield np.argsort(-np.diff(graph.indptr), kind="stable")
    yield _compiled(greedy.smallest_last, steps)(graph.indptr, graph.indices)


def _fewest(colorings: Iterator[Any], least: int) -> Any:
    """The colouring with the fewest colours; the first that has as few as there can be."""
    best = None
    for colors in colorings:
        if best is None or colors.max(initial=0) < best.max(initial=0):
            best = colors
        if best.max(initial=0) < least:
            break
    return best


@functools.cache
def _jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    return jit(function)


def _compiled(function: Callable[..., Any], steps: int) -> Callable[..., Any]:
    return function if steps <= _FEW_STEPS else _jitted(function)


def _longest_row(pattern: SparsityPattern) -> int:
    return int(np.diff(pattern.indptr).max(initial=0))


def _without_diagonal(pattern: SparsityPattern) -> SparsityPattern:
    rows = pattern.rows
    kept = rows != pattern.cols
    counts = np.bincount(rows[kept], minlength=pattern.shape[0])
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(pattern.indptr.dtype)
    return SparsityPattern(pattern.shape, starts, pattern.indices[kept])
