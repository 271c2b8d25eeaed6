"""Collective operations between the examples of a batch, or the devices of a mesh.

Each carries its named axis as a parameter. The batching pass of the ``vmap`` that has this axis
turns it into a sum, a gather or a rearrangement along the batch axis, by the rule in ``OWN``; any
other one batches it as an ordinary operation, by the record's own rule. Over an axis of devices it
stays, and is written as a call of the axis's communicator. On plain arrays (``function``) a
collective means what it does over an axis with a single example.

Over an axis that is ``checked`` (``shard_map`` with ``check_vma=True``) it is known which values
differ between devices: the transpose of a sum of such values, which is the same on all, is the
cotangent as it is; where a value that is the same on all meets one that differs, ``pcast`` stands,
whose transpose is the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.ir.types import INT, ArrayType
from calque.transpiler.primitives.base import Primitive, apply, as_array, register
from calque.transpiler.primitives.batched import counting, new_zeros, spread
from calque.transpiler.primitives.sampling import case, cases


@dataclass(frozen=True, eq=False)
class NamedAxis:
    """The batch axis of a ``vmap(..., axis_name=name)``, or an axis of devices."""

    name: Hashable
    size: Any
    index: Any = None  # of one example: its number
    communicator: str = ""  # of an axis of devices: what generated source calls it
    checked: bool = False  # what differs along it, and what does not, is told apart

    def __repr__(self) -> str:
        return repr(self.name)


# the primitives


def _typed(x: Any, dims: Sequence[Any]) -> ArrayType:
    return ArrayType(type_of(x).dtype, tuple(dims))


def _as_it_is(x: Any, **params: Any) -> ArrayType:
    return _typed(x, type_of(x).dims)


_ONE = NamedAxis("i", 1)


def over(primitive: Primitive, x: Any, **params: Any) -> Any:
    """The collective of an array, or of a number that all examples share."""
    if not isinstance(x, Array) and primitive not in _PLACED:
        size = params["axis"].size if primitive in (psum, psum_invariant) else 1
        return size if x == 1 else x * size
    return apply(primitive, as_array(x), **params)


def _spelled(name: str, *shown: str) -> Callable[..., str]:
    """``comm.psum({0})``: a method of the axis's communicator, and what else it must know."""

    def spell(args: Sequence[Any], params: dict[str, Any]) -> str:
        more = "".join(f", {_shown(params[k])}" for k in shown)
        return f"{params['axis'].communicator}.{name}({{0}}{more})"

    return spell


def _shown(value: Any) -> str:
    return pairs_text(value) if isinstance(value, tuple) else repr(value)


def pairs_text(pairs: Sequence[tuple[int, int]]) -> str:
    """The pairs of a ``ppermute``, as one writes them.

    >>> pairs_text(((0, 1), (1, 2), (2, 3), (3, 0)))
    '[(k, (k + 1) % 4) for k in range(4)]'
    >>> pairs_text(((1, 0), (2, 1), (3, 2)))
    '[(k + 1, k) for k in range(3)]'
    >>> pairs_text(((0, 3), (1, 0)))
    '[(0, 3), (1, 0)]'
    """
    pairs, count = sorted(pairs), len(pairs)
    if count > 2:
        step = (pairs[0][1] - pairs[0][0]) % count
        if list(pairs) == [(k, (k + step) % count) for k in range(count)]:
            step = step if step <= count // 2 else step - count
            there = f"(k {'+' if step > 0 else '-'} {abs(step)}) % {count}"
            return f"[(k, {there}) for k in range({count})]"
        step = pairs[0][1] - pairs[0][0]
        here = "k" if step > 0 else f"k + {-step}"
        there = f"k + {step}" if step > 0 else "k"
        low = min(pairs[0])
        if step and [(a - max(-step, 0), b - max(step, 0)) for a, b in pairs] == [
            (k, k) for k in range(low, low + count)
        ]:
            bounds = f"{low}, {low + count}" if low else f"{count}"
            return f"[({here}, {there}) for k in range({bounds})]"
    return str(list(pairs))


def _collective(
    name: str,
    function: Callable[..., Any],
    infer: Callable[..., Any],
    samples: Any,
    *shown: str,
    spelling: Callable[..., str] | None = None,
) -> Callable[[Callable[..., Any]], Primitive]:
    """Declare a collective, linear in its array; the decorated rule is its transpose.

    ``shown`` are the parameters that its call names besides the array.
    """

    def declare(transpose: Callable[..., Any]) -> Primitive:
        def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
            return (over(primitive, tangents[0], **params),)

        def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
            return (transpose(cotangents[0], **params),)

        primitive = register(
            Primitive(
                name,
                function,
                infer,
                spelling or _spelled(name, *shown),
                kind="collective",
                jvp=jvp,
                vjp=vjp,
                linear_in=(0,),
                fresh=spelling is None,
                aliases=spelling is not None,
                samples=samples,
            )
        )
        return primitive

    return declare


@_collective(
    "psum",
    lambda x, axis: x,
    _as_it_is,
    cases(case((3, 4), axis=_ONE), case((), axis=_ONE)),
)
def psum(y_bar: Any, axis: NamedAxis) -> Any:
    return over(psum, y_bar, axis=axis)


psum.rule = "psum: the psum of the adjoints"


@_collective(
    "pmean",
    lambda x, axis: x,
    _as_it_is,
    cases(case((3, 4), axis=_ONE), case((), axis=_ONE)),
)
def pmean(y_bar: Any, axis: NamedAxis) -> Any:
    return over(pmean, y_bar, axis=axis)


# over axes that are checked


@_collective(
    "psum_invariant",
    lambda x, axis: x,
    _as_it_is,
    cases(case((3, 4), axis=_ONE), case((), axis=_ONE)),
    spelling=_spelled("psum"),
)
def psum_invariant(y_bar: Any, axis: NamedAxis) -> Any:
    return over(pcast, y_bar, axis=axis)


@_collective(
    "pcast",
    lambda x, axis: x,
    _as_it_is,
    cases(case((3, 4), axis=_ONE), case((), axis=_ONE)),
    spelling=lambda args, params: "{0}",
)
def pcast(y_bar: Any, axis: NamedAxis) -> Any:
    return over(psum_invariant, y_bar, axis=axis)


def sum_over(x: Any, axis: NamedAxis) -> Any:
    """The sum of an Array along an axis, as its derivative is to be taken."""
    return over(psum_invariant if axis.checked else psum, x, axis=axis)


def _share(y: Any, x: Any, axis: NamedAxis) -> Any:
    """Each example's share of an extremum's derivative: equal parts for those that attain it."""
    reached = FUNCTIONS["cast"](np.equal(x, y), type_of(x).dtype)
    return reached / sum_over(reached, axis)


def _extremum_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    share = _share(outs[0], args[0], params["axis"])
    return (sum_over(tangents[0] * share, params["axis"]),)


def _extremum_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    axis = params["axis"]
    share = _share(outs[0], args[0], axis)
    return (over(pcast if axis.checked else psum, cotangents[0], axis=axis) * share,)


def _extremum(name: str) -> Primitive:
    samples = cases(case((3, 4), axis=_ONE), case((), axis=_ONE))
    primitive = _collective(name, lambda x, axis: x, _as_it_is, samples)(lambda y_bar, axis: None)
    primitive.jvp, primitive.vjp, primitive.linear_in = _extremum_jvp, _extremum_vjp, ()
    return primitive


pmax, pmin = _extremum("pmax"), _extremum("pmin")


def _infer_gather(x: Any, axis: NamedAxis, place: int) -> ArrayType:
    dims = list(type_of(x).dims)
    dims.insert(place, current().dim_of(axis.size))
    return _typed(x, dims)


@_collective(
    "all_gather",
    lambda x, axis, place: np.expand_dims(x, place),
    _infer_gather,
    cases(case((3, 4), axis=_ONE, place=1), case((), axis=_ONE, place=0)),
    "place",
)
def all_gather(y_bar: Any, axis: NamedAxis, place: int) -> Any:
    return over(psum_scatter, y_bar, axis=axis, place=place)


def _infer_scatter(x: Any, axis: NamedAxis, place: int) -> ArrayType:
    dims = list(type_of(x).dims)
    _of_axis(dims.pop(place), axis, "psum_scatter")
    return _typed(x, dims)


def _of_axis(dim: Any, axis: NamedAxis, name: str) -> None:
    """A dimension that must be as long as the axis."""
    builder = current()
    have, want = builder.dims.resolve(dim), builder.dim_of(axis.size)
    if isinstance(have, int) and isinstance(want, int) and have != want:
        raise ShapeError(
            f"{name}: the axis of the array that is split has {have} elements, and "
            f"the mapped axis {axis.name!r} has {want}.",
            builder.origin,
            "they must be equal; with tiled=True the one must be a multiple of the other",
        )
    builder.unify(have, want)


@_collective(
    "psum_scatter",
    lambda x, axis, place: np.squeeze(x, place),
    _infer_scatter,
    cases(case((3, 1), axis=_ONE, place=1), case((1,), axis=_ONE, place=0)),
    "place",
)
def psum_scatter(y_bar: Any, axis: NamedAxis, place: int) -> Any:
    return over(all_gather, y_bar, axis=axis, place=place)


def _infer_exchange(x: Any, axis: NamedAxis, split: int, concat: int) -> ArrayType:
    dims = list(type_of(x).dims)
    dim = dims.pop(split)
    _of_axis(dim, axis, "all_to_all")
    dims.insert(concat, dim)
    return _typed(x, dims)


@_collective(
    "all_to_all",
    lambda x, axis, split, concat: np.moveaxis(x, split, concat),
    _infer_exchange,
    cases(
        case((1, 3), axis=_ONE, split=0, concat=1), case((2, 1, 3), axis=_ONE, split=1, concat=1)
    ),
    "split",
    "concat",
)
def all_to_all(y_bar: Any, axis: NamedAxis, split: int, concat: int) -> Any:
    return over(all_to_all, y_bar, axis=axis, split=concat, concat=split)


@_collective(
    "ppermute",
    lambda x, axis, perm: x * len(perm),
    _as_it_is,
    cases(case((3, 4), axis=_ONE, perm=((0, 0),)), case((2,), axis=_ONE, perm=())),
    "perm",
)
def ppermute(y_bar: Any, axis: NamedAxis, perm: tuple[tuple[int, int], ...]) -> Any:
    return over(ppermute, y_bar, axis=axis, perm=tuple((b, a) for a, b in perm))


_PLACED = frozenset((all_gather, psum_scatter, all_to_all, ppermute))  # of arrays alone


# over axes of devices: which one this is


def _infer_number(axis: NamedAxis) -> ArrayType:
    return INT


axis_number = register(
    Primitive(
        "axis_number",
        lambda axis: 0,
        _infer_number,
        lambda args, params: f"{params['axis'].communicator}.rank",
        nondifferentiable=True,
        cheap=True,
        samples=cases(case(axis=_ONE)),
    )
)


# under the vmap of another axis: ordinary operations, whose axes move up by one


def _moved_up(primitive: Primitive) -> Callable[..., Any]:
    def rule(args: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Any:
        up = {k: v + 1 for k, v in params.items() if k in ("place", "split", "concat")}
        return apply(primitive, *args, **{**params, **up})

    return rule


for _record in (psum, pmean, pmax, pmin, all_gather, psum_scatter, all_to_all, ppermute):
    _record.batch = _moved_up(_record)
psum_invariant.batch, pcast.batch = _moved_up(psum_invariant), _moved_up(pcast)


# under the vmap of their own axis: ``rule(x, batched, params, size)``, with the batch axis in front
# where the result differs from one example to the next


def _whole(x: Any) -> Any:
    """The reduced axis, as one writes it."""
    return None if x.ndim == 1 else 0


def _own_sum(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    return np.sum(x, axis=_whole(x)) if batched else x * size


def _as_before(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    return x if batched else spread(x, size)


def _own_mean(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    return np.mean(x, axis=_whole(x)) if batched else x


def _own_max(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    return np.max(x, axis=_whole(x)) if batched else x


def _own_min(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    return np.min(x, axis=_whole(x)) if batched else x


def _own_gather(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    return np.moveaxis(x if batched else spread(x, size), 0, params["place"])


def _own_scatter(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    return np.moveaxis(_own_sum(x, batched, params, size), params["place"], 0)


def _own_exchange(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    x = x if batched else spread(x, size)
    split, concat = params["split"] + 1, params["concat"] + 1
    if split == concat:
        return np.swapaxes(x, 0, split)
    return np.moveaxis(np.moveaxis(x, split, 0), 1, concat)


def _own_permute(x: Any, batched: bool, params: dict[str, Any], size: Any) -> Any:
    x, perm = x if batched else spread(x, size), params["perm"]
    if len(perm) == size if not isinstance(size, Array) else False:
        came_from = [a for a, _ in sorted(perm, key=lambda pair: pair[1])]
        shift = -came_from[0] % len(perm)
        if came_from == [(k - shift) % len(perm) for k in range(len(perm))]:
            return np.roll(x, shift, axis=0) if shift else x
        return x[came_from]
    result = new_zeros(x.shape, x.dtype)
    if perm:
        result[[b for _, b in perm]] = x[[a for a, _ in perm]]
    return Array(result.atom)


OWN: dict[Primitive, Callable[..., Any]] = {
    psum: _own_sum,
    pmean: _own_mean,
    pmax: _own_max,
    pmin: _own_min,
    all_gather: _own_gather,
    psum_scatter: _own_scatter,
    all_to_all: _own_exchange,
    ppermute: _own_permute,
    psum_invariant: _own_sum,
    pcast: _as_before,
}


def numbered(size: Any) -> Any:
    """The numbers of all examples."""
    return counting(size)
