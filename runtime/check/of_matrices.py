"""The modes of a sparse derivative for ``check``: products with its matrix, also transposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.check.directional import Leaves, Modes
from calque.runtime.sparse.evaluation import SparseDerivative
from calque.transpiler.ir import pytrees


def modes_of(derivative: SparseDerivative, structure: Any) -> Modes:
    """The modes of a sparse derivative whose arguments have this structure."""

    def value(leaves: list[Any]) -> Leaves:
        return pytrees.flatten(derivative.function(*pytrees.unflatten(structure, leaves))[0])[0]

    def push(leaves: list[Any], dots: list[Any]) -> tuple[Leaves, Leaves]:
        matrix = derivative.computed(pytrees.unflatten(structure, leaves))[0]
        results = list(value(leaves))
        moved = matrix @ np.concatenate([np.ravel(dots[k]) for k in chosen(leaves)])
        return results, _like(moved, results)

    def pull(leaves: list[Any], bars: list[Any]) -> Leaves:
        matrix, _, _ = derivative.computed(pytrees.unflatten(structure, leaves))
        moved = matrix.T @ np.concatenate([np.ravel(bar) for bar in bars])
        places = chosen(leaves)
        found = [np.zeros(np.shape(leaf)) for leaf in leaves]
        for k, part in zip(places, _like(moved, [leaves[k] for k in places]), strict=True):
            found[k] = part
        return found

    def chosen(leaves: list[Any]) -> list[int]:
        args = pytrees.unflatten(structure, list(range(len(leaves))))
        return [leaf for k in derivative.argnums for leaf in pytrees.flatten(args[k])[0]]

    return Modes(value, push, pull)


def _like(flat: Any, leaves: list[Any]) -> Leaves:
    """The numbers of a vector in the shapes of leaves."""
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
