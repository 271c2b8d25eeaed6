"""Clocks: a program may read them, as long as nothing that it gives or shows depends on them.

``start = time.perf_counter()`` and ``elapsed = time.perf_counter() - start`` of a library that logs
how long it took, where that is turned off, are values that nothing reads.
"""

from __future__ import annotations

import time
from typing import Any, NoReturn

from calque.transpiler.errors import ImpureFunction
from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.library.surroundings import CLOCKS
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir.builder import Array, current


class ClockReading:
    """The time at a moment, or a number made of such times: which one, no program knows."""

    def __init__(self, origin: Any):
        self.origin = origin

    def calque_refuse(self, *_: Any) -> NoReturn:
        """Refuse a use of the time."""
        raise ImpureFunction(
            "The clock is read, and what the function gives or shows depends on it.",
            current().origin or self.origin,
            "measure the time outside, around the call of the function",
        )

    def _made(self, other: Any = 0) -> ClockReading:
        if isinstance(other, Array):
            self.calque_refuse()
        return self if isinstance(other, (int, float, ClockReading)) else NotImplemented

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _made
    __truediv__ = __rtruediv__ = __floordiv__ = __neg__ = __pos__ = __abs__ = _made
    __lt__ = __le__ = __gt__ = __ge__ = calque_refuse
    __round__ = __index__ = __trunc__ = __floor__ = __ceil__ = calque_refuse
    __eq__ = __ne__ = __bool__ = __float__ = __int__ = calque_refuse
    __str__ = __repr__ = __format__ = calque_refuse
    __hash__ = object.__hash__


@builtin(*(getattr(time, name) for name in CLOCKS if hasattr(time, name)))
def _read(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return ClockReading(machine.origin(node))
