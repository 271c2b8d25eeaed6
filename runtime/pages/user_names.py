"""The types of the names in the user's functions, as the functions themselves have them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from calque.runtime.pages.name_meanings import meaning
from calque.runtime.pages.user_files import FunctionPlace, UserLines
from calque.runtime.transformed import Transformed, complete
from calque.transpiler.errors import CalqueError
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir import core
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.late import Late
from calque.transpiler.primitives.function_calls import program_functions

if TYPE_CHECKING:
    from calque.runtime.saving import cost_report
else:
    cost_report = Late("calque.runtime.saving.cost_report")


def user_types(
    transformed: Transformed, args: tuple[Any, ...], lines: UserLines
) -> dict[FunctionPlace, dict[str, str]]:
    """The types of names, by the functions of the user's that assign them.

    Those of a derivative are its function's; there are none if that has no program of its own.
    """
    args = complete(transformed, args)
    primal, given = cost_report.primal_of(transformed, args) or (transformed, args)
    found: dict[FunctionPlace, dict[str, list[ArrayType]]] = {}
    with contextlib.suppress(CalqueError, TypeError):
        for place, name, kind in _types(primal.program(*given).traced, lines):
            kinds = found.setdefault(place, {}).setdefault(name, [])
            if kind not in kinds:
                kinds.append(kind)
    return {
        place: {name: meaning("", kinds) for name, kinds in names.items()}
        for place, names in found.items()
    }


def _types(traced: Traced, lines: UserLines) -> Iterator[tuple[FunctionPlace, str, ArrayType]]:
    home = traced.function.origin
    if home is not None and lines.key_of(home) is not None:
        start = lines.file(home.file).around(home.line)
        for var in traced.function.params:
            if var.name:
                yield start, var.name, var.type
    for part in program_functions(traced.function):
        for s in core.walk(part.body):
            for var in (*s.outs, *core.bound_vars(s)):
                place = _assigned_in(var, lines)
                if place is not None and var.name:
                    yield place, var.name, var.type


def _assigned_in(var: core.Var, lines: UserLines) -> FunctionPlace | None:
    """The function that assigns a name: the one of a value's line, or a caller."""
    origin = var.origin
    if origin is None or not var.name or lines.key_of(origin) is None:
        return None
    for at in (origin, *origin.calls()):
        file = lines.file(at.file)
        place = file.around(at.line)
        if file.assigns(place, var.name):
            return place
    return None
