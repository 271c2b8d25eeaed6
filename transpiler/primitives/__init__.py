"""What calque knows of NumPy: one declaration a primitive, one file a family.

In come calls of NumPy's functions on recorded arrays; out go operations of Core, and for each its
record: value, type, spelling, derivatives, batch rule, element form. Read ``base``, then a family
such as ``elementwise``, ``reductions`` or ``indexing``; ``batched`` and ``element_forms`` have what
is said once for many, ``called`` the calls that keep their identity.
"""

from types import FunctionType

from calque.transpiler.ir.builder import FUNCTIONS
from calque.transpiler.primitives import (
    axes,
    checked_numbers,
    complexes,
    compositions,
    creation,
    decompositions,
    diagonals,
    eigenvalues,
    einsum,
    elementwise,
    extrema,
    fourier,
    growing,
    guards_of_stores,
    histograms,
    indexing,
    joining,
    linalg,
    logic,
    norms,
    polynomials,
    products,
    ranges,
    rearranging,
    reductions,
    scalars,
    scans,
    scipy_eigen,
    scipy_factors,
    scipy_linalg,
    scipy_matrices,
    scipy_stats,
    selecting,
    shapes,
    signals,
    sorting,
    special,
    statistics,
    summing,
    systems,
    transcendental,
)

# these give the records above their batch rules
from calque.transpiler.primitives import (  # isort: skip
    batched,
    batched_axes,
    batched_indexing,
    batched_products,
    axis_collectives,
    einsum_products,
    random,
    random_parameters,
    scipy_in_numpy,
)

for _function, _handler in FUNCTIONS.items():  # Python says whom an unknown argument was given to
    if isinstance(_handler, FunctionType) and hasattr(_function, "__name__"):
        _handler.__qualname__ = _function.__name__

__all__ = [
    "axes",
    "axis_collectives",
    "batched",
    "batched_axes",
    "batched_indexing",
    "batched_products",
    "checked_numbers",
    "complexes",
    "compositions",
    "creation",
    "decompositions",
    "diagonals",
    "eigenvalues",
    "einsum",
    "einsum_products",
    "elementwise",
    "extrema",
    "fourier",
    "growing",
    "guards_of_stores",
    "histograms",
    "indexing",
    "joining",
    "linalg",
    "logic",
    "norms",
    "polynomials",
    "products",
    "random",
    "random_parameters",
    "ranges",
    "rearranging",
    "reductions",
    "scalars",
    "scans",
    "scipy_eigen",
    "scipy_factors",
    "scipy_in_numpy",
    "scipy_linalg",
    "scipy_matrices",
    "scipy_stats",
    "selecting",
    "shapes",
    "signals",
    "sorting",
    "special",
    "statistics",
    "summing",
    "systems",
    "transcendental",
]
