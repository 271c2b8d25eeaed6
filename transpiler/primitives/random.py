"""``calque.random``: keyed random numbers, declared by name; generated source calls them by it.

What a key draws is a function of the key, so these are operations like others: no derivative by the
key, and a batch of keys gives a batch of results. ``prng`` has the numbers; ``runtime/random`` has
the functions, and enters their handlers in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler import prng
from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import (
    Primitive,
    as_array,
    elementwise,
    operand,
    register,
    ufunc_handler,
)
from calque.transpiler.primitives.batched import all_batched, batches, lift, refuse
from calque.transpiler.primitives.creation import dtype_text, shape_tuple
from calque.transpiler.primitives.record import Lacking
from calque.transpiler.primitives.shapes import normalize_axis
from calque.transpiler.prng import kernel_elements

# what a call of each function of calque.random means, by its name
HANDLERS: dict[str, Callable[..., Any]] = {}
_WORD = np.dtype(np.uint32)
NO_DRAW = Lacking("draw on the host, before the call, and give the function what was drawn")


def _of_cupy(name: str) -> Callable[..., Lacking]:
    """Arrays are drawn in kernels, single numbers and what is drawn by rejection nowhere."""

    def found(args: Sequence[Any], params: dict[str, Any]) -> Lacking:
        single = name in ("bits", "uniform", "normal", "exponential") and len(args) == 1
        return Lacking(f"random.{name}(key, (1,))[0]") if single else NO_DRAW

    return found


def handles(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of ``calque.random`` mean the decorated one."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        HANDLERS[name] = handler
        return handler

    return declare


def key_argument(key: Any, name: str) -> Array:
    """A key, or a batch of keys, as an Array; TypeError for what is none."""
    found = as_array(key)
    if found.dtype != _WORD or not found.ndim:
        raise TypeError(
            f"random.{name} takes a key, two uint32 as random.key(seed) gives them, "
            f"and got {found.type}"
        )
    current().unify(found.type.dims[-1], 2)
    return found


def shape_argument(shape: Any, name: str) -> tuple[Any, ...]:
    """A shape as a tuple of sizes; TypeError for a number."""
    if not isinstance(shape, (tuple, list)) and not (isinstance(shape, Array) and shape.ndim):
        raise TypeError(f"the shape of random.{name} is a tuple such as (3,), not {shape!r}")
    return shape_tuple(shape)


def shape_text(first: int, count: int) -> str:
    """``({1}, {2})``, as a tuple also where there is one size."""
    parts = [f"{{{first + k}}}" for k in range(count)]
    return f"({', '.join(parts)}{',' if count == 1 else ''})"


def options_text(params: dict[str, Any], defaults: dict[str, Any]) -> str:
    """``, mode='high'``: the options that are not as they are by default."""
    dtype = dtype_text(params["dtype"], defaults["dtype"]) if "dtype" in params else ""
    rest = [(k, v) for k, v in params.items() if k != "dtype" and v != defaults.get(k)]
    return "".join(f", {k}={v!r}" for k, v in rest) + dtype


# what takes a key and a shape


def drawn_type(key: Any, *sizes: Any, dtype: np.dtype, **options: Any) -> ArrayType:
    return ArrayType(dtype, (*type_of(key).dims[:-1], *map(current().dim_of, sizes)))


def drawn(
    name: str, numbers: Callable[..., Any], default: Any = float, **defaults: Any
) -> Primitive:
    """Declare ``random.name(key, shape, dtype)``, with options that are known values."""
    defaults = {"dtype": np.dtype(default), **defaults}

    def compute(key: Any, *sizes: Any, **options: Any) -> Any:
        return numbers(key, sizes, **options)

    def spell(args: Sequence[Any], params: dict[str, Any]) -> str:
        shape = f", {shape_text(1, len(args) - 1)}" if len(args) > 1 else ""
        return f"({{0}}{shape}{options_text(params, defaults)})"

    primitive = keyed(name, compute, drawn_type, spell)
    primitive.samples = _samples(defaults)

    @handles(name)
    def call(key: Any, shape: Any = (), dtype: Any = None, **options: Any) -> Any:
        kind = defaults["dtype"] if dtype is None else np.dtype(dtype)
        given = [key_argument(key, name), *shape_argument(shape, name)]
        return current().apply(primitive, given, {**defaults, **options, "dtype": kind})

    @batches(primitive)
    def rule(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
        if any(batched[1:]):
            raise refuse(f"random.{name}", "the shape differs between examples")
        return current().apply(primitive, args, params)

    return primitive


def keyed(name: str, compute: Any, infer: Any, spell: Any) -> Primitive:
    return register(
        Primitive(
            f"random.{name}",
            compute,
            infer,
            spell,
            nondifferentiable=True,
            fresh=True,
            imported=("calque", f"random.{name}"),
            cupy=_of_cupy(name),
        )
    )


def sample_key(rng: np.random.Generator, *batch: int) -> np.ndarray:
    """Some key, or a batch of them."""
    return rng.integers(0, 1 << 32, (*batch, 2), np.uint32)


def _samples(options: dict[str, Any]) -> Callable[..., Any]:
    shapes: list[tuple[int, ...]] = [(3,), (), (2, 3), (0,)]
    return lambda rng: [
        *[((sample_key(rng), *shape), options) for shape in shapes],
        ((sample_key(rng, 2), 3), options),
    ]


bits = drawn(
    "bits",
    lambda key, sizes, dtype: prng.bits_of(key, sizes, 8 * dtype.itemsize),
    np.uint64,
)
uniform, normal = drawn("uniform", prng.uniform), drawn("normal", prng.normal)
exponential = drawn("exponential", prng.exponential)
bits.cost, uniform.cost, normal.cost, exponential.cost = 30, 30, 90, 60
for _numbers in (prng.laplace, prng.logistic, prng.cauchy, prng.maxwell):
    drawn(_numbers.__name__, _numbers)
drawn("gumbel", prng.gumbel, mode=None)
drawn("rademacher", prng.rademacher, int)


@handles("uniform")
def _uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Numbers from 0 to 1, stretched where other bounds are given."""
    kind = np.dtype(float if dtype is None else dtype)
    given = [key_argument(key, "uniform"), *shape_argument(shape, "uniform")]
    found = current().apply(uniform, given, {"dtype": kind})
    if _is_number(minval, 0.0) and _is_number(maxval, 1.0):
        return found
    low, high = (FUNCTIONS["cast"](operand(v), kind) for v in (minval, maxval))
    return HANDLERS["between"](found, low, high)


def _is_number(value: Any, wanted: float) -> bool:
    return type(value) in (int, float) and value == wanted


between = elementwise(
    prng.between,
    lambda u, low, high, y: (high - low, 1.0 - u, u),
    "maximum({1}, {0} * ({2} - {1}) + {1})",
    arity=3,
    name="random.between",
    domain=[(0.1, 0.9), (-2.0, -1.0), (1.0, 2.0)],
)
between.imported, between.spelling = ("calque", "random.between"), "({0}, {1}, {2})"
between.cupy = "np.maximum({1}, {0} * ({2} - {1}) + {1})"
HANDLERS["between"] = ufunc_handler(between, 3)


# keys

make_key = keyed(
    "key",
    prng.key,
    lambda seed: ArrayType(_WORD, (*type_of(seed).dims, 2)),
    lambda args, params: "({0})",
)
make_key.cupy = lambda args, params: (
    f"np.array({make_key.function(args[0]).tolist()}, dtype=np.uint32)"
    if isinstance(args[0], int)
    else Lacking("make the key on the host, before the call, and give it to the function")
)
make_key.samples = lambda rng: [((7,), {}), ((np.arange(3),), {})]
make_key.batch = lambda args, batched, params: current().apply(make_key, args, params)


@handles("key")
@handles("PRNGKey")
def _make_key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    impl = impl if dtype is None else dtype
    if impl not in (None, "threefry2x32"):
        raise ValueError(f"keys are of threefry2x32, and not of {impl!r}")
    seed = operand(seed)
    if type_of(seed).dtype.kind not in "iu":
        raise TypeError(f"a key is made of an integer, not of {type_of(seed)}")
    return current().apply(make_key, [seed], {})


@handles("wrap_key_data")
def _wrap(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    return key_argument(key_bits_array, "wrap_key_data")


HANDLERS["key_data"] = lambda keys: key_argument(keys, "key_data")


clone = keyed("clone", lambda key: key, lambda key: type_of(key), lambda args, params: "({0})")
clone.batch = lambda args, batched, params: current().apply(clone, args, params)
clone.samples = lambda rng: [((sample_key(rng),), {}), ((sample_key(rng, 3),), {})]
clone.cupy = "{0}.copy()"
HANDLERS["clone"] = lambda key: current().apply(clone, [key_argument(key, "clone")], {})


def _split_spelling(args: Sequence[Any], params: dict[str, Any]) -> str:
    match args[1:]:
        case [2]:
            return "({0})"
        case [_]:
            return "({0}, {1})"
    return f"({{0}}, {shape_text(1, len(args) - 1)})"


split = keyed(
    "split",
    lambda key, *sizes: prng.split(key, sizes),
    lambda key, *sizes: drawn_type(key, *sizes, 2, dtype=_WORD),
    _split_spelling,
)
split.samples = lambda rng: [
    *[((sample_key(rng), *shape), {}) for shape in [(2,), (3,), (2, 3), (0,)]],
    ((sample_key(rng, 2), 3), {}),
]


@handles("split")
def _split(key: Any, num: Any = 2) -> Any:
    several = isinstance(num, (tuple, list)) or (isinstance(num, Array) and num.ndim)
    sizes = shape_tuple(num) if several else (num,)
    return current().apply(split, [key_argument(key, "split"), *sizes], {})


@batches(split)
def _split_batch(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
    if any(batched[1:]):
        raise refuse("random.split", "the number of keys differs between examples")
    return current().apply(split, args, params)


def _folded_type(key: Any, data: Any) -> ArrayType:
    batch = current().broadcast([type_of(key).dims[:-1], type_of(data).dims])
    return ArrayType(_WORD, (*batch, 2))


fold_in = keyed("fold_in", prng.fold_in, _folded_type, lambda args, params: "({0}, {1})")
fold_in.samples = lambda rng: [
    ((sample_key(rng), 7), {}),
    ((sample_key(rng), np.asarray(3)), {}),
    ((sample_key(rng, 3), np.arange(3)), {}),
]


@handles("fold_in")
def _fold_in(key: Any, data: Any) -> Any:
    data = operand(data)
    if type_of(data).dtype.kind not in "iub":
        raise TypeError(f"random.fold_in takes an integer, not {type_of(data)}")
    return current().apply(fold_in, [key_argument(key, "fold_in"), data], {})


@batches(fold_in)
def _fold_in_batch(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
    key, data = args
    rank = max(type_of(key).ndim - batched[0] - 1, type_of(data).ndim - batched[1])
    return current().apply(
        fold_in, [lift(key, rank + 1, batched[0]), lift(data, rank, batched[1])], {}
    )


# integers and orders


def _integers_type(key: Any, low: Any, high: Any, *sizes: Any, dtype: np.dtype) -> ArrayType:
    found = drawn_type(key, *sizes, dtype=dtype)
    current().broadcast([found.dims, type_of(low).dims, type_of(high).dims])
    return found


randint = keyed(
    "randint",
    lambda key, low, high, *sizes, dtype: prng.randint(key, sizes, low, high, dtype),
    _integers_type,
    lambda args, params: (
        f"({{0}}, {shape_text(3, len(args) - 3)}, {{1}}, {{2}}{dtype_text(params['dtype'], int)})"
    ),
)
_INT = {"dtype": np.dtype(int)}
randint.samples = lambda rng: [
    *[((sample_key(rng), -2, 9, *shape), _INT) for shape in [(3,), (), (2, 3), (0,)]],
    ((sample_key(rng), np.arange(3), 9, 2, 3), {"dtype": np.dtype(np.int32)}),
    ((sample_key(rng, 2), -2, 9, 3), _INT),
]


@handles("randint")
def _randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    kind = np.dtype(int if dtype is None else dtype)
    if kind.kind not in "iu":
        raise TypeError(f"random.randint gives integers, not {kind}")
    given = [key_argument(key, "randint"), operand(minval), operand(maxval)]
    given += shape_argument(shape, "randint")
    return current().apply(randint, given, {"dtype": kind})


@batches(randint)
def _randint_batch(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
    if any(batched[3:]):
        raise refuse("random.randint", "the shape differs between examples")
    key, *bounds = args[:3]
    if not batched[0]:  # all examples draw the same
        key = all_batched(args[:3], batched[:3])[0]
    rank = len(args) - 3
    bounds = [lift(b, rank, has) for b, has in zip(bounds, batched[1:3], strict=True)]
    return current().apply(randint, [key, *bounds, *args[3:]], params)


order = keyed(
    "order",
    lambda key, *sizes, axis: prng.order(key, sizes, axis),
    lambda key, *sizes, axis: drawn_type(key, *sizes, dtype=np.dtype(int)),
    lambda args, params: (
        f"({{0}}, {shape_text(1, len(args) - 1)}"
        + (f", axis={params['axis']})" if params["axis"] else ")")
    ),
)
order.samples = lambda rng: [
    *[((sample_key(rng), *shape), {"axis": 0}) for shape in [(5,), (3, 2), (0,), (1,)]],
    ((sample_key(rng, 2), 3, 2), {"axis": 1}),
]


@handles("order")
def _order(key: Any, shape: Any, axis: Any = 0) -> Any:
    sizes = shape_argument(shape, "order")
    if not sizes:
        raise UnsupportedFunction("random.order of a number.", current().origin)
    params = {"axis": normalize_axis(axis, len(sizes))}
    return current().apply(order, [key_argument(key, "order"), *sizes], params)


@batches(order)
def _order_batch(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
    if any(batched[1:]):
        raise refuse("random.order", "the shape differs between examples")
    return current().apply(order, args, params)


@handles("permutation")
def _permutation(key: Any, x: Any, axis: Any = 0, independent: Any = False) -> Any:
    """The numbers below ``x``, or the slices of an array, by an order."""
    x = operand(x)
    if not type_of(x).ndim:
        if type_of(x).dtype.kind not in "iu":
            raise TypeError("random.permutation takes an integer or an array with an axis")
        return _order(key, (x,))
    axis = normalize_axis(axis, x.ndim)
    if known_int(independent, "The argument independent") and x.ndim > 1:
        return np.take_along_axis(x, _order(key, x.shape, axis), axis)
    return np.take(x, _order(key, (x.shape[axis],)), axis)


# one element, in kernels: a function of the key's words and of the place in what it draws


def _at(name: str, drawn_dtype: Any) -> Primitive:
    """Declare ``random_name(one, two, place)``; with an f at the end, for half as many bits."""
    kind = np.dtype(drawn_dtype)
    text = f"random_{name}{'f' if kind.itemsize == 4 else ''}"

    return register(
        Primitive(
            text,
            getattr(kernel_elements, text),
            lambda one, two, place: ArrayType(kind),
            f"{text}({{0}}, {{1}}, {{2}})",
            kind="elementwise",
            nondifferentiable=True,
            scalar=f"{text}({{0}}, {{1}}, {{2}})",
            samples=lambda rng: [((np.uint32(7), np.asarray(np.uint32(9)), 3), {})],
        )
    )


# the function for one element, by the function for all and its dtype
AT_PLACE = {
    (primitive, np.dtype(kind)): _at(primitive.name.removeprefix("random."), kind)
    for primitive, kinds in (
        (bits, (np.uint64, np.uint32)),
        *((primitive, (float, np.float32)) for primitive in (uniform, normal, exponential)),
    )
    for kind in kinds
}


def _word(one: Any, two: Any, place: Any, half: Any) -> Any:
    bits = int(kernel_elements.random_bits(one, two, place))
    return np.uint32(bits & 0xFFFFFFFF if half else bits >> 32)


# one word of a key that is made of another one, where a grid of threads makes them
word = register(
    Primitive(
        "random_word",
        _word,
        lambda one, two, place, half: ArrayType(_WORD),
        "random_word({0}, {1}, {2}, {3})",
        kind="elementwise",
        nondifferentiable=True,
        samples=lambda rng: [((np.uint32(7), np.asarray(np.uint32(9)), 3, k), {}) for k in (0, 1)],
    )
)
