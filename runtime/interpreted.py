"""``grad``, ``jvp``, ``vjp`` and ``linearize`` where interpreted code calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calque.runtime import api, linear_maps
from calque.runtime.call.arguments import check_cotangent, check_tangents
from calque.runtime.inner import InnerTransformation, derivative, made, waiting
from calque.runtime.options import UNSAID, checked, given
from calque.runtime.parameters import check_reach
from calque.runtime.transformed import Transformed, run
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.late import Late
from calque.transpiler.transformations import derivatives, lent_cells, transpose

if TYPE_CHECKING:
    from calque.runtime.saving import reading
else:
    reading = Late("calque.runtime.saving.reading")

for _public in (api.grad, api.value_and_grad, api.jacfwd, api.jacrev, api.hessian):
    builtin(_public)(derivative(_public))


@builtin(api.vmap)
def _vmap(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    options = given(api.vmap, args, kwargs)
    return made("vmap", options.pop("fun"), api.vmap_options(**options))


@builtin(linear_maps.hvp)
def _hvp(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, primals, tangents = given(linear_maps.hvp, args, kwargs).values()
    product = made("hvp", function, {})
    if primals is None and tangents is None:
        return product
    both = linear_maps.matched("hvp", listed(primals), listed(tangents))
    return product.__calque_trace__(machine, list(both), {}, node)


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
    primals, result = lent_cells.called_on_copies(machine, function, primals, node)
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
    primals, result = lent_cells.called_on_copies(machine, function, primals, node)
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
    check_reach("jit", function, options)
    return function


class _Same:
    """``jit(static_argnums=0)``, waiting for its function."""

    def __init__(self, options: dict[str, Any]):
        self.options = options

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        (function,) = given(waiting, args, kwargs).values()
        return _unjitted(function, self.options)


def _source(fn: Any, *args: Any, stage: str | None = None) -> str:
    return reading.source(fn, *args, stage=stage)


Transformed.source_of = staticmethod(_source)
