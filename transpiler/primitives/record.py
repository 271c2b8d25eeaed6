"""The record of a primitive: everything that calque knows of one operation.

What a pass asks of a primitive it asks here, by attribute; its family's file says it once, beside
the rules. No other module keeps a table of primitives by their names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.core import Var

# name -> Primitive; every record there is
PRIMITIVES: dict[str, Primitive] = {}
# modules with more records, which are imported where a name is not in the table
MORE: list[str] = []


@dataclass(eq=False)
class Primitive:
    """Everything calque knows of one operation.

    ``jvp(tangents, outs, args, params)`` returns the outs' tangents; ``vjp(cotangents, outs, args,
    params)`` the args' cotangents. None stands for zero in both, in and out. A vjp may return a
    ``Scatter`` for an argument: how to add into its adjoint in place; or the error to raise if that
    argument's cotangent is wanted.
    """

    name: str
    function: Callable[..., Any]  # on concrete arrays: function(*args, **params)
    infer: Callable[..., Any]  # types of the results: infer(*args, **params), args Arrays or known
    spelling: str | Callable[..., str]  # the text, "{0} + {1}"; or spelling(args, params)
    kind: str = "opaque"

    # rules
    signature: str = ""  # of a function of matrices: see matrix_signatures.py
    jvp: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    partials: Callable[..., Any] | None = None
    linear_in: tuple[int, ...] = ()
    nondifferentiable: bool = False  # the derivative is zero wherever there is one
    guard: Callable[..., Any] | None = None  # where a result is zero for sure: see guards.py
    reached: Callable[..., Any] | None = None  # see transpiler/sparsity/rules.py
    simplify: Callable[..., Any] | None = None  # simplify(builder, args, params) -> Array or None
    on_arrays: Callable[..., Any] | None = None  # what a function of Python numbers stands for

    # loops over elements, and kernels
    element: Callable[..., Any] | None = None  # element(read, args, params, index): one of many
    on_grid: bool = False  # the element form is for a grid of threads alone
    reduction: Any = None  # how elements are put together: ``element_forms.Reduction``
    lowering: Callable[..., Any] | None = None  # lowering(args, params, looping): in simpler ones
    scalar: str | None = None  # the name in loops and in CUDA
    numba: str | None = None  # the text in a kernel of Numba's, where it is another
    # the spelling with CuPy, if another
    cupy: str | Lacking | Callable[..., str | Lacking | None] | None = None
    in_loops: str | None = None  # the text in loops of kernels, for small matrices
    sums: bool = False  # of many numbers, added or multiplied in an order of NumPy's own
    cost: int = 0  # of one element, an addition being 1; 0: by the kind of its text
    # operations(s, sizes): the floating-point operations of a statement, as a formula; None: by
    # the kind. See transpiler/costs/operation_counts.py
    operations: Callable[..., Any] | None = None

    # memory
    view_back: Callable[..., Any] | None = None  # the base's next value, given the view's
    view_sometimes: bool = False  # a view only of contiguous memory
    copies: Callable[..., bool] | None = None  # copies(*args, **params): no view this time
    aliases: bool = False  # its result may be an operand itself, though it is no view
    fresh: bool = False  # always newly allocated, C-contiguous
    keeps_layout: bool = False  # contiguous results from contiguous operands
    sizes_from: int | None = None  # the first argument that is a size of the new array
    filled_with: int | None = None  # what all elements of the new array are
    like: Primitive | None = None  # np.zeros of np.zeros_like: the same of sizes
    first_index: int = 0  # the first argument that is an index; 0: it has none
    adds: bool = False  # a store that adds to what is there
    repeats: bool = False  # a store that adds as often as an index names an element

    # what it is to who reasons on values
    moves: bool = False  # its elements are elements of its first operand
    nonnegative: bool = False  # never less than zero
    keeps_sign: bool = False  # it is positive where all elements of its first operand are
    arithmetic: str = ""  # of numbers: "add", "less"; "same": no more than its operand
    total: bool = False  # defined, and without a warning, for every finite number
    # finite wherever its arguments are, and so its slopes of every order; or smooth(params)
    smooth: bool | Callable[[dict[str, Any]], bool] = False
    chooses: bool = False  # its results are places that a test, or a triangle, chose
    distinct: bool = False  # the numbers of one result are different from each other
    cheap: bool = False  # better computed again than saved

    # text
    rule: str = ""  # half a line on its reverse, where that is not plain calculus: a comment
    imported: tuple[str, str] | None = None  # of the user's own: module and name, called by name
    word: str = ""  # in names of results, where it is not the last of its own name
    infix: str = ""  # the word between those of its operands: x_plus_y
    suffix: str = ""  # the word after that of its operand: x_copy; {1} is the other operand's

    # tests
    inside: tuple[float, ...] = ()  # a point where an elementwise function is smooth
    samples: (
        Callable[[np.random.Generator], list[tuple[tuple[Any, ...], dict[str, Any]]]] | None
    ) = None

    def __call__(self, *args: Any, **params: Any) -> Any:
        return apply(self, *args, **params)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)


@dataclass(frozen=True)
class Lacking:
    """Said in the place of a spelling: CuPy has none; and what to write instead, ending a line."""

    hint: str


def record_named(name: str) -> Primitive | None:
    """The record of this name, also of a family that no program has used so far; else None."""
    if name not in PRIMITIVES:
        load_all()
    return PRIMITIVES.get(name)


def load_all() -> None:
    """Import the families that are imported late: the tables are complete then."""
    for module in MORE:
        importlib.import_module(module)


def _by_name(name: str) -> Primitive:
    found = record_named(name)
    if found is None:
        raise KeyError(name)
    return found


@dataclass(frozen=True)
class Scatter:
    """A cotangent given as an in-place addition: ``add(x_bar)`` stores into the Array ``x_bar``."""

    add: Callable[[Array], None]


def register(primitive: Primitive) -> Primitive:
    """Enter a record in the table; each name once."""
    if primitive.name in PRIMITIVES:
        raise ValueError(f"{primitive.name} is declared twice")
    PRIMITIVES[primitive.name] = primitive
    return primitive


def rule_of(field: str) -> Callable[..., Callable[[Callable[..., Any]], Any]]:
    """A decorator, ``@rule_of("batch")(sum_, mean)``: the rule is entered in the records."""

    def of(*primitives: Primitive) -> Callable[[Callable[..., Any]], Any]:
        def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
            for primitive in primitives:
                assert getattr(primitive, field) is None, f"{primitive} has a rule: {field}"
                setattr(primitive, field, rule)
            return rule

        return declare

    return of


def apply(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Record the primitive on Arrays and known scalars; on known scalars alone, compute."""
    if not any(isinstance(a, (Array, Var)) for a in args) and not primitive.fresh and args:
        if all(isinstance(a, (int, float, complex, np.generic)) for a in args):
            with np.errstate(all="ignore"):
                return primitive.function(*args, **params)
    return current().apply(primitive, args, params)
