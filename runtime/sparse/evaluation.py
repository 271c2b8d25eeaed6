"""A sparse derivative as a function: one compiled program for all colours, and SciPy's matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime.api import jit
from calque.runtime.sparse import programs
from calque.runtime.sparse.coloring import ColoredPattern
from calque.runtime.sparse.detecting import Detected
from calque.runtime.sparse.patterns import SparsityPattern
from calque.runtime.spec import Spec
from calque.runtime.transformed import result_spec
from calque.runtime.trees import tree_leaves, tree_structure, tree_unflatten

Make = Callable[[Sequence[Any]], tuple[ColoredPattern, Detected | None]]


class SparseDerivative:
    """A Jacobian or Hessian, as a function that gives sparse matrices of one pattern.

    A call takes the arguments of the function, in the sizes of the example, and gives the matrix in
    ``format``; the index arrays are the same in every call. ``coloring`` is by what it is computed,
    ``sparsity`` its pattern. Made by ``jacobian``, ``hessian`` and their kin.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        make: Make,
        args: Sequence[Any],
        argnums: tuple[int, ...],
        gives: Callable[[Any, Any, Any], Any],
        format: str = "csr",
        chunk_size: int | None = None,
    ):
        self.function, self.argnums = function, argnums  # which gives (value, aux)
        self._made = make
        self._format, self._chunk_size, self._gives = format, chunk_size, gives
        self._prepare(args)

    @property
    def sparsity(self) -> SparsityPattern:
        """The pattern of the matrices."""
        return self.coloring.sparsity

    def _prepare(self, args: Sequence[Any]) -> None:
        self.coloring, self._detected = self._made(args)
        self._shapes = _shapes(args)
        coloring, chosen = self.coloring, tuple(args[k] for k in self.argnums)
        if self._detected is None:  # the pattern is the caller's
            _check_size(coloring.sparsity, without_aux(self.function), args, chosen)
        by, like = programs.by_tangents, chosen
        if coloring.mode == "reverse":
            by, like = programs.by_cotangents, self.function(*args)[0]
        colors = _in_structure(coloring.colors, like)
        numbers = _in_rows(coloring.num_colors, self._chunk_size)
        with_value = self._gives is not matrix_alone
        entries = by(self.function, self.argnums, colors, numbers, coloring.places, with_value)
        name = getattr(self.function, "__name__", "")
        entries.__name__ = f"{name if name.isidentifier() else 'sparse'}_entries"
        self.calque_program = jit(entries)

    def __call__(self, *args: Any) -> Any:
        """The matrix at these arguments; with its value and aux where these are asked for."""
        matrix, value, aux = self.computed(args)
        if self._format == "dense":
            matrix = matrix.toarray()
        elif self._format != "csr":
            matrix = matrix.asformat(self._format)
        return self._gives(matrix, value, aux)

    def computed(self, args: Sequence[Any]) -> tuple[Any, Any, Any]:
        """The matrix as compressed sparse rows, and the value and aux of the function."""
        from scipy.sparse import csr_array

        if not self._serves(args):
            self._prepare(args)
        (value, aux), data = self.calque_program(*args)
        pattern = self.sparsity
        matrix = csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
        matrix.has_canonical_format = True
        return matrix, value, aux

    def _serves(self, args: Sequence[Any]) -> bool:
        """True if the pattern is that of these arguments, too."""
        known = self._detected
        return _shapes(args) == self._shapes and (known is None or known.serves(args))

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "function")
        return f"<sparse derivative of {name}: {self.coloring!r}>"


def matrix_alone(matrix: Any, value: Any, aux: Any) -> Any:
    """The result of a call that asks for neither value nor aux."""
    return matrix


def without_aux(pair: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that gives the first of the two things that ``pair`` gives."""

    @functools.wraps(pair)
    def first(*args: Any) -> Any:
        return pair(*args)[0]

    return first


def _shapes(args: Sequence[Any]) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in tree_leaves(tuple(args))]


def _check_size(
    pattern: SparsityPattern, function: Callable[..., Any], args: Sequence[Any], chosen: Any
) -> None:
    """Raise ValueError if a pattern has not a row for each result, and a column for each input."""
    spec = result_spec(function, tuple(args), sized=True)
    leaves = tree_leaves(spec)
    rows = sum(math.prod(map(int, x.dims)) if isinstance(x, Spec) else 1 for x in leaves)
    columns = sum(np.size(leaf) for leaf in tree_leaves(chosen))
    if pattern.shape != (rows, columns):
        have = " x ".join(map(str, pattern.shape))
        raise ValueError(f"the pattern is {have}, and the derivative {rows} x {columns}")


def _in_rows(count: int, chunk_size: int | None) -> Any:
    """All colours; with a chunk size in rows of so many, the last filled with -1, which is none."""
    if chunk_size is None or chunk_size >= count:
        return np.arange(count)
    numbers = np.full((-(-count // chunk_size), chunk_size), -1)
    numbers.reshape(-1)[:count] = np.arange(count)
    return numbers


def _in_structure(colors: Any, like: Any) -> Any:
    """The colours of all elements of a tree, in its structure."""
    leaves = tree_leaves(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = np.split(np.asarray(colors), ends[:-1])
    shaped = [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    return tree_unflatten(tree_structure(like), shaped)
