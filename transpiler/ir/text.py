"""The text of a Core program, for reading; ``diagnostics.parsing`` reads it back."""

from __future__ import annotations

from collections.abc import Iterable

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
