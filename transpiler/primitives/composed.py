"""What is written as several simpler operations before it becomes loops over scalars.

A rule gives the same values as the primitive, to rounding; None where it does not apply. What BLAS
or LAPACK does better stays whole: products of matrices are loops only within loops, and small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.primitives.base import PRIMITIVES, apply
from calque.transpiler.primitives.reductions import count_reduced
from calque.transpiler.types import DimLike

Rule = Callable[[Sequence[Any], dict[str, Any], bool], Any]
COMPOSED: dict[str, Rule] = {}
SMALL = 8  # a matrix product of no more than this along each axis is three loops


def composed(*names: str) -> Callable[[Rule], Rule]:
    """Enter the rule of primitives by name."""

    def declare(rule: Rule) -> Rule:
        for name in names:
            assert name in PRIMITIVES, name
            COMPOSED[name] = rule
        return rule

    return declare


def _reduced(name: str, x: Any, params: dict[str, Any], keep: bool | None = None) -> Any:
    keepdims = params["keepdims"] if keep is None else keep
    return apply(PRIMITIVES[name], x, axis=params["axis"], keepdims=keepdims)


@composed("np.mean")
def _mean(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    if params.get("dtype") is not None or type_of(x).dtype.kind != "f":
        return None
    return _reduced("np.sum", x, params) / count_reduced(x, params["axis"])


@composed("np.var", "np.std")
def _variance(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    if type_of(x).dtype.kind != "f":
        return None
    count = count_reduced(x, params["axis"])
    mean = _reduced("np.sum", x, params, True) / count
    away = x - mean
    ddof = params.get("ddof", 0)
    return _reduced("np.sum", away * away, params) / (count - ddof if ddof else count)


@composed("np.std")
def _deviation(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    variance = _variance(args, params, looping)
    return None if variance is None else np.sqrt(variance)


@composed("np.count_nonzero")
def _count(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    ones = FUNCTIONS["cast"](args[0] != 0, np.dtype("i8"))
    return _reduced("np.sum", ones, params)


@composed("np.trace")
def _trace(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    diagonal = apply(PRIMITIVES["np.diagonal"], args[0], **params)
    return apply(PRIMITIVES["np.sum"], diagonal, axis=(diagonal.ndim - 1,), keepdims=False)


@composed("special.softmax")
def _softmax(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    whole = {"axis": params["axis"], "keepdims": True}
    powers = np.exp(x - _reduced("np.max", x, whole))
    return powers / _reduced("np.sum", powers, whole)


@composed("special.log_softmax")
def _log_softmax(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    whole = {"axis": params["axis"], "keepdims": True}
    away = x - _reduced("np.max", x, whole)
    return away - np.log(_reduced("np.sum", np.exp(away), whole))


@composed("np.linalg.norm")
def _norm(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    order, axis = params.get("ord"), params["axis"]
    axes = tuple(range(x.ndim)) if axis is None else tuple(axis) if isinstance(axis, tuple) else (axis,)
    how = {"axis": axes, "keepdims": bool(params["keepdims"])}
    if type_of(x).dtype.kind != "f":
        return None
    if order is None or (order == 2 and len(axes) == 1) or order == "fro":
        return np.sqrt(_reduced("np.sum", x * x, how))
    if len(axes) == 1 and order == 1:
        return _reduced("np.sum", np.abs(x), how)
    if len(axes) == 1 and order == np.inf:
        return _reduced("np.max", np.abs(x), how)
    return None


@composed("np.diff")
def _diff(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    if params["n"] != 1:
        return None
    before = (slice(None),) * params["axis"]
    x = args[0]
    return x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]


# products


@composed("np.dot", "np.matmul", "np.inner", "np.vdot")
def _product(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    a, b = args
    ranks = type_of(a).ndim, type_of(b).ndim
    if not looping or any(type_of(x).dtype.kind not in "f" for x in args):
        return None
    if ranks == (1, 1):
        return apply(PRIMITIVES["np.sum"], a * b, axis=(0,), keepdims=False)
    return _matrix_product(a, b, ranks)


def _matrix_product(a: Array, b: Array, ranks: tuple[int, int]) -> Any:
    sum_ = PRIMITIVES["np.sum"]
    if ranks == (2, 1):
        return apply(sum_, a * b, axis=(1,), keepdims=False)
    if ranks == (1, 2):
        return apply(sum_, a[:, None] * b, axis=(0,), keepdims=False)
    if ranks == (2, 2) and all(map(_is_small, (*a.dims, *b.dims))):
        return apply(sum_, a[:, :, None] * b[None], axis=(1,), keepdims=False)
    return None


def _is_small(dim: DimLike) -> bool:
    return isinstance(dim, int) and dim <= SMALL


# parts put together, within loops


@composed("np.concatenate")
def _concatenate(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    if not looping:
        return None
    axis = params["axis"]
    out = _empty_like_result("np.concatenate", args, params)
    if out is None:
        return None
    start: Any = 0
    for part in args:
        stop = start + part.shape[axis]
        where = (slice(None),) * axis
        out[(*where, slice(start, stop))] = part
        start = stop
    return Array(out.atom)


@composed("np.stack")
def _stack(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    if not looping:
        return None
    out = _empty_like_result("np.stack", args, params)
    if out is None:
        return None
    for k, part in enumerate(args):
        out[(*(slice(None),) * params["axis"], k)] = part
    return Array(out.atom)


@composed("np.array")
def _array(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    ranks = {type_of(a).ndim for a in args}
    if not looping or len(params["shape"]) != 1 or ranks != {0}:
        return None
    out = apply(PRIMITIVES["np.empty"], *params["shape"], dtype=params["dtype"])
    for k, part in enumerate(args):
        out[k] = part
    return Array(out.atom)


def _empty_like_result(name: str, args: Sequence[Any], params: dict[str, Any]) -> Any:
    t = PRIMITIVES[name].infer(*args, **params)
    builder = current()
    sizes = []
    for axis, dim in enumerate(t.dims):
        dim = builder.dims.resolve(dim)
        sizes.append(dim if isinstance(dim, int) else _size(name, args, params, axis))
    return apply(PRIMITIVES["np.empty"], *sizes, dtype=t.dtype)


def _size(name: str, args: Sequence[Any], params: dict[str, Any], axis: int) -> Any:
    """A size of the result, from the parts'."""
    if name == "np.stack":
        return args[0].shape[axis - (axis > params["axis"])]
    if axis != params["axis"]:
        return args[0].shape[axis]
    total: Any = 0
    for part in args:
        total = total + part.shape[axis]
    return total
