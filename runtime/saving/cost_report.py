"""The cost of a program beside that of the function it differentiates: ``explain(f, cost=True)``.

The report has numbers for the given arguments, formulas in the sizes of the arguments, the arrays
that are saved for the reverse phase, and the lines that cost most. A page has the costs of lines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.runtime.call.argument_keys import dim_name, sizes_of
from calque.runtime.call.dispatch import Dispatcher
from calque.runtime.call.loading import Program
from calque.runtime.call.plans import capture_sizes
from calque.runtime.custom import checkpoint
from calque.runtime.saving.cost_texts import CostReport, LineCost, Measured
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed, complete
from calque.transpiler.costs.counting import cost_of
from calque.transpiler.costs.size_symbols import SizeSymbol, SizeSymbols
from calque.transpiler.errors import CalqueError, UnsupportedFunction
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.phases import runs_again
from calque.transpiler.ir.types import integer_name
from calque.transpiler.transformations.vmap import parameter_names

_SAME_ARGUMENTS = (
    *("grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "value_and_jacobian"),
    *("hessian", "value_and_hessian", "hessian_diag", "laplacian"),
)
_WITH_TANGENTS = ("jvp", "hvp")


def cost_report(transformed: Transformed, args: tuple[Any, ...], compiled: bool) -> str:
    """The report on an uncompiled program; ``compiled``: the user asked about its kernels."""
    report, found, args = _counted(transformed, args, compiled)
    if primal_of(transformed, args) is not None:
        report.checkpointed = _checkpointed(transformed, args, found, report)
    return report.text()


def line_costs(transformed: Transformed, args: tuple[Any, ...]) -> Iterator[LineCost]:
    """The cost of an uncompiled program by the user's lines."""
    return _counted(transformed, args, False)[0].by_line()


def _counted(
    transformed: Transformed, args: tuple[Any, ...], compiled: bool
) -> tuple[CostReport, Program, tuple[Any, ...]]:
    """The costs of a program and of its primal, the program, and the arguments as arrays."""
    if transformed.on_devices:
        raise UnsupportedFunction(
            "explain(cost=True) counts the program of one device.",
            hint="ask about the function that runs on each",
        )
    args = pytrees.tree_map(_as_array, complete(transformed, args))
    found, entries = sized_program(transformed, args)
    symbols = SizeSymbols.of(entries.values())
    symbols.aliases = _sizes_of_tangents(transformed, args)
    derivative = Measured(transformed.generated_name(), cost_of(found.traced, symbols))
    before = primal_of(transformed, args)
    report = CostReport(symbols, derivative, compiled=compiled)
    if before is not None:
        primal, given = before
        # a function has no program of its own if calque must know its tangents, for example
        with contextlib.suppress(CalqueError):
            own, more = sized_program(primal, given)
            symbols.entries.update({s: e for s, e in more.items() if s not in symbols.entries})
            report.primal = Measured(primal.generated_name(), cost_of(own.traced, symbols))
    return report, found, args


def _as_array(leaf: Any) -> Any:
    """A type whose sizes are all known as an array, of no memory: its sizes stay in formulas."""
    if not isinstance(leaf, Spec):
        return leaf
    known = [d for d in leaf.dims if isinstance(d, int)]
    whole = leaf.dims and len(known) == len(leaf.dims)
    return np.broadcast_to(np.zeros((), leaf.dtype), known) if whole else leaf


def sized_program(
    transformed: Transformed, args: tuple[Any, ...]
) -> tuple[Program, dict[str, SizeSymbol]]:
    """The program for arguments, and the symbols of their sizes."""
    entries: dict[str, SizeSymbol] = {}

    def find(dispatcher: Dispatcher, given: Any) -> Program:
        program, leaves = dispatcher.find(given, {})
        entries.update({e.symbol: e for e in _argument_sizes(transformed, given, leaves)})
        sizes = capture_sizes(program.captures, dispatcher.root)
        for symbol, size in sizes.items():
            name, _, axis = symbol.rpartition(".")
            entries[symbol] = SizeSymbol(symbol, f"{name}.shape[{axis}]", size)
        return program

    return transformed.asked(find, args), entries


def _argument_sizes(transformed: Any, args: Sequence[Any], leaves: list[Any]) -> list[SizeSymbol]:
    """The sizes of arrays and the integers among the arguments."""
    names = parameter_names(transformed, len(args))
    names += [f"argument_{k}" for k in range(len(names), len(args))]
    labels = [f"{n}{path}" for n, x in zip(names, args) for path in pytrees.paths(x)]
    values, found = sizes_of(leaves), []
    for position, (leaf, label) in enumerate(zip(leaves, labels)):
        shape = getattr(leaf, "shape", ())
        if type(leaf) is int or (isinstance(leaf, Spec) and leaf.weak and leaf.dtype.kind == "i"):
            value = leaf if type(leaf) is int else None
            name = label if label.isidentifier() else None
            found.append(SizeSymbol(integer_name(position), label, value, name))
        for axis, size in enumerate(shape):
            own = size if isinstance(size, str) else None
            symbol = own or dim_name(position, axis)
            found.append(SizeSymbol(symbol, f"{label}.shape[{axis}]", values.get(symbol), own))
    return found


def _sizes_of_tangents(transformed: Transformed, args: Sequence[Any]) -> dict[str, str]:
    """The sizes of tangents, which are those of the arguments that they belong to."""
    if transformed.kind not in _WITH_TANGENTS:
        return {}
    leaves = pytrees.flatten(tuple(args))[0]
    half = len(leaves) // 2
    return {
        dim_name(half + k, axis): dim_name(k, axis)
        for k, leaf in enumerate(leaves[:half])
        for axis in range(len(getattr(leaf, "shape", ())))
    }


def primal_of(
    transformed: Transformed, args: tuple[Any, ...]
) -> tuple[Transformed, tuple[Any, ...]] | None:
    """The function that a derivative is of, with its arguments; None for what is no derivative."""
    inner = transformed.function
    bare = inner if isinstance(inner, Transformed) else Transformed("identity", inner)
    if transformed.kind == "vmap":
        found = primal_of(bare, args)
        if found is None or len(found[1]) != len(args):
            return None
        axes = replace(transformed.options["axes"], out_axes=0)
        function = found[0].function if found[0].kind == "identity" else found[0]
        return Transformed("vmap", function, **{**transformed.options, "axes": axes}), args
    if transformed.kind in _WITH_TANGENTS:
        args = args[: len(args) // 2]
    elif transformed.kind == "vjp":
        args = args[:-1]
    elif transformed.kind not in _SAME_ARGUMENTS:
        return None
    return primal_of(bare, args) or (bare, args)


def _checkpointed(
    transformed: Transformed, args: tuple[Any, ...], found: Program, report: CostReport
) -> Measured | None:
    """The program with its loops in segments; None if it saves none, or is in segments already."""
    statements = core.walk(found.traced.function.body)
    kept = report.derivative.cost
    if not any(array.of_loop for array in kept.saved) or any(map(runs_again, statements)):
        return None
    bottom = transformed.function
    while isinstance(bottom, Transformed):
        bottom = bottom.function
    other = transformed.of(checkpoint(bottom, every="sqrt"))
    try:
        made, _ = sized_program(other, args)
        cost = cost_of(made.traced, report.symbols)
    except (CalqueError, TypeError):
        return None
    name = getattr(bottom, "__name__", "f")
    smaller = report.symbols.nominal(cost.bytes_saved()) < report.symbols.nominal(
        kept.bytes_saved()
    )
    return Measured("f" if name == "<lambda>" else name, cost) if smaller else None
