"""The FloatingPointError that NumPy raises where it is told to, as tests on operands and results.

``with np.errstate(divide="raise")`` within the program tells it. A test holds where
an element of the result shows the error: an infinity of finite operands is a division by zero
where the operation divides, or takes a logarithm, of zero, and an overflow elsewhere; a NaN of
operands that are none is an invalid value.

The source of the conditions is NumPy's page of ``seterr``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import UnsupportedSyntax
from calque.transpiler.frontend.control.raising import Raising
from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.paths import of_object, step
from calque.transpiler.ir.builder import FUNCTIONS, Array, type_of

KINDS = ("divide", "over", "under", "invalid")
_TEXTS = {
    "divide": "divide by zero encountered",
    "over": "overflow encountered",
    "under": "underflow encountered",
    "invalid": "invalid value encountered",
}
_DIVIDING = (gast.Div, gast.FloorDiv, gast.Mod, np.divide, np.floor_divide, np.remainder, np.mod)
_LOGARITHMS = (np.log, np.log2, np.log10)
_POWERS = (gast.Pow, np.power, np.float_power)
_EXACT_NEAR_ZERO = (gast.Add, gast.Sub, np.add, np.subtract, np.negative, np.abs)


_OF_CALLER: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("_OF_CALLER", default=())


@contextmanager
def hidden_errors() -> Iterator[None]:
    """Inside, NumPy ignores errors of floats, and programs read what it does for the caller."""
    token = _OF_CALLER.set(_state_of(np))
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _OF_CALLER.reset(token)


def set_by(manager: np.errstate) -> dict[str, str]:
    """The kinds of errors that a ``with np.errstate(...)`` sets, each with what it sets."""
    overall = getattr(manager, "_all", None)
    found = {kind: getattr(manager, f"_{kind}", None) or overall for kind in KINDS}
    return {kind: str(what) for kind, what in found.items() if what}


def that_raise(machine: Machine) -> frozenset[str]:
    """The kinds of errors that NumPy raises at this place; the process's state is guarded."""
    state = machine.float_errors
    if any(kind not in state for kind in KINDS):
        now = _OF_CALLER.get()
        machine.guards.append(Guard(step(_state_of, of_object(np)), now))
        if "raise" in dict(now).values():
            raise UnsupportedSyntax(
                "NumPy is told to raise FloatingPointError around the call, and a `try` has a "
                "handler for it.",
                machine.builder.origin,
                "write `with np.errstate(...)` within the function, around the `try`",
            )
        state = machine.float_errors = dict(now) | state
    return frozenset(kind for kind in KINDS if state[kind] == "raise")


def _state_of(module: Any) -> tuple[tuple[str, str], ...]:
    return tuple(module.geterr().items())


def of_operation(
    operation: Any, operands: list[Any], result: Any, kinds: frozenset[str]
) -> list[Raising]:
    """The errors of an operation of NumPy's on floats, of which these kinds are raised."""
    values = [v for v in (*operands, result) if isinstance(v, Array)]
    if not values or type_of(result).dtype.kind not in "fc" or type_of(result).weak:
        return []
    tests = dict(_tests(operation, operands, result))
    raised = [kind for kind in KINDS if kind in kinds and kind in tests]
    return [
        (FUNCTIONS[np.any](tests[kind]), FloatingPointError, _TEXTS[kind]) for kind in raised
    ]


def _tests(operation: Any, operands: list[Any], result: Any) -> Iterator[tuple[str, Any]]:
    """Each kind of error, with a test for every element."""
    finite: Any = True
    for operand in operands:
        finite = _and(finite, FUNCTIONS[np.isfinite](operand))
    infinite = _and(finite, FUNCTIONS[np.isinf](result))
    by_zero: Any = None
    if operation in _DIVIDING:
        by_zero = operands[1] == 0
    elif operation in _LOGARITHMS or operation in _POWERS:
        by_zero = operands[0] == 0
    if by_zero is not None:
        yield "divide", _and(infinite, by_zero)
        yield "over", _and(infinite, FUNCTIONS[np.logical_not](by_zero))
    else:
        yield "over", infinite
    made: Any = FUNCTIONS[np.isnan](result)
    for operand in operands:
        made = _and(made, FUNCTIONS[np.logical_not](FUNCTIONS[np.isnan](operand)))
    yield "invalid", made
    if operation not in _EXACT_NEAR_ZERO:
        small: Any = FUNCTIONS[np.abs](result) < np.finfo(type_of(result).dtype).tiny
        for operand in operands:
            small = _and(small, _and(operand != 0, FUNCTIONS[np.isfinite](operand)))
        yield "under", small


def _and(left: Any, right: Any) -> Any:
    return right if left is True else FUNCTIONS[np.logical_and](left, right)
