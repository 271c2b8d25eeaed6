"""Tracing: from a Python function and the types of its arguments to a Core function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from calque.transpiler.errors import (
    AliasUndecided,
    BranchMismatch,
    CalqueError,
    ClassesNeeded,
    NeedsKnownValue,
    OutsideChanged,
    SpecializationNeeded,
    UndefinedOnPath,
    UnrollingNeeded,
    UnsupportedFunction,
    UnsupportedSyntax,
)
from calque.transpiler.frontend.captures import Capture
from calque.transpiler.frontend.function_copies import CopiedFunction
from calque.transpiler.frontend.guarding import Guard, guard_known
from calque.transpiler.frontend.library.polyfills import Deque
from calque.transpiler.frontend.library.python_builtins import Interpreter
from calque.transpiler.frontend.machine import Completion, Settings
from calque.transpiler.frontend.outside_writes import follow_outside, settle_outside
from calque.transpiler.frontend.results import Results
from calque.transpiler.frontend.source import source_of
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import Generator
from calque.transpiler.frontend.values.memory_questions import memory_of
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber
from calque.transpiler.frontend.values.optional import Maybe
from calque.transpiler.frontend.values.stepwise import is_iterator
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.arrays import LentMemory
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Parameter, Slot, Var
from calque.transpiler.ir.dims import Bound, InnerSizes
from calque.transpiler.ir.program_copies import ProgramCopy
from calque.transpiler.ir.stages import READING, stage
from calque.transpiler.ir.target import NUMPY, Target
from calque.transpiler.ir.types import INT, ArrayType, Dim, dim_symbols, integer_name, symbol


@dataclass(eq=False)
class Traced:
    """A Core function, and all that it depends on besides the types of its arguments."""

    function: core.Function
    builder: Builder
    captures: list[Capture] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    assumptions: list[Dim] = field(default_factory=list)  # each must be >= 0
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    target: Target = NUMPY  # for whose kernels it is scheduled
    compares: bool = False  # and refuses what NumPy may spread: see loops.shape_guards
    choices: dict[Bound, bool] = field(default_factory=dict)  # made by the sizes of the call
    inner: InnerSizes = field(default_factory=dict)  # that loops within loops go over
    with_calls: core.Function | None = None  # before calls that have rules were inlined

    @property
    def compiled(self) -> bool:
        """True if kernels are to be made of the function."""
        return self.target is not NUMPY

    def has_variants(self) -> bool:
        """True if kernels depend on the sizes of the call, so that other calls may need others."""
        return bool(self.compares or self.choices or self.inner)

    def copied(self, sizes: dict[str, int]) -> Traced:
        """A copy for passes to rewrite, with these sizes of arguments substituted."""
        made = ProgramCopy(self.function, self.builder, sizes)
        Interpreter(made.builder, Settings(telling=True))  # of the user's rules: passes may ask
        captures = [replace(c, var=made.mapping[c.var]) for c in self.captures]
        return replace(self, function=made.function, builder=made.builder, captures=captures)


def trace(
    function: Any,
    leaf_types: Sequence[ArrayType | None],
    leaf_values: Sequence[Any],
    unflatten: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    pinned: dict[str, int] | None = None,
    contiguous: frozenset[int] = frozenset(),
    compiled: bool = False,
    varying: frozenset[Any] = frozenset(),
    memory: frozenset[int] = frozenset(),
    grid: bool = False,
    copy: CopiedFunction | None = None,
    saves_within: int | None = None,
) -> Traced:
    """Interpret ``function`` on arguments whose leaves have these types.

    A leaf without a type is known: its value is in ``leaf_values``. ``unflatten`` builds the
    arguments from leaves; ``contiguous`` are the leaves known to be C-contiguous,
    ``compiled`` says that kernels are to be made of it; ``varying`` are the places of captured
    numbers that are inputs too; ``memory`` are leaves whose location in memory is known; a
    ``grid`` of threads is to run the kernels. The program is of a function's ``copy``, if given,
    and reads what that has captured by paths from the function of a call. The values that a reverse
    sweep saves are to stay within ``saves_within`` bytes.
    """
    owners = {leaf: memory_of(leaf_values[leaf]) for leaf in memory}
    policy = TracePolicy(compiled, grid, varying, owners, saves_within=saves_within)
    while True:
        machine = Interpreter(Builder(_symbols(leaf_types), pinned), policy)
        if copy is not None:
            machine.read_by_paths(copy)
        try:
            with stage(READING, machine.builder):
                given = function if copy is None else copy.function
                follow_outside(machine, given)
                return _attempt(machine, function, leaf_types, leaf_values, unflatten, contiguous)
        except OutsideChanged as found:
            outside = policy.outside | {found.read.place: (found.name, found.read, found.origin)}
            policy = replace(policy, outside=outside)
        except ClassesNeeded:
            policy = replace(policy, telling=True)
        except (BranchMismatch, NeedsKnownValue, SpecializationNeeded) as error:
            if machine.joined:  # each arm may know what both together do not
                policy = replace(policy, arms_apart=True)
            elif isinstance(error, SpecializationNeeded):
                raise
            else:
                policy = policy.after(error, machine.arrays_for_lists)
        except (UnrollingNeeded, CalqueError, TypeError, ValueError, LookupError) as error:
            policy = policy.after(error, machine.arrays_for_lists)


@dataclass(frozen=True)
class TracePolicy(Settings):
    """The choices of one interpretation, and those to try after an error."""

    instead: UnrollingNeeded | None = None  # what to do where stacking fails
    refused: Exception | None = None  # the error without tagged values

    def after(self, error: Exception, arrays_for_lists: bool) -> TracePolicy:
        """The policy to try after an error; where all else fails, values of two kinds get tags."""
        try:
            return self.next_policy(error, arrays_for_lists)
        except Exception as last:
            of_paths = isinstance(last, (BranchMismatch, UndefinedOnPath))
            if self.refused is None and of_paths:
                start = replace(self, stacking=False, lists_stay=False, unrolled={}, instead=None)
                return replace(start, tagging=True, refused=last)
            if self.tagging and isinstance(last, UndefinedOnPath) and not self.loops_tag:
                return replace(self, loops_tag=True)
            if self.refused is not None and (of_paths or not isinstance(last, CalqueError)):
                raise self.refused from None
            raise

    def next_policy(self, error: Exception, arrays_for_lists: bool) -> TracePolicy:
        """The next policy to try after an error; raises the error if there is none."""
        if isinstance(error, UnrollingNeeded) and not self.stacking and not self.unrolled:
            return replace(self, stacking=True, instead=error)
        if arrays_for_lists:
            return replace(self, stacking=False, lists_stay=True, unrolled={}, instead=None)
        needed = self.instead if self.stacking else error
        if not isinstance(needed, UnrollingNeeded):
            raise error
        if needed.loops <= self.unrolled.keys():
            raise BranchMismatch(
                "This needs a list or a dict itself that a list kept in arrays holds.",
                needed.origin,
                "put copies into the list, or make the list an array with np.array",
            ) from None
        more = dict.fromkeys(needed.loops, needed.origin)
        return replace(self, stacking=False, unrolled=self.unrolled | more)


def _symbols(leaf_types: Sequence[ArrayType | None]) -> list[str]:
    dims = (d for t in leaf_types if t is not None for d in t.dims)
    return list(dict.fromkeys(s for d in dims for s in sorted(dim_symbols(d))))


def _attempt(
    machine: Interpreter,
    function: Any,
    leaf_types: Sequence[ArrayType | None],
    leaf_values: Sequence[Any],
    unflatten: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    contiguous: frozenset[int],
) -> Traced:
    """One interpretation."""
    builder, compiled = machine.builder, machine.settings.compiled
    leaves = _recorded(builder, leaf_types, leaf_values, contiguous)
    cells = [leaf for leaf in leaves if isinstance(leaf, Array)]
    for leaf in leaves:
        if not isinstance(leaf, Array):
            guard_known(machine, leaf)
    params = list(builder.leaf_of_param)
    machine.arguments += cells
    with builder.active(), builder.block() as body:
        args, kwargs = unflatten(leaves)
        signature = [Parameter(c, None) for c in getattr(function, "communicators", ())]
        signature += parameters_of(function, args, kwargs)
        _require_reachable(params, signature)
        machine.parameters |= {*kwargs, *(parameter.name for parameter in signature)}
        for var in params:
            var.name = None
        for parameter in signature:
            found = pytrees.words_of_leaves(parameter.tree, parameter.name)
            builder.words.update((leaf, word) for leaf, word in found if isinstance(leaf, Var))
        again = partial(_interpret, machine, function, args, kwargs)
        start = Snapshot([args, kwargs], machine.owned)
        result = again()
        settle_outside(machine, start, again, result)
        template = close_result(result, body, machine)
        if compiled:
            _require_decided(cells, params)
        written = _written(cells, params, body)
    captures = list(machine.captures.values())
    made = core.Function(
        name=getattr(function, "__name__", type(function).__name__),
        params=params,
        body=body,
        result=template,
        signature=_with_captures(signature, captures),
        origin=_origin(function),
        dim_values=builder.dim_values,
        equal_dims=builder.equal_dims,
        imports=builder.imports,
        written=written,
        decisions=machine.decisions,
    )
    made.params = params + [c.var for c in captures]
    return Traced(
        made,
        builder,
        captures,
        machine.guards,
        [d for d in builder.dims.assumptions if isinstance(d, Dim)],
        machine.sources,
    )


def _recorded(
    builder: Builder,
    types: Sequence[ArrayType | None],
    values: Sequence[Any],
    contiguous: frozenset[int],
) -> list[Any]:
    """The leaves of the arguments: an Array for each that has a type; else the value."""
    leaves: list[Any] = []
    for position, (t, value) in enumerate(zip(types, values, strict=True)):
        if t is None:
            leaves.append(value)
            continue
        var = Var(t)
        builder.leaf_of_param[var] = position
        if t == INT:
            name = integer_name(position)
            builder.dims.integers[name] = value if type(value) is int else None
            builder.dim_values[var], builder.magnitudes.owners[name] = symbol(name), var
        if isinstance(value, (np.ndarray, np.generic)) and not t.ndim:
            kind = np.ndarray if isinstance(value, np.ndarray) else type(value)
            builder.kinds[var] = frozenset([kind])
        if position in contiguous:
            builder.contiguous.add(var)
        cell = Array(var)
        cell.leaf = position
        cell.is_buffer = isinstance(value, np.ndarray) and not t.ndim  # no np.float64: it stays
        leaves.append(cell)
    cells = [leaf for leaf in leaves if isinstance(leaf, Array)]
    beside = frozenset(k for cell in cells if (k := cell.leaf) is not None)
    for cell in cells:
        cell.lent = LentMemory(frozenset([cell.leaf or 0]), beside)
    return leaves


def _interpret(
    machine: Interpreter, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The function's result; an error without a place shows where the result comes from."""
    try:
        return machine.call_value(function, list(args), dict(kwargs), None)
    except SpecializationNeeded as needed:
        needed.captures = list(machine.captures.values())
        raise
    except CalqueError as error:
        error.origin = error.origin or machine.return_origin or _definition(function)
        raise
    except RecursionError:
        raise UnsupportedSyntax(
            "The calls of this function nest too deeply.",
            machine.return_origin or _definition(function),
            "write the recursion as a loop",
        ) from None


def _definition(function: Any) -> Any:
    """The place of a function's first line."""
    plain = function
    while not isinstance(plain, FunctionType) and plain is not None:
        bound = getattr(plain, "__func__", None) or getattr(plain, "func", None)
        plain = bound or getattr(plain, "__wrapped__", None)
    if plain is None:
        return None
    try:
        source = source_of(inspect.unwrap(plain))
    except CalqueError:
        return None
    return source.origin(source.node)


def _origin(function: Any) -> Any:
    from calque.transpiler.errors import Origin

    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if code is None:
        return None
    return Origin(
        code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0, "", code.co_name
    )


def _require_decided(cells: list[Array], params: list[Var]) -> None:
    """Refuse an argument that a store through another name may, or may not, have changed."""
    for cell, var in zip(cells, params, strict=True):
        if cell.poison is not None:
            raise AliasUndecided(
                f"This store may change the argument {var.name or ''}".rstrip()
                + " of the call, or another array: which one is decided at run time.",
                cell.poison,
                "work on a copy of the argument: x = x.copy()",
            )


def _written(cells: list[Array], params: list[Var], body: core.Block) -> dict[int, int]:
    """Parameters that were stored into: their last versions become further results."""
    written: dict[int, int] = {}
    for position, (cell, var) in enumerate(zip(cells, params, strict=True)):
        if cell._value is not var and cell._base is None and (cell.ndim or cell.is_buffer):
            written[position] = len(body.results)
            body.results.append(cell.atom)
    return written


def parameters_of(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Parameter]:
    """The user's own parameters, each with its argument (Arrays replaced by Vars)."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError) and callable(function) and hasattr(function, "__code__"):
            raise TypeError(f"{getattr(function, '__name__', 'function')}() {error}") from None
        return [Parameter(f"{chr(97 + i)}", _vars(a)) for i, a in enumerate(args)] + [
            Parameter(k, _vars(v), keyword_only=True) for k, v in kwargs.items()
        ]
    found = []
    for name, parameter in signature.parameters.items():
        if name not in bound.arguments:
            continue
        value = _vars(bound.arguments[name])
        kind = parameter.kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found.append(Parameter(name, value, variadic="*"))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found.append(Parameter(name, value, variadic="**"))
        else:
            default = _default(parameter.default)
            found.append(Parameter(name, value, kind is inspect.Parameter.KEYWORD_ONLY, default))
    return found


def _require_reachable(params: Sequence[Var], signature: Sequence[Parameter]) -> None:
    """Refuse arguments with leaves that are no attributes, through which generated code reads."""
    held: set[Any] = set()
    trees = [parameter.tree for parameter in signature]
    pytrees.map_leaves(lambda v: held.add(v) if isinstance(v, Var) else None, trees)
    if not held.issuperset(params):
        raise UnsupportedFunction(
            "An argument has a leaf that is none of its attributes: its class computes with what "
            "its unflatten function gives it.",
            hint="make the instance without its __init__ there: object.__new__, and set attributes",
        )


def _with_captures(
    signature: Sequence[Parameter], captures: Sequence[Capture]
) -> list[Parameter]:
    """The parameters: the user's own, then captures, then one for all other keywords."""
    others = [p for p in signature if p.variadic == "**"]
    own = [p for p in signature if p.variadic != "**"]
    return own + [Parameter(c.name, c.var, keyword_only=True) for c in captures] + others


def _default(value: Any) -> str | None:
    """A default as text; None for one that has no literal: an infinity, a member of an enum."""
    if type(value) in (float, np.float64):
        return repr(float(value)) if np.isfinite(value) else None
    return repr(value) if type(value) in (type(None), bool, int, str) else None


def _vars(value: Any) -> Any:
    """A tree with the Arrays replaced by their Vars; other instances are kept as they are."""
    return pytrees.map_leaves(lambda leaf: leaf._value if isinstance(leaf, Array) else leaf, value)


def listed(value: Any) -> Any:
    """A result with the lists that grew in loops as plain lists: their lengths must be known."""
    if isinstance(value, Generator):
        raise UnsupportedSyntax(
            f"The generator {value.closure.name} leaves the function.",
            value.origin,
            "return a list of the values",
        )
    if is_iterator(value):
        raise UnsupportedSyntax(
            "An iterator leaves the function.", None, "return a list of the values"
        )
    if isinstance(value, TaggedValue):
        message = f"The results do not fit together: {value.message}."
        raise BranchMismatch(message, None, "return one kind of value on every path")
    if isinstance(value, Maybe):
        raise BranchMismatch(
            "The result is None on one path, and something else on another.",
            None,
            "return one kind of value on every path: np.nan, or -1, and not None",
        )
    if isinstance(value, Deque):
        raise UnsupportedFunction("A deque leaves the function.", None, "return list(...) of it")
    rows = rows_of(value)
    if rows is not None:
        return [listed(v) for v in rows]
    if isinstance(value, dict):
        return core.dict_like(value, {k: listed(v) for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        items = [listed(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def close_result(result: Any, body: core.Block, machine: Interpreter) -> Any:
    """The structure of a result with Slots at its leaves; their atoms go to the block's results."""
    given = [*machine.builder.leaf_of_param, *(c.var for c in machine.captures.values())]
    returned = Results(body, machine.arguments, given).returned

    def leaf(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = machine.recorded(value)
        if isinstance(value, TaggedValue):
            return listed(value)
        if isinstance(value, MixedNumber):
            value = Array(value.atom)
        if isinstance(value, Array) or isinstance(value, (bool, int, float, complex, np.generic)):
            body.results.append(returned(value).atom if isinstance(value, Array) else value)
            return Slot(len(body.results) - 1)
        if value is None or isinstance(value, (str, bytes)):
            return value
        if hasattr(value, "calque_refuse"):
            value.calque_refuse()
        if isinstance(value, (Completion, type(machine))) or callable(value):
            raise UnsupportedFunction(
                f"The function returns a {type(value).__name__}, which generated code cannot.",
                machine.builder.origin,
            )
        return value

    try:
        return pytrees.map_leaves(leaf, listed(result))
    except CalqueError as error:
        error.origin = error.origin or machine.builder.origin or machine.return_origin
        raise
