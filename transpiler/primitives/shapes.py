"""Moving elements without computing: reshape, transpose, broadcast; and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import (
    ATTRIBUTES,
    FUNCTIONS,
    METHODS,
    Array,
    current,
    known_int,
    link,
    type_of,
)
from calque.transpiler.ir.core import Slot
from calque.transpiler.ir.types import INT, ArrayType, DimLike, divide_dim
from calque.transpiler.primitives import guards
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    implements,
    linear,
    operand,
    register,
)
from calque.transpiler.primitives.creation import shape_text, shape_tuple
from calque.transpiler.primitives.sampling import case, cases, single


def normalize_axis(axis: Any, ndim: int) -> int:
    """A nonnegative axis; raises as NumPy does."""
    axis = known_int(axis, "An axis")
    if not -ndim <= axis < ndim:
        raise ShapeError(
            f"axis {axis} is out of bounds for array of dimension {ndim}", current().origin
        )
    return axis % ndim


def normalize_tuple(axes: Any, ndim: int) -> tuple[int, ...]:
    """One axis or several as a tuple of nonnegative ones; raises where one is repeated."""
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    result = tuple(normalize_axis(a, ndim) for a in axes)
    if len(set(result)) != len(result):
        raise ShapeError("repeated axis", current().origin)
    return result


def read_only(base: Array, new: Array, *rest: Any, **params: Any) -> Array:
    """The ``view_back`` of a view that may not be stored into."""
    raise ValueError("assignment destination is read-only")


# sizes

size_of_axis = register(
    Primitive(
        "size of axis",
        lambda x, axis: np.shape(x)[axis],
        lambda x, axis: INT,
        lambda args, p: f"{{0}}.shape[{p['axis']}]",
        kind="size",
        nondifferentiable=True,
        cheap=True,
        samples=cases(case((3, 4), axis=0), case((2, 0), axis=1)),
    )
)
FUNCTIONS["size of axis"] = lambda x, axis: current().apply(size_of_axis, (x,), {"axis": axis})

size = register(
    Primitive(
        "np.size",
        np.size,
        lambda x: INT,
        "{0}.size",
        kind="size",
        nondifferentiable=True,
        cheap=True,
        samples=cases(case((3, 4)), case(()), case((2, 0))),
        suffix="size",
    )
)


def _size_of_array(x: Array) -> Array:
    result = current().apply(size, (x,), {})
    return current().know_dim(result, product_dim(x.dims))


FUNCTIONS["size"] = _size_of_array


def _product(dims: Sequence[DimLike]) -> DimLike | None:
    result: DimLike = 1
    for dim in dims:
        if isinstance(result, int):
            result = dim * result
        elif isinstance(dim, int):
            result = result * dim
        else:
            return None
    return result


def product_dim(dims: Sequence[DimLike]) -> DimLike:
    """The product of dimensions; where it is not affine, a symbol that these dimensions share."""
    found = _product(dims)
    return current().dims.unknown("product", *dims) if found is None else found


def add_sizes(a: Any, b: Any) -> Any:
    """The sum of two sizes, known to be affine in theirs."""
    if not isinstance(a, Array) and a == 0:
        return b
    if not isinstance(b, Array) and b == 0:
        return a
    total = a + b
    if isinstance(total, Array):
        current().know_dim(total, current().dim_of(a) + current().dim_of(b))
    return total


def multiply_sizes(a: Any, b: Any) -> Any:
    """The product of two sizes, with what is known of it."""
    if not isinstance(a, Array) and a == 1:
        return b
    if not isinstance(b, Array) and b == 1:
        return a
    total = a * b
    if isinstance(total, Array):
        current().know_dim(total, product_dim([current().dim_of(a), current().dim_of(b)]))
    return total


def joined_axes(x: Any, first: int) -> Any:
    """``x`` with its axes from ``first`` on as one; NumPy's -1 is undecided where a size is 0."""
    return np.reshape(x, (*x.shape[:first], _whole(x.shape[first:])))


def missing_size(have: Sequence[Any], rest: Sequence[Any]) -> Any:
    """The size for which -1 stands in a shape; ``rest`` are the others in it."""
    dim_of = current().dim_of
    dim = _missing([dim_of(s) for s in have], [dim_of(s) for s in rest])
    if isinstance(dim, int):
        return dim
    left, divisors = list(have), []
    for size in rest:
        same = [k for k, s in enumerate(left) if dim_of(s) == dim_of(size)]
        if same:
            del left[same[0]]
        else:
            divisors.append(size)
    total, divisor = _whole(left), _whole(divisors)
    size = total if not isinstance(divisor, Array) and divisor == 1 else total // divisor
    return current().know_dim(size, dim) if isinstance(size, Array) else size


def _whole(sizes: Sequence[Any]) -> Any:
    total: Any = 1
    for size in sizes:
        total = multiply_sizes(total, size)
    return total


# reshape


def _infer_reshape(x: Any, *sizes: Any) -> ArrayType:
    wanted = [current().dim_of(s) for s in sizes]
    if -1 in wanted:
        hole = wanted.index(-1)
        wanted[hole] = _missing(list(x.dims), wanted[:hole] + wanted[hole + 1 :])
    else:
        have, want = _product(x.dims), _product(wanted)
        if have is not None and want is not None:
            current().unify(have, want)
    return ArrayType(x.dtype, tuple(wanted))


def _missing(have: list[DimLike], rest: list[DimLike]) -> DimLike:
    if not rest:
        return product_dim(have)
    for dim in [d for d in rest if not isinstance(d, int)]:
        if dim in have:
            have.remove(dim)
            rest.remove(dim)
    total, divisor = _product(have), _product(rest)
    quotient = None if total is None or divisor is None else divide_dim(total, divisor)
    if quotient is None and isinstance(total, int) and isinstance(divisor, int):
        raise ShapeError(f"cannot reshape {total} elements into groups of {divisor}")
    return current().dims.fresh() if quotient is None else quotient


def _reshape_text(args: Any, params: dict[str, Any]) -> str:
    sizes = args[1:]
    if len(sizes) == 1 and type(sizes[0]) is int and sizes[0] == -1:
        return "{0}.ravel()" if type_of(args[0]).ndim else "np.ravel({0})"
    places = ", ".join(f"{{{i}}}" for i in range(1, len(args))) or "()"
    if not type_of(args[0]).ndim:  # it may be a number of Python's
        return f"np.reshape({{0}}, ({places}))" if sizes[1:] else f"np.reshape({{0}}, {places})"
    return f"{{0}}.reshape({places})"


def _with_method(x: Any, method: str) -> str:
    """A method of an array, also where a number of Python's stands for one without axes."""
    return f"{{0}}.{method}" if type_of(x).ndim else f"np.asarray({{0}}).{method}"


@linear(
    "np.reshape",
    lambda x, *sizes: np.reshape(x, sizes),
    _infer_reshape,
    _reshape_text,
    view_back=lambda base, new, *sizes: np_reshape(new, base.shape),
    view_sometimes=True,
    keeps_layout=True,
    cheap=True,
    samples=cases(
        case((3, 4), 2, 6),
        case((3, 4), -1),
        case((), 1),
        case((1, 1)),
        case((2, 0), 0, 5),
        case(single(2, 6), 3, -1, 2),
    ),
    moves=True,
    suffix="reshaped",
)
def reshape(y_bar: Any, x: Any, *sizes: Any) -> Any:
    """Back to the argument's shape."""
    return _reshaped(y_bar, x.shape)


# elements of a loop, each computed from its place: no memory has to be in order
reshape_in_loops = register(
    replace(
        reshape,
        name="reshape in loops",
        view_back=None,
        view_sometimes=False,
        aliases=True,
        guard=None,
    )
)


def _reused_text(args: Any, params: dict[str, Any]) -> str:
    """The dead array, reshaped if the new one has other sizes."""
    alike = type_of(args[0]).dims == type_of(args[1]).dims
    sizes = ", ".join(f"{{{k}}}" for k in range(2, len(args)))
    return "{1}" if alike else f"{{1}}.reshape({sizes})"


# reused(new, dead, *sizes): a new array, from here on in the memory of one that is not read again
reused: Primitive = register(
    Primitive(
        "reshape of dead memory",
        lambda new, dead, *sizes: np.reshape(dead, sizes),
        lambda new, dead, *sizes: _infer_reshape(dead, *sizes),
        _reused_text,
        kind="creation",
        nondifferentiable=True,
        aliases=True,
        samples=cases(case((2, 3), (2, 3), 2, 3), case((2, 3), (6,), 2, 3)),
    )
)


def _reshaped(y_bar: Any, shape: Sequence[Any]) -> Any:
    return np_reshape(y_bar, tuple(shape))


@implements(np.reshape)
def np_reshape(x: Any, shape: Any, order: str = "C", **rest: Any) -> Array:
    """``np.reshape``; no statement where the shape is the same."""
    x = FUNCTIONS[np.asarray](x)
    if _reading_order(x, order, "CFA") == "F":
        turned = np_reshape(np.transpose(x), tuple(reversed(shape_tuple(shape))))
        return FUNCTIONS[np.transpose](turned)
    sizes = shape_tuple(shape)
    if tuple(map(current().dim_of, sizes)) == x.dims:
        return x
    return apply(reshape, x, *sizes)


def _reshape_method(x: Array, *shape: Any, order: str = "C") -> Array:
    return np_reshape(x, shape[0] if len(shape) == 1 else shape, order)


METHODS["reshape"] = _reshape_method


def _reading_order(x: Array, order: Any, known: str) -> str:
    """ "C" or "F": in which order elements are read, where the memory may decide it."""
    order = "C" if order is None else str(order).upper()
    if order not in known:
        raise ValueError(f"order must be one of {', '.join(map(repr, known))} (got {order!r})")
    if order in "CF":
        return order
    if x.ndim > 1 and not x.is_contiguous():
        raise UnsupportedFunction(
            f"order={order!r} asks how the array lies in memory, which is not known here.",
            current().origin,
            'give order="C" or order="F"',
        )
    return "C"


def flattened(x: Any, order: Any = "C") -> Array:
    """All elements along one axis, to be read: of one axis it is the array itself."""
    x = FUNCTIONS[np.asarray](x)
    return x if x.ndim == 1 else np_reshape(x, (-1,), _reading_order(x, order, "CFAK"))


@implements(np.ravel, method="ravel")
def np_ravel(x: Any, order: str = "C") -> Array:
    """``np.ravel``: a view of contiguous memory, else a copy, of one axis too."""
    x = FUNCTIONS[np.asarray](x)
    order = _reading_order(x, order, "CFAK")
    if x.ndim != 1 or _surely_contiguous(x):
        return flattened(x, order)
    same = Array(x.atom)
    link(same, x.root())
    return same


def _surely_contiguous(x: Array) -> bool:
    """True if one axis is known to have no gaps: of an array, a row, a slice without a step."""
    if x.is_contiguous():
        return True
    match x.how:
        case base, primitive, _, {"index": (*rows, last)} if primitive.kind == "indexing":
            if not (isinstance(last, slice) and last.step in (None, 1)):
                rows = [*rows, last]
            if len(rows) != base.ndim - 1 or not all(isinstance(i, (int, Slot)) for i in rows):
                return False
            return base.is_contiguous() or (base.ndim == 1 and _surely_contiguous(base))
    return False


@linear(
    "flatten",
    lambda x: np.array(x).flatten(),
    lambda x: ArrayType(x.dtype, (product_dim(x.dims),)),
    lambda args, params: _with_method(args[0], "flatten()"),
    fresh=True,
    cheap=True,
    samples=cases(case((3, 4)), case(()), case((2, 0)), case(single(2, 1, 2))),
    moves=True,
)
def flatten(y_bar: Any, x: Any) -> Any:
    """Back to the argument's shape."""
    return _reshaped(y_bar, x.shape)


METHODS["flatten"] = lambda x, order="C": apply(
    flatten, x if _reading_order(x, order, "CFAK") == "C" else np.transpose(x)
)


@linear(
    "flat",
    lambda x: np.reshape(x, -1),
    lambda x: ArrayType(x.dtype, (product_dim(x.dims),)),
    lambda args, params: _with_method(args[0], "reshape(-1)"),
    view_back=lambda base, new: np_reshape(new, base.shape),
    cheap=True,
    samples=cases(case((3, 4)), case(()), case((2, 0))),
    moves=True,
)
def flat(y_bar: Any, x: Any) -> Any:
    """Back to the argument's shape."""
    return _reshaped(y_bar, x.shape)


# x.flat reads and writes x itself, whatever its layout
ATTRIBUTES["flat"] = lambda x: x if x.ndim == 1 else apply(flat, x)


# broadcasting


@linear(
    "np.broadcast_to",
    lambda x, *sizes: np.broadcast_to(x, sizes),
    lambda x, *sizes: ArrayType(
        type_of(x).dtype,
        current().broadcast([type_of(x).dims, [current().dim_of(s) for s in sizes]]),
    ),
    lambda args, p: f"np.broadcast_to({{0}}, {shape_text(1, len(args) - 1)})",
    view_back=read_only,
    cheap=True,
    samples=cases(
        case((3, 1), 3, 4),
        case((), 2),
        case((4,), 3, 4),
        case(single(1), 0),
        case((2, 1, 3), 2, 2, 3),
    ),
    moves=True,
    guard=guards.of_first,
    suffix="spread",
)
def broadcast_to(y_bar: Any, x: Any, *sizes: Any) -> Any:
    """The pass sums over the axes that were added."""
    return y_bar


@implements(np.broadcast_shapes)
def np_broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """``np.broadcast_shapes``: sizes that only a run knows are checked to agree."""
    sizes = [shape_tuple(s) for s in shapes]
    found = current().broadcast([[current().dim_of(n) for n in s] for s in sizes])
    result = []
    for place, dim in enumerate(found, -len(found)):
        given = [s[place] for s in sizes if len(s) >= -place]
        same = [n for n in given if not isinstance(dim, int) and current().dim_of(n) == dim]
        result.append((same or [n for n in given if not _is_one(n)] or [1])[0])
    return tuple(result)


def _is_one(size: Any) -> bool:
    return not isinstance(size, Array) and size == 1


@implements(np.broadcast_to)
def np_broadcast_to(x: Any, shape: Any, subok: bool = False) -> Array:
    """``np.broadcast_to``."""
    x, sizes = operand(x), shape_tuple(shape)
    if len(sizes) < type_of(x).ndim:
        raise ShapeError("input operand has more dimensions than the shape", current().origin)
    if isinstance(x, Array) and x.dims == tuple(map(current().dim_of, sizes)):
        return x
    return apply(broadcast_to, x, *sizes)


@implements(np.broadcast_arrays)
def np_broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    """``np.broadcast_arrays``."""
    values = [FUNCTIONS[np.asarray](a) for a in arrays]
    shape = common_shape(values)
    return tuple(np_broadcast_to(v, shape) for v in values)


def common_shape(values: Sequence[Any]) -> tuple[Any, ...]:
    """The sizes of arrays broadcast together, each read from an array that has it."""
    dims = current().broadcast([type_of(v).dims for v in values])
    shape = []
    for axis, dim in enumerate(dims):
        back = axis - len(dims)
        owner = next((v for v in values if type_of(v).ndim >= -back and v.dims[back] != 1), None)
        shape.append(1 if owner is None else current().size_of(dim, owner, owner.ndim + back))
    return tuple(shape)


# attributes and functions of a shape


@implements(np.shape)
def np_shape(x: Any) -> tuple[Any, ...]:
    """``np.shape``."""
    return FUNCTIONS[np.asarray](x).shape


@implements(np.ndim)
def np_ndim(x: Any) -> int:
    """``np.ndim``."""
    return type_of(operand(x)).ndim


@implements(np.size)
def np_size(x: Any, axis: Any = None) -> Any:
    """``np.size``."""
    x = FUNCTIONS[np.asarray](x)
    return x.size if axis is None else x.shape[normalize_axis(axis, x.ndim)]


ATTRIBUTES["itemsize"] = lambda x: x.dtype.itemsize
ATTRIBUTES["nbytes"] = lambda x: x.size * x.dtype.itemsize


def _refuse_layout(name: str) -> Any:
    def refuse(x: Array) -> Any:
        raise UnsupportedFunction(f"ndarray.{name} tells of a layout in memory.", current().origin)

    return refuse


for _name in ("strides", "flags", "base", "data", "ctypes"):
    ATTRIBUTES[_name] = _refuse_layout(_name)
