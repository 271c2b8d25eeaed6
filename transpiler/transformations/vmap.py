"""vmap as an operation on a function that is being interpreted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.errors import AxisOutOfRange, BranchMismatch, Origin, ShapeError
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.frontend.machine import Closure, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.builder import (
    FUNCTIONS,
    Array,
    Builder,
    current,
    loop_index,
    type_of,
    wrap,
)
from calque.transpiler.ir.core import Apply, Block, Effect, Function, If, Statement, Var
from calque.transpiler.ir.debug import watched
from calque.transpiler.ir.effects import has_effects, is_size
from calque.transpiler.ir.rewrite import emit_loop
from calque.transpiler.ir.treedefs import one_level
from calque.transpiler.ir.types import INT, dim_symbols
from calque.transpiler.primitives.axis_collectives import NamedAxis, numbered
from calque.transpiler.primitives.batched import spread
from calque.transpiler.transformations.derivatives import Inner, splice
from calque.transpiler.transformations.example_loop import one_by_one
from calque.transpiler.transformations.lent_cells import LentCells
from calque.transpiler.vectorize.batch import batch
from calque.transpiler.vectorize.divergence import can_be_masked, diverges, fits_a_thread, mapped
from calque.transpiler.vectorize.stacking import Values

VECTOR = 256  # examples of masked arithmetic that a kernel computes together: they stay in cache


@dataclass(frozen=True)
class Axes:
    """The options of ``vmap``."""

    in_axes: Any = 0
    out_axes: Any = 0
    axis_size: int | None = None
    axis_name: Any = None
    chunk_size: int | None = None


def axes_of_leaves(axes: Any, value: Any, what: str, option: str = "in_axes") -> list[int | None]:
    """The axis of each leaf of ``value``, from a prefix of its tree.

    >>> axes_of_leaves({"a": 0, "b": None}, {"a": (1, 2), "b": 3}, "x")
    [0, 0, None]
    """
    found = leaves_of_prefix(axes, value, what, _is_axis, "vmap", option)
    return [a if a is None else int(a) for a in found]


def _is_axis(value: Any) -> bool:
    return value is None or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))


def leaves_of_prefix(
    prefix: Any, value: Any, what: str, is_leaf: Callable[[Any], bool], function: str, noun: str
) -> list[Any]:
    """The entry of a prefix tree that belongs to each leaf of ``value``.

    Raises ValueError where they do not fit; the message names ``function``, ``what`` and ``noun``.
    """
    if is_leaf(prefix):
        return [prefix] * len(pytrees.flatten(value)[0])
    if _kind(prefix) != _kind(value):
        raise ValueError(
            f"{function}: {what} has {noun} {prefix!r}, which is no prefix of its tree: it is "
            f"{_called(value)}"
        )
    given, have = _children(prefix, value), _children(value, value)
    if given is None or have is None or len(given) != len(have):
        raise ValueError(f"{function}: the {noun} {prefix!r} do not fit the tree of {what}")
    return [
        found
        for p, v in zip(given, have, strict=True)
        for found in leaves_of_prefix(p, v, what, is_leaf, function, noun)
    ]


def _called(value: Any) -> str:
    if isinstance(value, Array):
        return "an array" if value.ndim else "a number"
    return f"a {type(value).__name__}"


def _kind(value: Any) -> Any:
    if isinstance(value, dict):
        return "dict", tuple(sorted(map(str, value)))
    return "list" if isinstance(value, list) else type(value)


def _children(value: Any, like: Any) -> list[Any] | None:
    """The parts of a tree in the order of another's."""
    if isinstance(value, dict):
        return [value[k] for k in pytrees.keys_of(like)]
    if isinstance(value, (list, tuple)):
        return list(value)
    level = one_level(value)
    return None if level is None else list(level[0])


def argument_axes(
    in_axes: Any, args: Sequence[Any], name: str, function: str = "vmap"
) -> list[Any]:
    """One prefix for each positional argument."""
    if in_axes is None or isinstance(in_axes, (int, np.integer)):
        return [in_axes] * len(args)
    if not isinstance(in_axes, (tuple, list)):
        raise TypeError(
            f"{function}: in_axes must be an int, None, a tuple or a list, and is {in_axes!r}"
        )
    if len(in_axes) != len(args):
        raise ValueError(
            f"{function}: in_axes has {len(in_axes)} entries, and {name} was given "
            f"{len(args)} positional arguments"
        )
    return list(in_axes)


def leaf_axis(
    axis: int, rank: int, what: str, origin: Origin | None = None, function: str = "vmap"
) -> int:
    """A nonnegative axis of an argument; an error that names the argument."""
    if not -rank <= axis < rank:
        have = "no axes: it is a scalar" if not rank else f"only {rank}"
        raise AxisOutOfRange(
            f"{function} was asked to map {what} over axis {axis}, but it has {have}.",
            origin,
            "give in_axes an axis that it has, or None for an argument that all examples share",
        )
    return axis % rank


def parameter_names(function: Any, count: int) -> list[str]:
    """The names of a function's positional arguments; fewer where they are not known.

    >>> parameter_names(lambda x, *rest: x, 3)
    ['x', 'rest[0]', 'rest[1]']
    """
    if isinstance(function, Closure):
        given = function.node.args
        plain, variadic = [a.id for a in (*given.posonlyargs, *given.args)], given.vararg
        rest = None if variadic is None else variadic.id
    else:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return []
        plain = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
    if rest is not None:
        plain += [f"{rest}[{k}]" for k in range(count - len(plain))]
    return plain[:count]


def labels(value: Any, name: str | int, called: str | None = None) -> list[str]:
    """The name of each leaf of an argument in errors.

    >>> labels({"w": 1.0}, 1, "params"), labels(1.0, "y")
    (["argument 1 (params['w'])"], ['argument y'])
    """
    if called is None:
        return [f"argument {name}{path}" for path in pytrees.paths(value)]
    return [f"argument {name} ({called}{path})" for path in pytrees.paths(value)]


def vmap(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: Any,
    how: Axes,
) -> Any:
    """``function`` for every example along the mapped axes."""
    name = getattr(function, "__name__", type(function).__name__)
    everything = [*args, *kwargs.values()]
    prefixes = argument_axes(how.in_axes, args, name) + [0] * len(kwargs)
    names = [f"{k}" for k in range(len(args))] + list(kwargs)
    leaves, structure = pytrees.flatten(everything)
    axes = [
        k
        for p, v, n in zip(prefixes, everything, names)
        for k in axes_of_leaves(p, v, f"argument {n}")
    ]
    own: list[str | None] = [*parameter_names(function, len(args))]
    own += [None] * (len(everything) - len(own))
    called = [
        text for v, n, c in zip(everything, names, own, strict=True) for text in labels(v, n, c)
    ]
    cells = LentCells(leaves)
    companions, fresh, size = _companions(machine, leaves, axes, called, how.axis_size, cells)
    values = pytrees.unflatten(structure, fresh)
    builder = machine.builder
    with _named(builder, how.axis_name, size, companions) as axis:
        inner = _interpreted(
            machine, function, values[: len(args)], dict(zip(kwargs, values[len(args) :])), node
        )
    cells.check(inner.block)
    program = Function(name, [], inner.block, None)
    program.swept = any(s.phase for s in inner.block.statements)
    within = builder.vmaps > 0
    steady = bool(machine.reversing) or within
    rewrite = _chunks_of(how.chunk_size) if how.chunk_size is not None and companions else batch
    found = None
    with _quiet(builder, machine.settings.compiled and not machine.derivatives):
        lanes = machine.settings.compiled and how.axis_name is None and how.chunk_size is None
        if machine.settings.grid:
            lanes = lanes and fits_a_thread(inner.block)
        if lanes and diverges(inner.block, mapped(inner.block, companions)):
            if not machine.settings.grid and not machine.derivatives and can_be_masked(inner.block):
                rewrite = _chunks_of(VECTOR)
            else:
                again = name if machine.derivatives else None
                found = one_by_one(builder, inner.block, companions, size, again)
        if found is None:
            found = watched(
                "batch",
                program,
                lambda: rewrite(program, builder, companions, size, steady, axis, within),
            )
    to_value = splice(machine, inner, program)
    return _results(inner, found, to_value, how.out_axes, size)


@contextmanager
def _named(
    builder: Builder, name: Hashable, size: Any, companions: dict[Var, Any]
) -> Iterator[NamedAxis | None]:
    """Bind the name of the batch axis; the number of an example is one more value it has."""
    before, axis = builder.axes, None
    if name is not None:
        index = Var(INT, None, builder.origin)
        companions[index] = numbered(size)
        axis = NamedAxis(name, size, Array(index))
        builder.axes = {**before, name: axis}
    builder.vmaps += 1
    try:
        yield axis
    finally:
        builder.axes = before
        builder.vmaps -= 1


@contextmanager
def _quiet(builder: Builder, quiet: bool) -> Iterator[None]:
    """Arithmetic is defined everywhere: kernels do not warn, and no slope is to come of it."""
    before, builder.quiet = builder.quiet, quiet
    try:
        yield
    finally:
        builder.quiet = before


def _chunks_of(count: int) -> Callable[..., list[tuple[Any, bool]]]:
    """``batch`` over at most ``count`` examples at a time, in a loop that stores their results."""

    def rewrite(
        program: Function,
        builder: Builder,
        companions: dict[Var, Any],
        size: Any,
        steady: bool,
        axis: Any,
        within: bool,
    ) -> list[tuple[Any, bool]]:
        body = program.body
        with builder.block() as whole:
            rest = _hoisted(body, builder, companions, size)
            own = {o for s in rest for o in s.outs} | set(companions)
            wanted = [a for a in dict.fromkeys(body.results) if isinstance(a, Var) and a in own]
            inits = [_room_for(a, size, builder) for a in wanted]
            phis = tuple(Var(i.type, i.atom.name, a.origin) for a, i in zip(wanted, inits))
            even = steady and not all(map(_runs_again, rest)) and not any(map(_prints, rest))
            length = _even_length(count, size) if even else None
            start = loop_index(0, builder.dim_of(size) - 1, "start")
            with builder.block() as one_chunk:
                rows = _rows(start, count, size, length)
                taken = {v: _part(a, rows, v) for v, a in companions.items()}
                length = next(iter(taken.values())).shape[0] if length is None else length
                inner = Function(program.name, [], Block(rest, list(wanted)), None)
                results = batch(inner, builder, taken, length, steady, axis, within or steady)
                one_chunk.statements += inner.body.statements
                for phi, (value, has) in zip(phis, results, strict=True):
                    cell = Array(phi)
                    cell[rows] = value if has else spread(value, length)
                    one_chunk.results.append(cell.atom)
            made = emit_loop(builder, start.atom, (0, size, count), phis, inits, one_chunk)
        program.body.statements = whole.statements
        joined = dict(zip(wanted, made.outs, strict=True))
        return [
            (Array(joined[a]), True) if isinstance(a, Var) and a in joined else (wrap(a), False)
            for a in body.results
        ]

    return rewrite


def _runs_again(s: Statement) -> bool:
    """True if a reverse sweep can recompute a statement, so that no chunk need save it."""
    if isinstance(s, Apply):
        return s.primitive.kind != "store" and len(s.outs) == 1
    return isinstance(s, Effect)


def _prints(s: Statement) -> bool:
    """True if a statement prints, which would show where a chunk runs again for some examples."""
    inner = core.walk(Block([s]))
    return any(isinstance(t, Effect) and t.template.startswith("print") for t in inner)


def _even_length(count: int, size: Any) -> Any:
    """The number of examples in a chunk, the same for all chunks."""
    length: Any = FUNCTIONS[np.minimum](count, size)
    if isinstance(length, Array):
        length.atom.name = "rows"
    return length


def _rows(start: Any, count: int, size: Any, length: Any) -> slice:
    """The examples of a chunk.

    The last chunk has fewer, or, where a ``length`` is given that all are to have, some of the
    examples of the one before once more.
    """
    if length is None:
        return slice(start, start + count)
    builder = current()
    first = FUNCTIONS[np.minimum](start, size - length)
    first.atom.name = "first"
    rows, here = builder.dim_of(length), builder.dim_of(first)
    builder.dims.natural |= dim_symbols(rows)
    for name in dim_symbols(here):
        builder.dims.ranges[name] = (0, builder.dim_of(size) - rows)
    return slice(first, builder.know_dim(first + length, here + rows))


def _hoisted(
    body: Block, builder: Builder, companions: dict[Var, Any], size: Any
) -> list[Statement]:
    """Emit what all examples share, once; the statements that remain."""
    found = mapped(body, companions)
    outside = Values(builder, size, companions, found)
    inside, rest = set(found), []
    for s in body.statements:
        if is_size(s) and s.args[0] in companions:
            outside.apply(s)
        elif has_effects(s) or not inside.isdisjoint(core.free_vars(Block([s]))):
            rest.append(s)
            inside.update(s.outs)
        else:
            builder.emit(s)
    return rest


def _room_for(result: Var, size: Any, builder: Builder) -> Array:
    """An array for what every example finds."""
    try:
        shape = (size, *map(size_at_hand, result.type.dims))
    except BranchMismatch:
        raise ShapeError(
            "vmap: chunk_size needs to know the shape of each result beforehand, and that of "
            f"{result.name or 'one of them'} depends on the data.",
            result.origin or builder.origin,
            "leave chunk_size out, or allocate the result with np.zeros",
        ) from None
    room: Array = FUNCTIONS[np.empty](shape, result.type.dtype)
    room.atom.name = result.name or "results"
    return room


def _part(array: Any, rows: slice, var: Var) -> Any:
    part = array[rows]
    part.atom.name = f"{var.name}_chunk" if var.name else None
    return Array(part.atom)


def _companions(
    machine: Machine,
    leaves: Sequence[Any],
    axes: Sequence[Any],
    called: Sequence[str],
    size: Any,
    cells: LentCells,
) -> tuple[dict[Var, Any], list[Any], Any]:
    """Each mapped leaf with its batch axis in front; the leaves of one example; the batch size."""
    builder = machine.builder
    companions: dict[Var, Any] = {}
    fresh: list[Any] = []
    source = "axis_size"  # what the number of examples is known from
    if all(a is None for a in axes) and size is None:
        raise ValueError(
            "vmap: at least one argument must have a mapped axis, and none has: in_axes is None "
            "for all, and axis_size is not given"
        )
    for leaf, axis, what in zip(leaves, axes, called, strict=True):
        if axis is None:
            fresh.append(cells.cell(leaf.atom, leaf) if isinstance(leaf, Array) else leaf)
            continue
        if not isinstance(leaf, Array) and not is_number(leaf):
            raise TypeError(f"vmap: {what} is a {type(leaf).__name__}, which has no axes")
        axis = leaf_axis(axis, type_of(leaf).ndim, what, builder.origin)
        array = np.moveaxis(leaf, axis, 0)
        if size is None:
            size, source = array.shape[0], f"{what} along its axis {axis}"
        else:
            _same_size(builder, size, source, array, f"{what} along its axis {axis}")
        t = array.type
        var = Var(t.with_dims(t.dims[1:]), leaf.atom.name, builder.origin)
        companions[var] = Array(array.atom)
        builder.kinds[var] = frozenset([t.dtype.type])  # a row, as a loop gives it
        fresh.append(cells.cell(var, leaf))
    return companions, fresh, size


def _same_size(builder: Builder, size: Any, source: str, array: Any, what: str) -> None:
    """Every mapped argument has as many examples: known, checked at a call, or when it runs."""
    have, want = array.dims[0], builder.dims.resolve(builder.dim_of(size))
    message = "vmap: mapped axes must have equal lengths, and {} has {}, {} has {}."
    if isinstance(builder.dims.resolve(want - have), int) and have != want:
        raise ShapeError(
            message.format(source, want, what, have),
            builder.origin,
            "pass as many examples of each, or map the one over no axis (None in in_axes)",
        )
    own = array.shape[0]
    if not (dim_symbols(have) | dim_symbols(want)) <= builder.dims.arguments and have != want:
        with builder.block() as wrong:
            text = message.format(source.replace("%", "%%"), "%d", what.replace("%", "%%"), "%d")
            builder.effect(f"raise ValueError({text!r} % ({{0}}, {{1}}))", [size, own])
        test = np.not_equal(size, own)
        builder.emit(If((), test.atom, wrong, Block(), builder.origin))
    builder.unify(want, have)


def _interpreted(
    machine: Machine, function: Any, args: Sequence[Any], kwargs: dict[str, Any], node: Any
) -> Inner:
    with machine.builder.block() as block:
        result = machine.call_value(function, list(args), kwargs, node)
        result = listed(result)
        leaves, structure = pytrees.flatten(result)
        block.results = [x.atom if isinstance(x, Array) else x for x in leaves]
    return Inner(block, [], [], None, result, leaves, structure)


def _results(
    inner: Inner, found: Sequence[tuple[Any, bool]], to_value: Any, out_axes: Any, size: Any
) -> Any:
    """The results with their batch axes where ``out_axes`` wants them."""
    axes = axes_of_leaves(out_axes, inner.result, "the result", "out_axes")
    made = []
    for leaf, (value, batched), axis in zip(inner.leaves, found, axes, strict=True):
        if not isinstance(leaf, Array) and not is_number(leaf):
            made.append(leaf)
            continue
        value = to_value(value)
        if axis is None:
            if batched:
                raise ValueError(
                    "vmap: out_axes is None for a result that differs from one example to the next"
                )
            made.append(value)
            continue
        value = value if batched else spread(value, size)
        rank = value.ndim
        if not -rank <= axis < rank:
            raise ShapeError(f"vmap: out_axes {axis} is out of range for a result with {rank} axes")
        made.append(np.moveaxis(value, 0, axis % rank))
    return pytrees.unflatten(inner.result_structure, made)
