"""The floating-point operations of a primitive: a rule each, or by its kind.

``operations_of`` answers for every statement. An elementwise function counts once for each element;
what computes no numbers of its own (views, copies, indices, integers) counts nothing. Libraries'
algorithms count by the textbook's leading terms. A sum of complex numbers counts as two operations,
a product as six, and a product of complex matrices as four times that of real ones. What has no
rule is not counted, and the report says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from calque.transpiler.costs.formulas import Formula, formula, product
from calque.transpiler.costs.integer_formulas import IntegerFormulas
from calque.transpiler.costs.memory_traffic import stored_part
from calque.transpiler.ir.builder import type_of
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.primitives import (
    complexes,
    decompositions,
    diagonals,
    eigenvalues,
    einsum,
    fourier,
    indexing,
    linalg,
    norms,
    products,
    pythons_extrema,
    ranges,
    reductions,
    scans,
    scipy_eigen,
    scipy_factors,
    scipy_images,
    scipy_linalg,
    scipy_transforms,
    signals,
    sorting,
    special,
    statistics,
    systems,
)
from calque.transpiler.primitives.einsum import expand
from calque.transpiler.primitives.matrix_signatures import present
from calque.transpiler.primitives.record import Primitive, rule_of

Rule = Callable[[Apply, IntegerFormulas], Formula | None]
_OF_COMPLEX = {"add": 2, "subtract": 2, "negative": 2, "multiply": 6, "divide": 11}
_SMALL_POWERS = (0, 1, 2, 3)  # a multiplication or two
_NO_NUMBERS = ("creation", "size", "indexing", "store", "linear")


@dataclass(frozen=True)
class Operations:
    """A number of operations; those of ``functions`` are calls of exp, sin and the like."""

    count: Formula
    functions: bool = False


def operations_of(s: Apply, sizes: IntegerFormulas) -> Operations | None:
    """The floating-point operations of a statement; None if they are not counted."""
    p = s.primitive
    if not any(t.is_float for t in (*(out.type for out in s.outs), *map(type_of, s.args))):
        return Operations(Formula())
    if p.operations is not None:
        found = p.operations(s, sizes)
        return None if found is None else Operations(found)
    if p.view_back is not None or p.moves:
        return Operations(Formula())
    if p.kind == "elementwise":
        each = _OF_COMPLEX.get(p.arithmetic, 1) if s.out.type.dtype.kind == "c" else 1
        return Operations(each * sizes.elements(s.out.type), _is_function(s))
    if p.kind in _NO_NUMBERS and p.imported is None:
        return Operations(Formula())
    return None


def _is_function(s: Apply) -> bool:
    """True for exp, sin and the like, which cost more than an addition."""
    p = s.primitive
    if p.arithmetic == "power":
        return isinstance(s.args[1], Var) or s.args[1] not in _SMALL_POWERS
    return not (p.arithmetic or p.nondifferentiable or "{" in (p.scalar or ""))


# rules


def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
    """A decorator: the rule of these records."""
    return rule_of("operations")(*primitives)


def elements_of_operand(times: int) -> Rule:
    """So many operations for each element of the operand."""
    return lambda s, sizes: times * sizes.elements(type_of(s.args[0]))


rule(
    *(reductions.sum_, reductions.prod, reductions.max_, reductions.min_, scans.cumsum),
    *(scans.cumprod, scans.cummax, scans.cummin, reductions.argmax, reductions.argmin),
    *(complexes.conj, reductions.count_nonzero),
    *(pythons_extrema.largest, pythons_extrema.smallest),
)(elements_of_operand(1))
rule(norms.norm, scipy_linalg.norm)(elements_of_operand(2))
rule(
    *(statistics.var, statistics.std),
    *(special.SPECIAL[name] for name in ("logsumexp", "softmax", "log_softmax")),
)(elements_of_operand(4))


@rule(reductions.mean)
def _mean(s: Apply, sizes: IntegerFormulas) -> Formula:
    return sizes.elements(type_of(s.args[0])) + sizes.elements(s.out.type)


@rule(diagonals.trace, indexing.update_add, indexing.add_at)
def _added(s: Apply, sizes: IntegerFormulas) -> Formula:
    """One addition for each element that is added."""
    if s.primitive is diagonals.trace:
        return sizes.dim(type_of(s.args[0]).dims[-1]) * sizes.elements(s.out.type)
    return sizes.elements(stored_part(s, sizes))


@rule(scans.diff)
def _differences(s: Apply, sizes: IntegerFormulas) -> Formula:
    return s.params.get("n", 1) * sizes.elements(s.out.type)


@rule(ranges.linspace)
def _spaced(s: Apply, sizes: IntegerFormulas) -> Formula:
    return 2 * sizes.elements(s.out.type)


# products


def _of_products(s: Apply, multiplications: Formula) -> Formula:
    """The operations of so many multiplications, each with an addition."""
    return (8 if s.out.type.dtype.kind == "c" else 2) * multiplications


@rule(products.matmul, products.dot, products.inner)
def _product(s: Apply, sizes: IntegerFormulas) -> Formula:
    left = type_of(s.args[0])
    summed = sizes.dim(left.dims[-1]) if left.ndim and type_of(s.args[1]).ndim else formula(1)
    return _of_products(s, sizes.elements(s.out.type) * summed)


@rule(products.vdot)
def _vdot(s: Apply, sizes: IntegerFormulas) -> Formula:
    return _of_products(s, sizes.elements(type_of(s.args[0])))


@rule(products.outer, products.kron)
def _outer(s: Apply, sizes: IntegerFormulas) -> Formula:
    return (6 if s.out.type.dtype.kind == "c" else 1) * sizes.elements(s.out.type)


@rule(products.cross)
def _cross(s: Apply, sizes: IntegerFormulas) -> Formula:
    return 3 * sizes.elements(s.out.type)


@rule(products.tensordot)
def _tensordot(s: Apply, sizes: IntegerFormulas) -> Formula:
    left = type_of(s.args[0])
    summed = product(sizes.dim(left.dims[k]) for k in s.params["axes"][0])
    return _of_products(s, sizes.elements(s.out.type) * summed)


@rule(einsum.einsum)
def _einsum(s: Apply, sizes: IntegerFormulas) -> Formula:
    """As NumPy computes it: one loop over all labels, whatever the number of operands."""
    types = [type_of(a) for a in s.args]
    terms, output = expand(s.params["subscripts"], [t.ndim for t in types])
    labels = {
        label: dim for term, t in zip(terms, types, strict=True) for label, dim in zip(term, t.dims)
    }
    sums = len(set(labels) - set(output)) > 0
    each = len(types) - 1 + sums
    return (
        (4 if s.out.type.dtype.kind == "c" else 1) * each * product(map(sizes.dim, labels.values()))
    )


@rule(signals.convolve)
def _convolution(s: Apply, sizes: IntegerFormulas) -> Formula:
    left, right = (sizes.elements(type_of(a)) for a in s.args[:2])
    return _of_products(s, left * right)


# functions of matrices


def by_signature(count: Callable[..., Any]) -> Rule:
    """A formula in the letters of a record's signature; ``least`` is the smaller of m and n.

    A letter that an operand lacks is 1; stacks of matrices count each.
    """

    def rule(s: Apply, sizes: IntegerFormulas) -> Formula:
        types = [type_of(a) for a in s.args]
        found = {"k": formula(1)}
        operands, _ = present(s.primitive.signature, tuple(t.ndim for t in types))
        stack: tuple[Any, ...] = ()
        for names, t in zip(operands, types, strict=True):
            own = t.dims[: t.ndim - len(names)]
            stack = own if len(own) > len(stack) else stack
            for name, dim in zip(names, t.dims[len(own) :], strict=True):
                found.setdefault(name.rstrip("?"), sizes.dim(dim))
                if name.endswith("?"):
                    found[name.rstrip("?")] = sizes.dim(dim)
        if "m" in found and "n" in found:
            found["least"] = min(found["m"], found["n"], key=sizes.symbols.nominal)
            found["most"] = max(found["m"], found["n"], key=sizes.symbols.nominal)
        asked = inspect.signature(count).parameters
        one = count(**{name: found[name] for name in asked})
        each = 4 if any(out.type.dtype.kind == "c" for out in s.outs) else 1
        return formula(one) * each * product(map(sizes.dim, stack))

    return rule


rule(linalg.solve, scipy_linalg.solve)(by_signature(lambda n, k: 2 * n**3 / 3 + 2 * n**2 * k))
rule(linalg.inv, scipy_linalg.inv)(by_signature(lambda n: 2 * n**3))
rule(linalg.det, linalg.slogdet, scipy_linalg.det, scipy_factors.lu_factor)(
    by_signature(lambda n: 2 * n**3 / 3)
)
rule(systems.solve_triangular, scipy_linalg.solve_triangular)(by_signature(lambda n, k: n**2 * k))
rule(scipy_factors.cho_solve, scipy_factors.lu_solve)(by_signature(lambda n, k: 2 * n**2 * k))
rule(decompositions.cholesky, scipy_factors.cholesky, scipy_factors.cho_factor)(
    by_signature(lambda n: n**3 / 3)
)
rule(decompositions.qr, scipy_eigen.qr)(
    by_signature(lambda most, least: 4 * most * least**2 - 4 * least**3 / 3)
)
rule(decompositions.eigh, scipy_eigen.eigh)(by_signature(lambda n: 9 * n**3))
rule(decompositions.eigvalsh, scipy_eigen.eigenvalues)(by_signature(lambda n: 4 * n**3 / 3))
rule(decompositions.svd, scipy_eigen.svd, linalg.pinv, scipy_linalg.pinv)(
    by_signature(lambda most, least: 14 * most * least**2 + 8 * least**3)
)
rule(decompositions.svdvals, scipy_eigen.singular_values, norms.matrix_rank)(
    by_signature(lambda most, least: 4 * most * least**2 - 4 * least**3 / 3)
)
rule(eigenvalues.eig)(by_signature(lambda n: 25 * n**3))
rule(eigenvalues.eigvals)(by_signature(lambda n: 10 * n**3))


# transforms and orders


def _of_transforms(each: Fraction) -> Rule:
    """``each * n * log2(n)`` for each line of n numbers along the axis."""

    def rule(s: Apply, sizes: IntegerFormulas) -> Formula:
        types = (type_of(s.args[0]), s.out.type)
        whole = max((sizes.elements(t) for t in types), key=sizes.symbols.nominal)
        axis = s.params.get("axis", -1)
        axis = -1 if axis is None else axis
        lines = (sizes.dim(t.dims[axis]) for t in types)
        length = max(lines, key=sizes.symbols.nominal)
        return formula(each) * whole * sizes.symbols.logarithm(length)

    return rule


rule(fourier.fft, fourier.ifft)(_of_transforms(Fraction(5)))
rule(fourier.rfft, fourier.irfft)(_of_transforms(Fraction(5, 2)))
rule(sorting.sort, sorting.argsort)(_of_transforms(Fraction(1)))


@rule(scipy_images.spline_filter1d, *scipy_transforms.ALL.values())
def _not_counted(s: Apply, sizes: IntegerFormulas) -> None:
    """These compute numbers by algorithms of SciPy's own."""
