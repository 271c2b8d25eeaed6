"""Sorting, searching, counting, and taking along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, METHODS, OPERATORS, current, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    finish,
    implements,
    linear,
    opaque,
    operand,
    register,
)
from calque.transpiler.primitives.record import Scatter
from calque.transpiler.primitives.scans import along, along_index, axis_samples, axis_text
from calque.transpiler.primitives.shapes import normalize_axis

Samples = list[tuple[tuple[Any, ...], dict[str, Any]]]
_INT = np.dtype(np.intp)


def _order(x: Any, axis: int) -> Any:
    """The stable order, as JAX breaks ties."""
    return np.argsort(x, axis=axis, kind="stable")


def take_sorted(x: Any, order: Any, axis: int) -> Any:
    """``x`` in this order along the axis."""
    return x[order] if order.ndim == 1 else np.take_along_axis(x, order, axis)


def _sort_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    axis = params["axis"]
    return (take_sorted(tangents[0], _order(args[0], axis), axis),)


def _sort_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    axis = params["axis"]
    rank = np.argsort(_order(args[0], axis), axis=axis)
    return (take_sorted(cotangents[0], rank, axis),)


sort = opaque(
    "np.sort",
    np.sort,
    lambda x, axis, kind: type_of(x),
    axis_text("np.sort", "kind"),
    _sort_jvp,
    _sort_vjp,
    rule="sort: each adjoint goes back to the place that its value came from",
    fresh=True,
    samples=lambda rng: axis_samples(rng, kind=None),
)
argsort = register(
    Primitive(
        "np.argsort",
        np.argsort,
        lambda x, axis, kind: type_of(x).with_dtype(_INT),
        axis_text("np.argsort", "kind"),
        nondifferentiable=True,
        fresh=True,
        samples=lambda rng: axis_samples(rng, kind="stable"),
        distinct=True,
    )
)


def _sorted(primitive: Primitive, a: Any, axis: Any, kind: Any, stable: Any) -> Any:
    x = FUNCTIONS[np.asarray](operand(a))
    if axis is None:
        x, axis = np.ravel(x), -1
    kind = "stable" if stable else kind
    return apply(primitive, x, axis=normalize_axis(axis, x.ndim), kind=kind)


@implements(np.sort)
def np_sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """``np.sort``."""
    return _sorted(sort, a, axis, kind, stable)


@implements(np.argsort, method="argsort")
def np_argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """``np.argsort``."""
    return _sorted(argsort, a, axis, kind, stable)


@implements(np.lexsort)
def np_lexsort(keys: Any, axis: Any = -1) -> Any:
    """``np.lexsort``: a stable order by each key in turn."""
    keys = [FUNCTIONS[np.asarray](operand(k)) for k in keys]
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    found = np_argsort(keys[0], axis, stable=True)
    for key in keys[1:]:
        axis = normalize_axis(axis, key.ndim)
        again = np_argsort(take_sorted(key, found, axis), axis, stable=True)
        found = take_sorted(found, again, axis)
    return found


@implements(method="sort")
def sort_in_place(x: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
    """``x.sort()`` stores into x."""
    x.replace(np_sort(x, axis, kind))


@implements(method="partition")
def partition_in_place(x: Any, kth: Any, axis: int = -1) -> None:
    """``x.partition(kth)`` stores into x."""
    x.replace(np_partition(x, kth, axis))


argpartition = register(
    Primitive(
        "np.argpartition",
        lambda x, axis, kth: np.argpartition(x, kth, axis),
        lambda x, axis, kth: type_of(x).with_dtype(_INT),
        lambda args, p: (
            f"np.argpartition({{0}}, {p['kth']!r}"
            + (f", axis={p['axis']})" if type_of(args[0]).ndim > 1 else ")")
        ),
        nondifferentiable=True,
        fresh=True,
        samples=lambda rng: [*axis_samples(rng, kth=0)[:4], *axis_samples(rng, kth=1)[:2]],
    )
)


@implements(np.argpartition, method="argpartition")
def np_argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    """``np.argpartition``."""
    x = FUNCTIONS[np.asarray](operand(a))
    if axis is None:
        x, axis = np.ravel(x), -1
    kth = tuple(map(int, kth)) if isinstance(kth, (tuple, list)) else int(kth)
    return apply(argpartition, x, axis=normalize_axis(axis, x.ndim), kth=kth)


@implements(np.partition)
def np_partition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    """``np.partition``: the elements in the order of ``np.argpartition``."""
    x = FUNCTIONS[np.asarray](operand(a))
    if axis is None:
        x, axis = np.ravel(x), -1
    axis = normalize_axis(axis, x.ndim)
    return take_sorted(x, np_argpartition(x, kth, axis), axis)


# taking


def _infer_take_along(x: Any, indices: Any, axis: int) -> ArrayType:
    have, want = list(type_of(x).dims), list(type_of(indices).dims)
    have[axis], taken = 1, want[axis]
    want[axis] = 1
    dims = list(current().broadcast([have, want]))
    dims[axis] = taken
    return ArrayType(type_of(x).dtype, tuple(dims))


def _take_along_samples(rng: np.random.Generator) -> Samples:
    return [
        ((rng.normal(size=s), rng.integers(0, s[a], t)), {"axis": a})
        for s, t, a in [((5,), (7,), 0), ((3, 4), (2, 4), 0), ((3, 4), (3, 2), 1), ((1,), (1,), 0)]
    ]


@linear(
    "np.take_along_axis",
    np.take_along_axis,
    _infer_take_along,
    lambda args, p: f"np.take_along_axis({{0}}, {{1}}, axis={p['axis']})",
    samples=_take_along_samples,
)
def take_along_axis(y_bar: Any, x: Any, indices: Any, axis: int) -> Any:
    """Every mention of an element adds to it."""
    return Scatter(lambda x_bar: np.add.at(x_bar, along_index(x, indices, axis), y_bar))


@implements(np.take_along_axis)
def np_take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """``np.take_along_axis``."""
    x, indices = FUNCTIONS[np.asarray](operand(arr)), FUNCTIONS[np.asarray](operand(indices))
    if axis is None:
        return np.ravel(x)[indices]
    return apply(take_along_axis, x, indices, axis=normalize_axis(axis, x.ndim))


@implements(np.put_along_axis)
def np_put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """``np.put_along_axis`` stores into its first argument."""
    indices = FUNCTIONS[np.asarray](operand(indices))
    if axis is None:
        raise UnsupportedFunction("np.put_along_axis with axis=None.", current().origin)
    index = along_index(arr, indices, normalize_axis(axis, arr.ndim))
    OPERATORS["setitem"](arr, index, values)


@implements(np.take, method="take")
def np_take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """``np.take``: an index along one axis."""
    x = FUNCTIONS[np.asarray](operand(a))
    if axis is None:
        x, axis = np.ravel(x), 0
    axis = normalize_axis(axis, x.ndim)
    indices = operand(indices)
    if mode == "wrap":
        indices = indices % x.shape[axis]
    elif mode == "clip":
        indices = np.clip(indices, 0, x.shape[axis] - 1)
    return finish(x[along(axis, indices)], out)


# searching and counting


def _searchsorted_samples(rng: np.random.Generator) -> Samples:
    edges = np.sort(rng.normal(size=6))
    shapes: list[tuple[int, ...]] = [(4,), (2, 3), (), (0,)]
    return [((edges, np.asarray(rng.normal(size=s))), {"side": "left"}) for s in shapes]


searchsorted = register(
    Primitive(
        "np.searchsorted",
        np.searchsorted,
        lambda x, v, side: ArrayType(_INT, type_of(v).dims),
        lambda args, p: "np.searchsorted({0}, {1}"
        + (")" if p["side"] == "left" else f", side={p['side']!r})"),
        nondifferentiable=True,
        samples=_searchsorted_samples,
        arithmetic="place",
        cost=20,
    )
)


@implements(np.searchsorted)
def np_searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """``np.searchsorted``."""
    x = FUNCTIONS[np.asarray](operand(a))
    x = x if sorter is None else x[sorter]
    return apply(searchsorted, x, operand(v), side=side)


METHODS["searchsorted"] = np_searchsorted

digitize = register(
    Primitive(
        "np.digitize",
        np.digitize,
        lambda x, bins, right: ArrayType(_INT, type_of(x).dims),
        lambda args, p: "np.digitize({0}, {1}" + (", right=True)" if p["right"] else ")"),
        nondifferentiable=True,
        samples=lambda rng: [
            ((np.asarray(rng.normal(size=s)), np.array([-1.0, 0.0, 1.0])), {"right": False})
            for s in [(4,), (), (0,)]
        ],
        arithmetic="place",
    )
)
implements(np.digitize)(
    lambda x, bins, right=False: apply(
        digitize, operand(x), FUNCTIONS[np.asarray](operand(bins)), right=bool(right)
    )
)
