"""Parallel scans: loops with running sums, whose iterations a row's threads share.

Before::

    for i in range(n):
        total += x[i] * x[i]
        out[i] = total

After, in tiles of sixteen iterations for each thread, whose terms are loaded at once::

    for (Index tile = 0; tile < n; tile += blockDim.x * 16) {
        double total_terms[16];
        for (Index slot = 0; slot < 16; slot++) {
            Index i = tile + threadIdx.x / 32 * 512 + slot * 32 + threadIdx.x % 32;
            total_terms[slot] = 0.0;
            if (i < n)
                total_terms[slot] = x[i] * x[i];
        }
        double total_of_tile = row_running_sums(total, total_terms, n - tile);
        for (Index slot = 0; slot < 16; slot++) {
            Index i = tile + threadIdx.x / 32 * 512 + slot * 32 + threadIdx.x % 32;
            if (i < n)
                out[i] = total_terms[slot];
        }
        total = total_of_tile;
    }

A loop with several running sums, or one that uses what it computes before its sum after it, too,
has tiles of as many iterations as there are threads.
"""

from __future__ import annotations

import copy
from typing import Any

import gast

from calque.transpiler.codegen.cuda.c_lines import assigned_in, bounds_of, names_in, raw
from calque.transpiler.codegen.cuda.c_types import c_number, c_type
from calque.transpiler.codegen.cuda.device_functions import suffix
from calque.transpiler.codegen.cuda.grid import IDENTITY
from calque.transpiler.codegen.cuda.kernel_scope import KernelScope
from calque.transpiler.codegen.text.spelling import call, constant, name, target
from calque.transpiler.ir.core import For, Var
from calque.transpiler.loops.loop_reductions import Scanned

_SLOTS = 16  # iterations of a thread


def scan_by_row(scope: KernelScope, s: For, loop: Any) -> None:
    """Rewrite a loop's body for threads that compute its running sums together, in place."""
    _, stop, step = bounds_of(loop)
    compared = gast.Lt() if step is None else gast.Gt()
    inside = gast.Compare(name(loop.target.id), [compared], [stop])
    scanned = [line for line in loop.body if getattr(line, "scanned", None) is not None]
    at = loop.body.index(scanned[0]) if len(scanned) == 1 else 0
    before, behind = loop.body[:at], loop.body[at + 1 :]
    kept = assigned_in(before) & {n for line in behind for n in names_in(line)}
    if len(scanned) == 1 and not kept:
        _by_sixteen(scope, s, loop, (scanned[0].scanned, before, behind, inside))
        return
    loop.tiled = 1
    made: list[Any] = []
    after: list[Any] = []
    now: list[Any] = []
    for line in loop.body:
        found = getattr(line, "scanned", None)
        if found is None:
            now.append(line)
            continue
        made += _step(scope, s, found, now, inside)
        after.append(_last(scope, s, found))
        now = []
    made += [gast.If(inside, now, [])] if now else []
    loop.body = [*made, *after]


def _by_sixteen(
    scope: KernelScope, s: For, loop: Any, parts: tuple[Scanned, list[Any], list[Any], Any]
) -> None:
    """Rewrite a loop with one running sum: each thread has sixteen terms of a tile."""
    found, before, behind, inside = parts
    names, phi = scope.writer.expressions.names, s.phis[found.position]
    own, so_far = names(found.made.out), names(phi)
    slot, terms = scope.free_name("slot"), scope.free_name(f"{own}_terms")
    whole = scope.new_number(f"{own}_of_tile", c_type(phi.type.dtype))
    term = f"{terms}[{slot}]"
    _, stop, step = bounds_of(loop)
    first = gast.Assign([target(name(term))], _nothing(found, so_far, phi), None)
    loaded = gast.Assign([target(name(term))], _term(scope, found), None)
    held, filled = _held_elements(scope, slot, [*before, loaded], behind)
    load = [first, gast.If(inside, [*filled, *before, loaded], [])]
    use = gast.If(inside, [gast.Assign([target(name(own))], name(term), None), *behind], [])
    left = [stop, name("tile")] if step is None else [name("tile"), stop]
    function = f"row_running_{found.how}s{suffix(phi.type.dtype)}"
    given = [name(so_far), name(terms), gast.BinOp(left[0], gast.Sub(), left[1])]
    last = gast.Assign([target(name(whole))], call(name(function), *given), None)
    loop.tiled = _SLOTS
    kind = c_type(phi.type.dtype)
    loop.body = [
        gast.Expr(raw(f"{kind} {terms}[{_SLOTS}];")),
        *held,
        *(_each_slot(slot, loop, load), last, _each_slot(slot, loop, [use])),
        gast.Assign([target(name(so_far))], name(whole), None),
    ]


def _held_elements(
    scope: KernelScope, slot: str, before: list[Any], behind: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Keep elements that are read on both sides of the sum: declarations, and lines that load."""
    declared: list[Any] = []
    filled: list[Any] = []
    loaded = {gast.dump(node): node for node in _elements(scope, before)}
    again: dict[str, list[Any]] = {}
    for node in _elements(scope, behind):
        if gast.dump(node) in loaded:
            again.setdefault(gast.dump(node), []).append(node)
    for text, nodes in again.items():
        kept = scope.free_name(f"{nodes[0].value.id}_values")
        kept += f"_{len(declared) + 1}" if declared else ""
        declared.append(gast.Expr(raw(f"{scope.type_of(nodes[0])} {kept}[{_SLOTS}];")))
        cell = f"{kept}[{slot}]"
        filled.append(gast.Assign([target(name(cell))], copy.copy(loaded[text]), None))
        for node in nodes:
            node.kept = cell
    return declared, filled


def _elements(scope: KernelScope, lines: list[Any]) -> list[Any]:
    """The elements that lines read of arrays that the kernel does not store into."""
    nodes = [n for t in lines for n in gast.walk(t) if isinstance(n, gast.Subscript)]
    read = [n for n in nodes if isinstance(n.ctx, gast.Load) and isinstance(n.value, gast.Name)]
    return [n for n in read if not scope.is_stored(n) and not scope.checked(n)]


def _each_slot(slot: str, loop: Any, lines: list[Any]) -> Any:
    """A loop over the iterations of a thread, in each of which the loop's counter is known."""
    span = call(name("range"), constant(_SLOTS))
    made = gast.For(target(name(slot)), span, lines, [], None)
    made.at_once, made.slot_of = _SLOTS, loop
    return made


def _step(scope: KernelScope, s: For, found: Scanned, before: list[Any], inside: Any) -> list[Any]:
    """The lines for a thread's term and the running sum up to it."""
    names, phi = scope.writer.expressions.names, s.phis[found.position]
    own, so_far = names(found.made.out), names(phi)
    term = scope.new_number(f"{own}_term", c_type(phi.type.dtype))
    nothing, value = _nothing(found, so_far, phi), _term(scope, found)
    function = f"row_running_{found.how}{suffix(phi.type.dtype)}"
    return [
        gast.Assign([target(name(term))], nothing, None),
        gast.If(inside, [*before, gast.Assign([target(name(term))], value, None)], []),
        gast.Assign([target(name(own))], call(name(function), name(so_far), name(term)), None),
    ]


def _nothing(found: Scanned, so_far: str, phi: Var) -> Any:
    """The identity of a running sum; for a maximum the value so far."""
    if found.how in IDENTITY:
        return raw(c_number(IDENTITY[found.how], phi.type.dtype))
    return name(so_far)


def _term(scope: KernelScope, found: Scanned) -> Any:
    value = scope.writer.expressions.atom(found.term)
    return gast.UnaryOp(gast.USub(), value) if found.minus else value


def _last(scope: KernelScope, s: For, found: Scanned) -> Any:
    """The line that sets the initial value of the next tile."""
    names, phi = scope.writer.expressions.names, s.phis[found.position]
    value = call(name(f"row_last{suffix(phi.type.dtype)}"), name(names(found.made.out)))
    return gast.Assign([target(name(names(phi)))], value, None)
