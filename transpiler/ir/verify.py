"""Verification of Core programs: values are defined before use, and types agree at joins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calque.transpiler.errors import CoreError
from calque.transpiler.ir.core import (
    Atom,
    Block,
    For,
    Function,
    If,
    Kernel,
    Var,
    While,
    operands,
)
from calque.transpiler.ir.text import show


def verify(function: Function, outer: Iterable[Var] = ()) -> None:
    """Raise CoreError unless every Var is defined once and before use, and types agree at joins."""
    _Verifier(function, outer).function_itself()


class _Verifier:
    def __init__(self, function: Function, outer: Iterable[Var]):
        self.function, self.outer = function, set(outer)
        self.seen = set(self.outer)

    def function_itself(self) -> None:
        self.define(self.function.params, self.outer)
        self.block(self.function.body, self.outer)

    def fail(self, message: str) -> None:
        raise CoreError(f"{self.function.name}: {message}\n{show(self.function)}")

    def define(self, vars: Iterable[Var], scope: set[Var]) -> None:
        for var in vars:
            if var in self.seen:
                self.fail(f"{var!r} is defined twice")
            self.seen.add(var)
            scope.add(var)

    def read(self, atoms: Iterable[Atom], scope: set[Var]) -> None:
        for atom in atoms:
            if isinstance(atom, Var) and atom not in scope:
                self.fail(f"{atom!r} is read outside its scope")

    def agree(self, vars: Sequence[Var], atoms: Sequence[Atom], what: str) -> None:
        if len(vars) != len(atoms):
            self.fail(f"{what}: {len(vars)} variables, {len(atoms)} values")
        for var, atom in zip(vars, atoms, strict=True):
            if isinstance(atom, Var) and (
                atom.type.dtype != var.type.dtype or atom.type.ndim != var.type.ndim
            ):
                self.fail(f"{what}: {atom!r} given to {var!r}")

    def block(self, block: Block, scope: set[Var]) -> None:
        for s in block.statements:
            self.read(operands(s), scope)
            match s:
                case If():
                    for arm in (s.then, s.orelse):
                        self.block(arm, set(scope))
                        self.agree(s.outs, arm.results, "if")
                case For():
                    self.loop(s, "for", (s.index, *s.phis), set(scope))
                case While():
                    self.loop(s, "while", s.phis, set(scope))
                case Kernel():
                    self.kernel(s)
                    scope.update(s.outs)
                    continue
            self.define(s.outs, scope)
        self.read(block.results, scope)

    def loop(self, s: For | While, what: str, bound: Sequence[Var], scope: set[Var]) -> None:
        self.define(bound, scope)
        self.agree(s.phis, s.inits, f"{what}, at entry")
        if isinstance(s, While):
            self.block(s.test, set(scope))
        self.block(s.body, scope)
        self.agree(s.phis, s.body.results, f"{what}, next iteration")
        self.agree(s.outs, s.phis, f"{what}, results")

    def kernel(self, s: Kernel) -> None:
        """Check that a kernel reads only its parameters and yields values its body defines."""
        inner = set(s.params)
        self.block(s.body, inner)
        if list(s.outs) != s.body.results or not inner.issuperset(s.outs):
            self.fail(f"kernel: gives {s.outs}, which its body does not define")
