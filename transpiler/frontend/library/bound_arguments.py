"""``inspect.signature`` and the arguments that it binds, which decorators read and change."""

from __future__ import annotations

import inspect
from inspect import Parameter, Signature
from typing import Any

from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Closure, Kwargs, Machine


@builtin(inspect.signature)
def _signature(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, *rest = args
    if isinstance(function, Closure):
        return signature_of(function)
    return inspect.signature(function, *rest, **kwargs)


@builtin(inspect.getfullargspec)
def _argument_names(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (function,) = args
    if not isinstance(function, Closure):
        return inspect.getfullargspec(function)

    def given(**kwargs: Any) -> None:
        """A function with the signature of the one that is read here."""

    given.__signature__ = signature_of(function)  # type: ignore[attr-defined]
    return inspect.getfullargspec(given)


def signature_of(closure: Closure) -> Signature:
    """The signature of a function that the program defines."""
    spec = closure.node.args
    names = [a.id for a in [*getattr(spec, "posonlyargs", []), *spec.args]]
    first = len(names) - len(closure.defaults)
    parameters = []
    for place, name in enumerate(names):
        default = closure.defaults[place - first] if place >= first else Parameter.empty
        parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default))
    if spec.vararg:
        parameters.append(Parameter(spec.vararg.id, Parameter.VAR_POSITIONAL))
    for argument in spec.kwonlyargs:
        default = closure.kw_defaults.get(argument.id, Parameter.empty)
        parameters.append(Parameter(argument.id, Parameter.KEYWORD_ONLY, default=default))
    if spec.kwarg:
        parameters.append(Parameter(spec.kwarg.id, Parameter.VAR_KEYWORD))
    return Signature(parameters)


def _bound(machine: Machine, found: inspect.BoundArguments) -> inspect.BoundArguments:
    machine.own(found.arguments)
    for value in found.arguments.values():
        if isinstance(value, dict):  # those of **kwargs
            machine.own(value)
    return machine.own(found)


@builtin(Signature.bind)
def _bind(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    signature, *given = args
    return _bound(machine, signature.bind(*given, **kwargs))


@builtin(Signature.bind_partial)
def _bind_some(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    signature, *given = args
    return _bound(machine, signature.bind_partial(*given, **kwargs))


@builtin(inspect.BoundArguments.apply_defaults)
def _apply_defaults(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
    (bound,) = args
    machine.check_writable(bound, node, "`apply_defaults`")
    bound.apply_defaults()
    _bound(machine, bound)


@builtin(vars(inspect.BoundArguments)["args"].fget)
def _args(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return args[0].args


@builtin(vars(inspect.BoundArguments)["kwargs"].fget)
def _kwargs(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.own(args[0].kwargs)
