"""Recording of calls of a host: a Python function that calls back functions of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from calque.transpiler.autodiff.rules.rule_tracing import Recording, name_of
from calque.transpiler.errors import Unstackable, UnsupportedFunction
from calque.transpiler.frontend.declared_kinds import sequential
from calque.transpiler.frontend.machine import Closure, Machine
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.core import Block, Function, Parameter, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.naming import apart
from calque.transpiler.ir.rewrite import inlined
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import operand
from calque.transpiler.primitives.called import inline_calls
from calque.transpiler.primitives.host_calls import CalledBack, HostCall, is_literal


def host_call(
    machine: Machine,
    host: Callable[..., Any],
    functions: Sequence[tuple[Any, Sequence[ArrayType]]],
    operands: Sequence[Any],
    options: dict[str, Any],
    infer: Callable[..., Any],
    node: Any,
    modules: Sequence[str] = ("optimize",),
    names: Sequence[str] = (),
    varying: bool = False,
) -> Any:
    """The results of ``host(*functions, *operands, *captured, **options)``, computed at run time.

    Each of ``functions`` comes with the types of the arguments with which the host calls it;
    ``infer(*operands, **options)`` gives the types of the results, ``modules`` are those of SciPy,
    or of Python, that the host's text names, and ``names`` are those of the results. ``varying``:
    the sizes of the results depend on values.
    """
    builder = machine.builder
    callees, captured = [], []
    for function, like in functions:
        callee, free = _callee(machine, function, like, node)
        callees.append(callee)
        captured += free
    for option, value in options.items():
        if not is_literal(value):
            raise UnsupportedFunction(
                f"The option {option} must be a number, a text or an array that is known when the "
                "code is generated.",
                builder.origin,
                "give it as a constant",
            )
    name = ".".join([*modules[:1], host.__name__])
    record = HostCall(name, host, callees, infer, modules)
    record.batch = _refuse_lanes(name) if varying else partial(sequential, record)
    record.nondifferentiable = True  # the rule of the twin around the call says what is
    found = builder.apply(record, [*map(operand, operands), *captured], options)
    for result, word in zip(found if names else (), names, strict=True):
        result.atom.name = word
    return found


def _refuse_lanes(name: str) -> Callable[..., Any]:
    def rule(args: Any, batched: Any, params: Any) -> Any:
        raise Unstackable(
            f"vmap of {name}: the number of steps would differ from one example to the next.",
            current().origin,
            "loop over the examples",
        )

    return rule


def _callee(
    machine: Machine, function: Any, like: Sequence[ArrayType], node: Any
) -> tuple[CalledBack, list[Any]]:
    """The program of a function on arguments of these types, and the values that it captures."""
    builder = machine.builder
    recording = Recording(machine, name_of(function), [], node)
    params = [Var(t, _word(function, k), builder.origin) for k, t in enumerate(like)]
    made = recording.run(function, [Array(p) for p in params], 0, lambda r: [r])
    leaves, structure = pytrees.flatten(pytrees.plain(made.trees[0]))
    own = {*params}
    free = [v for v in core.free_vars(made.block) if v not in own]
    inner = [v.again() for v in free]
    copies = [p.again() for p in params]
    mapping: dict[Var, Any] = dict(zip([*params, *free], [*copies, *inner], strict=True))
    body: Block = inlined(builder, made.block, mapping)
    slots = [core.Slot(k) for k in range(len(leaves))]
    program = Function(
        name_of(function).strip("<>"),
        [*copies, *inner],
        body,
        pytrees.unflatten(structure, slots),
        origin=builder.origin,
        dim_values=builder.dim_values,
        equal_dims=builder.equal_dims,
        imports={},
    )
    _name(program)
    inline_calls(program, builder)
    remove_dead_code(program)
    return CalledBack(program, len(inner)), [Array(v) for v in free]


def _word(function: Any, k: int) -> str:
    """The name of a parameter of an interpreted function."""
    names = [a.id for a in function.node.args.args] if isinstance(function, Closure) else []
    return names[k] if k < len(names) else "x" if k == 0 else f"x_{k}"


def _name(program: Function) -> None:
    """Give each parameter a name of its own."""
    names = apart((), [var.name or "value" for var in program.params])
    program.signature += map(Parameter, names, program.params)
