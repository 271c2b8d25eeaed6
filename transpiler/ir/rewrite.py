"""Copies of statements and new loops, with everything that is known of their values.

Passes know of a value what the builder holds: its definition, the affine number that it is, the
layout of its memory, the bounds of what a loop carries. A pass that copies statements or writes a
loop does so with the functions here, so that this knowledge holds of the new values, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, type_of
from calque.transpiler.ir.core import Atom, Block, For, Statement, Var, While
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, substitute_dim

Loop = TypeVar("Loop", bound=For | While)
Span = tuple[Any, Any, Any]  # start, stop, step


# copies


def copy_facts(
    builder: Builder, old: Var, new: Var, counters: Mapping[str, DimLike] | None = None
) -> None:
    """Let everything that is known of ``old`` be known of ``new``, which is computed alike.

    ``counters`` gives the dimensions that stand in the copy in place of symbols, as where a loop's
    counter has another range.
    """
    if old in builder.dim_values and new not in builder.dim_values:
        dim = builder.dim_values[old]
        if counters:
            dim = substitute_dim(builder.dims.resolve(dim), dict(counters))
        builder.dim_values[new] = dim
    if old in builder.contiguous:
        builder.contiguous.add(new)
    if old in builder.kinds:
        builder.kinds.setdefault(new, builder.kinds[old])
    if builder.varying is not None:
        builder.varying.known.setdefault(new, builder.varying.of(old))
    if word := old.name or builder.words.get(old):
        builder.words.setdefault(new, word)


def renewed(
    builder: Builder,
    old: Iterable[Var],
    mapping: dict[Var, Any] | None = None,
    counters: Mapping[str, DimLike] | None = None,
) -> tuple[Var, ...]:
    """New Vars that are called as ``old`` and known as they are; ``mapping`` receives them.

    They must have the values of ``old``: the results of a part of a loop are not the loop's.
    """
    made = []
    for var in old:
        new = var.again()
        copy_facts(builder, var, new, counters)
        made.append(new)
        if mapping is not None:
            mapping[var] = new
    return tuple(made)


def cloned(
    builder: Builder,
    block: Block,
    mapping: dict[Var, Any],
    counters: Mapping[str, DimLike] | None = None,
    write: core.Write | None = None,
) -> Block:
    """A copy of a block with Vars of its own, and with what is known of them.

    ``mapping`` gives the atoms that stand for Vars from outside, and receives the new Vars;
    ``counters`` is that of ``copy_facts``, and ``write`` that of ``core.clone``.
    """
    made = core.clone(block, mapping, write)
    own = core.defined_vars(made)
    for old, new in list(mapping.items()):
        if new in own:
            copy_facts(builder, old, new, counters)
    note(builder, made.statements)
    return made


def inlined(builder: Builder, block: Block, mapping: dict[Var, Any]) -> Block:
    """A copy of a block in which the same values have other Vars: of a function at its call.

    What is known of a Var that ``mapping`` gives holds of the one that stands for it, too.
    """
    for old, new in mapping.items():
        if isinstance(new, Var):
            copy_facts(builder, old, new)
    return cloned(builder, block, mapping)


def cloned_loop(builder: Builder, loop: Loop, mapping: dict[Var, Any] | None = None) -> Loop:
    """A copy of a loop, with Vars of its own; ``mapping`` is that of ``cloned``."""
    (copy,) = cloned(builder, Block([loop]), {} if mapping is None else mapping).statements
    assert isinstance(copy, type(loop))
    return copy


def symbols_of(builder: Builder, values: Iterable[Var]) -> set[str]:
    """The symbols of the sizes, and of the known integers, that values are."""
    dims = [d for v in values for d in (*v.type.dims, builder.dim_values.get(v, 0))]
    return {name for dim in dims for name in dim_symbols(builder.dims.resolve(dim))}


def rename_symbols(builder: Builder, block: Block, renamed: Mapping[str, DimLike]) -> None:
    """Let a block have other symbols, in place: it stands in another iteration of its loop.

    What is known of the old symbols is known of the new ones.
    """
    builder.dims.know_alike(renamed)

    def now(found: Any) -> Any:
        if not isinstance(found, Dim):
            return found
        return substitute_dim(builder.dims.resolve(found), dict(renamed))

    for var in core.defined_vars(block):
        var.type = var.type.with_dims([*map(now, var.type.dims)])
        if var in builder.dim_values:
            builder.dim_values[var] = made = now(builder.dim_values[var])
            for name in dim_symbols(made):
                builder.magnitudes.owners.setdefault(name, var)
    for s in core.walk(block):
        if isinstance(s, core.Apply):
            s.params = core.map_tree(now, s.params)


def note(builder: Builder, statements: Iterable[Statement]) -> None:
    """Record the definitions of new statements, and of all within them."""
    for statement in core.walk(Block([*statements])):
        builder.note(statement)


# loops


def derived(loop: Loop, **parts: Any) -> Loop:
    """A loop of the same statement of the user's, with some parts in place of the old ones.

    It keeps origin and phase, and goes over elements if ``loop`` does. Its iterations are in
    another order, or do something else: ``parallel``, ``vector`` and the verdict must be given.
    """
    if isinstance(loop, For):
        parts = {"parallel": False, "vector": False, "verdict": None, **parts}
    return replace(loop, **parts)


def emit_loop(
    builder: Builder,
    index: Var,
    span: Span,
    phis: Sequence[Var],
    inits: Sequence[Any],
    body: Block,
    outs: Sequence[Var] | None = None,
    *,
    origin: Origin | None = None,
    scheduled: bool = False,
    parallel: bool = False,
) -> For:
    """Append a ``for`` loop to the open block.

    ``span`` is start, stop and step; ``body.results`` are the next values of ``phis``. The results
    are called as the carried values where ``outs`` does not say otherwise, and the origin is the
    builder's where it is not given.
    """
    start, stop, step = map(atom, span)
    outs = tuple(p.again() for p in phis) if outs is None else tuple(outs)
    first = tuple(map(atom, inits))
    made = For(outs, index, start, stop, step, tuple(phis), first, body, origin or builder.origin)
    made.scheduled, made.parallel = scheduled, parallel
    builder.emit(made)
    return made


def emit_fold(
    builder: Builder,
    index: Var,
    span: Span,
    inits: Sequence[Any],
    step: Callable[..., Iterable[Any]],
    *,
    phis: Sequence[Var] | None = None,
    **rest: Any,
) -> For:
    """Append a ``for`` loop whose body ``step`` writes: next values, from the carried ones.

    The carried values are called as ``inits`` where ``phis`` does not say otherwise; ``rest`` is
    that of ``emit_loop``.
    """
    if phis is None:
        phis = [_like(atom(i)) for i in inits]
    with builder.block() as body:
        body.results = [*map(atom, step(*phis))]
    return emit_loop(builder, index, span, phis, inits, body, **rest)


def emit_while(
    builder: Builder,
    phis: Sequence[Var],
    inits: Sequence[Any],
    test: Block,
    body: Block,
    outs: Sequence[Var],
    origin: Origin | None = None,
) -> While:
    """Append a ``while`` loop to the open block; ``test`` has one result, a boolean."""
    made = while_loop(phis, inits, test, body, outs, origin or builder.origin)
    builder.emit(made)
    return made


def while_loop(
    phis: Sequence[Var],
    inits: Sequence[Any],
    test: Block,
    body: Block,
    outs: Sequence[Var],
    origin: Origin | None,
) -> While:
    """A ``while`` loop that is not part of a program yet."""
    return While(tuple(outs), tuple(phis), tuple(map(atom, inits)), test, body, origin)


def _like(value: Atom) -> Var:
    return value.again() if isinstance(value, Var) else Var(type_of(value))
