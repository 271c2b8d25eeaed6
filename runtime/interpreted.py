"""``grad``, ``jvp``, ``vjp`` and ``linearize`` where interpreted code calls them."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime import api, mapped, meshes, placing, trees
from calque.runtime.arguments import check_cotangent, check_tangents
from calque.runtime.transformed import TRACE, run
from calque.transpiler import transformations, transposition, tree
from calque.transpiler.builder import FUNCTIONS, Array
from calque.transpiler.devices import PartitionSpec
from calque.transpiler.frontend.library import builtin


def _options(args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = ("argnums", "has_aux", "holomorphic", "allow_int")
    options: dict[str, Any] = {
        "argnums": 0,
        "has_aux": False,
        "holomorphic": False,
        "allow_int": False,
    }
    options.update(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names:
            raise TypeError(f"grad() got an unexpected keyword argument '{key}'")
        options[key] = value
    options["argnums"] = api.as_argnums(options["argnums"])
    return options


class Inner:
    """A transformation of a function defined by interpreted code."""

    def __init__(self, kind: str, function: Any, options: dict[str, Any]):
        self.kind, self.function, self.options = kind, function, options

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        return TRACE[self.kind](self, machine, args, kwargs, node)

    def calque_children(self) -> list[Any]:
        """What a snapshot of the heap must follow."""
        return [self.function]


def _gradient(kind: str) -> Any:
    def make(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not args:
            return _Decorator(kind, _options([], kwargs))
        return Inner(kind, args[0], _options(args[1:], kwargs))

    return make


class _Decorator:
    """``grad(argnums=1)``, waiting for its function."""

    def __init__(self, kind: str, options: dict[str, Any]):
        self.kind, self.options = kind, options

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        return Inner(self.kind, args[0], self.options)


def _jacobian(kind: str) -> Any:
    def make(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        options = {k: v for k, v in _options(args[1:], kwargs).items() if k != "allow_int"}
        return Inner(kind, args[0], options) if args else _Decorator(kind, options)

    return make


for _kind in ("jacfwd", "jacrev", "hessian"):
    builtin(getattr(api, _kind))(_jacobian(_kind))


@builtin(api.hvp)
def _hvp(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    made = Inner("hvp", args[0], {})
    if len(args) + len(kwargs) == 1:
        return made
    primals, tangents = (*args[1:], *[kwargs[k] for k in ("primals", "tangents") if k in kwargs])
    return made.__calque_trace__(machine, [*primals, *tangents], {}, node)


@builtin(api.vmap)
def _vmap(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not args:
        return _Decorator("vmap", api.vmap_options(**kwargs))
    return Inner("vmap", args[0], api.vmap_options(*args[1:], **kwargs))


@builtin(mapped.pmap)
def _pmap(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return Inner("pmap", args[0], mapped.pmap_options(*args[1:], **kwargs))


@builtin(mapped.shard_map)
def _shard_map(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    options = mapped.shard_map_options(**kwargs)
    return Inner("shard_map", args[0], options) if args else _Decorator("shard_map", options)


def _known(function: Any) -> Any:
    """What makes specs and meshes: of known values, called as it is."""

    def call(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)

    return call


for _function in (PartitionSpec, meshes.make_mesh, meshes.Mesh, meshes.devices):
    builtin(_function)(_known(_function))


@builtin(placing.device_put)
def _device_put(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A copy; where it lies is not for generated code to say."""

    def copied(leaf: Any) -> Any:
        return FUNCTIONS[np.array](leaf) if isinstance(leaf, Array) else leaf

    return tree.tree_map(copied, tree.plain(args[0]))


@builtin(placing.device_get)
@builtin(placing.block_until_ready)
def _same(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return args[0]


def _of_trees(function: Any, called: bool) -> Any:
    """A function on pytrees; ``called`` if its first argument is a function of leaves."""

    def call(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        def interpreted(f: Any) -> Any:
            return lambda *values: machine.call_value(f, list(values), {}, node)

        given = [tree.plain(a) for a in (args[1:] if called else args)]
        if called:
            given.insert(0, interpreted(args[0]))
        named = {k: interpreted(v) if k == "is_leaf" and v else v for k, v in kwargs.items()}
        return function(*given, **named)

    return call


for _mapping in (trees.tree_map, trees.tree_reduce, trees.tree_map_with_path):
    builtin(_mapping)(_of_trees(_mapping, True))
for _reading in (
    *(trees.tree_flatten, trees.tree_unflatten, trees.tree_leaves, trees.tree_structure),
    *(trees.tree_all, trees.tree_transpose, trees.tree_flatten_with_path),
    *(trees.tree_leaves_with_path, trees.keystr),
):
    builtin(_reading)(_of_trees(_reading, False))


builtin(api.grad)(_gradient("grad"))
builtin(api.value_and_grad)(_gradient("value_and_grad"))


@builtin(api.jvp)
def _jvp(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, primals, tangents = (
        *args,
        *[kwargs[k] for k in ("primals", "tangents") if k in kwargs],
    )[:3]
    value, tangent, aux = transformations.jvp(
        machine, function, list(primals), list(tangents), node, kwargs.get("has_aux", False)
    )
    return (value, tangent, aux) if kwargs.get("has_aux") else (value, tangent)


@builtin(api.vjp)
def _vjp(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, *primals = args
    primals = list(map(transformations.copies, primals))
    result = machine.call_value(function, list(map(transformations.copies, primals)), {}, node)
    if kwargs.get("has_aux"):
        return result[0], _Pullback(function, primals, True), result[1]
    return result, _Pullback(function, primals, False)


class _Pullback:
    """vjp's second result."""

    def __init__(self, function: Any, primals: list[Any], has_aux: bool):
        self.function, self.primals, self.has_aux = function, primals, has_aux

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        return transformations.vjp(
            machine, self.function, self.primals, args[0], node, self.has_aux
        )[1]

    def calque_children(self) -> list[Any]:
        """What a snapshot of the heap must follow."""
        return [self.function, *self.primals]


@builtin(api.linear_transpose)
def _linear_transpose(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, *primals = args
    return _Transpose(function, primals)


class _Transpose:
    """linear_transpose's result."""

    def __init__(self, function: Any, primals: list[Any]):
        self.function, self.primals = function, primals

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        return transposition.linear_transpose(machine, self.function, self.primals, args[0], node)

    def calque_children(self) -> list[Any]:
        """What a snapshot of the heap must follow."""
        return [self.function, *self.primals]


@builtin(run)
def _run(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What the pullbacks and tangent maps of ``vjp`` and ``linearize`` call."""
    return args[0].__calque_trace__(machine, list(args[1:]), kwargs, node)


@builtin(check_cotangent)
@builtin(check_tangents)
def _checked(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Types are checked where the derivative is made."""


@builtin(api.linearize)
def _linearize(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, *primals = args
    primals = list(map(transformations.copies, primals))
    result = machine.call_value(function, list(map(transformations.copies, primals)), {}, node)
    return result, _Push(function, primals)


class _Push:
    """linearize's second result."""

    def __init__(self, function: Any, primals: list[Any]):
        self.function, self.primals = function, primals

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        return transformations.jvp(machine, self.function, self.primals, args, node)[1]

    def calque_children(self) -> list[Any]:
        """What a snapshot of the heap must follow."""
        return [self.function, *self.primals]


@builtin(api.jit)
def _jit(machine: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Within interpreted code all is compiled together, or nothing is."""
    return args[0] if args else _Same()


class _Same:
    """``jit(static_argnums=0)``, waiting for its function."""

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        return args[0]
