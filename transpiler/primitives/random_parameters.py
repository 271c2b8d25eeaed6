"""``calque.random``, continued: what is drawn with parameters, and its slopes by them.

A gamma number is a function of its key and its shape parameter; the slope by that is found from the
distribution function (Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler import prng
from calque.transpiler.ir.builder import current, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    elementwise,
    operand,
    ufunc_handler,
)
from calque.transpiler.primitives.batched import all_batched, batches, lift, refuse
from calque.transpiler.primitives.creation import dtype_text
from calque.transpiler.primitives.elementwise import no_derivative
from calque.transpiler.primitives.random import (
    HANDLERS,
    NO_DRAW,
    drawn_type,
    handles,
    key_argument,
    keyed,
    sample_key,
    shape_argument,
    shape_text,
)
from calque.transpiler.primitives.shapes import np_broadcast_shapes


def function(
    numbers: Callable[..., Any],
    partials: Callable[..., Any] | None,
    count: int,
    domain: list[tuple[float, float]],
) -> Primitive:
    """Declare an elementwise function of ``calque.random``."""
    name = numbers.__name__
    record = elementwise(numbers, partials, arity=count, domain=domain, name=f"random.{name}")
    record.imported = ("calque", f"random.{name}")
    record.spelling = f"({', '.join(f'{{{k}}}' for k in range(count))})"
    record.cupy = NO_DRAW
    HANDLERS[name] = ufunc_handler(record, count)
    return record


_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)
erf = function(prng.erf, lambda x, y: _TWO_OVER_ROOT_PI * np.exp(-x * x), 1, [(-2.0, 2.0)])
erf.scalar = "erf"
erf.cupy = "cupyx.scipy.special.erf({0})"
erfinv = function(prng.erfinv, lambda x, y: np.exp(y * y) / _TWO_OVER_ROOT_PI, 1, [(-0.9, 0.9)])
erfinv.cupy = "cupyx.scipy.special.erfinv({0})"
_POSITIVE = [(0.5, 3.0), (0.5, 3.0)]
_ONCE = "The slope of the incomplete gamma function in its first argument"
gamma_slope = function(prng.gamma_slope, no_derivative(_ONCE), 2, _POSITIVE)
gamma_slope.numba = "shape_slope_of_gamma({0}, {1})"
log_gamma_slope = function(
    prng.log_gamma_slope, no_derivative("The slope of a log-gamma draw in its shape"), 2, _POSITIVE
)


# what takes a key, parameters and a shape


def drawn_with(
    numbers: Callable[..., Any], count: int, default: Any, slope: Primitive | None = None
) -> Primitive:
    """Declare ``random.name(key, *parameters, shape, dtype)``; ``slope`` is by the only one."""
    name = numbers.__name__

    def compute(key: Any, *rest: Any, dtype: np.dtype, shaped: bool) -> Any:
        given, sizes = rest[:count], rest[count:]
        shape = sizes if shaped else np.broadcast_shapes(*map(np.shape, given))
        return numbers(key, *given, shape, dtype)

    def infer(key: Any, *rest: Any, dtype: np.dtype, shaped: bool) -> ArrayType:
        found = drawn_type(key, *rest[count:], dtype=dtype)
        current().broadcast([found.dims, *(type_of(p).dims for p in rest[:count])])
        return found

    def spell(args: Sequence[Any], params: dict[str, Any]) -> str:
        parts = [f"{{{k}}}" for k in range(count + 1)]
        if params["shaped"]:
            parts.append(shape_text(count + 1, len(args) - count - 1))
        return f"({', '.join(parts)}{dtype_text(params['dtype'], default)})"

    primitive = keyed(name, compute, infer, spell)
    primitive.samples = _samples(count, np.dtype(default))

    @handles(name)
    def call(key: Any, *args: Any, **options: Any) -> Any:
        names = ("a" if slope is not None else "lam",) if count == 1 else ("n", "p")
        given = dict(zip((*names, "shape", "dtype"), args, strict=False)) | options
        parameters = [operand(given.pop(n)) for n in names]
        shape, dtype = given.pop("shape", None), given.pop("dtype", None)
        if given:
            raise TypeError(f"random.{name} got an unexpected argument '{next(iter(given))}'")
        if shape is None:
            shape = np_broadcast_shapes(*[getattr(p, "shape", ()) for p in parameters])
        kind = np.dtype(default if dtype is None else dtype)
        sizes = shape_argument(shape, name)
        params = {"dtype": kind, "shaped": not _is_natural(parameters, sizes)}
        return current().apply(primitive, [key_argument(key, name), *parameters, *sizes], params)

    @batches(primitive)
    def rule(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
        if any(batched[count + 1 :]):
            raise refuse(f"random.{name}", "the shape differs between examples")
        key = args[0]
        if not batched[0]:  # all examples draw with the same
            key = all_batched(args[: count + 1], batched[: count + 1])[0]
        rank = len(args) - count - 1
        pairs = zip(args[1 : count + 1], batched[1 : count + 1], strict=True)
        parameters = [lift(p, rank, has) for p, has in pairs]
        shaped = {**params, "shaped": True}
        return current().apply(primitive, [key, *parameters, *args[count + 1 :]], shaped)

    if slope is not None:
        _differentiate(primitive, slope)
    return primitive


def _differentiate(primitive: Primitive, slope: Primitive) -> None:
    """Give a draw with one parameter its derivative, ``slope(parameter, number)``."""
    primitive.nondifferentiable = False
    primitive.jvp = lambda tangents, outs, args, params: (
        None if tangents[1] is None else tangents[1] * apply(slope, args[1], outs[0]),
    )
    primitive.vjp = lambda cotangents, outs, args, params: (
        None,
        cotangents[0] * apply(slope, args[1], outs[0]),
        *(None,) * (len(args) - 2),
    )


def _is_natural(parameters: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """True if a shape is that of the parameters, so that it need not be written."""
    wanted = [type_of(p).dims for p in parameters if type_of(p).ndim]
    own = tuple(s if isinstance(s, int) else current().dim_of(s) for s in sizes)
    return own in wanted if wanted else not own


def _samples(count: int, dtype: np.dtype) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> list[Any]:
        def some(*shape: int) -> list[Any]:
            if count == 2:
                return [
                    np.asarray(rng.integers(1, 40, shape)),
                    np.asarray(rng.uniform(0, 1, shape)),
                ]
            return [np.asarray(rng.uniform(0.5, 12.0, shape))]

        options = {"dtype": dtype, "shaped": True}
        return [
            *[((sample_key(rng), *some(*s), *s), options) for s in [(3,), (), (2, 3), (0,)]],
            ((sample_key(rng), *some(3), 2, 3), options),
            ((sample_key(rng, 2), *some(2, 1), 3), options),
        ]

    return samples


gamma = drawn_with(prng.gamma, 1, float, gamma_slope)
loggamma = drawn_with(prng.loggamma, 1, float, log_gamma_slope)
poisson = drawn_with(prng.poisson, 1, int)
binomial = drawn_with(prng.binomial, 2, float)

orthogonal = keyed(
    "orthogonal",
    lambda key, n, m, *sizes, dtype: prng.orthogonal(key, n, m, sizes, dtype),
    lambda key, n, m, *sizes, dtype: drawn_type(key, *sizes, n, m, dtype=dtype),
    lambda args, params: (
        "({0}, {1}"
        + (f", {shape_text(3, len(args) - 3)}" if len(args) > 3 else "")
        + ("" if args[1] is args[2] or args[1] == args[2] else ", m={2}")
        + f"{dtype_text(params['dtype'])})"
    ),
)
orthogonal.samples = lambda rng: [
    ((sample_key(rng), n, m, *shape), {"dtype": np.dtype(float)})
    for n, m, shape in [(3, 3, ()), (2, 3, (2,)), (3, 2, ())]
]


@handles("orthogonal")
def _orthogonal(key: Any, n: Any, shape: Any = (), dtype: Any = None, m: Any = None) -> Any:
    sizes = [n, n if m is None else m, *shape_argument(shape, "orthogonal")]
    kind = np.dtype(float if dtype is None else dtype)
    return current().apply(orthogonal, [key_argument(key, "orthogonal"), *sizes], {"dtype": kind})


@batches(orthogonal)
def _orthogonal_batch(
    args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]
) -> Any:
    if any(batched[1:]):
        raise refuse("random.orthogonal", "the shape differs between examples")
    return current().apply(orthogonal, args, params)
