"""``eig`` and ``eigvals`` of any square matrix. Their results are complex, as JAX's.

NumPy gives real arrays where all eigenvalues happen to be real; a dtype cannot depend on the data
here. The derivatives hold for eigenvalues that are apart, and of eigenvectors as LAPACK scales
them: of length one, the largest component real. Method: M. B. Giles, "Collected matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008), section 3.1; the scaling
is that of the routine ``geev``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import apply, implements, opaque
from calque.transpiler.primitives.linalg import matrices, transposed
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.sampling import Drawn, case, cases

EigResult = type(np.linalg.eig(np.eye(1)))


def _complex_dtype(t: ArrayType) -> np.dtype:
    return np.result_type(linalg_dtype(t), np.complex64)


def _as_complex(a: Any) -> str:
    """The text that converts NumPy's result to complex; empty where it is complex already."""
    if type_of(a).dtype.kind == "c":
        return ""
    name = "complex" if _complex_dtype(type_of(a)) == np.complex128 else "np.complex64"
    return f".astype({name})"


def _spell_eig(args: Any, params: Any) -> str:
    cast = _as_complex(args[0])
    return f"[part{cast} for part in np.linalg.eig({{0}})]" if cast else "np.linalg.eig({0})"


def _eig(a: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(part.astype(_complex_dtype(type_of(a))) for part in np.linalg.eig(a))


def _apart(w: Any) -> Any:
    """``1 / (w[j] - w[i])``, zero on the diagonal."""
    unit = FUNCTIONS[np.eye](w.shape[-1], dtype=w.dtype)
    return 1.0 / (w[..., None, :] - w[..., :, None] + unit) - unit


def _solve(v: Any, b: Any) -> Any:
    """``np.linalg.solve``, also of vectors of a defective matrix that are exactly the same."""
    least = float(np.finfo(v.dtype).tiny)  # infinities and NaN then, no error
    return np.linalg.solve(v + least * FUNCTIONS[np.eye](v.shape[-1], dtype=v.dtype), b)


def _largest(v: Any) -> Any:
    """A one for the largest component of each vector, zeros elsewhere."""
    place = np.argmax(np.abs(v), axis=-2)
    return FUNCTIONS[np.arange](v.shape[-1])[:, None] == place[..., None, :]


def _eig_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (w, v) = tangents, outs
    inner = _solve(v, a_dot @ v)
    turned = v @ (_apart(w) * inner)
    length = np.sum(np.real(np.conj(v) * turned), axis=-2)
    at_largest = _largest(v)
    phase = np.sum(np.where(at_largest, np.imag(turned), 0.0), axis=-2)
    phase = phase / np.sum(np.where(at_largest, np.real(v), 0.0), axis=-2)
    v_dot = turned - v * (length + 1j * phase)[..., None, :]
    return np.diagonal(inner, axis1=-2, axis2=-1), v_dot


def _eig_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (w_bar, v_bar), (w, v) = cotangents, outs
    vt = transposed(v)
    inner = None
    if v_bar is not None:
        sums = np.sum(v_bar * v, axis=-2)[..., None, :]
        at_largest = _largest(v)
        largest = np.sum(np.where(at_largest, np.real(v), 0.0), axis=-2)[..., None, :]
        turned_bar = v_bar - np.real(sums) * np.conj(v)
        turned_bar = turned_bar - 1j * np.where(at_largest, np.imag(sums) / largest, 0.0)
        inner = _apart(w) * (vt @ turned_bar)
    if w_bar is not None:
        along = w_bar[..., None, :] * FUNCTIONS[np.eye](w.shape[-1], dtype=w.dtype)
        inner = along if inner is None else inner + along
    a_bar = _solve(vt, inner @ vt)
    return (a_bar if type_of(args[0]).dtype.kind == "c" else np.real(a_bar),)


def _apart_from_one_another(*shape: int, dtype: str = "f8") -> Drawn:
    return Drawn(shape, dtype, lambda x: x + np.diag(3.0 * np.arange(shape[-1])))


eig = opaque(
    "np.linalg.eig",
    _eig,
    "(n,n)->(n),(n,n)",
    _spell_eig,
    dtypes=_complex_dtype,
    jvp=_eig_jvp,
    vjp=_eig_vjp,
    samples=cases(
        case(_apart_from_one_another(3, 3)),
        case(_apart_from_one_another(2, 2, 2)),
        case(_apart_from_one_another(2, 2, dtype="f4")),
    ),
)


@implements(np.linalg.eig)
def np_eig(a: Any) -> Any:
    """``np.linalg.eig``: eigenvalues and eigenvectors, a namedtuple; always complex."""
    return EigResult(*apply(eig, matrices(a, "eig")))


def _eigvals_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    v = np_eig(args[0]).eigenvectors
    return (np.diagonal(_solve(v, tangents[0] @ v), axis1=-2, axis2=-1),)


def _eigvals_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    found = np_eig(args[0])
    return _eig_vjp((cotangents[0], None), tuple(found), args, params)


eigvals = opaque(
    "np.linalg.eigvals",
    lambda a: np.linalg.eigvals(a).astype(_complex_dtype(type_of(a))),
    "(n,n)->(n)",
    lambda args, p: "np.linalg.eigvals({0})" + _as_complex(args[0]),
    dtypes=_complex_dtype,
    jvp=_eigvals_jvp,
    vjp=_eigvals_vjp,
    samples=cases(case(_apart_from_one_another(3, 3)), case(_apart_from_one_another(2, 2, 2))),
)


@implements(np.linalg.eigvals)
def np_eigvals(a: Any) -> Array:
    """``np.linalg.eigvals``; always complex."""
    return apply(eigvals, matrices(a, "eigvals"))
