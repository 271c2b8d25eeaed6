"""What calque knows of NumPy: one declaration a primitive, one file a family."""

from types import FunctionType

from calque.transpiler.builder import FUNCTIONS
from calque.transpiler.primitives import (
    axes,
    complexes,
    compositions,
    creation,
    decompositions,
    diagonals,
    eigenvalues,
    einsum,
    elementwise,
    fourier,
    growing,
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
    selecting,
    shapes,
    signals,
    sorting,
    special,
    statistics,
    systems,
    transcendental,
)

# these give the records above their batch rules
from calque.transpiler.primitives import (  # isort: skip
    batched,
    batched_axes,
    batched_indexing,
    batched_products,
    collectives,
    einsum_products,
)

for _function, _handler in FUNCTIONS.items():  # Python says whom an unknown argument was given to
    if isinstance(_handler, FunctionType) and hasattr(_function, "__name__"):
        _handler.__qualname__ = _function.__name__

__all__ = [
    "axes",
    "batched",
    "batched_axes",
    "batched_indexing",
    "batched_products",
    "collectives",
    "complexes",
    "compositions",
    "creation",
    "decompositions",
    "diagonals",
    "eigenvalues",
    "einsum",
    "einsum_products",
    "elementwise",
    "fourier",
    "growing",
    "histograms",
    "indexing",
    "joining",
    "linalg",
    "logic",
    "norms",
    "polynomials",
    "products",
    "ranges",
    "rearranging",
    "reductions",
    "scalars",
    "scans",
    "selecting",
    "shapes",
    "signals",
    "sorting",
    "special",
    "statistics",
    "systems",
    "transcendental",
]
