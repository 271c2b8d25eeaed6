"""The text of a Core program, for reading, and whether it is well formed."""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.errors import CoreError
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    Effect,
    For,
    Function,
    If,
    Kernel,
    Var,
    While,
    operands,
)

LOOP_MARKS = ("scheduled", "parallel", "vector")


def show(function: Function) -> str:
    """The text of a Core program, for ``--stage core`` and for debugging."""
    names: dict[Var, str] = {}
    taken: dict[str, int] = {}

    def name(atom: Atom) -> str:
        if not isinstance(atom, Var):
            return repr(atom)
        if atom not in names:
            stem = atom.name or "t"
            count = taken.get(stem, 0)
            taken[stem] = count + 1
            names[atom] = f"{stem}.{count}" if count or not atom.name else stem
        return names[atom]

    def typed(vars: Iterable[Var]) -> str:
        return ", ".join(f"{name(v)}: {v.type}" for v in vars)

    lines: list[str] = []

    def carried(s: For | While) -> str:
        pairs = zip(s.phis, s.inits, strict=True)
        return ", ".join(f"{name(p)}: {p.type} = {name(i)}" for p, i in pairs)

    def visit(block: Block, depth: int) -> None:
        pad = "    " * depth
        for s in block.statements:
            head = f"{pad}{typed(s.outs)} = " if s.outs else pad
            match s:
                case Apply():
                    parts = [name(a) for a in s.args] + [f"{k}={v!r}" for k, v in s.params.items()]
                    mark = " as proven" if s.proven else ""
                    lines.append(f"{head}{s.primitive.name}({', '.join(parts)}){mark}")
                case Effect():
                    lines.append(f"{pad}effect {s.template!r}({', '.join(map(name, s.args))})")
                case If():
                    lines.append(f"{head}if {name(s.test)}:")
                    visit(s.then, depth + 1)
                    lines.append(f"{pad}else:")
                    visit(s.orelse, depth + 1)
                case For():
                    bounds = ", ".join(map(name, (s.start, s.stop, s.step)))
                    marks = [mark for mark in LOOP_MARKS if getattr(s, mark)]
                    what = f" as {', '.join(marks)}" if marks else ""
                    lines.append(
                        f"{head}for {name(s.index)} in range({bounds}){what} carrying {carried(s)}:"
                    )
                    visit(s.body, depth + 1)
                case While():
                    lines.append(f"{head}while carrying {carried(s)}:")
                    visit(s.test, depth + 2)
                    lines.append(f"{pad}do:")
                    visit(s.body, depth + 1)
                case Kernel():
                    lines.append(f"{head}kernel({', '.join(map(name, s.params))}):")
                    visit(s.body, depth + 1)
        lines.append(f"{pad}yield {', '.join(map(name, block.results))}")

    lines.append(f"{function.name}({typed(function.params)})")
    visit(function.body, 1)
    return "\n".join(lines) + "\n"


def verify(function: Function, outer: Iterable[Var] = ()) -> None:
    """Raise CoreError unless every Var is defined once and before use, and types agree at joins."""

    def fail(message: str) -> None:
        raise CoreError(f"{function.name}: {message}\n{show(function)}")

    seen: set[Var] = set(outer)

    def define(vars: Iterable[Var], scope: set[Var]) -> None:
        for var in vars:
            if var in seen:
                fail(f"{var!r} is defined twice")
            seen.add(var)
            scope.add(var)

    def read(atoms: Iterable[Atom], scope: set[Var]) -> None:
        for atom in atoms:
            if isinstance(atom, Var) and atom not in scope:
                fail(f"{atom!r} is read outside its scope")

    def agree(vars: Iterable[Var], atoms: Iterable[Atom], what: str) -> None:
        vars, atoms = tuple(vars), tuple(atoms)
        if len(vars) != len(atoms):
            fail(f"{what}: {len(vars)} variables, {len(atoms)} values")
        for var, atom in zip(vars, atoms, strict=True):
            if isinstance(atom, Var) and (
                atom.type.dtype != var.type.dtype or atom.type.ndim != var.type.ndim
            ):
                fail(f"{what}: {atom!r} given to {var!r}")

    def visit(block: Block, scope: set[Var]) -> None:
        for s in block.statements:
            read(operands(s), scope)
            match s:
                case If():
                    for arm in (s.then, s.orelse):
                        visit(arm, set(scope))
                        agree(s.outs, arm.results, "if")
                case For():
                    inner = set(scope)
                    define((s.index, *s.phis), inner)
                    agree(s.phis, s.inits, "for, at entry")
                    visit(s.body, inner)
                    agree(s.phis, s.body.results, "for, next round")
                    agree(s.outs, s.phis, "for, results")
                case While():
                    inner = set(scope)
                    define(s.phis, inner)
                    agree(s.phis, s.inits, "while, at entry")
                    visit(s.test, set(inner))
                    visit(s.body, inner)
                    agree(s.phis, s.body.results, "while, next round")
                    agree(s.outs, s.phis, "while, results")
                case Kernel():
                    inner = set(s.params)
                    visit(s.body, inner)
                    if list(s.outs) != s.body.results or not inner.issuperset(s.outs):
                        fail(f"kernel: gives {s.outs}, which its body does not define")
                    scope.update(s.outs)
                    continue
            define(s.outs, scope)
        read(block.results, scope)

    scope = set(outer)
    define(function.params, scope)
    visit(function.body, scope)
