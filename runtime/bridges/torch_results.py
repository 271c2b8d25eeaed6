"""Dtypes and sizes of an operation's results, before it runs: for tensors without values."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.bridges.leaf_functions import result_of, spec_of_result
from calque.runtime.spec import Spec
from calque.transpiler.errors import NeedsKnownValue
from calque.transpiler.ir import pytrees

# Of an array its dtype and sizes, of a float or a complex number its class and (), of an int the
# value or the class.
Type = Any
Types = tuple[Type, ...]


def result_types(operation: Any, types: Types) -> list[Type]:
    """The types of the results for leaves of these types; sizes may be symbols of PyTorch's.

    Where a size is no expression in the symbols, they become numbers, for which the graph holds.
    """
    if all(map(_is_known, types)):
        return _with_sizes(operation, types)
    names: dict[str, Any] = {}
    found = _of_specs(operation, tuple(_named(each, names) for each in types))
    try:
        return [(dtype, tuple(_evaluated(d, names) for d in dims)) for dtype, dims in found]
    except NameError:
        return _with_sizes(operation, tuple(map(_as_numbers, types)))


def _is_known(each: Type) -> bool:
    if isinstance(each, tuple):
        return all(type(d) is int for d in each[1])
    return type(each) in (int, bool, type)


def _named(each: Type, names: dict[str, Any]) -> Type:
    """A type whose sizes are names; a size of 1 is known."""
    if not isinstance(each, tuple):
        return each if _is_known(each) else int
    dims: list[int | str] = []
    for size in each[1]:
        if type(size) is int and size == 1:
            dims.append(size)
        else:
            name = f"size_{len(names)}"
            names[name] = size
            dims.append(name)
    return each[0], tuple(dims)


def _as_numbers(each: Type) -> Type:
    if isinstance(each, tuple):
        return each[0], tuple(map(int, each[1]))
    return each if _is_known(each) else int(each)


def _with_sizes(operation: Any, types: Types) -> list[Type]:
    found = _of_specs(operation, types)
    for k, (_, dims) in enumerate(found):
        if not all(isinstance(d, int) for d in dims):
            raise NeedsKnownValue(
                f"{operation.name}: the size of result {k} depends on values, and torch.compile "
                "needs it before they are computed.",
                hint="pad the result to a size that follows from those of the arguments, or leave "
                "the call out of torch.compile (torch.compiler.disable)",
            )
    return found


def _evaluated(dim: Any, names: dict[str, Any]) -> Any:
    """A size, from its text and the sizes that stand in it; NameError for others."""
    return eval(dim, {"__builtins__": {}}, names) if isinstance(dim, str) else dim


def _of_specs(operation: Any, types: Types) -> list[Type]:
    return [(leaf.dtype, leaf.dims) for leaf in pytrees.flatten(result_tree(operation, types))[0]]


def result_tree(operation: Any, types: Types) -> Any:
    """The tree of the result, with a ``Spec`` for each leaf."""

    def make() -> Any:
        sized = all(map(_is_known, types))
        found = result_of(operation.function, tuple(map(_spec, types)), sized=sized)
        return pytrees.tree_map(spec_of_result, found)

    key = tuple((type(each), each) for each in types)  # True is no 1
    return operation.once(("result", key), make)


def _spec(each: Type) -> Any:
    if isinstance(each, tuple):
        return Spec(np.dtype(each[0]), each[1], isinstance(each[0], type))
    return Spec(np.dtype(each), (), True) if isinstance(each, type) else each
