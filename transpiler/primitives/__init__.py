"""NumPy as calque knows it: one declaration a primitive, one file a family.

In come calls of NumPy's functions on recorded arrays; out go operations of Core, and for each its
record: value, type, spelling, derivatives, batch rule, element form. Read ``base``, then a family
such as ``elementwise``, ``reductions`` or ``indexing``; ``batched`` and ``element_forms`` have the
rules that many primitives share, ``called`` the calls that are kept whole. ``rare``
has the families that few programs use: they are imported where a name asks for one.
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
    element_forms,
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
    pythons_cmath,
    pythons_extrema,
    pythons_math,
    ranges,
    rearranging,
    reductions,
    scalars,
    scans,
    scipy_linalg,
    scipy_matrices,
    scipy_stacks,
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
from calque.transpiler.primitives.record import MORE

# these give the records above their batch rules
from calque.transpiler.primitives import (  # isort: skip
    batched,
    batched_axes,
    batched_indexing,
    batched_products,
    axis_collectives,
)

for _function, _handler in FUNCTIONS.items():  # Python says whom an unknown argument was given to
    if isinstance(_handler, FunctionType) and hasattr(_function, "__name__"):
        _handler.__qualname__ = _function.__name__

MORE.append("calque.transpiler.primitives.rare")

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
    "element_forms",
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
    "pythons_cmath",
    "pythons_extrema",
    "pythons_math",
    "ranges",
    "rearranging",
    "reductions",
    "scalars",
    "scans",
    "scipy_linalg",
    "scipy_matrices",
    "scipy_stacks",
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
