"""Local common subexpression elimination: equal operations of a block are written once.

Before::

    a = np.tanh(x); b = np.tanh(x); yield a * b

After::

    a = np.tanh(x); yield a * a
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Var
from calque.transpiler.primitives.called import Called


def merge_common_subexpressions(function: Function) -> None:
    """``merge_equal`` for the floats of each loop's body; tests of indices read best in place."""
    for s in core.walk(function.body):
        if isinstance(s, For):
            merge_equal(s.body, "fc")


def merge_equal(block: Block, kinds: str = "biufc") -> None:
    """Replace statements that repeat an earlier one of the block by its results, in place.

    ``kinds`` are the kinds of dtypes of such results. Statements within branches and loops of the
    block are not merged.
    """
    found: dict[Any, Apply] = {}
    mapping: dict[Var, Atom] = {}

    def key(atom: Atom) -> Any:
        atom = mapping.get(atom, atom) if isinstance(atom, Var) else atom
        return ("var", id(atom)) if isinstance(atom, Var) else (type(atom), repr(atom))

    kept = []
    for s in block.statements:
        if (
            not isinstance(s, Apply)
            or isinstance(s.primitive, Called)
            or s.primitive.kind in ("store", "creation")
            or any(v.type.dtype.kind not in kinds for v in s.outs)
        ):
            kept.append(s)
            continue
        params = sorted((k, repr(v)) for k, v in s.params.items())
        called = (id(s.primitive), tuple(map(key, s.args)), tuple(params))
        first = found.setdefault(called, s)
        if first is s:
            kept.append(s)
        else:
            mapping.update(zip(s.outs, first.outs, strict=True))
    block.statements = kept
    core.substitute(block, mapping)
