"""``grad``, ``jvp``, ``vjp`` and ``linearize`` where interpreted code calls them."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime import api, linear_maps, meshes, more_derivatives, trees
from calque.runtime.call.arguments import check_cotangent, check_tangents
from calque.runtime.devices import placing, pmapped, sharded
from calque.runtime.inlining import TRACE
from calque.runtime.options import UNSAID, checked, given
from calque.runtime.transformed import OTHER_ARGUMENTS, run
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.transformations import derivatives, transpose
from calque.transpiler.transformations.mesh_programs import PartitionSpec


class InnerTransformation:
    """A transformation of a function defined by interpreted code."""

    def __init__(self, kind: str, function: Any, options: dict[str, Any]):
        self.kind, self.function, self.options = kind, function, options

    def calque_same_arguments(self) -> Any:
        """The function with the same arguments as this one; None if they differ."""
        return None if self.kind in OTHER_ARGUMENTS else self.function

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return TRACE[self.kind](self, machine, args, kwargs, node)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function]


class _Decorator:
    """``grad(argnums=1)``, waiting for its function."""

    def __init__(self, kind: str, options: dict[str, Any]):
        self.kind, self.options = kind, options

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        (function,) = given(_waiting, args, kwargs).values()
        return _made(self.kind, function, self.options)


def _waiting(fun: Any) -> Any:
    """The signature of a decorator, by which its argument is bound."""


def _made(kind: str, function: Any, options: dict[str, Any]) -> Any:
    if function is UNSAID:
        return _Decorator(kind, options)
    checked(kind, fun=function)
    api.check_reach(kind, function, options)
    return InnerTransformation(kind, function, options)


def _maker(public: Any) -> Any:
    kind = public.__name__

    def make(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        options = given(public, args, kwargs)
        function = options.pop("fun")
        argnums = api.by_argument(kind, options.pop("argnums"), options.pop("argnames"))
        return _made(kind, function, {**checked(kind, **options), "argnums": argnums})

    return make


for _public in (
    *(api.grad, api.value_and_grad, api.jacfwd, api.jacrev, api.hessian),
    *(more_derivatives.jacobian, more_derivatives.value_and_jacobian),
    *(more_derivatives.value_and_hessian, more_derivatives.hessian_diag),
    more_derivatives.laplacian,
):
    builtin(_public)(_maker(_public))


@builtin(more_derivatives.jet)
def _jet(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, primals, series = given(more_derivatives.jet, args, kwargs).values()
    checked("jet", fun=function)
    terms = listed(series)
    terms = [listed(t) for t in terms] if isinstance(terms, (tuple, list)) else terms
    flat, count, order = more_derivatives.curve(listed(primals), terms)
    made = InnerTransformation("jet", function, {"count": count, "order": order})
    return made.__calque_trace__(machine, flat, {}, node)


@builtin(api.vmap)
def _vmap(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    options = given(api.vmap, args, kwargs)
    return _made("vmap", options.pop("fun"), api.vmap_options(**options))


@builtin(pmapped.pmap)
def _pmap(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    options = given(pmapped.pmap, args, kwargs)
    function = options.pop("fun")
    return _made("pmap", function, pmapped.pmap_options(**options))


@builtin(sharded.shard_map)
def _shard_map(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    options = given(sharded.shard_map, args, kwargs)
    function = options.pop("f")
    return _made("shard_map", function, sharded.shard_map_options(**options))


def _known(function: Any) -> Any:
    """Return the implementation of a function of known values, such as specs: called as it is."""

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        return function(*args, **kwargs)

    return call


for _function in (PartitionSpec, meshes.make_mesh, meshes.Mesh, meshes.devices):
    builtin(_function)(_known(_function))


@builtin(placing.device_put)
def _device_put(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    """A copy; where it lies is not for generated code to say."""

    def copied(leaf: Any) -> Any:
        return FUNCTIONS[np.array](leaf) if isinstance(leaf, Array) else leaf

    return pytrees.tree_map(copied, pytrees.plain(args[0]))


@builtin(placing.device_get)
@builtin(placing.block_until_ready)
def _same(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return args[0]


def _of_trees(function: Any, called: bool) -> Any:
    """A function on pytrees; ``called`` if its first argument is a function of leaves."""

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        def interpreted(f: Any) -> Any:
            return lambda *values: machine.call_value(f, list(values), {}, node)

        trees_given = [pytrees.plain(a) for a in (args[1:] if called else args)]
        if called and args:
            checked(function.__name__, f=args[0])
            trees_given.insert(0, interpreted(args[0]))
        named = {k: interpreted(v) if k == "is_leaf" and v else v for k, v in kwargs.items()}
        return function(*trees_given, **named)

    return call


for _mapping in (trees.tree_map, trees.tree_reduce, trees.tree_map_with_path):
    builtin(_mapping)(_of_trees(_mapping, True))
for _reading in (
    *(trees.tree_flatten, trees.tree_unflatten, trees.tree_leaves, trees.tree_structure),
    *(trees.tree_all, trees.tree_transpose, trees.tree_flatten_with_path),
    *(trees.tree_leaves_with_path, trees.keystr),
):
    builtin(_reading)(_of_trees(_reading, False))


@builtin(linear_maps.hvp)
def _hvp(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, primals, tangents = given(linear_maps.hvp, args, kwargs).values()
    made = _made("hvp", function, {})
    if primals is None and tangents is None:
        return made
    both = linear_maps.matched("hvp", listed(primals), listed(tangents))
    return made.__calque_trace__(machine, list(both), {}, node)


@builtin(linear_maps.jvp)
def _jvp(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, primals, tangents, has_aux = given(linear_maps.jvp, args, kwargs).values()
    has_aux = checked("jvp", fun=function, has_aux=has_aux)["has_aux"]
    if primals is None and tangents is None:
        return InnerTransformation("jvp", function, {"has_aux": has_aux})
    both = linear_maps.matched("jvp", listed(primals), listed(tangents))
    half = len(both) // 2
    value, tangent, aux = derivatives.jvp(
        machine, function, both[:half], both[half:], node, has_aux
    )
    return (value, tangent, aux) if has_aux else (value, tangent)


@builtin(linear_maps.vjp)
def _vjp(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, primals, has_aux = _at_primals(linear_maps.vjp, args, kwargs)
    if not primals:
        return InnerTransformation("vjp", function, {"has_aux": has_aux})
    primals, result = derivatives.called_on_copies(machine, function, primals, node)
    if has_aux:
        value, aux = _pair(result, "vjp")
        return value, _Pullback(function, primals, True), aux
    return result, _Pullback(function, primals, False)


def _at_primals(public: Any, args: Args, kwargs: Kwargs) -> tuple[Any, Any, bool]:
    """The function, the primals and ``has_aux`` of a call of ``vjp`` or ``linearize``."""
    found = given(public, args, kwargs)
    options = checked(public.__name__, fun=found["fun"], has_aux=found["has_aux"])
    return options["fun"], found.get("primals", ()), options["has_aux"]


def _pair(result: Any, name: str) -> Any:
    result = listed(result)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(
            f"{name}: has_aux=True: the function must return a pair (value, aux), "
            f"and returned a {type(result).__name__}"
        )
    return result


class _Pullback:
    """vjp's second result."""

    def __init__(self, function: Any, primals: list[Any], has_aux: bool):
        self.function, self.primals, self.has_aux = function, primals, has_aux

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return derivatives.vjp(machine, self.function, self.primals, args[0], node, self.has_aux)[1]

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function, *self.primals]


@builtin(linear_maps.linear_transpose)
def _linear_transpose(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    found = given(linear_maps.linear_transpose, args, kwargs)
    checked("linear_transpose", fun=found["fun"])
    return _Transpose(found["fun"], list(found.get("primals", ())))


class _Transpose:
    """linear_transpose's result."""

    def __init__(self, function: Any, primals: list[Any]):
        self.function, self.primals = function, primals

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return transpose.linear_transpose(machine, self.function, self.primals, args[0], node)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function, *self.primals]


@builtin(run)
def _run(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    """Call a pullback of ``vjp``, or a tangent map of ``linearize``, in interpreted code."""
    return args[0].__calque_trace__(machine, list(args[1:]), kwargs, node)


@builtin(linear_maps.pulled)
def _pulled(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    transformed, _, kept, cotangent = args
    return transformed.__calque_trace__(machine, [*kept, cotangent], {}, node)


@builtin(check_cotangent)
@builtin(check_tangents)
def _checked(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
    """Types are checked where the derivative is made."""


@builtin(linear_maps.linearize)
def _linearize(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, primals, has_aux = _at_primals(linear_maps.linearize, args, kwargs)
    if not primals:
        return InnerTransformation("jvp", function, {"has_aux": has_aux})
    primals, result = derivatives.called_on_copies(machine, function, primals, node)
    if has_aux:
        value, aux = _pair(result, "linearize")
        return value, _Push(function, primals, True), aux
    return result, _Push(function, primals, False)


class _Push:
    """linearize's second result."""

    def __init__(self, function: Any, primals: list[Any], has_aux: bool):
        self.function, self.primals, self.has_aux = function, primals, has_aux

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return derivatives.jvp(machine, self.function, self.primals, args, node, self.has_aux)[1]

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function, *self.primals]


@builtin(api.jit)
def _jit(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    """Interpret ``jit(f)`` as f: within interpreted code all is compiled together, or nothing."""
    options = given(api.jit, args, kwargs)
    function = options.pop("fun")
    options.pop("device")  # the arrays of the whole decide
    options = checked("jit", **options)
    return _unjitted(function, options)


@builtin(api.parallel)
def _parallel(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    options = given(api.parallel, args, kwargs)
    function = options.pop("fun")
    return _unjitted(function, checked("parallel", **options))


def _unjitted(function: Any, options: dict[str, Any]) -> Any:
    if function is UNSAID:
        return _Same(options)
    checked("jit", fun=function)
    api.check_reach("jit", function, options)
    return function


class _Same:
    """``jit(static_argnums=0)``, waiting for its function."""

    def __init__(self, options: dict[str, Any]):
        self.options = options

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        (function,) = given(_waiting, args, kwargs).values()
        return _unjitted(function, self.options)
