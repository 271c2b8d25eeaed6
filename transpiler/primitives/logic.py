"""Comparison, logical and bitwise functions, rounding, and parts of numbers."""

from __future__ import annotations

import operator as operators
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, Array, current, type_of
from calque.transpiler.ir.types import BOOL, INT, ArrayType
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    call_spelling,
    elementwise,
    finish,
    implements,
    infer_elementwise,
    opaque,
    operand,
    register,
    scale,
)
from calque.transpiler.primitives.elementwise import no_derivative, operator
from calque.transpiler.primitives.extrema import choose

Samples = list[tuple[tuple[Any, ...], dict[str, Any]]]


def integers(rng: np.random.Generator, count: int, high: int = 5) -> Samples:
    """Sampled operands of an integer function."""
    shapes: list[tuple[int, ...]] = [(3, 4), (), (2, 0), (1,)]
    rows = [tuple(rng.integers(0, high, s) for _ in range(count)) for s in shapes]
    return [(tuple(map(np.asarray, row)), {}) for row in rows]


def booleans(rng: np.random.Generator, count: int) -> Samples:
    """Sampled operands of a logical function."""
    return [(tuple(a > 1 for a in args), {}) for args, _ in integers(rng, count)]


def _operator(
    name: str, function: Any, sign: str, scalar: str | None = None, **facts: Any
) -> Primitive:
    text = f"{{0}} {sign} {{1}}"
    record = elementwise(function, None, scalar or text, spelling=text, **facts)
    OPERATORS[name] = operator(record, counts=name in ("lshift", "rshift"))
    return record


less = _operator("lt", np.less, "<", total=True, suffix="below_{1}")
less_equal = _operator("le", np.less_equal, "<=", total=True, suffix="at_most_{1}")
greater = _operator("gt", np.greater, ">", total=True, suffix="above_{1}")
greater_equal = _operator("ge", np.greater_equal, ">=", total=True, suffix="at_least_{1}")
equal = _operator("eq", np.equal, "==", total=True, suffix="equal_{1}")
not_equal = _operator("ne", np.not_equal, "!=", total=True, suffix="unequal_{1}")
for _record in (less, less_equal, greater, greater_equal, equal, not_equal):
    _record.arithmetic = _record.name.removeprefix("np.")
bitwise_and = _operator("and", np.bitwise_and, "&", total=True)
bitwise_or = _operator("or", np.bitwise_or, "|", total=True)
bitwise_xor = _operator("xor", np.bitwise_xor, "^", total=True)
left_shift = _operator("lshift", np.left_shift, "<<", "lshift({0}, {1})")
right_shift = _operator("rshift", np.right_shift, ">>", "rshift({0}, {1})")
right_shift.arithmetic = "right_shift"
invert = elementwise(np.invert, None, "~{0}", spelling="~{0}", total=True)
OPERATORS["invert"] = operator(invert, counts=True)
gcd, lcm = elementwise(np.gcd, None), elementwise(np.lcm, None)
for _record in (bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift, gcd, lcm):
    _record.samples = lambda rng: integers(rng, 2)
invert.samples = lambda rng: integers(rng, 1)
logical_and, logical_or, logical_xor = (
    elementwise(f, None, total=True) for f in (np.logical_and, np.logical_or, np.logical_xor)
)
logical_not = elementwise(np.logical_not, None, total=True)
logical_and.arithmetic, logical_or.arithmetic, logical_not.arithmetic = "and", "or", "not"
logical_and.numba, logical_or.numba = "bool({0}) and bool({1})", "bool({0}) or bool({1})"
logical_xor.numba, logical_not.numba = "bool({0}) != bool({1})", "not {0}"
for _record in (logical_and, logical_or, logical_xor):
    _record.samples = lambda rng: booleans(rng, 2)
logical_not.samples = lambda rng: booleans(rng, 1)


def _of_truths(name: str, function: Any, of_arrays: Any, **facts: Any) -> Primitive:
    """Python's own operation on booleans."""
    two = name != "not"
    rows: list[tuple[bool, ...]] = [(True, False), (False, True)] if two else [(True,), (False,)]
    text = f"{{0}} {name} {{1}}" if two else f"{name} {{0}}"
    return register(
        Primitive(
            name,
            function,
            lambda *args: BOOL,
            text,
            kind="elementwise",
            nondifferentiable=True,
            cheap=True,
            arithmetic=name,
            numba=text,
            word={"and": "both", "or": "either"}.get(name, ""),
            on_arrays=of_arrays,
            **facts,
            samples=lambda rng: [(row, {}) for row in rows],
        )
    )


not_ = _of_truths("not", operators.not_, np.logical_not, total=True)
and_ = _of_truths("and", lambda a, b: a and b, np.logical_and, total=True)
or_ = _of_truths("or", lambda a, b: a or b, np.logical_or)

_function: Any
for _function in (np.isnan, np.isfinite, np.isinf, np.signbit):
    elementwise(_function, None, _function.__name__, total=True)
for _function in (np.floor, np.ceil, np.trunc, np.rint):
    elementwise(_function, None, _function.__name__, total=True)
heaviside = elementwise(np.heaviside, None, total=True, numba="heaviside({0}, {1})")
for _function in (np.nextafter, np.spacing):
    _record = elementwise(_function, no_derivative(f"np.{_function.__name__}"), _function.__name__)
_record.cupy = "np.copysign(np.nextafter(np.abs({0}), np.inf) - np.abs({0}), {0})"
elementwise(
    np.copysign,
    lambda a, b, y: (np.copysign(1.0, a) * np.copysign(1.0, b), None),
    "copysign",
    total=True,
    smooth=True,
)
implements(np.fix)(lambda x, out=None: FUNCTIONS[np.trunc](x, out=out))
implements(np.isposinf)(lambda x: operand(x) == np.inf)
implements(np.isneginf)(lambda x: operand(x) == -np.inf)


_step = FUNCTIONS[np.heaviside]


@implements(np.heaviside)
def np_heaviside(x1: Any, x2: Any, out: Any = None, **options: Any) -> Any:
    """``np.heaviside``: where the first is 0 it is the second, and has that one's derivative."""
    x2 = operand(x2)
    if options or not isinstance(x2, Array) or x2.dtype.kind != "f":
        return _step(x1, x2, out=out, **options)
    zero = 0.0 if x2.type.weak else x2.dtype.type(0)
    return finish(np.where(np.equal(x1, 0), x2, _step(x1, zero)), out)


# functions with options


def with_options(
    name: str,
    function: Any,
    partials: Any,
    spelling: Any,
    options: list[dict[str, Any]],
    count: int = 1,
) -> Primitive:
    """An elementwise function whose options are parameters on which its slopes do not depend."""

    def slopes(args: Any, outs: Any) -> tuple[Any, ...]:
        return (partials(*args, outs[0]),)

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        return (scale(tangents[0], *slopes(args, outs)),)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        return (scale(cotangents[0], *slopes(args, outs)),)

    def infer(*args: Any, **params: Any) -> ArrayType:
        return infer_elementwise(lambda *values: function(*values, **params))(*args)

    def samples(rng: np.random.Generator) -> Samples:
        shapes: list[tuple[int, ...]] = [(3, 4), (), (2, 0), (1,)]
        return [
            (tuple(np.asarray(rng.uniform(-2.0, 2.0, s)) for _ in range(count)), params)
            for params in options
            for s in shapes
        ]

    return register(
        Primitive(
            name,
            function,
            infer,
            spelling,
            kind="elementwise",
            jvp=jvp if partials else None,
            vjp=vjp if partials else None,
            partials=partials,
            nondifferentiable=partials is None,
            keeps_layout=True,
            cheap=True,
            samples=samples,
        )
    )


def _round_text(args: Any, params: dict[str, Any]) -> str:
    decimals = params["decimals"]
    return "np.round({0})" if decimals == 0 else f"np.round({{0}}, {decimals})"


round_ = with_options("np.round", np.round, None, _round_text, [{"decimals": 0}, {"decimals": 1}])


@implements(np.round, np.around, method="round")
def np_round(x: Any, decimals: int = 0, out: Any = None) -> Any:
    """``np.round``."""
    x = operand(x)
    if type_of(x).weak:
        x = FUNCTIONS[np.asarray](x)
    return finish(apply(round_, x, decimals=int(decimals)), out)


python_round = register(
    Primitive(
        "round",
        round,
        lambda x, **params: ArrayType(type_of(x).dtype, (), True) if params else INT,
        lambda args, params: f"round({{0}}, {params['ndigits']})" if params else "round({0})",
        kind="elementwise",
        nondifferentiable=True,
        samples=lambda rng: [((float(rng.uniform(-3, 3)),), {"ndigits": 1})],
    )
)


@implements(round)
def builtin_round(x: Any, ndigits: int | None = None) -> Any:
    """Python's ``round``: of a Python scalar a Python scalar, else as NumPy."""
    if not isinstance(x, Array):
        return round(x, ndigits)
    if x.ndim:
        raise TypeError("type numpy.ndarray doesn't define __round__ method")
    if x.type.weak or ndigits is None:
        return apply(python_round, x, **({} if ndigits is None else {"ndigits": int(ndigits)}))
    return np_round(x, ndigits)


_NAN_DEFAULTS = {"nan": 0.0, "posinf": None, "neginf": None}


def _nan_to_num_text(args: Any, params: dict[str, Any]) -> str:
    given = {k: v for k, v in params.items() if v != _NAN_DEFAULTS[k]}
    return call_spelling("np.nan_to_num")(args, given)


nan_to_num = with_options(
    "np.nan_to_num",
    np.nan_to_num,
    lambda x, y: choose(np.isfinite(x), 1.0, 0.0, x),
    _nan_to_num_text,
    [_NAN_DEFAULTS, {"nan": 1.0, "posinf": 5.0, "neginf": None}],
)
nan_to_num.smooth = True


@implements(np.nan_to_num)
def np_nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """``np.nan_to_num``; with ``copy=False`` it stores into its argument."""
    x = operand(x)
    result = apply(nan_to_num, x, nan=nan, posinf=posinf, neginf=neginf)
    return result if copy else finish(result, x)


_CLOSE = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False}


def _isclose_text(args: Any, params: dict[str, Any]) -> str:
    return call_spelling("np.isclose")(args, {k: v for k, v in params.items() if v != _CLOSE[k]})


isclose = with_options("np.isclose", np.isclose, None, _isclose_text, [_CLOSE], count=2)


@implements(np.isclose)
def np_isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """``np.isclose``."""
    if isinstance(rtol, Array) or isinstance(atol, Array):
        return np.abs(a - b) <= atol + rtol * np.abs(b)
    return apply(isclose, operand(a), operand(b), rtol=rtol, atol=atol, equal_nan=equal_nan)


@implements(np.allclose)
def np_allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """``np.allclose``."""
    return np.all(np_isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def np_array_equal(a: Any, b: Any, equal_nan: bool = False) -> Any:
    """``np.array_equal``; shapes must be known to agree or to differ."""
    a, b = operand(a), operand(b)
    left, right = type_of(a).dims, type_of(b).dims
    if len(left) != len(right):
        return False
    for m, n in zip(left, right, strict=True):
        if isinstance(difference := current().dims.resolve(m - n), int) and difference:
            return False
    same = a == b
    return np.all(same | (np.isnan(a) & np.isnan(b)) if equal_nan else same)


# several results


def _pair_samples(rng: np.random.Generator) -> Samples:
    shapes: list[tuple[int, ...]] = [(3, 4), (), (2, 0), (1,)]
    return [((np.asarray(rng.uniform(0.5, 3.0, s)),), {}) for s in shapes]


def _infer_pair(function: Any) -> Any:
    def infer(x: Any) -> tuple[ArrayType, ArrayType]:
        kinds = [r.dtype for r in function(np.ones(1, type_of(x).dtype))]
        first, second = (ArrayType(k, type_of(x).dims) for k in kinds)
        return first, second

    return infer


modf = opaque(
    "np.modf",
    np.modf,
    _infer_pair(np.modf),
    "np.modf({0})",
    jvp=lambda tangents, outs, args, params: (tangents[0], None),
    vjp=lambda cotangents, outs, args, params: (cotangents[0],),
    samples=_pair_samples,
)
frexp = opaque(
    "np.frexp",
    np.frexp,
    _infer_pair(np.frexp),
    "np.frexp({0})",
    jvp=lambda tangents, outs, args, params: (np.ldexp(tangents[0], -outs[1]), None),
    vjp=lambda cotangents, outs, args, params: (
        None if cotangents[0] is None else np.ldexp(cotangents[0], -outs[1]),
    ),
    samples=_pair_samples,
)
implements(np.modf)(lambda x: apply(modf, operand(x)))
implements(np.frexp)(lambda x: apply(frexp, operand(x)))
elementwise(np.ldexp, lambda x, e, y: (np.ldexp(1.0, e), None), "ldexp").samples = lambda rng: [
    ((args[0] / 3.0, args[1]), {}) for args, _ in integers(rng, 2)
]


def outer_product(function: Any) -> Any:
    """Return the implementation of ``np.add.outer`` and the like."""

    def outer(a: Any, b: Any, **rest: Any) -> Any:
        a, b = operand(a), operand(b)
        rank = type_of(b).ndim
        if rank and type_of(a).ndim:
            a = a[(..., *(None,) * rank)]
        return FUNCTIONS[function](a, b, **rest)

    return outer


for _function in list(FUNCTIONS):
    if isinstance(_function, np.ufunc) and _function.nin == 2 and _function.nout == 1:
        FUNCTIONS[(_function, "outer")] = outer_product(_function)


@implements((np.subtract, "at"))
def np_subtract_at(x: Any, index: Any, value: Any) -> None:
    """``np.subtract.at``."""
    np.add.at(x, index, -operand(value))


@implements((np.multiply, "at"), (np.divide, "at"), (np.maximum, "at"), (np.minimum, "at"))
def ufunc_at(*args: Any) -> None:
    """Only additions accumulate in place."""
    raise UnsupportedFunction(
        "Only np.add.at and np.subtract.at are supported.", current().origin, "use a loop"
    )


@implements(np.select)
def np_select(conditions: Any, choices: Any, default: Any = 0) -> Any:
    """``np.select``: the first choice whose condition holds."""
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = np.where(condition, choice, result)
    return result


implements(np.isscalar)(lambda x: not isinstance(x, Array) or not x.ndim)
