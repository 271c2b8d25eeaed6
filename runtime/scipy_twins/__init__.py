"""Twins of SciPy's functions, plain NumPy Python that the frontend interprets in their place.

In come the arguments of a call of SciPy, in a program that is transformed; out go what SciPy gives,
and its derivative. Read ``sampled_integrals``, then ``transpiler/frontend/library/scipy_twins.py``.
"""

from __future__ import annotations

from calque.runtime.scipy_twins import (
    array_modules,
    continuous_distributions,
    descriptive_statistics,
    differential_equations,
    discrete_distributions,
    distances,
    filtered_signals,
    frozen_distributions,
    images,
    interpolants,
    interpolated_images,
    minimization,
    moments_of_distributions,
    multivariate_distributions,
    numeric_distributions,
    piecewise,
    quadratures,
    root_finding,
    rotations,
    sampled_integrals,
    sparse_matrices,
    spectra,
    stiff_equations,
    subspaces,
)

__all__ = [
    "array_modules",
    "continuous_distributions",
    "descriptive_statistics",
    "differential_equations",
    "discrete_distributions",
    "distances",
    "filtered_signals",
    "frozen_distributions",
    "images",
    "interpolants",
    "interpolated_images",
    "minimization",
    "moments_of_distributions",
    "multivariate_distributions",
    "numeric_distributions",
    "piecewise",
    "quadratures",
    "root_finding",
    "rotations",
    "sampled_integrals",
    "sparse_matrices",
    "spectra",
    "stiff_equations",
    "subspaces",
]
