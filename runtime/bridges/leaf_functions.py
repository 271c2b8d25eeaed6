"""A user's function as one of leaves in a row, and its derivatives as functions of the same kind.

A framework's operation takes a list of arrays and gives a list of arrays. ``of_leaves`` gives the
user's function this form; the functions after it derive others from a function of this form, again
and again. Each writes a text, which calque reads as it reads the user's: little of it is left in
generated code. In a text, places and sizes are constants, and few values come from outside of it:
these are looked at again in every call.
"""

from __future__ import annotations

import builtins
import importlib.util
import itertools
import keyword
import linecache
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calque.runtime.api import jit, vmap
from calque.runtime.fitting import shown
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.more_derivatives import jacobian
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed, result_spec
from calque.runtime.trees import tree_leaves, tree_structure, tree_unflatten
from calque.transpiler.ir.treedefs import PyTreeDef

Function = Callable[..., Any]
Places = tuple[int, ...]

_count = itertools.count(1)  # of written texts
_NAMES = {  # that texts have in common: each is looked at once in a call
    "__name__": __name__,
    "np": np,
    "jvp": jvp,
    "vjp": vjp,
    "vmap": vmap,
    "jacobian": jacobian,
    "tree_leaves": tree_leaves,
    "tree_unflatten": tree_unflatten,
}


class Unshared(Transformed):
    """A transformed function that shares no programs with other functions of its code.

    Users' functions that one factory makes capture places and sizes. Among functions that share
    programs these are numbers that change, and calque warns of a program for each of them.
    """


class FixedArgument(NamedTuple):
    """An argument that is part of the function; equal if types and digits are: 1 is not True."""

    kind: type
    digits: str
    value: Any

    @classmethod
    def of(cls, value: Any, name: str | None = None, tree: str = "a tree") -> FixedArgument:
        """The argument. With ``name``, the function's, TypeError for a value without a hash.

        ``tree`` is the framework's word for one.
        """
        try:
            hash(value)
        except TypeError:
            if name is not None:
                raise TypeError(
                    f"{name}: an argument is {type(value).__name__}, {shown(value)}; it must be an "
                    f"array, a number, {tree} of these, or another value with a hash"
                ) from None
        return cls(type(value), repr(value), value)


@dataclass(frozen=True)
class ArgumentTree:
    """The structure of a call's arguments: for each leaf None, if it is an array, or what it is."""

    structure: PyTreeDef
    fixed: tuple[FixedArgument | None, ...]

    def are_flat(self) -> bool:
        """True if the arguments are arrays alone, one by one."""
        return not any(self.fixed) and self.structure == _flat_structure(len(self.fixed))


def _flat_structure(count: int) -> PyTreeDef:
    return tree_structure(((0,) * count, {}))


def transformed(function: Function, kernels: bool, **options: Any) -> Unshared:
    """The function as generated code, compiled by Numba if ``kernels`` and if there is Numba."""
    if not kernels or importlib.util.find_spec("numba") is None:
        return Unshared("identity", function)
    made: Any = jit(function, **options)
    return Unshared(made.kind, function, **made.options)


def result_of(function: Function, types: tuple[Any, ...], **sizes: bool) -> Any:
    """The result for arguments of these types, with a spec in the place of what is not known."""
    return result_spec(Unshared("identity", function), types, **sizes)


def spec_of_result(leaf: Any) -> Spec:
    """The type of a result, which may be a number that is known."""
    return leaf if isinstance(leaf, Spec) else Spec(np.asarray(leaf).dtype, np.shape(leaf))


def name_of(function: Function) -> str:
    """The function's name, or "function" where it has none."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "function"  # that of a lambda


def of_leaves(
    function: Function,
    arguments: ArgumentTree,
    copied: Sequence[bool],
    name: str | None = None,
    flat: bool = False,
) -> Function:
    """``function`` of the leaves in the tree of its arguments that are arrays, or may be.

    ``copied`` says which leaves are arrays, that it may store into or return; copies that are not
    needed are not made. The result is the function's own; with ``flat`` a tuple of its leaves, each
    of which has memory of its own.
    """
    leaves = _numbered("x", len(copied))
    given = [f"np.copy({x})" if each else x for x, each in zip(leaves, copied)]
    names: dict[str, Any] = {"function": function}
    if arguments.are_flat():
        body, call = [], f"function({', '.join(given)})"
    else:
        names["structure"] = arguments.structure
        rest, full = iter(given), []
        for place, each in enumerate(arguments.fixed):
            full.append(next(rest) if each is None else f"fixed_{place}")
            names |= {} if each is None else {f"fixed_{place}": each.value}
        body = [f"args, kwargs = tree_unflatten(structure, [{', '.join(full)}])"]
        call = "function(*args, **kwargs)"
    leaves_of_result = f"tuple(np.copy(y) for y in tree_leaves({call}))"
    body.append(f"return {leaves_of_result if flat else call}")
    return _defined(name or name_of(function), leaves, body, names)


def selected(function: Function, count: int, outs: Places) -> Function:
    """A tuple of some of the function's results; each has memory of its own."""
    leaves = _numbered("x", count)
    body = [f"results = tree_leaves(function({', '.join(leaves)}))"]
    body.append(f"return {_tuple(f'np.copy(results[{i}])' for i in outs)}")
    return _defined(function.__name__, leaves, body, {"function": function})


def tangent(function: Function, count: int, wanted: Places, outs: Places) -> Function:
    """``(*leaves, *tangents of the wanted ones) -> tangents of the results outs``."""
    dots = _numbered("dot", len(wanted))
    moving = _tuple(f"x{i}" for i in wanted)
    use = f"_, made = jvp(chosen, {moving}, {_tuple(dots)})"
    return _derivative("jvp", function, (count, wanted, outs), dots, [use])


def cotangent(function: Function, count: int, wanted: Places, outs: Places) -> Function:
    """``(*leaves, *cotangents of the results outs) -> cotangents of the wanted leaves``."""
    bars = _numbered("bar", len(outs))
    use = [
        f"_, pull = vjp(chosen, {', '.join(f'x{i}' for i in wanted)})",
        f"made = pull({_tuple(bars)})",
    ]
    return _derivative("vjp", function, (count, wanted, outs), bars, use)


def with_gradient(function: Function, count: int, wanted: Places, out: int) -> Function:
    """All results, then the gradient of one of them, a number, by the wanted leaves."""
    leaves, moving = _numbered("x", count), ", ".join(f"x{i}" for i in wanted)
    body = [
        f"def chosen({moving}):",
        f"    results = tree_leaves(function({', '.join(leaves)}))",
        f"    return results[{out}], tuple(results)",
        "",
        f"_, pull, results = vjp(chosen, {moving}, has_aux=True)",
        "return tuple(np.copy(y) for y in (*results, *pull(1.0)))",
    ]
    return _defined(f"{function.__name__}_grad", leaves, body, {"function": function})


def jacobian_matrices(
    function: Function,
    count: int,
    wanted: Places,
    outs: Places,
    axes: Sequence[Places],
    shapes: Sequence[Places],
) -> Function:
    """The derivative of each of the results ``outs`` by each of the wanted leaves, as a matrix.

    For each of these, ``axes`` is the order in which the matrix has the derivative's axes.
    """
    pairs = itertools.product(range(len(outs)), range(len(wanted)))
    blocks = [
        f"np.reshape(np.transpose(rows[{i}][{j}], {order}), {shape})"
        for (i, j), order, shape in zip(pairs, axes, shapes, strict=True)
    ]
    places = tuple(range(len(wanted)))
    moving = ", ".join(f"x{i}" for i in wanted)
    use = [f"rows = jacobian(chosen, argnums={places})({moving})", f"made = {_tuple(blocks)}"]
    return _derivative("jacobian", function, (count, wanted, outs), [], use)


def batched(
    function: Function, count: int, axes: tuple[int | None, ...], size: int | None = None
) -> Function:
    """The function of all examples at once, along the leaves' ``axes``; None: the same for all."""
    leaves = _numbered("x", count)
    many = f"vmap(function, in_axes={axes}, axis_size={size})"
    body = [f"return {many}({', '.join(leaves)})"]
    return _defined(f"{function.__name__}_vmap", leaves, body, {"function": function})


def _derivative(
    kind: str,
    function: Function,
    chosen: tuple[int, Places, Places],
    more: list[str],
    use: list[str],
) -> Function:
    """A function that differentiates ``chosen``: some results, as a function of some leaves.

    It takes ``more`` after the leaves, and returns what ``use`` names ``made``.
    """
    count, wanted, outs = chosen
    leaves = _numbered("x", count)
    body = [
        f"def chosen({', '.join(f'x{i}' for i in wanted)}):",
        f"    results = tree_leaves(function({', '.join(leaves)}))",
        f"    return {_tuple(f'results[{i}]' for i in outs)}",
        "",
        *use,
        "return tuple(np.copy(each) for each in made)",
    ]
    name = f"{function.__name__}_{kind}"
    return _defined(name, [*leaves, *more], body, {"function": function})


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{place}" for place in range(count)]


def _tuple(parts: Any) -> str:
    """The text of a tuple of these."""
    return f"({''.join(f'{part}, ' for part in parts)})"


def _defined(
    name: str, parameters: Sequence[str], body: Sequence[str], names: dict[str, Any]
) -> Function:
    """The function of this body; its source is where ``inspect`` looks for it, while it lives."""
    if name in {*names, *_NAMES, *dir(builtins), *keyword.kwlist}:
        name = f"{name}_"
    inner = [f"def {name}({', '.join(parameters)}):", *[f"    {line}" for line in body]]
    text = "\n    ".join([f"def make({', '.join(names)}):", *inner, f"return {name}"]) + "\n"
    file = f"<calque bridge {next(_count)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made: dict[str, Any] = {}
    exec(compile(text, file, "exec"), _NAMES, made)
    found: Function = made["make"](**names)
    weakref.finalize(found.__code__, linecache.cache.pop, file, None).atexit = False
    return found
