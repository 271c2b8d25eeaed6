"""Complex numbers: parts, conjugates, angles; cotangents follow JAX's conventions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.builder import ATTRIBUTES, Array, type_of
from calque.transpiler.primitives.base import apply, finish, implements, linear, opaque, operand
from calque.transpiler.types import ArrayType

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
)


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
