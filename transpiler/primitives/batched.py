"""Batch rules: what an operation becomes when some of its operands have a leading batch axis.

``@batches(primitive, ...)`` gives records their rule, ``rule(args, batched, params)``:
``batched[k]`` says whether ``args[k]`` has the batch axis, at position 0; every result has it there
too. A rule is a plain NumPy function, as all rules are. This file: what rules share, and the
elementwise ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import Unstackable
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of, wrap
from calque.transpiler.primitives import complexes, elementwise, indexing, logic
from calque.transpiler.primitives.base import Primitive, apply, definition
from calque.transpiler.primitives.creation import empty_like, full, zeros_like
from calque.transpiler.primitives.logic import python_round
from calque.transpiler.primitives.record import rule_of
from calque.transpiler.primitives.shapes import broadcast_to, joined_axes

Rule = Callable[[Sequence[Any], tuple[bool, ...], dict[str, Any]], Any]


batches = rule_of("batch")


def refuse(name: str, why: str) -> Unstackable:
    """The error of a primitive that cannot be batched over these operands."""
    return Unstackable(f"vmap of {name}: {why}", current().origin)


def rank_of(x: Any, has_batch: bool) -> int:
    """The rank of one example."""
    return type_of(x).ndim - has_batch


def lift(x: Any, rank: int, has_batch: bool = True) -> Any:
    """``x`` with axes of size 1 after the batch axis, so that one example has this rank."""
    missing = rank - rank_of(x, has_batch)
    if not has_batch or missing <= 0:
        return x
    return x[(slice(None), *(None,) * missing)]


def size_among(args: Sequence[Any], batched: Sequence[bool]) -> Any:
    """The batch size, read from an operand that has it."""
    return next(a for a, b in zip(args, batched, strict=True) if b).shape[0]


def spread(x: Any, size: Any) -> Any:
    """A value that all examples share, with a batch axis."""
    made = definition(x)
    if made is not None and made.primitive.sizes_from == 0:
        return apply(made.primitive, size, *map(wrap, made.args), **made.params)
    if made is not None and made.primitive in (zeros_like, empty_like):
        return new_zeros((size, *wrap(made.args[0]).shape), made.params["dtype"])
    if not isinstance(x, Array) and x == 0:
        return new_zeros(size, type_of(x).dtype)
    if not isinstance(x, Array) or not x.ndim:
        return apply(full, x, size, dtype=type_of(x).dtype)
    return apply(broadcast_to, x, size, *x.shape)


def all_batched(args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Every operand with a batch axis."""
    size = size_among(args, batched)
    return [a if b else spread(a, size) for a, b in zip(args, batched, strict=True)]


def aligned(args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Operands that broadcast against each other as the examples do."""
    rank = max(rank_of(a, b) for a, b in zip(args, batched, strict=True))
    return [lift(a, rank, b) for a, b in zip(args, batched, strict=True)]


def counting(*bounds: Any) -> Any:
    """``np.arange``, recorded even where all is known."""
    return FUNCTIONS[np.arange](*bounds)


def new_zeros(shape: Any, dtype: Any = float) -> Any:
    """``np.zeros``, recorded even where all is known."""
    return FUNCTIONS[np.zeros](shape, dtype)


def flat_rows(x: Any) -> Any:
    """Each example as a vector."""
    return x if x.ndim == 2 else joined_axes(x, 1)


def elementwise_rule(primitive: Primitive) -> Rule:
    """Operands aligned, and the function itself."""

    def rule(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
        on_arrays = primitive.on_arrays or functools.partial(apply, primitive)
        return on_arrays(*aligned(args, batched), **params)

    return rule


def as_it_is(primitive: Primitive) -> Rule:
    """The batch rule of a function that accepts any leading axes."""
    return lambda args, batched, params: apply(primitive, *args, **params)


for _record in (
    *(complexes.real, complexes.imag, complexes.conj),
    *(elementwise.astype, indexing.copy, logic.modf, logic.frexp),
):
    _record.batch = as_it_is(_record)

for _record in (elementwise.where, complexes.of_parts):
    _record.batch = elementwise_rule(_record)


@batches(python_round)
def _round(args: Sequence[Any], batched: tuple[bool, ...], params: dict[str, Any]) -> Any:
    """Python's ``round``: to an integer where no digits are given."""
    digits = params.get("ndigits")
    rounded = np.round(args[0], digits or 0)
    return rounded if digits is not None else FUNCTIONS["cast"](rounded, int)


def _number(letter: str) -> Rule:
    return lambda args, batched, params: FUNCTIONS["cast"](args[0], letter)


elementwise.to_float.batch, elementwise.to_int.batch = _number("f8"), _number("i8")
elementwise.to_bool.batch, elementwise.to_complex.batch = _number("?"), _number("c16")
