"""Batch rules of products and linear algebra: NumPy stacks matrices, vectors need an axis more."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, loop_index, type_of
from calque.transpiler.primitives import (
    creation,
    decompositions,
    diagonals,
    eigenvalues,
    histograms,
    linalg,
    norms,
    products,
    selecting,
    signals,
    sorting,
)
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.batched import (
    Rule,
    aligned,
    all_batched,
    batches,
    counting,
    flat_rows,
    lift,
    rank_of,
    refuse,
    size_among,
    spread,
)
from calque.transpiler.primitives.einsum import einsum, expand
from calque.transpiler.primitives.matrix_signatures import linalg_dtype, parsed, present
from calque.transpiler.primitives.scans import looped

Args = Sequence[Any]
Flags = tuple[bool, ...]
Params = dict[str, Any]


@batches(einsum)
def _einsum(args: Args, batched: Flags, params: Params) -> Any:
    ranks = [rank_of(a, b) for a, b in zip(args, batched, strict=True)]
    terms, output = expand(params["subscripts"], ranks)
    used = "".join([*terms, output])
    letter = next(c for c in "b" + string.ascii_letters if c not in used)
    terms = [letter + t if b else t for t, b in zip(terms, batched, strict=True)]
    text = ",".join(terms) + "->" + letter + output
    return apply(einsum, *args, **{**params, "subscripts": text})


def _contract(a: Any, b: Any, batched: Flags, left: str, right: str, output: str) -> Any:
    terms = [("z" if has else "") + t for t, has in zip((left, right), batched, strict=True)]
    return apply(einsum, a, b, subscripts=f"{terms[0]},{terms[1]}->z{output}")


def stacked(primitive: Primitive) -> Rule:
    """The batch rule by a signature: NumPy's stack, in which vectors are matrices of one column."""
    operands, results = parsed(primitive.signature)

    def rule(args: Args, batched: Flags, params: Params) -> Any:
        ranks = tuple(map(rank_of, args, batched))
        given, left = present(primitive.signature, ranks)
        depth = max(rank - len(kept) for rank, kept in zip(ranks, given, strict=True))
        whole = [
            lift(_indexed(x, names, kept, None, has), depth + len(names), has)
            for x, names, kept, has in zip(args, operands, given, batched, strict=True)
        ]
        found = apply(primitive, *whole, **params)
        if len(results) == 1:
            return _indexed(found, results[0], left[0], 0)
        return tuple(map(_indexed, found, results, left, [0] * len(left)))

    return rule


def _indexed(x: Any, names: Any, kept: Any, at: Any, has: bool = True) -> Any:
    """A stack with the axes that vectors lack put in, where ``at`` is None, or taken out."""
    if kept == names:
        return x
    index = [slice(None) if n in kept else at for n in names]
    if index[-1] == at:
        return x[..., at]
    return x[(..., *index)] if at == 0 else x[(*[slice(None)] * has, *index)]


@batches(products.matmul)
def _matmul(args: Args, batched: Flags, params: Params) -> Any:
    (a, b), ranks = args, tuple(rank_of(x, has) for x, has in zip(args, batched, strict=True))
    if max(ranks) <= 2:
        return _product(a, b, batched, ranks)
    return stacked(products.matmul)(args, batched, params)


def _same_length(a: Any, b: Any) -> bool:
    """True if the last axes of two arrays are known to have the same length."""
    return current().dims.same(a.dims[-1], b.dims[-1])


def _product(a: Any, b: Any, batched: Flags, ranks: tuple[int, ...]) -> Any:
    """A product of vectors and matrices: one large product where only one operand is batched."""
    match ranks, batched:
        case (1, 1), (True, True) if not _same_length(a, b):
            return (a[:, None, :] @ b[:, :, None])[:, 0, 0]  # raises where einsum would spread
        case (1, 1), (True, True):
            return apply(einsum, a, b, subscripts="bi,bi->b")
        case (1, _), (True, False):
            return a @ b
        case (1, 1), (False, True):
            return b @ a
        case (2, 1), (False, True):
            return b @ a.T
        case (2, 1), (True, True):
            return (a @ b[:, :, None])[:, :, 0]
        case (1, 2), (True, True):
            return (a[:, None, :] @ b)[:, 0, :]
    return a @ b


@batches(products.dot)
def _dot(args: Args, batched: Flags, params: Params) -> Any:
    (a, b), ranks = args, tuple(rank_of(x, has) for x, has in zip(args, batched, strict=True))
    if max(ranks) <= 2:
        return _product(a, b, batched, ranks)
    rows, columns = string.ascii_letters[: ranks[0]], string.ascii_letters[10 : 10 + ranks[1]]
    at = max(ranks[1] - 2, 0)
    columns = columns[:at] + rows[-1] + columns[at + 1 :]
    return _contract(a, b, batched, rows, columns, rows[:-1] + columns.replace(rows[-1], ""))


@batches(products.inner)
def _inner(args: Args, batched: Flags, params: Params) -> Any:
    (a, b), ranks = args, tuple(rank_of(x, has) for x, has in zip(args, batched, strict=True))
    if ranks == (1, 1):
        return _product(a, b, batched, ranks)
    rows, columns = string.ascii_letters[: ranks[0]], string.ascii_letters[10 : 10 + ranks[1]]
    columns = columns[:-1] + rows[-1]
    return _contract(a, b, batched, rows, columns, rows[:-1] + columns[:-1])


@batches(products.outer)
def _outer(args: Args, batched: Flags, params: Params) -> Any:
    a, b = (
        x[:, None] if has and x.ndim == 1 else flat_rows(x) if has else np.ravel(x)
        for x, has in zip(args, batched, strict=True)
    )
    return a[..., None] * (b[:, None, :] if batched[1] else b)


@batches(products.vdot)
def _vdot(args: Args, batched: Flags, params: Params) -> Any:
    a, b = (flat_rows(x) if has else np.ravel(x) for x, has in zip(args, batched, strict=True))
    a = np.conj(a) if a.dtype.kind == "c" else a
    return _product(a, b, batched, (1, 1))


@batches(products.tensordot)
def _tensordot(args: Args, batched: Flags, params: Params) -> Any:
    (a, b), (left, right) = args, params["axes"]
    if not batched[1]:
        return np.tensordot(a, b, (tuple(k + 1 for k in left), right))
    if not batched[0]:
        result = np.tensordot(a, b, (left, tuple(k + 1 for k in right)))
        return np.moveaxis(result, a.ndim - len(left), 0)
    rows = list(string.ascii_letters[: a.ndim - 1])
    columns = list(string.ascii_letters[10 : 10 + b.ndim - 1])
    for i, j in zip(left, right, strict=True):
        columns[j] = rows[i]
    kept = [c for k, c in enumerate(rows) if k not in left]
    kept += [c for k, c in enumerate(columns) if k not in right]
    return _contract(a, b, batched, "".join(rows), "".join(columns), "".join(kept))


@batches(products.kron)
def _kron(args: Args, batched: Flags, params: Params) -> Any:
    a, b = all_batched(args, batched)
    rank = max(a.ndim, b.ndim) - 1
    a, b = lift(a, rank), lift(b, rank)
    rows, columns = a.shape[1:], b.shape[1:]
    spaced = [slice(None), *(i for _ in range(rank) for i in (slice(None), None))]
    other = [slice(None), *(i for _ in range(rank) for i in (None, slice(None)))]
    blocks = a[tuple(spaced)] * b[tuple(other)]
    return np.reshape(blocks, (a.shape[0], *(r * c for r, c in zip(rows, columns, strict=True))))


@batches(products.cross)
def _cross(args: Args, batched: Flags, params: Params) -> Any:
    return np.cross(*aligned(args, batched))


@batches(signals.convolve)
def _convolve(args: Args, batched: Flags, params: Params) -> Any:
    """The first operand, moved by one place after the other, times what the second one has there.

    No place gets more than its own terms: zeros around an operand would make NaN of infinities.
    """
    a, v = args
    n, m = (x.shape[has] for x, has in zip(args, batched, strict=True))
    dtype = np.result_type(type_of(a).dtype, type_of(v).dtype)
    start = FUNCTIONS[np.zeros]((size_among(args, batched), n + m - 1), dtype)
    j = loop_index(0, current().dim_of(m) - 1, "j")

    def added(sums: Array) -> Array:
        sums[:, j : j + n] += a * (v[:, j, None] if batched[1] else v[j])
        return Array(sums.atom)

    full = looped(start, j, 0, m, added)
    if params["mode"] == "full":
        return full
    longer = signals._first_is_longer(type_of(a).dims[-1], type_of(v).dims[-1])
    long, short = (n, m) if longer else (m, n)
    first = (short - 1) // 2 if params["mode"] == "same" else short - 1
    return full[:, first : first + long] if params["mode"] == "same" else full[:, first:long]


# interpolation and searching


@batches(signals.interp)
def _interp(args: Args, batched: Flags, params: Params) -> Any:
    x, xp, fp = args
    if not batched[1] and not batched[2]:
        return apply(signals.interp, x, xp, fp)
    if type_of(xp).dims[-1] == 1:
        raise refuse("np.interp", "the grid is a single point.")
    flags = (batched[1], batched[0])
    place = _searchsorted((xp, x), flags, {"side": "right"}) if any(flags) else None
    place = np.searchsorted(xp, x, side="right") if place is None else place
    high = np.clip(place, 1, xp.shape[-1] - 1)
    size = size_among(args, batched)
    lanes = lift(counting(size), rank_of(x, batched[0]))
    x = lift(x, rank_of(x, batched[0]), batched[0])
    ends = [_row(v, k, lanes, b) for v, b in zip((xp, fp), batched[1:]) for k in (high - 1, high)]
    t = np.clip((x - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)
    return (1.0 - t) * ends[2] + t * ends[3]


def _row(values: Any, places: Any, lanes: Any, has: bool) -> Any:
    """Elements of each example's own row, or of the row that all share."""
    return values[lanes, places] if has else values[places]


@batches(sorting.searchsorted)
def _searchsorted(args: Args, batched: Flags, params: Params) -> Any:
    x, v = args
    if not batched[0]:
        return apply(sorting.searchsorted, x, v, **params)
    rank = rank_of(v, batched[1])
    row = x[(slice(None), *(None,) * rank)]
    value = v[..., None] if rank or batched[1] else v
    before = row < value if params["side"] == "left" else row <= value
    return np.sum(before, axis=-1)


@batches(sorting.digitize)
def _digitize(args: Args, batched: Flags, params: Params) -> Any:
    if batched[1]:
        raise refuse("np.digitize", "the bins are batched.")
    return apply(sorting.digitize, *args, **params)


@batches(selecting.unravel_index)
def _unravel_index(args: Args, batched: Flags, params: Params) -> Any:
    return apply(selecting.unravel_index, *args)


@batches(selecting.ravel_multi_index)
def _ravel_multi_index(args: Args, batched: Flags, params: Params) -> Any:
    rank = params["rank"]
    indices = aligned(args[:rank], batched[:rank])
    return apply(selecting.ravel_multi_index, *indices, *args[rank:], **params)


# linear algebra

for _record in (
    *(linalg.inv, linalg.det, linalg.slogdet, linalg.pinv, eigenvalues.eig, eigenvalues.eigvals),
    *(decompositions.cholesky, decompositions.qr, decompositions.eigh, decompositions.eigvalsh),
    *(decompositions.svd, decompositions.full_svd, decompositions.svdvals, norms.matrix_rank),
):
    _record.batch = stacked(_record)


@batches(linalg.solve)
def _solve(args: Args, batched: Flags, params: Params) -> Any:
    """Right sides of one matrix are the columns of one system."""
    a, b = args
    if a.ndim == b.ndim == 2 and batched == (False, True):
        return apply(linalg.solve, a, b.T).T
    if not batched[1] and b.ndim > 1:
        b, batched = spread(b, a.shape[0]), (True, True)
    return stacked(linalg.solve)((a, b), batched, params)


@batches(linalg.multi_dot)
def _multi_dot(args: Args, batched: Flags, params: Params) -> Any:
    product, has = args[0], batched[0]
    rank = rank_of(product, has)
    for factor, flag in zip(args[1:], batched[1:], strict=True):
        other = rank_of(factor, flag)
        if has or flag:
            product = _product(product, factor, (has, flag), (rank, other))
        else:
            product = product @ factor
        rank, has = rank + other - 2, has or flag
    return product


@batches(decompositions.lstsq)
def _lstsq(args: Args, batched: Flags, params: Params) -> Any:
    """By the pseudo-inverse; the residuals are given for every rank, as in ``jax.numpy``."""
    (a, b), rank = args, rank_of(args[1], batched[1])
    columns = lift(b[..., None], 2, batched[1]) if rank == 1 else b
    rows, width = (current().dims.resolve(dim) for dim in a.dims[-2:])
    if not isinstance(rows, int) or not isinstance(width, int):
        raise current().needs_dims(a.dims[-2:], "The tolerance of np.linalg.lstsq")
    eps = float(np.finfo(linalg_dtype(a.type)).eps)
    cut = params["rcond"]
    cut = eps * max(rows, width) if cut is None else eps if cut == -1 else cut
    x = np.linalg.pinv(a, cut) @ columns
    values = np.linalg.svd(a, compute_uv=False)
    count = np.sum(values > cut * values[..., :1], axis=-1).astype(np.int32)
    gaps = columns - a @ x
    residuals = np.sum(np.square(np.abs(gaps)), axis=-2)
    found = [residuals if rows > width else residuals[..., :0], count, values]
    size = size_among(args, batched)
    if not batched[0]:
        found[1:] = [spread(part, size) for part in found[1:]]
    return (x[..., 0] if rank == 1 else x, *found)


@batches(histograms.bincount)
def _bincount(args: Args, batched: Flags, params: Params) -> Any:
    """Each example counts in a row of its own; only a known number of bins is the same for all."""
    raise refuse("np.bincount", "the number of bins depends on batched values.")


def _refused(primitive: Primitive, why: str) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        raise refuse(primitive.name, why)

    return rule


for _record in (selecting.nonzero, selecting.argwhere, selecting.flatnonzero, histograms.unique):
    _record.batch = _refused(
        _record, "the size of the result would differ from one example to the next."
    )
_unstacked = (histograms.histogram, creation.arange, diagonals.eye)
for _record in (*_unstacked, diagonals.tri):
    _record.batch = _refused(_record, "NumPy does not stack it.")
