"""Complex numbers: parts, conjugates, angles; cotangents follow JAX's conventions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import ATTRIBUTES, FUNCTIONS, Array, current, known, type_of
from calque.transpiler.ir.types import COMPLEX, ArrayType
from calque.transpiler.primitives import (
    elementwise,  # noqa: F401  (complex of one number)
    guards,
)
from calque.transpiler.primitives.base import apply, finish, implements, linear, opaque, operand
from calque.transpiler.primitives.sampling import case, cases

Samples = list[tuple[tuple[Any, ...], dict[str, Any]]]


def _samples(rng: np.random.Generator) -> Samples:
    shapes: list[tuple[int, ...]] = [(3, 4), (), (2, 0), (1,)]
    values = [np.asarray(rng.normal(size=s) + 1j * rng.normal(size=s)) for s in shapes]
    return [((v,), {}) for v in [*values, values[0].astype("c8")]]


def _infer_part(x: Any) -> ArrayType:
    t = type_of(x)
    return ArrayType(np.real(np.ones((), t.dtype)).dtype, t.dims, t.weak)


@linear(
    "np.real",
    np.real,
    _infer_part,
    "{0}.real",
    view_back=lambda base, new: new + 1j * np.imag(base),
    cheap=True,
    samples=_samples,
    guard=guards.of_first,
)
def real(y_bar: Any, x: Any) -> Any:
    """The pass makes it complex."""
    return y_bar


@linear(
    "np.imag",
    np.imag,
    _infer_part,
    "{0}.imag",
    view_back=lambda base, new: np.real(base) + 1j * new,
    cheap=True,
    samples=_samples,
    guard=guards.of_first,
)
def imag(y_bar: Any, x: Any) -> Any:
    """The real part of ``-i z`` is the imaginary part of ``z``."""
    return -1j * y_bar


conj = opaque(
    "np.conj",
    np.conj,
    lambda x: type_of(x),
    "np.conj({0})",
    jvp=lambda tangents, outs, args, params: (np.conj(tangents[0]),),
    vjp=lambda cotangents, outs, args, params: (np.conj(cotangents[0]),),
    cheap=True,
    keeps_layout=True,
    samples=_samples,
    smooth=True,
    guard=guards.of_first,
    numba="np.conj({0})",
)


def _infer_complex(x: Any, y: Any) -> ArrayType:
    dims = current().broadcast([type_of(x).dims, type_of(y).dims])
    return ArrayType(COMPLEX.dtype, dims, not dims)


def _of_parts(x: Any, y: Any) -> Any:
    if not np.ndim(x) and not np.ndim(y):
        return complex(x, y)
    return np.stack(np.broadcast_arrays(x, y), axis=-1).astype(float).view(complex)[..., 0]


def _of_parts_text(args: Any, params: Any) -> str:
    if not any(type_of(a).ndim for a in args):
        return "complex({0}, {1})"
    return "np.stack(np.broadcast_arrays({0}, {1}), axis=-1).astype(float).view(complex)[..., 0]"


# by no sum: the product of 1j and an infinity has a real part, which is NaN
@linear(
    "complex of parts",
    _of_parts,
    _infer_complex,
    _of_parts_text,
    wrt=(0, 1),
    cheap=True,
    samples=cases(case((), ()), case(2.0, ()), case((3, 4), (4,)), case((2, 0), ())),
)
def of_parts(y_bar: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The parts of the cotangent, by the convention for ``np.imag``."""
    return np.real(y_bar), np.real(1j * y_bar)


_of_one = FUNCTIONS[complex]


@implements(complex)
def python_complex(*args: Any, **options: Any) -> Any:
    """``complex(x)`` and ``complex(real, imag)``: a Python number."""
    if known((args, tuple(options.values()))):
        return complex(*args, **options)
    return _of_one(*args) if len(args) == 1 and not options else _of_two(*args, **options)


def _of_two(real: Any = 0.0, imag: Any = 0.0) -> Any:
    x, y = (v.reshape(()) if type_of(v).ndim else v for v in (operand(real), operand(imag)))
    if type_of(x).dtype.kind == "c" or type_of(y).dtype.kind == "c":
        message = "complex(real, imag) of complex numbers."
        raise UnsupportedFunction(message, current().origin, "write real + 1j * imag")
    return apply(of_parts, x, y)


@implements(np.real, attribute="real")
def np_real(x: Any) -> Any:
    """``x.real``: the array itself where it is real."""
    x = operand(x)
    return apply(real, x) if type_of(x).dtype.kind == "c" else x


@implements(np.imag)
def np_imag(x: Any) -> Any:
    """``x.imag``: zeros where the array is real."""
    x = operand(x)
    return apply(imag, x) if type_of(x).dtype.kind == "c" else np.zeros_like(x)


ATTRIBUTES["imag"] = np_imag


@implements(np.conjugate)
def np_conj(x: Any, out: Any = None) -> Any:
    """``np.conj``: a new array also where it is real."""
    x = operand(x)
    if type_of(x).dtype.kind == "c":
        return finish(apply(conj, x), out)
    return finish(Array(x.atom) if isinstance(x, Array) and x.ndim else x, out)


@implements(method="conj")
def conj_method(x: Array, out: Any = None) -> Any:
    """``x.conj()``: the array itself where it is real."""
    return x if out is None and x.dtype.kind != "c" else np_conj(x, out)


implements(method="conjugate")(conj_method)


@implements(np.angle)
def np_angle(z: Any, deg: bool = False) -> Any:
    """``np.angle``, as NumPy computes it."""
    z = operand(z)
    angle = np.arctan2(np_imag(z), np_real(z))
    return angle * (180.0 / math.pi) if deg else angle


implements(np.iscomplex)(lambda x: np_imag(x) != 0)
implements(np.isreal)(lambda x: np_imag(x) == 0)
implements(np.iscomplexobj)(lambda x: type_of(x).dtype.kind == "c")
implements(np.isrealobj)(lambda x: not isinstance(x, Array) or x.dtype.kind != "c")
