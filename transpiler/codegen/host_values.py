"""Find the scalars of a program that are in the memory of the device.

A scalar that is read from an array, reduced from one or returned by a kernel is on the device; to
read it, the host waits. Sizes, and Python's numbers among the arguments of a call, are on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.elementwise import to_bool, to_float, to_int
from calque.transpiler.primitives.logic import and_, or_

_CONVERSIONS = (to_bool, to_float, to_int)  # return a number on the host
_HANDED_ON = (and_, or_)  # Python returns one of the two operands unchanged


def device_numbers(program: PrintedProgram) -> set[Var]:
    """The scalars that are on the device."""
    found = {p for p in program.function.params if not p.type.ndim and not p.type.weak}
    while True:
        before = len(found)
        _visit(program.body, found, False)
        if len(found) == before:
            return found


def named_numbers(program: PrintedProgram) -> frozenset[Var]:
    """The scalars on the device that a launcher's own lines read: one thread computes them."""
    there = device_numbers(program)
    made = {o for s in _outside_loops(program.body) if isinstance(s, Apply) for o in s.outs}
    read: set[Var] = set()
    pending = [program.body]
    while pending:
        block = pending.pop()
        read.update(a for a in block.results if isinstance(a, Var))
        for s in block.statements:
            if isinstance(s, (For, While, If)):
                read.update(a for a in core.operands(s) if isinstance(a, Var))
                pending += core.blocks_of(s)
    return frozenset(there & made & read)


def _outside_loops(block: Block) -> Iterator[Statement]:
    for s in block.statements:
        yield s
        for inner in core.blocks_of(s):
            yield from _outside_loops(inner)


def _is_there(atom: object, found: set[Var]) -> TypeGuard[Var]:
    return isinstance(atom, Var) and (atom.type.ndim > 0 or atom in found)


def _visit(block: Block, found: set[Var], inside: bool) -> None:
    for s in block.statements:
        match s:
            case Apply():
                if s.primitive.kind == "size" or inside:
                    continue
                given = [a for a in s.args if _is_there(a, found)]
                # Python numbers that a kernel changes: sums of them are on the device, too
                sums = s.primitive.kind == "elementwise" and s.primitive not in _CONVERSIONS
                sums = sums and any(a.type.weak for a in given)
                if given and (not s.out.type.weak or sums or s.primitive in _HANDED_ON):
                    found.update(o for o in s.outs if not o.type.ndim)
            case Kernel():
                found.update(o for o in s.outs if not o.type.ndim)
            case For() | While() | If():
                for inner in core.blocks_of(s):
                    _visit(inner, found, inside)
                _joined(s, found)


def _joined(s: Statement, found: set[Var]) -> None:
    """Add carried values and results of branches of which one source is on the device."""
    match s:
        case For() | While():
            for phi, init, result, out in zip(s.phis, s.inits, s.body.results, s.outs, strict=True):
                if not phi.type.ndim and (_is_there(init, found) or _is_there(result, found)):
                    found.update((phi, out))
        case If():
            for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                if out.type.dtype.kind == "b":
                    arms.append(s.test)  # `test and other` gives the test where it is false
                if not out.type.ndim and any(_is_there(a, found) for a in arms):
                    found.add(out)
