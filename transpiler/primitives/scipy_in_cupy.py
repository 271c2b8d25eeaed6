"""``scipy.linalg`` in CuPy's words: the texts that the records have for a GPU.

``cupyx.scipy.linalg`` has a few of SciPy's functions; the others are said in those of
``cupy.linalg``, whose checks for what is not finite are CuPy's: none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from calque.transpiler.primitives.record import Lacking


def solve(params: dict[str, Any], symmetric: Collection[str], turned: str = ".T") -> str:
    """CuPy's text of ``solve``: CuPy reads both triangles of ``symmetric`` matrices, SciPy one.

    >>> solve({"assume_a": "pos", "lower": True}, ("pos",))
    'np.linalg.solve(np.tril({0}) + np.tril({0}, -1).T, {1})'
    """
    if params["assume_a"] not in symmetric:
        return "np.linalg.solve({0}, {1})"
    half, diagonal = ("tril", -1) if params["lower"] else ("triu", 1)
    return f"np.linalg.solve(np.{half}({{0}}) + np.{half}({{0}}, {diagonal}){turned}, {{1}})"


def in_dtype(text: str, x: Any, dtype: np.dtype) -> str:
    """Compute in double precision where SciPy does for float32; CuPy keeps the operand's."""
    double = x.type.dtype == np.float32 and dtype == np.float64
    return text.replace("{0}", "{0}.astype(np.float64)") if double else text


def pinv(params: dict[str, Any], dtype: np.dtype) -> str | Lacking:
    """CuPy's text of ``pinv``, with SciPy's own tolerance.

    >>> pinv({"atol": None, "rtol": None}, np.dtype("f8"))
    'np.linalg.pinv({0}, 2.220446049250313e-16 * max({0}.shape))'
    """
    if params["atol"] or params["rtol"]:
        return Lacking("leave atol and rtol out")
    return f"np.linalg.pinv({{0}}, {float(np.finfo(dtype).eps)!r} * max({{0}}.shape))"


def cholesky(lower: bool) -> str:
    """CuPy's is the lower one.

    >>> cholesky(False)
    'np.linalg.cholesky({0}.T).T'
    """
    return "np.linalg.cholesky({0})" if lower else "np.linalg.cholesky({0}.T).T"


def cho_factor(lower: bool) -> str:
    """CuPy's text of ``cho_factor``: the factor, and the matrix in the other triangle.

    >>> cho_factor(True)
    'np.linalg.cholesky({0}) + np.triu({0}, 1)'
    """
    return cholesky(lower) + (" + np.triu({0}, 1)" if lower else " + np.tril({0}, -1)")


def cho_solve(lower: bool, conjugate: bool = False) -> str:
    """A system with each of the factors.

    >>> cho_solve(False)
    'linalg.solve_triangular({0}, linalg.solve_triangular({0}, {1}, trans=1))'
    """
    turned = f"trans={2 if conjugate else 1}"
    first, then = ("lower=True", f", {turned}, lower=True") if lower else (turned, "")
    return f"linalg.solve_triangular({{0}}, linalg.solve_triangular({{0}}, {{1}}, {first}){then})"
