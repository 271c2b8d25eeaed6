"""The ways to declare a primitive.

A rule is a plain NumPy function: given Arrays it writes Core, given arrays it computes. What can be
derived is derived: an elementwise function needs its slopes, a linear one its transpose.

===============  ==========================================================================
``elementwise``  partial derivatives; jvp, vjp and batching follow
``linear``       the transpose (vjp); the jvp is the function itself
``bilinear``     both transposes; the jvp is the product rule
``opaque``       jvp and vjp by hand
``implements``   no primitive: a NumPy function said in other NumPy functions
===============  ==========================================================================

Rules never undo broadcasting and never cast: the passes do, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir import builder as build
from calque.transpiler.ir.builder import (
    ATTRIBUTES,
    FUNCTIONS,
    METHODS,
    OPERATORS,
    Array,
    current,
    type_of,
)
from calque.transpiler.ir.core import Block, If, Var
from calque.transpiler.ir.types import ArrayType, elementwise_dtype
from calque.transpiler.primitives.guards import note_branch
from calque.transpiler.primitives.matrix_signatures import linalg_dtype, typed
from calque.transpiler.primitives.record import Primitive, apply, register
from calque.transpiler.primitives.scaling import definition, scale, scaled_where


def operand(value: Any) -> Any:
    """An argument of an array function as an Array or a known scalar; lists become arrays."""
    if isinstance(value, (Array, int, float, complex, np.generic)):
        return value
    if isinstance(value, (list, tuple, np.ndarray)) or hasattr(value, "__array__"):
        return FUNCTIONS[np.asarray](value)
    if isinstance(value, range):
        return FUNCTIONS[np.arange](value.start, value.stop, value.step)
    kind = "None" if value is None else type(value).__name__
    if hasattr(value, "calque_refuse"):
        value.calque_refuse()
    raise UnsupportedFunction(f"{kind} is not an array.", current().origin, _as_arrays(value))


SPARSE = (
    "write A @ x, A.multiply(x), or the sum over its arrays (A.data, A.indices, A.indptr), or "
    "declare the products with A and A.T by calque.linear"
)


def _as_arrays(value: Any) -> str:
    """Advice for a value that NumPy cannot take for an array."""
    if type(value).__module__.startswith("scipy.sparse"):
        return SPARSE
    if isinstance(value, (dict, set)):
        return f"make an array of its {'values' if isinstance(value, dict) else 'elements'}"
    if callable(value):
        return "call it, and pass what it gives"
    return "give a number, an array, or a list of these"


def as_array(value: Any) -> Array:
    """An Array always; known numbers become recorded 0-d constants."""
    value = operand(value)
    return value if isinstance(value, Array) else FUNCTIONS[np.asarray](value)


def implements(
    *functions: Any, method: str | None = None, attribute: str | None = None, op: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let ``functions``, an ndarray method, attribute or operator mean the decorated function."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = handler
        if method:
            METHODS[method] = handler
        if attribute:
            ATTRIBUTES[attribute] = handler
        if op:
            OPERATORS[op] = handler
        return handler

    return declare


# elementwise


def infer_elementwise(
    function: Callable[..., Any], operator: bool = True
) -> Callable[..., ArrayType]:
    """Dimensions broadcast; the dtype is asked of NumPy.

    An operator on Python scalars gives a Python scalar; a NumPy function never does.
    """

    def infer(*args: Any, **params: Any) -> ArrayType:
        types = [type_of(a) for a in args]
        dims = current().broadcast([t.dims for t in types])
        weak = operator and all(t.weak for t in types)
        return ArrayType(elementwise_dtype(function, types), dims, weak and not dims)

    return infer


def elementwise(
    function: Any,
    partials: Callable[..., Any] | None,
    scalar: str | None = None,
    *,
    spelling: str | None = None,
    reference: Callable[..., Any] | None = None,
    arity: int | None = None,
    domain: Sequence[tuple[float, float]] = (),
    simplify: Callable[..., Any] | None = None,
    name: str | None = None,
    **facts: Any,
) -> Primitive:
    """Declare an elementwise function by its partial derivatives ``partials(*args, y)``.

    One derivative for a unary function, a tuple for others: None for an argument without, the error
    to raise for one whose derivative is not known. No ``partials`` at all means that the derivative
    is zero. ``domain`` bounds each sampled argument.
    """
    reference = reference or function
    name = name or build.function_name(function)
    count: int = getattr(function, "nin", 1) if arity is None else arity
    default = f"{name}({', '.join(f'{{{i}}}' for i in range(count))})"
    operator = spelling is not None and not spelling.startswith(("np.", "special."))
    primitive = register(
        Primitive(
            name,
            reference,
            infer_elementwise(reference, operator),
            spelling or default,
            kind="elementwise",
            partials=partials,
            nondifferentiable=partials is None,
            scalar=scalar,
            simplify=simplify,
            keeps_layout=True,
            cheap=True,
            **facts,
        )
    )
    if partials is not None:
        primitive.jvp = _elementwise_jvp(partials, operator)
        primitive.vjp = _elementwise_vjp(partials, operator)
    bounds = _bounds(count, domain)
    primitive.inside = tuple(_inner_point(*b) for b in bounds)
    primitive.samples = _elementwise_samples(bounds)
    FUNCTIONS[function] = ufunc_handler(primitive, count)
    return primitive


def _derivatives(partials: Callable[..., Any], operator: bool, args: Any, out: Any) -> Any:
    found = partials(*args, out)
    found = found if isinstance(found, tuple) else (found,)
    return found if operator else tuple(map(_as_numpy_divides, found))


def _as_numpy_divides(slope: Any) -> Any:
    """A NumPy function's slope: where it divides Python numbers, by zero too, as NumPy does."""
    made = definition(slope)
    if made is None or made.primitive.arithmetic != "divide" or not made.outs[0].type.weak:
        return slope
    return build.wrap(made.args[0]) / strong(build.wrap(made.args[1]))


def _elementwise_jvp(partials: Callable[..., Any], operator: bool) -> Callable[..., Any]:
    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        total = None
        for tangent, slope in zip(
            tangents, _derivatives(partials, operator, args, outs[0]), strict=True
        ):
            if tangent is not None and slope is not None:
                if isinstance(slope, Exception):
                    raise slope
                term = scale(tangent, slope)
                total = term if total is None else total + term
        return (total,)

    return jvp


def _elementwise_vjp(partials: Callable[..., Any], operator: bool) -> Callable[..., Any]:
    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        slopes = _derivatives(partials, operator, args, outs[0])
        return tuple(
            s if s is None or isinstance(s, Exception) else scaled_where(cotangents[0], s)
            for s in slopes
        )

    return vjp


def _bounds(count: int, domain: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The sampling interval of each argument; the last one given serves for the rest."""
    bounds = list(domain) or [(-2.0, 2.0)] * count
    return bounds + [bounds[-1]] * (count - len(bounds))


def _elementwise_samples(
    bounds: Sequence[tuple[float, float]],
) -> Callable[[np.random.Generator], list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    count = len(bounds)

    def samples(rng: np.random.Generator) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        plain: list[tuple[int, ...]] = [(3, 4), (), (2, 0), (1,)]
        shapes = [[shape] * count for shape in plain]
        if count > 1:
            shapes += [[(3, 4), (4,)] + [()] * (count - 2), [(4, 1), (1, 3)] + [(3,)] * (count - 2)]
        double = [
            tuple(np.asarray(rng.uniform(*b, s)) for b, s in zip(bounds, row, strict=True))
            for row in shapes
        ]
        single = tuple(x.astype("f4") for x in double[0])
        return [(row, {}) for row in (*double, single)]

    return samples


def strong(value: Any) -> Any:
    """A NumPy function's view of a Python scalar: float64, int64, bool or complex128, not weak."""
    if isinstance(value, Array):
        return FUNCTIONS["cast"](value, value.dtype) if value.type.weak else value
    return np.asarray(value)[()] if isinstance(value, (int, float, complex)) else value


def ufunc_handler(primitive: Primitive, count: int) -> Callable[..., Any]:
    """Return the implementation of a ufunc's calls: broadcasting, ``out``, ``where``, ``dtype``."""

    def call(*args: Any, out: Any = None, where: Any = True, dtype: Any = None, **rest: Any) -> Any:
        for option in rest.keys() - {"casting", "order", "subok"}:
            raise TypeError(f"{primitive.name} got an unexpected keyword argument '{option}'")
        if len(args) == count + 1 and out is None:
            args, out = args[:count], args[count]
        if len(args) != count:
            raise TypeError(f"{primitive.name} takes {count} arguments, {len(args)} were given")
        values = [operand(a) for a in args]
        if "np." not in str(primitive.spelling) and all(type_of(v).weak for v in values):
            first = next((k for k, v in enumerate(values) if isinstance(v, Array)), 0)
            values[first] = strong(values[first])
        if dtype is not None:
            values = [FUNCTIONS["cast"](v, dtype) for v in values]
        if where is not True and out is not None:
            values = _guarded(primitive, values, where)
        result = apply(primitive, *values)
        return finish(result, out, where)

    call.__name__ = primitive.name
    return call


def _guarded(primitive: Primitive, values: Sequence[Any], where: Any) -> list[Any]:
    """The operands, harmless where the ufunc's mask is False: it does not compute there."""

    def safe(value: Any, point: float) -> Any:
        if not isinstance(value, Array):
            return value
        known: Any = point if value.dtype.kind in "fc" else 1 if value.dtype.kind != "b" else True
        return FUNCTIONS[np.where](where, value, known)

    return [safe(v, p) for v, p in zip(values, primitive.inside, strict=True)]


def _inner_point(low: float, high: float) -> float:
    """A simple number between the two."""
    return next((p for p in (1.0, 0.5) if low < p < high), (low + high) / 2.0)


def finish(result: Any, out: Any, where: Any = True) -> Any:
    """Honour ``out=`` and ``where=``."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        if where is not True:
            raise UnsupportedFunction(
                "where= without out= leaves elements uninitialized.",
                current().origin,
                "give out=, or use np.where",
            )
        return result
    if isinstance(out, (bool, int, float, complex)):
        raise TypeError("return arrays must be of ArrayType")
    if where is not True:
        result = FUNCTIONS[np.where](where, result, out)
    OPERATORS["setitem"](out, Ellipsis, result)
    return out


def run_time_choice(
    test: Any, then: Callable[[], Any], orelse: Callable[[], Any], t: ArrayType
) -> Any:
    """A branch within a rule: ``then()`` where the recorded ``test`` holds, else ``orelse()``."""
    if not isinstance(test, Array):
        return then() if test else orelse()
    builder = current()
    arms = []
    for arm in (then, orelse):
        with builder.block() as block:
            block.results.append(build.atom(arm()))
        arms.append(block)
    out = Var(ArrayType(t.dtype, t.dims), None, builder.origin)
    builder.emit(If((out,), build.atom(test), arms[0], arms[1], builder.origin))
    if builder.selections is not None:
        note_branch(build.atom(test), (out,), *arms)
    return Array(out)


def raise_where(test: Any, error: Exception) -> None:
    """Raise an error at run time where a test holds; a known test decides now."""
    if not isinstance(test, Array):
        if test:
            raise error
        return
    builder = current()
    with builder.block() as block:
        builder.effect(f"raise {type(error).__name__}({str(error)!r})", [])
    builder.emit(If((), build.atom(test), block, Block(), builder.origin))


# linear, bilinear, opaque


def linear(
    name: str,
    function: Callable[..., Any],
    infer: Callable[..., Any],
    spelling: str | Callable[..., str],
    wrt: Sequence[int] = (0,),
    **options: Any,
) -> Callable[[Callable[..., Any]], Primitive]:
    """Declare a function linear in ``wrt`` (jointly); the decorated rule is its transpose.

    The rule is called ``rule(y_bar, *args, **params)`` and gives one cotangent for each of ``wrt``.
    """

    def declare(transpose: Callable[..., Any]) -> Primitive:
        primitive = register(
            Primitive(
                name, function, infer, spelling, kind="linear", linear_in=tuple(wrt), **options
            )
        )

        def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
            swapped = list(args)
            for i in wrt:
                swapped[i] = zeros_like(args[i]) if tangents[i] is None else tangents[i]
            return (apply(primitive, *swapped, **params),)

        def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
            found = transpose(cotangents[0], *args, **params)
            found = found if isinstance(found, tuple) else (found,)
            result: list[Any] = [None] * len(args)
            for i, cotangent in zip(wrt, found, strict=True):
                result[i] = cotangent
            return tuple(result)

        primitive.jvp, primitive.vjp = jvp, vjp
        return primitive

    return declare


def zeros_like(value: Any) -> Any:
    """Zeros of an Array's type; the number zero for a scalar."""
    return np.zeros_like(value) if isinstance(value, Array) and value.ndim else 0.0


def bilinear(
    name: str,
    function: Callable[..., Any],
    infer: Callable[..., Any],
    spelling: str | Callable[..., str],
    **options: Any,
) -> Callable[[Callable[..., Any]], Primitive]:
    """Declare a function linear in each of its two arguments; the rule gives both cotangents."""

    def declare(transpose: Callable[..., Any]) -> Primitive:
        primitive = register(
            Primitive(name, function, infer, spelling, kind="bilinear", linear_in=(0, 1), **options)
        )

        def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
            (a_dot, b_dot), (a, b) = tangents, args
            left = None if a_dot is None else apply(primitive, a_dot, b, **params)
            right = None if b_dot is None else apply(primitive, a, b_dot, **params)
            return (left if right is None else right if left is None else left + right,)

        def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
            return transpose(cotangents[0], *args, **params)

        primitive.jvp, primitive.vjp = jvp, vjp
        return primitive

    return declare


def opaque(
    name: str,
    function: Callable[..., Any],
    infer: str | Callable[..., Any],
    spelling: str | Callable[..., str],
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    dtypes: Callable[..., Any] = linalg_dtype,
    **options: Any,
) -> Primitive:
    """Declare a function with everything given by hand (see ``Primitive`` for the signatures).

    One of matrices has a signature in place of ``infer``, and ``dtypes`` of the operands' types.
    """
    if isinstance(infer, str):
        options["signature"], infer = infer, typed(infer, dtypes)
    return register(
        Primitive(name, function, infer, spelling, kind="opaque", jvp=jvp, vjp=vjp, **options)
    )


# spelling


def call_spelling(name: str, count: int = 1) -> Callable[..., str]:
    """``name({0}, ..., axis=0)``: arguments, then parameters that are neither None nor False."""

    def spell(args: Sequence[Any], params: dict[str, Any]) -> str:
        parts = [f"{{{i}}}" for i in range(len(args))]
        parts += [f"{k}={v!r}" for k, v in params.items() if v is not None and v is not False]
        return f"{name}({', '.join(parts)})"

    return spell
