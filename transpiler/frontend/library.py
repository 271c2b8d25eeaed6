"""The builtins of Python, over known structure and run-time values."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from calque.transpiler.builder import ATTRIBUTES, FUNCTIONS, METHODS, OPERATORS, Array, known
from calque.transpiler.errors import NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.calls import BUILTINS, Calls
from calque.transpiler.frontend.expressions import display
from calque.transpiler.frontend.heap import MISSING, RecordedList
from calque.transpiler.frontend.interpreter import Closure
from calque.transpiler.frontend.iteration import (
    Enumerated,
    Iterable,
    Mapped,
    Range,
    Reversed,
    Zipped,
    as_iterable,
)


def builtin(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let builtins mean the decorated function of (machine, node, args, kwargs)."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            BUILTINS[function] = handler
        return handler

    return declare


class Interpreter(Calls):
    """The whole interpreter."""

    def eval_ListComp(self, node: Any) -> Any:
        """A list comprehension."""
        result = self.own(RecordedList())
        self.comprehend(node.generators, 0, lambda: self.append(result, self.evaluate(node.elt), node), node)
        return result

    def eval_GeneratorExp(self, node: Any) -> Any:
        """A generator expression, evaluated where it is consumed: at once."""
        return self.eval_ListComp(node)

    def eval_SetComp(self, node: Any) -> Any:
        """A set comprehension."""
        result: set[Any] = self.own(set())
        self.comprehend(node.generators, 0, lambda: result.add(self.evaluate(node.elt)), node)
        return result

    def eval_DictComp(self, node: Any) -> Any:
        """A dict comprehension."""
        result: dict[Any, Any] = self.own({})

        def add() -> None:
            key = self.hashable(self.evaluate(node.key), node.key)
            result[key] = self.evaluate(node.value)

        self.comprehend(node.generators, 0, add, node)
        return result

    def comprehend(self, generators: list[Any], depth: int, action: Callable[[], None], node: Any) -> None:
        """Run ``action`` for every round of nested generators, as the loops they abbreviate."""
        names = _target_names(generators)
        locals_ = self.call.frame.locals
        hidden = {n: locals_.get(n, MISSING) for n in names} if depth == 0 else {}
        hook = _Hook(action)
        body: Any = hook
        for generator in reversed(generators):
            for test in reversed(generator.ifs):
                body = gast.copy_location(gast.If(test=test, body=[body], orelse=[]), generator.iter)
            loop = gast.For(
                target=generator.target, iter=generator.iter, body=[body], orelse=[], type_comment=None
            )
            body = gast.copy_location(loop, generator.iter)
        saved, self.call.pending = self.call.pending, []
        self.exec_For(body)
        self.call.pending = saved
        for name, value in hidden.items():
            if value is MISSING:
                locals_.pop(name, None)
            else:
                locals_[name] = value

    def exec__Hook(self, node: Any) -> None:
        """The innermost action of a comprehension."""
        node.action()


class _Hook(gast.Pass):
    """A statement that runs Python."""

    def __init__(self, action: Callable[[], None]):
        super().__init__()
        self.action = action
        self.lineno, self.col_offset, self.end_lineno, self.end_col_offset = 1, 0, 1, 0


def _target_names(generators: list[Any]) -> set[str]:
    return {n.id for g in generators for n in gast.walk(g.target) if isinstance(n, gast.Name)}


def _accumulate(machine: Interpreter, node: Any, generator: Any, start: Any, step: Any) -> Any:
    """``sum`` and the like over a generator expression: a loop that carries the result."""
    name = machine.fresh_name("result")
    names = machine.call.frame.locals
    names[name] = start

    def action() -> None:
        names[name] = step(names[name], machine.evaluate(generator.elt))

    machine.comprehend(generator.generators, 0, action, node)
    return names.pop(name)


def _add(machine: Interpreter, node: Any) -> Any:
    return lambda a, b: machine.binary(gast.Add, a, b, node)


@builtin(sum)
def _sum(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    if isinstance(args[0], gast.GeneratorExp):
        return _accumulate(machine, node, args[0], start, _add(machine, node))
    return _fold(machine, node, args[0], start, _add(machine, node))


def _fold(machine: Interpreter, node: Any, values: Any, start: Any, step: Any) -> Any:
    """A loop over any iterable, written as the generator expression over it."""
    name = machine.fresh_name("values")
    item = machine.fresh_name("item")
    names = machine.call.frame.locals
    names[name] = values
    read = gast.Name(id=name, ctx=gast.Load(), annotation=None, type_comment=None)
    target = gast.Name(id=item, ctx=gast.Store(), annotation=None, type_comment=None)
    element = gast.Name(id=item, ctx=gast.Load(), annotation=None, type_comment=None)
    for part in (read, target, element):
        gast.copy_location(part, node)
    clause = gast.comprehension(target=target, iter=read, ifs=[], is_async=0)
    generator = gast.copy_location(gast.GeneratorExp(elt=element, generators=[clause]), node)
    result = _accumulate(machine, node, generator, start, step)
    names.pop(name)
    return result


def _quantifier(is_all: bool) -> Callable[..., Any]:
    def quantify(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        def step(result: Any, item: Any) -> Any:
            item = machine.truth(item, node)
            if not isinstance(result, Array):
                return item if result == is_all else result
            return machine.short_circuit(result, lambda: item, node, is_and=is_all)

        source = args[0]
        if isinstance(source, gast.GeneratorExp):
            return _accumulate(machine, node, source, is_all, step)
        if isinstance(source, Array):
            return (np.all if is_all else np.any)(source)
        return _fold(machine, node, source, is_all, step)

    return quantify


BUILTINS[any], BUILTINS[all] = _quantifier(False), _quantifier(True)


def _extremum(name: str, reduce: Any, compare: str) -> Callable[..., Any]:
    def extremum(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        key = kwargs.get("key")
        if len(args) == 1 and isinstance(args[0], gast.GeneratorExp):
            args = [machine.evaluate(args[0])]
        items = args
        if len(args) == 1:
            rows = getattr(args[0], "rows", None)
            if isinstance(args[0], Array) and args[0].ndim == 1 and key is None:
                return reduce(args[0])
            if rows is not None:
                return reduce(rows.stacked())
            items = machine.known_items(args[0], node)
        if not items and "default" in kwargs:
            return kwargs["default"]
        best = items[0]
        weight = best if key is None else machine.call_value(key, [best], {}, node)
        for item in items[1:]:
            now = item if key is None else machine.call_value(key, [item], {}, node)
            if not isinstance(now, Array) and not isinstance(weight, Array):
                if getattr(operator, compare)(now, weight):
                    best, weight = item, now
                continue
            better = machine.truth(OPERATORS[compare](now, weight), node)
            if not isinstance(better, Array):
                best, weight = (item, now) if better else (best, weight)
                continue
            pair = machine.choose(
                better, lambda i=item, n=now: (i, n), lambda b=best, w=weight: (b, w), node
            )
            best, weight = pair
        return best

    extremum.__name__ = name
    return extremum


BUILTINS[max] = _extremum("max", np.max, "gt")
BUILTINS[min] = _extremum("min", np.min, "lt")


@builtin(len)
def _len(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (value,) = args
    if isinstance(value, Array):
        if not value.ndim:
            raise TypeError("len() of unsized object")
        return value.shape[0]
    if isinstance(value, Iterable):
        return value.length()
    rows = getattr(value, "rows", None)
    if rows is not None:
        return rows.length()
    if not isinstance(value, (list, tuple, dict, set, str, range, np.ndarray)) and hasattr(
        type(value), "__len__"
    ):
        return machine.call_value(type(value).__len__, [value], {}, node)
    return len(value)


@builtin(range)
def _range(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    values: list[Any] = []
    for value in args:
        if isinstance(value, Array):
            if value.dtype.kind not in "iu" or value.ndim:
                raise TypeError(f"'{value.type}' object cannot be interpreted as an integer")
            dim = machine.builder.dim_of(value)
            machine.builder.remember_size(value)
            values.append(dim if isinstance(dim, int) else value)
        else:
            values.append(operator.index(value))
    if not any(isinstance(v, Array) for v in values):
        return range(*values)
    if len(values) == 1:
        return Range(0, values[0])
    return Range(*values)


@builtin(enumerate)
def _enumerate(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    part = as_iterable(args[0])
    if not part.runtime():
        return [(i + start, part.element(i)) for i in range(part.length())]
    return Enumerated(part, start)


@builtin(zip)
def _zip(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = [as_iterable(a) for a in args]
    if not any(p.runtime() for p in parts):
        return [tuple(p.element(i) for p in parts) for i in range(min([p.length() for p in parts] or [0]))]
    zipped = Zipped(parts)
    if not zipped.runtime():
        length = zipped.length()
        if isinstance(length, Array):
            raise machine.builder.needs_known(length, "The length of a zip with a list")
        return [zipped.element(i) for i in range(length)]
    return zipped


@builtin(reversed)
def _reversed(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    part = as_iterable(args[0])
    if isinstance(args[0], range):
        return reversed(args[0]) and range(*_reversed_range(args[0]))
    if isinstance(part, Range) and part.step == 1:
        return Range(part.stop - 1, part.start - 1, -1)
    if not part.runtime():
        return list(reversed(part.items))  # type: ignore[attr-defined]
    return Reversed(part)


def _reversed_range(value: range) -> tuple[int, int, int]:
    last = value.start + (len(value) - 1) * value.step
    return last, value.start - value.step, -value.step


@builtin(map)
def _map(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, *sources = args
    parts = [as_iterable(s) for s in sources]
    call = lambda *values: machine.call_value(function, list(values), {}, node)  # noqa: E731
    if all(not p.runtime() for p in parts):
        count = min(p.length() for p in parts)
        return [call(*[p.element(i) for p in parts]) for i in range(count)]
    return Mapped(call, parts)


@builtin(filter)
def _filter(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, values = args
    kept = []
    for item in machine.known_items(values, node):
        keep = item if function is None else machine.call_value(function, [item], {}, node)
        keep = machine.truth(keep, node)
        if isinstance(keep, Array):
            raise machine.builder.needs_known(keep, "What filter keeps")
        if keep:
            kept.append(item)
    return machine.own(RecordedList(kept))


@builtin(sorted)
def _sorted(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    key, reverse = kwargs.get("key"), bool(kwargs.get("reverse", False))
    if isinstance(args[0], Array) and key is None:
        result = np.sort(args[0])
        return result[::-1] if reverse else result
    items = machine.known_items(args[0], node)
    keys = [i if key is None else machine.call_value(key, [i], {}, node) for i in items]
    if known(keys):
        order = sorted(range(len(items)), key=lambda i: keys[i], reverse=reverse)
        return machine.own(RecordedList(items[i] for i in order))
    if key is None and all(isinstance(i, Array) or np.isscalar(i) for i in items):
        ordered = np.sort(FUNCTIONS[np.array](items))
        ordered = ordered[::-1] if reverse else ordered
        return machine.own(RecordedList(ordered[i] for i in range(len(items))))
    raise NeedsKnownValue("The order of sorted depends on run-time values.", machine.origin(node))


def _sequence(kind: type) -> Callable[..., Any]:
    def make(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        items = machine.known_items(args[0], node) if args else []
        return machine.own(RecordedList(items)) if kind is list else kind(items)

    return make


BUILTINS[list], BUILTINS[tuple] = _sequence(list), _sequence(tuple)


@builtin(dict)
def _dict(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    source = args[0] if args else {}
    pairs = source.items() if isinstance(source, dict) else machine.known_items(source, node)
    return machine.own({**{machine.hashable(k, node): v for k, v in pairs}, **kwargs})


@builtin(set, frozenset)
def _set(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    items = machine.known_items(args[0], node) if args else []
    if not known(items):
        raise UnsupportedSyntax("A set of run-time values is not supported.", machine.origin(node))
    return machine.own(set(items))


@builtin(isinstance)
def _isinstance(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value, kinds = args
    if not isinstance(value, Array):
        return isinstance(value, kinds)
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(_is_instance(value, k) for k in kinds)


def _is_instance(value: Array, kind: type) -> bool:
    t = value.type
    if t.weak:
        sample: Any = {"b": True, "i": 1, "f": 1.0, "c": 1j}[t.dtype.kind]
    elif t.ndim or value.is_buffer:
        sample = np.empty(0, t.dtype)
    else:
        sample = t.dtype.type(0)
    return isinstance(sample, kind)


@builtin(type)
def _type(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (value,) = args
    if isinstance(value, Array):
        for kind in (np.ndarray, float, int, bool, complex, value.dtype.type):
            if _is_instance(value, kind):
                return kind
    return list if isinstance(value, RecordedList) else type(value)


@builtin(getattr)
def _getattr(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 3 and not _has(args[0], args[1]):
        return args[2]
    return machine.attribute(args[0], args[1], node)


@builtin(hasattr)
def _hasattr(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return _has(*args)


def _has(value: Any, name: str) -> bool:
    if isinstance(value, Array):
        return hasattr(np.ndarray, name) or name in METHODS or name in ATTRIBUTES
    return hasattr(value, name)


@builtin(setattr)
def _setattr(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    machine.set_attribute(args[0], args[1], args[2], node)


@builtin(callable)
def _callable(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return isinstance(args[0], Closure) or callable(args[0])


@builtin(print)
def _print(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    values: list[Any] = []
    parts = [display(a, values) for a in args]
    parts += [f"{k}={display(v, values)}" for k, v in kwargs.items() if k != "file"]
    machine.builder.effect(f"print({', '.join(parts)})", values)


@builtin(round)
def _round(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value, *digits = args
    if not isinstance(value, Array):
        return round(value, *digits)
    result = FUNCTIONS[np.round](value, *digits)
    return FUNCTIONS[int](result) if not digits or digits[0] is None else result


@builtin(abs)
def _abs(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value = machine.recorded(args[0])
    return OPERATORS["abs"](value) if isinstance(value, Array) else abs(value)


@builtin(pow)
def _pow(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 3:
        return pow(*args)
    return machine.binary(gast.Pow, args[0], args[1], node)


@builtin(divmod)
def _divmod(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return (machine.binary(gast.FloorDiv, *args, node), machine.binary(gast.Mod, *args, node))


@builtin(iter)
def _iter(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return iter(machine.known_items(args[0], node))


@builtin(functools.reduce)
def _reduce(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, values, *initial = args
    items = machine.known_items(values, node)
    result = initial[0] if initial else items.pop(0)
    for item in items:
        result = machine.call_value(function, [result, item], {}, node)
    return result


@builtin(functools.partial)
def _partial(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return functools.partial(*args, **kwargs) if callable(args[0]) else _bound(machine, args, kwargs, node)


def _bound(machine: Interpreter, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    function, *rest = args
    return functools.partial(
        lambda *more, **named: machine.call_value(function, [*rest, *more], {**kwargs, **named}, node)
    ).func


@builtin(functools.wraps)
def _wraps(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return _Identity()


class _Identity:
    """``functools.wraps(f)`` within interpreted code: the decorated function itself."""

    def __calque_trace__(self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        return args[0]


def _itertool(function: Any) -> Callable[..., Any]:
    def call(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        values = [a if isinstance(a, (int, str)) else machine.known_items(a, node) for a in args]
        return list(function(*values, **kwargs))

    return call


for _function in (
    itertools.product,
    itertools.combinations,
    itertools.permutations,
    itertools.chain,
    itertools.pairwise,
    itertools.islice,
    itertools.combinations_with_replacement,
):
    BUILTINS[_function] = _itertool(_function)


@builtin(itertools.accumulate)
def _accumulated(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    items = machine.known_items(args[0], node)
    function = args[1] if len(args) > 1 else None
    result = machine.own(RecordedList(items[:1]))
    for item in items[1:]:
        if function is None:
            now = machine.binary(gast.Add, result[-1], item, node)
        else:
            now = machine.call_value(function, [result[-1], item], {}, node)
        result.append(now)
    return result


@builtin(np.ndindex)
def _ndindex(machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    sizes = list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else list(args)
    if known(sizes):
        return list(np.ndindex(*sizes))
    return _Indices(sizes)


class _Indices(Iterable):
    """``np.ndindex`` with recorded sizes: positions counted in mixed radix."""

    def __init__(self, sizes: list[Any]):
        self.sizes = sizes

    def length(self) -> Any:
        """The product of the sizes."""
        return functools.reduce(operator.mul, self.sizes)

    def element(self, position: Any) -> Any:
        """A tuple of indices."""
        found = []
        for size in reversed(self.sizes[1:]):
            found.append(position % size)
            position = position // size
        return (position, *reversed(found))


for _name in ("add", "sub", "mul", "truediv", "neg", "lt", "le", "gt", "ge", "eq", "ne", "matmul", "pow"):

    def _operator(
        machine: Interpreter, node: Any, args: list[Any], kwargs: dict[str, Any], _name: str = _name
    ) -> Any:
        if known(args):
            return getattr(operator, _name)(*args)
        return OPERATORS[_name](*args)

    BUILTINS[getattr(operator, _name)] = _operator


