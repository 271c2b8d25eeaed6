"""Checks after every statement that could produce a NaN or an infinity: ``calque.debug_nans``.

::

    y = np.log(x)     ->    y = np.log(x)
                            check_finite('model.py, line 4, forward phase: y', y, x)

The pass runs last, so that no other sees the checks. A statement is at fault if it computes a NaN
from operands without one, or an infinity from finite operands; operands that are not finite are not
its fault, and neither is a literal ``np.inf``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import Origin, file_name_in_code
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Block, Check, Effect, Statement, Var
from calque.transpiler.ir.phases import label
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import add_at, copy, getitem, update, update_add

_MOVING = (update, room, getitem, copy)
_MAKING = ("size", "creation")
_ADDING = (update_add, add_at)
HELPER = '''\
def {name}(place, value, *operands):
    """Raise where a value is NaN or infinite, and what it is computed from is not."""
    made_nan = np.any(np.isnan(value)) and not any(np.any(np.isnan(x)) for x in operands)
    made_inf = np.any(np.isinf(value)) and all(np.all(np.isfinite(x)) for x in operands)
    if made_nan or made_inf:
        raise FloatingPointError(f"{{place}} is {{'NaN' if made_nan else 'infinite'}}")
'''


def add_checks(function: core.Function, builder: Builder) -> None:
    """Insert the checks, in place; ``function.checks`` maps each label to its meaning."""
    name = _free_name(function)
    with builder.active():
        _Checks(function, builder, name).visit(function.body)
    if function.checks:
        function.checker = name
        function.helpers[name] = HELPER.format(name=name)


def _free_name(function: core.Function) -> str:
    """A name for the helper that no argument or import has."""
    taken = {p.name for p in function.signature} | {function.name} | set(function.imports)
    found = "check_finite"
    while found in taken:
        found += "_"
    return found


class _Checks:
    """Adds the checks of one function, which call the helper by ``name``."""

    def __init__(self, function: core.Function, builder: Builder, name: str):
        self.function, self.builder, self.name = function, builder, name

    def visit(self, block: Block) -> None:
        """Insert the checks into a block and the blocks within it."""
        made: list[Statement] = []
        for s in block.statements:
            for inner in core.blocks_of(s):
                self.visit(inner)
            if not isinstance(s, Apply) or not _can_fail(s):
                made.append(s)
            elif s.primitive in _ADDING:
                made += self._addition(s)
            else:
                made.append(s)
                made += [self._check(s, out, out, s.args) for out in s.outs if _is_float(out)]
        block.statements[:] = made

    def _addition(self, s: Apply) -> list[Statement]:
        """Check an addition into a part of an array: read that part before and after."""
        if not _is_float(s.out):
            return [s]
        with self.builder.at(s.origin), self.builder.block() as around:
            before = self._part(s.args[0], s)
            around.statements.append(s)
            after = self._part(s.out, s)
        found = [*around.statements, self._check(s, s.out, after, (before, s.args[1]))]
        label(found, s.phase)
        return found

    def _part(self, array: Var, s: Apply) -> Any:
        return atom(apply(getitem, *map(wrap, (array, *s.args[2:])), **s.params))

    def _check(self, s: Apply, out: Var, value: Var, args: Sequence[Any]) -> Effect:
        """The call of the helper for the value of ``out``."""
        check = Check(s.origin, *_meaning(out, s.phase))
        label = _label(self.function, check)
        self.function.checks[label] = check
        operands = [a for a in args if _is_float(a)]
        slots = ", ".join(f"{{{k}}}" for k in range(1 + len(operands)))
        text = f"{self.name}({label!r}, {slots})"
        return Effect(text, (value, *operands), s.origin, s.phase)


def _is_float(value: Any) -> bool:
    return isinstance(value, Var) and value.type.dtype.kind in "fc"


def _can_fail(s: Apply) -> bool:
    """True if a statement can produce a NaN or an infinity: views, stores and new arrays cannot."""
    primitive = s.primitive
    if primitive.view_back is not None or primitive in _MOVING or primitive.kind in _MAKING:
        return False
    literals = [*s.params.values(), *[a for a in s.args if not isinstance(a, Var)]]
    return any(isinstance(a, Var) for a in s.args) and all(map(_is_finite, _leaves(literals)))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _is_finite(value: Any) -> bool:
    numeric = isinstance(value, (float, complex, np.generic, np.ndarray))
    if not numeric or np.asarray(value).dtype.kind not in "fc":
        return True
    return bool(np.all(np.isfinite(value)))


def _meaning(out: Var, phase: str) -> tuple[str, str]:
    """The phase that a value belongs to, and its description for the user, or an empty string."""
    name = out.name or ""
    if name.endswith("_bar"):
        return "reverse", f"the adjoint of {name.removesuffix('_bar')}"
    if name.endswith("_dot"):
        return phase or "forward", f"the tangent of {name.removesuffix('_dot')}"
    return phase or "forward", name


def _label(function: core.Function, check: Check) -> str:
    """A short text that tells this check from those that mean something else."""
    stem = f"{_place(check.origin)}, {check.phase} phase: {check.what or 'a value'}"
    label, count = stem, 1
    while function.checks.get(label, check) != check:
        count += 1
        label = f"{stem} ({count})"
    return label


def _place(origin: Origin | None) -> str:
    if origin is None:
        return "generated code"
    file = file_name_in_code(origin.file).replace("{", "(").replace("}", ")")
    return f"{file}, line {origin.line}"
