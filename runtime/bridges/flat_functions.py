"""A user's function as one of flat arrays, and its derivatives as functions of the same kind.

A framework's operation takes a list of arrays and gives a list of arrays. ``flat`` gives the user's
function this form, and ``derivative`` differentiates a function of this form, again and again.
calque interprets what they write as it does any function: none of it is left in generated code.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import itertools
import keyword
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calque.runtime.api import jit
from calque.runtime.bridges import by_value
from calque.runtime.fitting import shown
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed, result_spec
from calque.runtime.trees import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from calque.transpiler.ir.treedefs import PyTreeDef

_count = itertools.count(1)  # of written texts


class UserFunction:
    """A user's function, compared by identity; pickled by name where it has one."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def _identity(self) -> tuple[int, ...]:
        """The key that tells functions apart; a method is made anew each time it is asked for."""
        owner = getattr(self.function, "__self__", None)
        own = getattr(self.function, "__func__", None)
        return (id(self.function),) if own is None else (id(owner), id(own))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserFunction) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return self.__name__

    def __reduce__(self) -> Any:
        return by_value.reduced(self, self.function)


class FixedArgument(NamedTuple):
    """An argument that is part of the function; equal if types and digits are: 1 is not True."""

    kind: type
    digits: str
    value: Any


def _fixed(value: Any) -> FixedArgument:
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"wrap: an argument is {shown(value)}; it must be an array, a variable, a number, or "
            "another value with a hash"
        ) from None
    return FixedArgument(type(value), repr(value), value)


@dataclass(frozen=True)
class ArgumentTree:
    """The structure of a call's arguments: for each leaf None, if it is an array, or what it is."""

    structure: PyTreeDef
    fixed: tuple[FixedArgument | None, ...]

    @classmethod
    def of(
        cls, given: tuple[tuple[Any, ...], dict[str, Any]], is_array: Callable[[Any], bool]
    ) -> tuple[ArgumentTree, list[Any]]:
        """The structure of ``(args, kwargs)``, and the arrays in it."""
        leaves, structure = tree_flatten(given)
        arrays = [x for x in leaves if is_array(x)]
        kinds = [None if is_array(x) else _fixed(x) for x in leaves]
        return cls(structure, tuple(kinds)), arrays

    def are_flat(self) -> bool:
        """True if the arguments are arrays alone, one by one."""
        return set(self.fixed) == {None} and self.structure == _flat_structure(len(self.fixed))

    def filled(self, arrays: Sequence[Any]) -> Any:
        """``(args, kwargs)`` with these arrays."""
        rest = list(arrays)[::-1]
        leaves = [rest.pop() if each is None else each.value for each in self.fixed]
        return tree_unflatten(self.structure, leaves)


def _flat_structure(count: int) -> PyTreeDef:
    return tree_structure(((0,) * count, {}))


class DerivativeStep(NamedTuple):
    """A derivative: its kind, by which arguments, and of which results."""

    kind: str  # "vjp" or "jvp"
    wrt: tuple[int, ...]
    of: tuple[int, ...]
    inputs: int  # arguments of the function that is differentiated


def flat(function: Callable[..., Any], arguments: ArgumentTree) -> Callable[..., Any]:
    """The function of arrays that gives a tuple of arrays, none of them an argument's memory.

    Its text is written, as are those of derivatives: each value that calque finds outside of a text
    is looked at again in every call, and these have few.
    """
    arrays = _numbered("x", arguments.fixed.count(None))
    copies = [f"np.copy({x})" for x in arrays]
    names = {"function": function, "tree_leaves": tree_leaves, "np": np}
    call = f"result = function({', '.join(copies)})"
    if not arguments.are_flat():
        names |= {"filled": tree_unflatten, "structure": arguments.structure}
        leaves = []
        for place, each in enumerate(arguments.fixed):
            leaves.append(copies.pop(0) if each is None else f"fixed_{place}")
            names |= {} if each is None else {f"fixed_{place}": each.value}
        call = f"""args, kwargs = filled(structure, [{", ".join(leaves)}])
    result = function(*args, **kwargs)"""
    name = _free_name(function, names)
    text = f"""def {name}({", ".join(arrays)}):
    {call}
    return tuple(np.copy(y) for y in tree_leaves(result))
"""
    return _defined(name, text, names)


def derivative(function: Callable[..., Any], step: DerivativeStep) -> Callable[..., Any]:
    """The derivative of a function of flat arrays, which is another.

    A pullback takes arrays and cotangents of the chosen results, and gives cotangents of the chosen
    arguments. A pushforward takes arrays and tangents of the chosen arguments, and gives tangents
    of the chosen results.
    """
    inputs = _numbered("x", step.inputs)
    moving = [inputs[place] for place in step.wrt]
    back = step.kind == "vjp"
    more = _numbered("dot", len(step.of if back else step.wrt))
    if back:
        use = f"_, pull = vjp(chosen, {', '.join(moving)})\n    made = pull(({', '.join(more)},))"
    else:
        use = f"_, made = jvp(chosen, ({', '.join(moving)},), ({', '.join(more)},))"
    name = f"{function.__name__}_{step.kind}"
    text = f"""def {name}({", ".join(inputs + more)}):
    def chosen({", ".join(moving)}):
        results = function({", ".join(inputs)})
        return {", ".join(f"results[{place}]" for place in step.of)},

    {use}
    return tuple(np.copy(dot) for dot in made)
"""
    return _defined(name, text, {"function": function, "vjp": vjp, "jvp": jvp, "np": np})


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{place}" for place in range(count)]


def _free_name(function: Callable[..., Any], names: dict[str, Any]) -> str:
    """The function's name, unless it is none, or another's in the text that is written."""
    name: str = getattr(function, "__name__", type(function).__name__)
    if not name.isidentifier():  # that of a lambda
        name = "function"
    taken = {*names, *dir(builtins), *keyword.kwlist}
    return f"{name}_" if name in taken else name


def _defined(name: str, text: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function that a text defines; its source is where ``inspect`` looks for it."""
    file = f"<calque bridge {next(_count)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"__name__": __name__, **names}
    exec(compile(text, file, "exec"), namespace)
    found: Callable[..., Any] = namespace[name]
    return found


class OperationKind(NamedTuple):
    """All that decides which code is generated for an operation."""

    function: UserFunction
    arguments: ArgumentTree
    steps: tuple[DerivativeStep, ...]
    jit: bool
    parallel: bool


@functools.lru_cache(maxsize=512)
def computed(kind: OperationKind) -> Transformed:
    """The function of flat arrays that an operation runs."""
    found = flat(kind.function.function, kind.arguments)
    for step in kind.steps:
        found = derivative(found, step)
    compiled = kind.jit and importlib.util.find_spec("numba") is not None
    if not compiled:
        return Transformed("identity", found)
    made: Any = jit(found, parallel="auto" if kind.parallel else False)
    assert isinstance(made, Transformed)
    return made


@functools.lru_cache(maxsize=512)
def results(
    kind: OperationKind, types: tuple[Spec, ...]
) -> tuple[tuple[Spec, ...], PyTreeDef | None]:
    """The types of an operation's results, and the structure of the user's result."""
    structure = None
    if not kind.steps:  # a list whose length the data decide is refused here
        whole = result_spec(_applied(kind.function.function), kind.arguments.filled(types))
        structure = tree_structure(whole)
    elif kind.steps[-1].kind == "vjp":  # a cotangent has the shape of its argument
        return tuple(types[place] for place in kind.steps[-1].wrt), None
    found = result_spec(computed(kind).function, types, captured=True)
    return tuple(map(_type_of, found)), structure


def _applied(function: Callable[..., Any]) -> Callable[..., Any]:
    def applied(args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return applied


def _type_of(result: Any) -> Spec:
    if isinstance(result, Spec):
        return result
    known = np.asarray(result)
    return Spec(known.dtype, known.shape)
