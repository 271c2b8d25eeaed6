"""``scipy.linalg``: eigenvalues and eigenvectors of Hermitian matrices given by their bands."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array, known_int
from calque.transpiler.primitives.base import opaque
from calque.transpiler.primitives.decompositions import by_gaps, real_part
from calque.transpiler.primitives.linalg import adjoint, by_conjugates, real_dtype
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.record import Lacking
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_linalg import check_hints, flag, options, refused, several
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import on_stacks
from calque.transpiler.primitives.scipy_systems import (
    adjoint_bands,
    banded_product,
    both_halves,
    given_bands,
    lower_half,
    one_half,
    onto_bands,
)


def _jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (ab_dot,), (w, v) = tangents, outs
    bands = both_halves(lower_half(ab_dot, params["lower"]))
    inner = adjoint(v) @ banded_product(bands, v, ab_dot.shape[-2] - 1)
    return real_part(np.diagonal(inner, axis1=-2, axis2=-1)), v @ by_gaps(inner, w)


@by_conjugates
def _vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (w_bar, v_bar), (ab,), (w, v) = cotangents, args, outs
    left = 0.0 * v if v_bar is None else v @ by_gaps(adjoint(v) @ v_bar, w)
    if w_bar is not None:
        left = left + v * w_bar[..., None, :]
    width = ab.shape[-2] - 1
    low_bar = one_half(onto_bands(both_halves(ab), left, v, width), width)
    return (low_bar if params["lower"] else adjoint_bands(low_bar, width, 0),)


def _with_gaps(*shape: int, row: int) -> Drawn:
    diagonal = np.arange(shape[0])[:, None] == row
    return Drawn(shape, "f8", lambda x: 0.3 * x + diagonal * 3.0 * np.arange(shape[1]))


eig_banded = opaque(
    "linalg.eig_banded",
    several("eig_banded"),
    "(r,n)->(n),(n,n)",
    lambda args, p: f"linalg.eig_banded({{0}}{options(p, lower=False)})",
    cupy=Lacking("np.linalg.eigh of the whole matrix"),
    dtypes=lambda a: (real_dtype(a), linalg_dtype(a)),
    jvp=_jvp,
    vjp=_vjp,
    samples=cases(
        case(_with_gaps(2, 4, row=1), lower=False, check_finite=True),
        case(_with_gaps(3, 4, row=0), lower=True, check_finite=False),
    ),
)


def _chosen(select_range: Any, size: Any) -> slice:
    """The indices of the eigenvalues that are asked for."""
    if not isinstance(select_range, (list, tuple)) or len(select_range) != 2:
        raise ValueError("select_range must be a 2-element array-like in nondecreasing order")
    low, high = (known_int(k, "An index of select_range") for k in select_range)
    if low > high:
        raise ValueError("select_range must be a 2-element array-like in nondecreasing order")
    if low < 0 or high >= known_int(size, "The number of eigenvalues"):
        raise ValueError("select_range out of bounds")
    return slice(low, high + 1)


@means("scipy.linalg", "eig_banded")
def _eig_banded(
    a_band: Any,
    lower: Any = False,
    eigvals_only: Any = False,
    overwrite_a_band: Any = False,
    select: Any = "a",
    select_range: Any = None,
    max_ev: Any = 0,
    check_finite: Any = True,
) -> Any:
    check_hints("eig_banded", {"overwrite_a_band": overwrite_a_band})
    if isinstance(select, Array) or select not in ("a", "i", "all", "index", 0, 2):
        raise refused("eig_banded", f"select={select!r}", "select among all eigenvalues")
    a = given_bands(a_band, "eig_banded")
    how = {"lower": flag(lower, "lower"), "check_finite": flag(check_finite, "check_finite")}
    w, v = on_stacks(eig_banded, a, **how)
    if select in ("i", "index", 2):
        kept = _chosen(select_range, a.shape[-1])
        w, v = w[..., kept], v[..., kept]
    return w if flag(eigvals_only, "eigvals_only") else (w, v)


@means("scipy.linalg", "eigvals_banded")
def _eigvals_banded(
    a_band: Any,
    lower: Any = False,
    overwrite_a_band: Any = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: Any = True,
) -> Any:
    return _eig_banded(
        *(a_band, lower, True, overwrite_a_band, select, select_range, 0, check_finite)
    )
