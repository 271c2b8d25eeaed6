"""Writes to globals and to attributes of captured objects, while the program is interpreted.

Such a place is a variable of the program. At the end it must hold what it held before; or it is a
cache, which held nothing, and now holds what does not depend on the arguments; or it is a private
counter on which no result depends, which stays as it is; or it holds a known value that does not
depend on the place itself: that is stored once, and guarded from then on.
"""

from __future__ import annotations

import builtins
import inspect
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

from calque.transpiler.errors import (
    CalqueError,
    ImpureFunction,
    UndefinedVariable,
    UnsupportedFunction,
)
from calque.transpiler.frontend.control.python_errors import UNDEFINED
from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.machine import NEXT, Machine
from calque.transpiler.frontend.paths import of_object, step
from calque.transpiler.frontend.same_computations import SameComputations
from calque.transpiler.frontend.values.containers.container_kinds import MISSING, kind_of
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.containers.outside_kinds import (
    ChangedContainer,
    Place,
    Written,
)
from calque.transpiler.frontend.values.descriptions import same_constant
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.mutable_objects import is_from_library
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.core import Var

_FAR = 1_000_003  # how far a counter is moved, to see that nothing hangs on it
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def is_defined(scope: dict[str, Any], name: str) -> bool:
    """True if a name is a global's or a builtin's."""
    return name in scope or hasattr(builtins, name)


def place_of(owner: Any, name: str) -> Place:
    """The place of an attribute; that of a module's is the place of its global."""
    held = None if isinstance(owner, type) else getattr(owner, "__dict__", None)
    return (id(owner if held is None else held), name)


def write_global(machine: Machine, scope: dict[str, Any], name: str, value: Any, node: Any) -> None:
    """Let a global hold a value from here on."""
    places = machine.outside
    place = (id(scope), name)
    if place not in places.written:
        first: Any = MISSING
        if name in scope:
            first = machine.lift(scope[name], name, step(operator.getitem, of_object(scope), name))
        else:
            machine.guards.append(Guard(step(is_defined, of_object(scope), name), False))
        places.written[place] = Written(scope, name, first, True)
    _put(machine, place, value, node)


def write_attribute(machine: Machine, owner: Any, name: str, value: Any, node: Any) -> bool:
    """Let an attribute of an object outside hold a value; False if it is not such a one."""
    if isinstance(owner, ModuleType) and not _is_librarys(owner):
        write_global(machine, vars(owner), name, value, node)
        return True
    if id(owner) in machine.owned or not _has_plain_attribute(owner, name):
        return False
    places, place = machine.outside, place_of(owner, name)
    if place not in places.written:
        first, asked = getattr(owner, name, MISSING), place in places.asked
        if asked and first is not MISSING:
            first = machine.lift(first, name, step(getattr, machine.path_of(owner), name))
        places.written[place] = Written(owner, name, first, asked)
    _put(machine, place, value, node)
    return True


def _put(machine: Machine, place: Place, value: Any, node: Any) -> None:
    machine.outside.held[place] = value
    machine.outside.written[place].origin = machine.origin(node)


def _is_librarys(module: ModuleType) -> bool:
    probe = type("_", (), {"__module__": module.__name__})
    return is_from_library(probe)


def _has_plain_attribute(owner: Any, name: str) -> bool:
    """True if a store into an attribute of an object does no more than that."""
    kind: Any = type(owner)
    if isinstance(owner, type):
        plain = kind.__setattr__ is type.__setattr__ and not is_from_library(owner)
        return plain and not hasattr(type(vars(owner).get(name)), "__get__")
    if isinstance(owner, Array) or not pytrees.has_attributes(owner):
        return False
    if is_from_library(kind) or kind.__setattr__ is not object.__setattr__:
        return False
    member = inspect.getattr_static(kind, name, None)
    slot = inspect.ismemberdescriptor(member)
    return slot or not hasattr(type(member), "__set__")


def attribute_written(machine: Machine, owner: Any, name: str, node: Any) -> Any:
    """The attribute of an object outside that the program has given it; NEXT if it has not."""
    written = machine.outside.written
    if not written:
        return NEXT
    place = place_of(owner, name)
    if place in written:
        return written_value(machine, place, node)
    inherited = _written_by_class(machine, owner, name)
    if inherited is not None:
        return written_value(machine, inherited, node)
    if name == "__dict__" and any(w.owner is owner for w in written.values()):
        return machine.fail(
            UnsupportedFunction,
            node,
            "The attributes of this object are read as a dict after some of them were set.",
            "read them by their names",
        )
    return NEXT


def _written_by_class(machine: Machine, owner: Any, name: str) -> Place | None:
    """The place of a class that the program has written, and that an attribute is read from."""
    is_class = isinstance(owner, type)
    if not is_class and name in getattr(owner, "__dict__", ()):
        return None
    for base in owner.__mro__ if is_class else type(owner).__mro__:
        if place_of(base, name) in machine.outside.written:
            return place_of(base, name)
        if name in vars(base):
            return None
    return None


def written_value(machine: Machine, place: Place, node: Any) -> Any:
    """The value that the program has given a place outside."""
    value = kind_of(machine.outside).read(machine.outside, place)
    if value is MISSING:
        machine.fail(UndefinedVariable, node, f"name '{place[1]}' {UNDEFINED}")
    return machine.checked(value, place[1], node)


def follow_outside(machine: Machine, function: Any) -> None:
    """Let the captured containers that the program is known to change be the program's own."""
    for name, read, origin in machine.settings.outside.values():
        copy = machine.own(machine.lift(read.read(function), name, read))
        del machine.foreign[id(copy)]
        first = _contents(copy)
        machine.outside.containers[id(copy)] = ChangedContainer(copy, name, first, set(), origin)


def _contents(container: Any) -> dict[Any, Any]:
    """The elements of a container by their places."""
    if isinstance(container, set):
        return {element: element for element in container}
    return dict(kind_of(container).now(container))


def _is_filled_cache(machine: Machine, changed: ChangedContainer) -> bool:
    """True for a cache to which something was added; refuses other changes of a container."""
    now, first = _contents(changed.copy), changed.first
    stays = rows_of(changed.copy) is None and list(now)[: len(first)] == list(first)
    stays = stays and all(_is_same(now[k], v) for k, v in first.items())
    new = [k for k in now if k not in first]
    if stays and isinstance(changed.copy, dict) and changed.asked.issuperset(new):
        if not any(depends_on_arguments(machine, now[k]) for k in new):
            return bool(new)
        raise ImpureFunction(
            f"{changed.name} lives outside the function, and would keep what depends on the "
            "arguments of this call.",
            changed.origin,
            "compute it in each call, and keep what is always the same only",
        )
    if not stays or new:
        raise _changed(changed)
    return False


def _changed(changed: ChangedContainer) -> ImpureFunction:
    return ImpureFunction(
        f"This changes {changed.name}, which lives outside the function; generated code could "
        "not do that once per call.",
        changed.origin,
        "return the new value, or work on a copy made inside the function",
    )


def settle_outside(
    machine: Machine, start: Snapshot, again: Callable[[], Any], result: Any
) -> None:
    """Check what the program leaves in places outside, and store what it leaves there for good.

    Where it keeps something, ``again`` interprets the function once more, of arguments as they
    were at the ``start``: that must change nothing, and give the same result.
    """
    kept: list[tuple[Any, ImpureFunction]] = []
    values: list[Any] = []
    for changed in machine.outside.containers.values():
        if _is_filled_cache(machine, changed):
            kept.append((changed.copy, _changed(changed)))
            values += [v for k, v in _contents(changed.copy).items() if k not in changed.first]
    left: list[tuple[Written, Any]] = []
    counters: dict[Place, Written] = {}
    for place, written in machine.outside.written.items():
        now = kind_of(machine.outside).read(machine.outside, place)
        if _is_same(now, written.first):
            continue
        if _is_cache(machine, written, now):
            kept.append((machine.outside, _lasts(written)))
            values.append(now)
            continue
        if _is_counter(written, now):
            counters[place] = written
            continue
        if written.asked or not _is_lasting(now):
            raise _lasts(written)
        left.append((written, now))
    if kept or counters:
        # the next call may take another way by a flag that is kept
        compared = [result] if counters or any(map(_is_lasting, values)) else []
        _require_stable(machine, kept, counters, start, again, compared)
    for written, now in left:
        setattr(written.owner, written.name, now)
        read = step(getattr, machine.path_of(written.owner), written.name)
        machine.guards.append(Guard(read, now, written.name))


def _require_stable(
    machine: Machine,
    kept: list[tuple[Any, ImpureFunction]],
    counters: dict[Place, Written],
    start: Snapshot,
    again: Callable[[], Any],
    results: list[Any],
) -> None:
    """Raise the error of a place that a second call would change, or that changes ``results``.

    Counters are elsewhere in the second call; where the results stay, they are not guarded.
    """
    builder, owned = machine.builder, machine.owned
    held = [value for value, _ in start.contents.values()]
    whole = Snapshot([*machine.roots(), *held, *results], owned)
    before = [(Snapshot([value], owned), error) for value, error in kept]
    errors = [*(error for _, error in kept), *map(_lasts, counters.values())]
    places = machine.outside.held
    counted = {place: places[place] for place in counters}
    lists = [(each, len(each)) for each in (machine.guards, machine.facts, machine.decisions)]
    captures, imports = dict(machine.captures), dict(builder.imports)
    assumptions, origin = dict(builder.dims.assumptions), machine.return_origin
    try:
        told = _effects(builder.blocks[-1])
        with builder.block() as block:
            start.restore()
            places.update({place: value + _FAR for place, value in counted.items()})
            found = [again()]
            compare = SameComputations(builder.definitions).values
            same = all(map(compare, results, found))
            same = same and (not counters or _effects(block) == told)
        machine.outside.held.update(counted)
        now = [Snapshot([value], owned) for value, _ in kept]
    except (
        CalqueError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as refused:
        raise errors[0] from refused
    finally:
        whole.restore()
        for each, count in lists:
            del each[count:]
        machine.captures, builder.imports = captures, imports
        builder.dims.assumptions, machine.return_origin = assumptions, origin
    if not same:
        raise errors[0]
    for (first, error), second in zip(before, now, strict=True):
        if first.differs(second):
            raise error
    unread = {_read_of(machine, written) for written in counters.values()}
    machine.guards[:] = [g for g in machine.guards if g.path.place not in unread]


def _effects(block: core.Block) -> list[str]:
    """The texts of the statements that show something, or raise an error."""
    return [s.template for s in core.walk(block) if isinstance(s, core.Effect)]


def _read_of(machine: Machine, written: Written) -> Any:
    """The place of the path by which a program reads what it has written."""
    owner, name = written.owner, written.name
    if isinstance(owner, dict):
        return step(operator.getitem, of_object(owner), name).place
    return step(getattr, machine.path_of(owner), name).place


def _lasts(written: Written) -> ImpureFunction:
    is_global = isinstance(written.owner, dict)
    what = f"The global {written.name} is written" if is_global else f"Setting .{written.name}"
    whose = ", and" if is_global else " changes an object that lives outside the function: it"
    return ImpureFunction(
        f"{what}{whose} holds another value after the call.",
        written.origin,
        "return the new value, or set the old one back before the end",
    )


def _is_same(now: Any, first: Any) -> bool:
    both = isinstance(now, Array) and isinstance(first, Array)
    return same_constant(now, first) or (both and now._value is first._value)


def _is_lasting(value: Any) -> bool:
    """True for a known value that stays as it is."""
    if type(value) is tuple:
        return all(map(_is_lasting, value))
    return type(value) in _PLAIN


def _is_counter(written: Written, now: Any) -> bool:
    """True for a private integer that has grown: a counter of names, if no result hangs on it."""
    grown = type(written.first) is int and type(now) is int and now > written.first
    return written.asked and grown and written.name.startswith("_")


def _is_cache(machine: Machine, written: Written, now: Any) -> bool:
    """True if a place that held nothing, as the program has seen, keeps what it computes always."""
    empty = written.first is MISSING or written.first is None
    return written.asked and empty and not depends_on_arguments(machine, now)


def depends_on_arguments(machine: Machine, value: Any) -> bool:
    """True if a value may be another one at the next call."""
    pending: list[Any] = [value]
    seen: set[int] = set()
    params, definitions = machine.builder.leaf_of_param, machine.builder.definitions
    captured = {capture.var for capture in machine.captures.values()}
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Array):
            pending.append(part.atom)
        elif isinstance(part, Var):
            if part in params or (part not in definitions and part not in captured):
                return True
            if part in definitions:
                pending += core.free_vars(core.Block([definitions[part]]))
        else:
            opened = kind_of(part).opened(part)
            if opened is not None:
                pending += opened[2]
            elif not _is_known(part):
                return True
    return False


def _is_known(value: Any) -> bool:
    return not type(value).__module__.startswith("calque.") or value is MISSING
