"""Arithmetic, its operators, casts and ``np.where``: one line each where one line will do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.ir.builder import (
    FUNCTIONS,
    METHODS,
    OPERATORS,
    Array,
    atom,
    current,
    type_of,
    wrap,
)
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import BOOL, ArrayType, sample
from calque.transpiler.primitives import guards
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    elementwise,
    implements,
    linear,
    operand,
    scale,
    strong,
)


def _same_one(builder: Any, args: Any, params: Any) -> Any:
    """x * 1 -> x, where type and layout stay: the product of an argument is a copy of it."""
    a, b = args if isinstance(args[0], Array) else args[::-1]
    if not isinstance(a, Array) or not _python_one(b) or a.dtype.kind not in "fc":
        return None
    given = a.ndim and a.atom not in builder.definitions and a.atom not in builder.contiguous
    return None if given else Array(a.atom)


def _python_one(value: Any) -> bool:
    return type(value) in (int, float) and value == 1


def _double_negative(builder: Any, args: Any, params: Any) -> Any:
    """-(-x) -> x, and -(-x * y) -> x * y: the sign of a product is exact."""
    made = builder.definitions.get(atom(args[0]))
    primitive = getattr(made, "primitive", None)
    if primitive is negative:
        return Array(made.args[0]) if isinstance(made.args[0], Var) else None
    if primitive in (multiply, divide) and made.outs[0].name is None:
        left, right = made.args
        if isinstance(left, Var) and left.name is None:
            positive_left = _double_negative(builder, (Array(left),), params)
            if positive_left is not None:
                return builder.apply(primitive, (positive_left, wrap(right)), {})
    return None


def _inverse(b: Any) -> Any:
    """1 / b, of a known zero as NumPy has it: a variance of one example divides by n - 1."""
    if not isinstance(b, (bool, int, float, complex)) or b:
        return 1.0 / b
    return math.copysign(math.inf, b) if isinstance(b, float) else math.inf


negative: Any = None
multiply: Any = None
divide: Any = None
_QUOTIENT = [(-2.0, 2.0), (0.5, 2.0)]

add = elementwise(
    np.add, lambda a, b, y: (1.0, 1.0), "{0} + {1}", spelling="{0} + {1}", total=True, smooth=True,
    arithmetic="add",
    guard=guards.of_sum,
    infix="plus",
)
subtract = elementwise(
    np.subtract, lambda a, b, y: (1.0, -1.0), "{0} - {1}", spelling="{0} - {1}",
    total=True,
    smooth=True,
    arithmetic="subtract",
    guard=guards.of_sum,
    infix="minus",
)
multiply = elementwise(
    np.multiply, lambda a, b, y: (b, a), "{0} * {1}", spelling="{0} * {1}", simplify=_same_one,
    total=True,
    smooth=True,
    arithmetic="multiply",
    guard=guards.of_product,
    infix="times",
)
divide = elementwise(
    np.divide,
    lambda a, b, y: (_inverse(b), -(y / b)),
    "{0} / {1}",
    spelling="{0} / {1}",
    domain=_QUOTIENT,
    arithmetic="divide",
    guard=guards.of_first,
    cost=3,
    infix="over",
)
negative = elementwise(
    np.negative, lambda x, y: -1.0, "-{0}", spelling="-{0}", simplify=_double_negative,
    total=True,
    smooth=True,
    arithmetic="negative",
    guard=guards.of_first,
)
positive = elementwise(
    np.positive, lambda x, y: 1.0, "+{0}", spelling="+{0}", total=True, smooth=True,
    arithmetic="same",
    guard=guards.of_first,
    numba="{0}",
)


def is_number(value: Any) -> bool:
    """True if a value is a known scalar."""
    return isinstance(value, (int, float, complex, np.generic))


def power_by_base(a: Any, b: Any) -> Any:
    """The slope of ``a ** b`` by its base; no logarithm, and right for a negative base."""
    if is_number(b):
        if b == 0:
            return None
        if not isinstance(b, complex) and 0 < b < 1:
            a = strong(a)  # infinite at 0, where Python's number raises ZeroDivisionError
        return 1.0 if b == 1 else 2.0 * a if b == 2 else b * a ** (b - 1)
    if b.dtype.kind in "iub":
        return b * a ** np.where(b == 0, 1, b - 1)
    return b * strong(a) ** np.where((a == 0) & (b == 0), 1.0, b - 1.0)


def _power_partials(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    if is_number(b) or b.dtype.kind in "iub":
        return power_by_base(a, b), None
    if is_number(a):
        return None, y * np.log(a) if a > 0 else 0.0 * y
    return power_by_base(a, b), y * np.log(np.where(a == 0, 1.0, a))


power = elementwise(
    np.power,
    _power_partials,
    "{0} ** {1}",
    spelling="{0} ** {1}",
    domain=[(0.5, 2), (-2, 2)],
    arithmetic="power",
    infix="power",
)
float_power = elementwise(
    np.float_power, _power_partials, domain=[(0.5, 2), (-2, 2)], arithmetic="power"
)
floor_divide = elementwise(
    np.floor_divide, None, "{0} // {1}", spelling="{0} // {1}", domain=_QUOTIENT,
    arithmetic="floor_divide",
)
remainder = elementwise(
    np.remainder,
    lambda a, b, y: (1.0, -(a // b)),
    "{0} % {1}",
    spelling="{0} % {1}",
    domain=_QUOTIENT,
    arithmetic="remainder",
)
fmod = elementwise(np.fmod, lambda a, b, y: (1.0, -np.trunc(a / b)), "fmod", domain=_QUOTIENT)
square = elementwise(
    np.square, lambda x, y: 2.0 * x, "{0} * {0}", total=True, smooth=True, nonnegative=True
)
reciprocal = elementwise(np.reciprocal, lambda x, y: -y * y, "1.0 / {0}", domain=[(0.5, 2)])


def no_derivative(name: str) -> Callable[..., Any]:
    """Partial derivatives, or a rule, for a function that has none: a refusal by name."""

    def refuse(*args: Any) -> Any:
        raise NotDifferentiable(f"{name} has no derivative.", current().origin)

    return refuse


def _abs_partials(x: Any, y: Any) -> Any:
    if x.dtype.kind == "c":
        return np.conj(x) / np.where(y == 0, np.inf, y)  # 0 at 0, as JAX's
    return np.where(x >= 0, 1.0, -1.0)


def side(x: Any, given: Any) -> Any:
    """``given`` times the slope of ``abs``, which is 1 at zero, as JAX's."""
    return np.where(x >= 0, given, -given)


def _abs_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    if args[0].dtype.kind == "c":
        return (np.real(scale(tangents[0], _abs_partials(args[0], outs[0]))),)
    return (side(args[0], tangents[0]),)


def _abs_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    if args[0].dtype.kind == "c":
        return (scale(cotangents[0], _abs_partials(args[0], outs[0])),)
    return (side(args[0], cotangents[0]),)


def or_infinite(y: Any) -> Any:
    """A length as the divisor of its slope, which is then zero where all that it is made of is."""
    return np.where(y == 0, np.inf, y)


def _sign_partials(x: Any, y: Any) -> Any:
    return no_derivative("np.sign of a complex number")() if x.dtype.kind == "c" else None


sign = elementwise(np.sign, _sign_partials, "sign", total=True)
absolute = elementwise(
    np.absolute, _abs_partials, "abs", spelling="np.abs({0})", name="np.abs",
    total=True,
    smooth=True,
    nonnegative=True,
    arithmetic="abs",
)
absolute.jvp, absolute.vjp = _abs_jvp, _abs_vjp
of_number = elementwise(
    abs, _abs_partials, "abs", spelling="abs({0})", name="abs", arity=1, smooth=True,
    nonnegative=True,
    arithmetic="abs",
)
of_number.jvp, of_number.vjp = _abs_jvp, _abs_vjp
of_number.batch = lambda args, batched, params: np.abs(args[0])
fabs = elementwise(np.fabs, _abs_partials, "fabs", total=True, nonnegative=True)
fabs.jvp, fabs.vjp = _abs_jvp, _abs_vjp


def operator(primitive: Primitive, counts: bool = False) -> Callable[..., Any]:
    """The meaning of a Python operator: unlike the ufunc, it leaves Python scalars weak.

    One that ``counts`` takes Python's bools for integers, as Python does.
    """

    def call(*args: Any) -> Any:
        values = list(map(operand, args))
        if counts and all(type_of(v) == BOOL for v in values):
            values = [FUNCTIONS[int](v) if isinstance(v, Array) else int(v) for v in values]
        return apply(primitive, *values)

    return call


for _name, _record in {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "truediv": divide,
    "floordiv": floor_divide,
    "mod": remainder,
    "pow": power,
    "neg": negative,
    "pos": positive,
}.items():
    OPERATORS[_name] = operator(_record, counts=True)


@implements(abs, method="__abs__", op="abs")
def python_abs(x: Any) -> Any:
    """``abs``: of a Python number a Python number."""
    x = operand(x)
    if type_of(x) == BOOL:
        return FUNCTIONS[int](x)
    return apply(of_number if type_of(x).weak else absolute, x)


OPERATORS["divmod"] = lambda a, b: (a // b, a % b)


@implements(np.divmod)
def np_divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """``np.divmod``: quotient and remainder."""
    return FUNCTIONS[np.floor_divide](a, b), FUNCTIONS[np.remainder](a, b)


@linear(
    "astype",
    lambda x, dtype: np.asarray(x).astype(dtype)[()],
    lambda x, dtype: type_of(x).with_dtype(np.dtype(dtype)),
    lambda args, params: cast_text(args, params["dtype"]),
    cheap=True,
    keeps_layout=True,
    samples=lambda rng: [
        ((np.asarray(rng.normal(size=s), have),), {"dtype": np.dtype(want)})
        for s in [(3, 4), (), (2, 0), (1,)]
        for have, want in [("f8", "f4"), ("f4", "f8"), ("f8", "i8"), ("f8", "c16"), ("i8", "?")]
    ],
    moves=True,
    guard=guards.of_first,
    suffix="cast",
)
def astype(y_bar: Any, x: Any, dtype: np.dtype) -> Any:
    """The transpose casts back; the pass does that."""
    return y_bar


_cast_jvp = astype.jvp


def _astype_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    """A tangent that is a Python scalar is one of any precision already."""
    if type_of(args[0]).weak and type_of(args[0]).dtype == params["dtype"]:
        return (tangents[0],)
    assert _cast_jvp is not None
    return _cast_jvp(tangents, outs, args, params)


astype.jvp = _astype_jvp
astype.cupy = lambda args, params: (  # ``np.float32(x)`` is of the host's numbers
    None if type_of(args[0]).weak else f"{{0}}.astype(np.{dtype_name(params['dtype'])})"
)


def cast_text(args: Any, dtype: np.dtype) -> str:
    if type_of(args[0]).ndim:
        return "{0}.astype(np." + dtype_name(dtype) + ")"
    return "np." + dtype_name(dtype) + "({0})"


def dtype_name(dtype: np.dtype) -> str:
    """Its name in ``np``."""
    return "bool_" if dtype == np.dtype(bool) else dtype.name


def cast(x: Any, dtype: Any) -> Any:
    """``x`` with another dtype; the same Array if it has it already."""
    dtype, x = np.dtype(dtype), operand(x)
    if type_of(x).dtype == dtype and not type_of(x).weak:
        return Array(x.atom) if isinstance(x, Array) else x
    if not isinstance(x, Array):
        return dtype.type(x)
    return apply(astype, x, dtype=dtype)


FUNCTIONS["cast"] = cast


@implements(method="astype")
def astype_method(
    x: Array,
    dtype: Any,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: Any = True,
) -> Any:
    """``x.astype(dtype)``: with ``copy=False`` the array itself where it has the dtype."""
    same = not copy and x.dtype == np.dtype(dtype) and order in ("K", "A")
    return x if same else cast(x, dtype)


def _python_number(kind: type, letter: str) -> Primitive:
    def transpose(y_bar: Any, x: Any) -> Any:
        floats = isinstance(y_bar, Array) and x.dtype.kind == y_bar.dtype.kind == "f"
        return FUNCTIONS["cast"](y_bar, x.dtype) if floats and y_bar.dtype != x.dtype else y_bar

    return linear(
        kind.__name__,
        kind,
        lambda x: ArrayType(np.dtype(letter), (), True),
        kind.__name__ + "({0})",
        cheap=True,
        nondifferentiable=letter in "?i8",
        samples=lambda rng: [((np.float64(rng.uniform(1.0, 3.0)),), {}) for _ in range(3)],
    )(transpose)


def _conversion(kind: type, record: Primitive) -> Callable[..., Any]:
    def convert(*args: Any, **options: Any) -> Any:
        if len(args) != 1 or options or not isinstance(args[0], Array):
            if any(isinstance(a, Array) for a in (*args, *options.values())):
                raise TypeError(f"{kind.__name__}() takes one number")
            return kind(*args, **options)
        (x,) = args
        if x.type.weak and x.dtype == np.dtype(kind):
            return x
        return apply(record, x.reshape(()) if x.ndim else x)

    return convert


to_float = _python_number(float, "f8")
to_float.total, to_float.guard = True, guards.of_first
to_int = _python_number(int, "i8")
to_int.arithmetic = "same"
to_bool = _python_number(bool, "?")
to_complex = _python_number(complex, "c16")
for _kind, _record in ((float, to_float), (int, to_int), (bool, to_bool), (complex, to_complex)):
    implements(_kind)(_conversion(_kind, _record))


def _item(x: Any, *args: Any) -> Any:
    """``x.item()``, by a flat position, or by one position for each axis."""
    kind = {"f": float, "i": int, "u": int, "b": bool, "c": complex}[x.dtype.kind]
    if not args:
        return FUNCTIONS[kind](x)
    index = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    return FUNCTIONS[kind](x[index] if len(index) == x.ndim else x.ravel()[index[0]])


METHODS["item"] = _item


def _where_type(c: Any, a: Any, b: Any, of_number: bool = False) -> ArrayType:
    dtype = np.result_type(sample(type_of(a)), sample(type_of(b)))
    if of_number:
        return ArrayType(dtype, (), weak=type_of(a).weak and type_of(b).weak)
    return ArrayType(dtype, current().broadcast([type_of(x).dims for x in (c, a, b)]))


@linear(
    "np.where",
    lambda c, a, b, of_number=False: (a if c else b) if of_number else np.where(c, a, b),
    _where_type,
    lambda args, params: (
        "{1} if {0} else {2}" if params.get("of_number") else "np.where({0}, {1}, {2})"
    ),
    wrt=(1, 2),
    cheap=True,
    keeps_layout=True,
    samples=lambda rng: [
        ((rng.normal(size=s) > 0, *(np.asarray(rng.normal(size=k)) for k in (a, b))), {})
        for s, a, b in [((3, 4),) * 3, ((), (3,), (3,)), ((4,), (), (3, 4)), ((2, 0), (2, 0), ())]
    ],
    total=True,
    arithmetic="where",
    guard=guards.of_where,
    suffix="chosen",
    numba="{1} if {0} else {2}",
    cupy="np.where({0}, {1}, {2})",
)
def where(y_bar: Any, c: Any, a: Any, b: Any, of_number: bool = False) -> tuple[Any, Any]:
    """Each branch gets the cotangent where it was taken.

    ``of_number`` is said of adjoints that are numbers: Python's number stays one.
    """
    choose = chosen_adjoint if of_number else np.where
    return choose(c, y_bar, 0.0), choose(c, 0.0, y_bar)


def chosen_adjoint(condition: Any, a: Any, b: Any) -> Any:
    """``np.where`` of adjoints; of numbers, ``a if condition else b``."""
    types = [type_of(x) for x in (a, b)]
    if not isinstance(condition, Array) or condition.ndim or any(t.ndim for t in types):
        return FUNCTIONS[np.where](condition, a, b)
    dtype = np.result_type(*map(sample, types))
    if not all(t.weak for t in types) and dtype.char not in "dD":  # as in carried_number
        a, b = (x if isinstance(x, Array) else dtype.type(x) for x in (a, b))
    return apply(where, condition, a, b, of_number=True)


FUNCTIONS["where of adjoints"] = chosen_adjoint
where.on_arrays = lambda c, a, b, of_number=False: FUNCTIONS[np.where](c, a, b)
where.scalar = "{1} if {0} else {2}"


def _chosen(first: bool, a: Any, b: Any) -> Any:
    """The arm that a known condition takes, with the shape and dtype that both give it."""
    found = a if first else b
    if not type_of(a).ndim and not type_of(b).ndim:
        return found
    wanted = where.infer(True, a, b)
    if isinstance(found, Array) and (found.dtype, found.dims) == (wanted.dtype, wanted.dims):
        return Array(found.atom)
    return apply(where, first, a, b)


@implements(np.where)
def np_where(condition: Any, *arms: Any) -> Any:
    """``np.where(c, a, b)``; with one argument ``np.nonzero(c)``."""
    if not arms:
        return FUNCTIONS[np.nonzero](condition)
    condition = operand(condition)
    if not isinstance(condition, Array) and not type_of(condition).ndim:
        return _chosen(bool(condition), *map(operand, arms))
    return apply(where, condition, *map(operand, arms))
