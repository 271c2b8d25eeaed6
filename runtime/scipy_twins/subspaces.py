"""``scipy.linalg``: angles between the spaces that the columns of two matrices span."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin


@twin("scipy.linalg", "subspace_angles")
def subspace_angles(A: Any, B: Any) -> Any:
    """The angles, from the largest: by cosines, and small ones by sines, as in SciPy.

    SciPy leaves out columns that depend on others. How many is known when the program runs only,
    so that such matrices are refused.
    """
    a, b = _matrix(A), _matrix(B)
    if a.shape[-2] != b.shape[-2]:
        raise ValueError(
            f"A and B must have the same number of rows, got {a.shape[-2]} and {b.shape[-2]}"
        )
    one, other = _basis(a), _basis(b)
    across = _adjoint(one) @ other
    cosines = np.linalg.svd(across, compute_uv=False)
    wide = one.shape[-1] >= other.shape[-1]
    rest = other - one @ across if wide else one - other @ _adjoint(across)
    sines = np.clip(np.linalg.svd(rest, compute_uv=False), -1.0, 1.0)
    by_cosines = np.arccos(np.clip(cosines[..., ::-1], -1.0, 1.0))
    return np.where(cosines**2 >= 0.5, np.arcsin(sines), by_cosines)


def _matrix(x: Any) -> Any:
    x = np.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"expected 2D array, got shape {x.shape}")
    if not np.all(np.isfinite(x)):
        raise ValueError("array must not contain infs or NaNs")
    return x


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _basis(x: Any) -> Any:
    """Orthonormal columns that span what those of a matrix span."""
    basis = np.linalg.qr(x)[0]
    sizes = np.linalg.svd(x, compute_uv=False)
    least = np.finfo(basis.dtype).eps * max(x.shape[-2], x.shape[-1]) * sizes[..., :1]
    if np.any(sizes <= least):
        raise ValueError(
            "scipy.linalg.subspace_angles: columns of a matrix depend on others; leave them out"
        )
    return basis
