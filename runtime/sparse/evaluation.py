"""A sparse derivative as a function: one compiled program for all colours, and SciPy's matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.api import jit
from calque.runtime.sparse import programs
from calque.runtime.sparse.coloring import ColoredPattern
from calque.runtime.sparse.detecting import Detected, value_like
from calque.runtime.sparse.patterns import SparsityPattern, scipys
from calque.runtime.trees import tree_leaves, tree_structure, tree_unflatten

Make = Callable[[Sequence[Any]], tuple[ColoredPattern, Detected | None]]


@dataclass(frozen=True)
class Prepared:
    """The colours and the program that serve arguments of these sizes and of this structure."""

    coloring: ColoredPattern
    detected: Detected | None
    kinds: tuple[Any, ...]
    program: Any

    def serves(self, args: Sequence[Any]) -> bool:
        """True if the pattern is that of these arguments, too."""
        known = self.detected
        return _kinds(args) == self.kinds and (known is None or known.serves(args))


class SparseDerivative:
    """A Jacobian or Hessian, as a function that gives sparse matrices of one pattern.

    A call takes the arguments of the function, in the sizes of the example, and gives the matrix in
    ``format``; the index arrays have the same numbers in every call. ``coloring`` is by what it is
    computed, ``sparsity`` its pattern. Made by ``jacobian``, ``hessian`` and their kin.
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
        self._is_alone = gives is matrix_alone
        self._prepare(args)

    @property
    def sparsity(self) -> SparsityPattern:
        """The pattern of the matrices."""
        return self.coloring.sparsity

    @property
    def coloring(self) -> ColoredPattern:
        """The pattern with its colours."""
        return self._now.coloring

    @property
    def calque_program(self) -> Any:
        """The compiled program that gives ``(value, aux)`` and the entries."""
        return self._now.program

    def _prepare(self, args: Sequence[Any]) -> Prepared:
        coloring, detected = self._made(args)
        chosen = tuple(args[k] for k in self.argnums)
        reverse = coloring.mode == "reverse"
        if coloring.mode == "symmetric" and detected is not None:
            reverse = detected.mode == "reverse"  # by cotangents the entries are the same
        value = value_like(self.function, args) if reverse or detected is None else None
        if detected is None:  # the pattern is the caller's
            _check_size(coloring.sparsity, value, chosen)
        colors = _in_structure(coloring.colors, value if reverse else chosen)
        if not reverse:
            colors = dict(zip(programs.names_of(self.function, self.argnums), colors, strict=True))
        all_colors = _in_rows(coloring.num_colors, self._chunk_size)
        by = programs.by_cotangents if reverse else programs.by_tangents
        size = all_colors.size * coloring.sparsity.shape[int(coloring.mode == "reverse")]
        entries = by(
            *(self.function, self.argnums, colors, all_colors, coloring.places, size),
            with_value=not self._is_alone,
        )
        self._now = made = Prepared(coloring, detected, _kinds(args), jit(entries))
        return made

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
        now = self._now  # another thread may prepare it for other sizes
        if not now.serves(args):
            now = self._prepare(args)
        found = now.program(*args)
        (value, aux), data = ((None, None), found) if self._is_alone else found
        pattern = now.coloring.sparsity
        indices, starts = pattern.indices.copy(), pattern.indptr.copy()  # SciPy changes some
        matrix = scipys().csr_array((data, indices, starts), shape=pattern.shape)
        matrix.has_canonical_format = True
        return matrix, value, aux

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "function")
        return f"<sparse derivative of {name}: {self.coloring!r}>"


def matrix_alone(matrix: Any, value: Any, aux: Any) -> Any:
    """The result of a call that asks for neither value nor aux."""
    return matrix


def _kinds(args: Sequence[Any]) -> tuple[Any, ...]:
    """The structure of arguments, and the sizes of their leaves."""
    shapes = tuple(np.shape(leaf) for leaf in tree_leaves(tuple(args)))
    return tree_structure(tuple(args)), shapes


def _check_size(pattern: SparsityPattern, value: Any, chosen: Any) -> None:
    """Raise ValueError if a pattern has not a row for each result, and a column for each input."""
    rows, columns = (sum(np.size(leaf) for leaf in tree_leaves(tree)) for tree in (value, chosen))
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
    parts = np.split(np.asarray(colors), ends[:-1]) if leaves else []
    shaped = [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    return tree_unflatten(tree_structure(like), shaped)
