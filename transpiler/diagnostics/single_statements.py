"""Single statements of a program as functions of their inputs: value, forward and reverse mode.

``calque.check`` uses them to find the statement whose derivative is wrong. The program runs once
with a call before each statement that passes on the values it reads (``observed``); then each
statement is compiled as a small program, by the same passes as the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from calque.transpiler.autodiff.forward import forward
from calque.transpiler.autodiff.reverse import reverse
from calque.transpiler.codegen.numpy.emit import emit_module
from calque.transpiler.frontend.library.python_builtins import Interpreter
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Block, Effect, Function, Parameter, Slot, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.verify import verify
from calque.transpiler.primitives.called import inline_calls

Kind = Literal["value", "jvp", "vjp"]
OBSERVER = "observe"


@dataclass(eq=False)
class SingleStatement:
    """A statement; ``inputs`` are all Vars it reads, ``statements`` those of its blocks."""

    statement: Statement
    builder: Builder
    inputs: tuple[Var, ...]
    statements: list[SingleStatement]

    @property
    def differentiable(self) -> bool:
        """True if the statement has float inputs and float results."""
        flows = (self.inputs, self.statement.outs)
        return all(any(v.type.is_float for v in vars) for vars in flows)

    def module(self, kind: Kind) -> tuple[str, dict[str, Any]]:
        """The text of a module with the function ``single``, and the names that it must be given.

        ``value`` gives the statement's results; ``jvp`` takes, after the inputs, tangents of those
        that are floats; ``vjp`` the cotangents of the results that are floats. None is zero.
        The second result maps names to the outer values that the user's rules read.
        """
        builder, function = self._function()
        moving = [p for p in function.params if p.type.is_float]
        with builder.active():
            if kind == "jvp":
                given = _more(function, [p.type for p in moving])
                tangents = dict(zip(moving, map(Array, given), strict=True))
                function.body.results = _atoms(forward(function, builder, tangents))
            elif kind == "vjp":
                places = [k for k, v in enumerate(function.body.results) if v.type.is_float]
                wrt = [function.params.index(p) for p in moving]
                given = _more(function, [function.body.results[k].type for k in places])
                seeds = dict(zip(places, map(Array, given), strict=True))
                function.body.results = _atoms(reverse(function, builder, wrt, seeds))
        inline_calls(function, builder)
        remove_dead_code(function)
        function.result = tuple(
            Slot(k) if isinstance(atom, Var) else atom
            for k, atom in enumerate(function.body.results)
        )
        captures = list(builder.machine.captures.values())
        function.signature = [
            *(Parameter(f"value_{k}", p) for k, p in enumerate(function.params)),
            *(Parameter(c.name, c.var, keyword_only=True) for c in captures),
        ]
        function.params = [*function.params, *(c.var for c in captures)]
        verify(function)
        return emit_module(function, title=""), {c.name: c.path.read(None) for c in captures}

    def _function(self) -> tuple[Builder, Function]:
        """A function of the statement alone, with fresh Vars; facts about sizes stay known."""
        mapping: dict[Var, Any] = {v: Var(v.type, v.name, v.origin) for v in self.inputs}
        params = list(mapping.values())
        body = core.clone(Block([self.statement], list(self.statement.outs)), mapping)
        known, builder = self.builder, Builder(sorted(self.builder.dims.arguments))
        builder.dims = known.dims
        Interpreter(builder)  # runs the rules that the user gave
        builder.leaf_of_param = {p: k for k, p in enumerate(params)}
        for old, new in mapping.items():
            if isinstance(new, Var) and old in known.dim_values:
                builder.dim_values[new] = known.dim_values[old]
            if isinstance(new, Var) and old in known.contiguous:
                builder.contiguous.add(new)
        for s in core.walk(body):
            builder.definitions.update(dict.fromkeys(s.outs, s))
        function = Function("single", params, body, None)
        function.dim_values, function.equal_dims = builder.dim_values, builder.equal_dims
        builder.blocks.append(body)
        builder._sizes.append({})
        return builder, function


def _more(function: Function, types: list[Any]) -> list[Var]:
    made = [Var(t) for t in types]
    function.params = [*function.params, *made]
    return made


def _atoms(values: list[Any]) -> list[Any]:
    return [value.atom if isinstance(value, Array) else value for value in values]


def observed(
    function: Function, builder: Builder
) -> tuple[str, list[SingleStatement], list[SingleStatement]]:
    """A module that calls ``observe(k, lambda: inputs)`` before each statement, and statements.

    The first list holds the statements of the function's own block, the second all, by number.
    """
    every: list[SingleStatement] = []

    def visit(old: Block, new: Block) -> list[SingleStatement]:
        found = []
        made: list[Statement] = []
        for s, copy in zip(old.statements, new.statements, strict=True):
            inputs = tuple(core.free_vars(Block([s], [])))
            single = SingleStatement(s, builder, inputs, [])
            found.append(single)
            slots = "".join(f"{{{k}}}, " for k in range(len(inputs)))
            call = f"{OBSERVER}({len(every)}, lambda: ({slots}))"
            made.append(Effect(call, tuple(mapping.get(v, v) for v in inputs), s.origin))
            every.append(single)
            for inner, copied in zip(core.blocks_of(s), core.blocks_of(copy), strict=True):
                single.statements += visit(inner, copied)
            made.append(copy)
        new.statements[:] = made
        return found

    mapping: dict[Var, Any] = {}
    body = core.clone(function.body, mapping)
    top = visit(function.body, body)
    helpers = {OBSERVER: f"def {OBSERVER}(number, read):\n    raise NotImplementedError\n"}
    program = replace(function, body=body, helpers=helpers, name="observed")
    inline_calls(program, builder)
    verify(program)
    return emit_module(program, title=""), top, every
