"""New arrays: zeros, ones, full, arange, array, and what copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, METHODS, Array, current, known, link, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, apply, implements, operand, register
from calque.transpiler.primitives.elementwise import cast
from calque.transpiler.primitives.nested_sequences import leaves_of_nest, nested_text, shape_of_nest
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.stored_numbers import taken


def shape_tuple(shape: Any) -> tuple[Any, ...]:
    """A shape argument as a tuple of ints and recorded integers; TypeError for other numbers."""
    several = isinstance(shape, (list, tuple)) or (isinstance(shape, Array) and shape.ndim)
    sizes = tuple(shape) if several else (shape,)
    for size in sizes:
        if isinstance(size, (Array, float, complex)) and type_of(size).dtype.kind in "fc":
            name = type_of(size) if type_of(size).weak else f"numpy.{type_of(size).dtype}"
            raise TypeError(f"'{name}' object cannot be interpreted as an integer")
    return sizes


def shape_text(first: int, count: int) -> str:
    """``{1}`` or ``({1}, {2})``."""
    parts = [f"{{{first + i}}}" for i in range(count)]
    if count == 1:
        return parts[0]
    return f"({', '.join(parts)})"


def dtype_text(dtype: np.dtype, default: Any = float) -> str:
    """``, dtype=np.float32``; nothing for the default."""
    if dtype == np.dtype(default):
        return ""
    if dtype.kind == "V":
        return f", dtype={dtype.descr}"
    return f", dtype=np.{'bool_' if dtype == np.dtype(bool) else dtype.name}"


def _infer_filled(*dims: Any, dtype: np.dtype) -> ArrayType:
    return ArrayType(dtype, tuple(current().dim_of(d) for d in dims))


# what np.empty holds is not defined: it is sampled without elements
_filled_cases = (
    case(2, 3, dtype=np.dtype("f8")),
    case(0, dtype=np.dtype(int)),
    case(2, 0, dtype=np.dtype("f4")),
)
_like_cases = (
    case((2, 3), dtype=np.dtype("f8")),
    case((), dtype=np.dtype(int)),
    case((0,), dtype=np.dtype("f8")),
    case(single(2, 0), dtype=np.dtype("f4")),
)


_VALUES = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1}


def _filled(name: str, called: str = "") -> Primitive:
    function = getattr(np, name)
    return register(
        Primitive(
            called or f"np.{name}",
            lambda *dims, dtype: function(dims, dtype),
            _infer_filled,
            lambda args, p: f"np.{name}({shape_text(0, len(args))}{dtype_text(p['dtype'])})",
            kind="creation",
            nondifferentiable=True,
            sizes_from=0,
            filled_with=_VALUES.get(name),
            fresh=True,
            cheap=True,
            samples=cases(*_filled_cases[name == "empty" :]),
        )
    )


zeros, ones, empty = _filled("zeros"), _filled("ones"), _filled("empty")
# memory for the values that a loop's iterations save; only they read it, so it may be too long
space = _filled("empty", "space for iterations")


def _infer_like(x: Any, dtype: np.dtype) -> ArrayType:
    return ArrayType(dtype, type_of(x).dims)


def _filled_like(name: str) -> Primitive:
    function = getattr(np, name)

    def spell(args: Any, params: Any) -> str:
        return f"np.{name}({{0}}{dtype_text(params['dtype'], type_of(args[0]).dtype)})"

    return register(
        Primitive(
            f"np.{name}",
            function,
            _infer_like,
            spell,
            kind="creation",
            nondifferentiable=True,
            filled_with=_VALUES.get(name),
            fresh=True,
            cheap=True,
            samples=cases(*_like_cases[2 * (name == "empty_like") :]),
        )
    )


zeros_like, ones_like, empty_like = map(_filled_like, ("zeros_like", "ones_like", "empty_like"))
zeros_like.total = ones_like.total = True
zeros_like.like, ones_like.like, empty_like.like = zeros, ones, empty

full: Primitive = register(
    Primitive(
        "np.full",
        lambda value, *dims, dtype: np.full(dims, value, dtype),
        lambda value, *dims, dtype: _infer_filled(*dims, dtype=dtype),
        lambda args, p: (
            f"np.full({shape_text(1, len(args) - 1)}, {{0}}"
            + (f"{dtype_text(p['dtype'], type_of(args[0]).dtype)})")
        ),
        kind="linear",
        fresh=True,
        cheap=True,
        linear_in=(0,),
        jvp=lambda t, outs, args, p: (
            None if t[0] is None else apply(full, t[0], *args[1:], dtype=p["dtype"]),
        ),
        vjp=lambda c, outs, args, p: (np.sum(c[0]),) + (None,) * (len(args) - 1),
        samples=cases(
            case((), 2, 3, dtype=np.dtype("f8")),
            case(single(), 2, dtype=np.dtype("f4")),
            case((), 0, dtype=np.dtype("f8")),
        ),
        sizes_from=1,
    )
)


def _of_numbers(dtype: np.dtype) -> np.dtype:
    """A dtype of numbers; structures, objects and texts are refused. ``float0`` holds nothing."""
    if dtype.kind in "biufc" or dtype == np.dtype([("float0", "V")]):
        return dtype
    raise DtypeError(
        f"Arrays of dtype {dtype} are not supported.",
        hint="use one array of numbers for each field" if dtype.fields else None,
    )


def _maker(primitive: Primitive) -> Any:
    def make(shape: Any, dtype: Any = float, order: str = "C", **rest: Any) -> Array:
        dtype = _of_numbers(np.dtype(float if dtype is None else dtype))
        result = apply(primitive, *shape_tuple(shape), dtype=dtype)
        result.is_buffer = True
        return _laid_out(result, order)

    return make


def _laid_out(new: Array, order: Any) -> Array:
    """A new array, by columns if so asked: it is not known to be C-contiguous then."""
    if new.ndim > 1 and str(order).upper() not in ("C", "NONE"):
        current().contiguous.discard(new.atom)
    return new


for _record in (zeros, ones, empty):
    FUNCTIONS[getattr(np, _record.name[3:])] = _maker(_record)


@implements(np.ndarray)
def np_ndarray(
    shape: Any,
    dtype: Any = float,
    buffer: Any = None,
    offset: int = 0,
    strides: Any = None,
    order: Any = None,
) -> Array:
    """``np.ndarray(shape)``: ``np.empty``; over memory that is there it is refused."""
    if buffer is not None or strides is not None:
        raise UnsupportedFunction(
            "np.ndarray over the memory of another object.", current().origin, "use a slice of it"
        )
    return FUNCTIONS[np.empty](shape, dtype)


@implements(np.full)
def np_full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Array:
    """``np.full(shape, value)``."""
    fill_value = operand(fill_value)
    chosen = np.dtype(dtype) if dtype is not None else type_of(fill_value).dtype
    if type_of(fill_value).ndim:
        spread = FUNCTIONS[np.broadcast_to](FUNCTIONS["cast"](fill_value, chosen), shape)
        return np_copy(spread, order)
    result = apply(full, fill_value, *shape_tuple(shape), dtype=chosen)
    result.is_buffer = True
    return _laid_out(result, order)


def _like_maker(primitive: Primitive, plain: Primitive) -> Any:
    def make(
        x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
    ) -> Any:
        x = operand(x)
        chosen = type_of(x).dtype if dtype is None else np.dtype(dtype)
        if shape is not None:
            return FUNCTIONS[getattr(np, plain.name[3:])](shape, chosen)
        if not isinstance(x, Array) or x.type.weak:
            return FUNCTIONS[getattr(np, plain.name[3:])](type_of(x).dims, chosen)
        result = apply(primitive, x, dtype=chosen)
        result.is_buffer = True
        return _laid_out(result, "F") if str(order).upper() == "F" else result

    return make


for _record, _plain in ((zeros_like, zeros), (ones_like, ones), (empty_like, empty)):
    FUNCTIONS[getattr(np, _record.name[3:])] = _like_maker(_record, _plain)


@implements(np.full_like)
def np_full_like(x: Any, fill_value: Any, dtype: Any = None, **rest: Any) -> Array:
    """``np.full_like(x, value)``."""
    x = operand(x)
    shape = x.shape if isinstance(x, Array) else ()
    return np_full(shape, fill_value, type_of(x).dtype if dtype is None else dtype)


constant = register(
    Primitive(
        "constant",
        lambda value, dtype: np.array(value, dtype),
        lambda value, dtype: ArrayType(dtype, np.array(value, dtype).shape),
        lambda args, p: f"np.array({p['value']!r}{_constant_dtype(p)})",
        kind="creation",
        nondifferentiable=True,
        fresh=True,
        word="numbers",
        cheap=True,
        samples=cases(
            case(value=[1.0, 2.0], dtype=np.dtype("f8")),
            case(value=[[1], [2]], dtype=np.dtype("i4")),
            case(value=[], dtype=np.dtype("f8")),
        ),
    )
)


def _constant_dtype(params: dict[str, Any]) -> str:
    natural = np.array(params["value"]).dtype
    return "" if natural == params["dtype"] else dtype_text(params["dtype"], natural)


def constant_array(value: Any) -> Array:
    """A known array as a recorded one."""
    value = np.asarray(value)
    if value.dtype.kind not in "biufc" and value.dtype.itemsize:
        raise DtypeError(
            f"An array of dtype {value.dtype} holds no numbers to compute with.", current().origin
        )
    return apply(constant, value=value.tolist(), dtype=value.dtype)


def _stack_dtype(args: Any) -> np.dtype:
    """The dtype of an array made of a list; a Python number in it counts as an array would."""
    return np.result_type(*[type_of(a).dtype for a in args])


def _rows_in_cupy(args: Any, params: dict[str, Any]) -> str | None:
    """CuPy's lists are of arrays alone, or of numbers alone."""
    on_host = [type_of(a).weak for a in args]
    if any(on_host) == all(on_host):
        return None
    made = "np.full((), {})", "np.asarray({})"
    rows = [made[not host].replace("{}", f"{{{k}}}") for k, host in enumerate(on_host)]
    nested = nested_text(params["shape"], 0)[0].format(*rows)
    return f"np.array({nested}{_stack_text(args, params)})"


stack_rows: Primitive = register(
    Primitive(
        "np.array",
        lambda *rows, shape, dtype: np.array(rows, dtype).reshape(shape + np.shape(rows[0])),
        lambda *rows, shape, dtype: ArrayType(dtype, tuple(shape) + _same_dims(rows)),
        lambda args, p: f"np.array({nested_text(p['shape'], 0)[0]}{_stack_text(args, p)})",
        cupy=_rows_in_cupy,
        kind="linear",
        fresh=True,
        jvp=lambda t, outs, args, p: (
            apply(stack_rows, *[_tangent_row(d, a) for d, a in zip(t, args, strict=True)], **p),
        ),
        vjp=lambda c, outs, args, p: tuple(
            c[0][position] if isinstance(a, Array) else None
            for a, position in zip(args, np.ndindex(*p["shape"]), strict=True)
        ),
        samples=cases(
            case((), 2.0, (), shape=(3,), dtype=np.dtype("f8")),
            case((), (), 1, (), shape=(2, 2), dtype=np.dtype("f8")),
            case((3,), (3,), shape=(2,), dtype=np.dtype("f8")),
            case(single(), single(), shape=(2,), dtype=np.dtype("f4")),
        ),
    )
)


def _tangent_row(tangent: Any, row: Any) -> Any:
    if tangent is not None:
        return tangent
    return np.zeros_like(row) if isinstance(row, Array) and row.ndim else 0.0


def _stack_text(args: Any, params: dict[str, Any]) -> str:
    return dtype_text(params["dtype"], _stack_dtype(args))


def _regular(value: Any) -> Any:
    """Nested lists in which no list has an array for a sibling: such lists become arrays too."""
    if not isinstance(value, (list, tuple)):
        return value
    items = [_regular(item) for item in value]
    arrays = any(isinstance(i, (Array, np.ndarray)) and i.ndim for i in items)
    return [to_array(i) if arrays and isinstance(i, list) else i for i in items]


def _same_dims(rows: Any) -> tuple[Any, ...]:
    """The dimensions that all rows have."""
    shapes = [type_of(r).dims for r in rows]
    if len(set(map(len, shapes))) > 1:
        raise ShapeError("setting an array element with a sequence: the shape is inhomogeneous")
    for dims in shapes[1:]:
        for have, want in zip(dims, shapes[0], strict=True):
            current().unify(have, want)
    return tuple(map(current().dims.resolve, shapes[0]))


def to_array(value: Any, dtype: Any = None) -> Array:
    """``np.array`` of an Array, a number, or nested lists with Arrays within."""
    if isinstance(value, Array) and dtype is None:
        return cast(value, value.dtype) if value.type.weak else value
    if isinstance(value, Array):
        return cast(taken(value, np.dtype(dtype)), dtype)
    if known(value):
        return constant_array(np.array(value, dtype))
    if isinstance(value, dict) or not isinstance(value, (list, tuple)):
        raise UnsupportedFunction(f"np.array of a {type(value).__name__}.", current().origin)
    value = _regular(value)
    shape = shape_of_nest(value)
    leaves = [operand(leaf) for leaf in leaves_of_nest(value, shape)]
    chosen = _stack_dtype(leaves) if dtype is None else np.dtype(dtype)
    leaves = [taken(leaf, chosen) for leaf in leaves]
    return apply(stack_rows, *leaves, shape=shape, dtype=chosen)


@implements(np.asarray, np.asanyarray)
def np_asarray(
    value: Any, dtype: Any = None, order: Any = None, copy: Any = None, **rest: Any
) -> Array:
    """The Array itself where it is one of that dtype, and its order in memory does not matter."""
    if copy:
        return np_array(value, dtype)
    if isinstance(value, Array) and (dtype is None or value.dtype == np.dtype(dtype)):
        if order in ("C", "F") and value.ndim:
            return _perhaps_itself(value, order == "C")
        return value if not value.type.weak else to_array(value)
    return to_array(value, dtype)


def _perhaps_itself(value: Array, contiguous: bool) -> Array:
    """A copy that may be the array itself at run time; the array if it is known to fit."""
    if contiguous and value.is_contiguous():
        return value
    copy = np_copy(value, "C" if contiguous else "F")
    link(copy.root(), value.root())
    return copy


@implements(np.ascontiguousarray)
def np_ascontiguousarray(value: Any, dtype: Any = None, **rest: Any) -> Array:
    """The Array itself where it is contiguous; its alias, perhaps, where that is not known."""
    result = np_asarray(value, dtype)
    if not result.ndim:
        return result.reshape(1)
    return result if result is not value else _perhaps_itself(value, True)


@implements(np.array)
def np_array(
    value: Any, dtype: Any = None, copy: Any = True, ndmin: int = 0, order: Any = "K", **rest: Any
) -> Array:
    """A new cell, but where no copy is needed and none wanted.

    Versions make the copy free until one of the two is stored into.
    """
    if copy and str(order).upper() == "F":
        result = np_copy(to_array(value, dtype), "F")
    elif copy:
        result = Array(to_array(value, dtype).atom)
        result.is_buffer = True
    else:
        result = np_asarray(value, dtype, order, **rest)
    while result.ndim < ndmin:
        result = result[None]
    return result


@implements(np.copy, method="copy")
def np_copy(x: Any, order: str = "K", subok: bool = False) -> Array:
    """A new cell with the same version."""
    x = to_array(x)
    result = Array(x.atom)
    result.is_buffer = True
    by_columns = str(order).upper() == "F" and x.ndim > 1
    result.packed = not by_columns and (order == "C" or x.is_contiguous() or None)
    return result


METHODS["copy"] = lambda x, order="C": np_copy(x, order)
METHODS["__copy__"] = METHODS["copy"]


def _concrete_arange(*args: Any) -> np.ndarray:
    return np.arange(*args)


arange = register(
    Primitive(
        "np.arange",
        lambda start, stop, step, dtype: _concrete_arange(start, stop, step, dtype),
        lambda start, stop, step, dtype: ArrayType(dtype, (arange_length(start, stop, step),)),
        lambda args, p: arange_text(args, p),
        kind="creation",
        nondifferentiable=True,
        fresh=True,
        cheap=True,
        samples=cases(
            case(0, 5, 1, dtype=np.dtype(int)),
            case(1, 8, 3, dtype=np.dtype(int)),
            case(0.0, 1.0, 0.25, dtype=np.dtype("f8")),
            case(0, 0, 1, dtype=np.dtype("f4")),
        ),
    )
)


def arange_length(start: Any, stop: Any, step: Any) -> Any:
    """The length of ``np.arange``: a dimension of its own where only the run knows it."""
    if known((start, stop, step)):
        return len(np.arange(start, stop, step))
    whole = all(type_of(v).dtype.kind in "iu" for v in (start, stop))
    if whole and not isinstance(step, Array) and step == 1:
        length = current().dim_of(stop) - current().dim_of(start)
        if current().dims.assume_nonnegative(length):
            return length
    return current().dims.fresh()


def arange_text(args: Any, params: dict[str, Any]) -> str:
    """``np.arange`` without what it takes for granted."""
    start, _, step = args
    default = np.result_type(*[type_of(a).dtype for a in args])
    dtype = dtype_text(params["dtype"], default)
    if not isinstance(step, Array) and step == 1 and type(step) is int:
        if type(start) is int and start == 0:
            return "np.arange({1}" + dtype + ")"
        return "np.arange({0}, {1}" + dtype + ")"
    return "np.arange({0}, {1}, {2}" + dtype + ")"


def _constructor(dtype: np.dtype) -> Any:
    def construct(value: Any = 0) -> Any:
        return FUNCTIONS["cast"](operand(value), dtype)

    return construct


for _letter in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
    FUNCTIONS[np.dtype(_letter).type] = _constructor(np.dtype(_letter))
