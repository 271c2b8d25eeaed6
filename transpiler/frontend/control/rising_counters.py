"""Counters that a loop never lowers: from zero on they are not negative, in any iteration.

``k = 0`` before a loop, ``k += 1`` in it: the sign of ``2 ** k`` is known, but only once the body
has been interpreted. Where it was asked for in vain, the body is interpreted once more.
"""

from __future__ import annotations

from calque.transpiler.frontend.control.loop_memory import Carried, CarriedSlot, CarryPlan
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.ir.builder import Array, Builder, atom, wrap
from calque.transpiler.ir.core import Atom, For, If, Var, While
from calque.transpiler.ir.types import INT

_MOST = 1 << 16  # what an iteration may add
_LARGEST = 1 << 60  # what comes of that in 2**43 iterations, which would take hours


def note_rising(machine: Machine, plan: CarryPlan, carried: Carried) -> bool:
    """Extend the plan by the counters that this iteration did not lower; True if it had them.

    Only counters whose sign was asked for in vain are considered.
    """
    asked = [s for s in carried.slots if s.key in plan.rising or _is_asked(machine, s)]
    found = {s.key for s in asked if _rises(machine, s)}
    wrong = plan.rising - found
    plan.rising -= wrong
    plan.falling |= wrong
    new = found - plan.rising - plan.falling
    plan.rising |= new
    return not new and not wrong


def take_rising(machine: Machine, plan: CarryPlan, slot: CarriedSlot) -> None:
    """Assume that a counter of the plan is nonnegative in the body that is to be interpreted."""
    if slot.key in plan.rising and slot.arrays:
        machine.builder.magnitudes.take(slot.arrays[0].atom, (0, _LARGEST))


def _is_asked(machine: Machine, slot: CarriedSlot) -> bool:
    if len(slot.arrays) != 1 or slot.arrays[0].type != INT:
        return False
    return slot.arrays[0].atom in machine.unsigned


def _rises(machine: Machine, slot: CarriedSlot) -> bool:
    """True if a counter starts at zero or above, and an iteration does not lower it."""
    builder, start, last = machine.builder, slot.initial, slot.now()
    if not isinstance(start, (int, Array)) or not isinstance(last, (int, Array)):
        return False
    low, high = builder.magnitudes.of(atom(start))
    if low < 0 or high > _LARGEST // 2:
        return False
    return _is_raised(atom(last), slot.arrays[0].atom, builder)


def _is_raised(value: Atom, counter: Var, builder: Builder) -> bool:
    """True if a value is a counter, or that and a little more, on every path.

    No loop runs so often that 64 bits do not hold what it adds to.
    """
    match builder.definitions.get(value) if isinstance(value, Var) else None:
        case If() as made:
            k = made.outs.index(value)
            arms = (made.then, made.orelse)
            return all(_is_raised(arm.results[k], counter, builder) for arm in arms)
        case For() | While() as made:
            k = made.outs.index(value)
            phi, first, last = made.phis[k], made.inits[k], made.body.results[k]
            return _is_raised(last, phi, builder) and _is_raised(first, counter, builder)
    more = builder.dims.resolve(builder.dim_of(wrap(value)) - builder.dim_of(wrap(counter)))
    return isinstance(more, int) and 0 <= more < _MOST
