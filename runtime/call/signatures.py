"""The parameters of a transformed function, and the leaves of a call that are static."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from calque.transpiler.ir import pytrees

_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD


def extended_signature(kind: str, function: Any) -> inspect.Signature | None:
    """The function's signature; with tangents for jvp, with the cotangent for vjp."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    if kind == "linear_transpose":
        return inspect.Signature([inspect.Parameter("return_bar", _PLAIN)])
    if kind == "jet":
        return None
    if kind not in ("jvp", "vjp", "hvp"):
        return signature
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, _PLAIN)]
    if len(positional) != len(signature.parameters):
        return None
    plain = [p.replace(default=p.empty, annotation=p.empty) for p in positional]
    wishes = [f"{p.name}_dot" for p in plain] if kind in ("jvp", "hvp") else ["return_bar"]
    taken = {p.name for p in plain}
    extra = []
    for name in wishes:
        while name in taken:
            name += "_next"
        taken.add(name)
        extra.append(inspect.Parameter(name, plain[-1].kind if plain else _PLAIN))
    return inspect.Signature([*plain, *extra])


def static_leaves(
    function: Any, options: dict[str, Any]
) -> Callable[[tuple[Any, ...], dict[str, Any]], frozenset[int]] | None:
    """A function that gives the leaves of a call's static arguments; None where none is static."""
    numbers, names = options.get("static_argnums", ()), options.get("static_argnames", ())
    if not numbers and not names:
        return None
    parameters = list(inspect.signature(function).parameters)
    by_name = {*names, *(parameters[n] for n in numbers if -len(parameters) <= n < len(parameters))}
    positions = {parameters.index(n) for n in by_name if n in parameters}

    def leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[int]:
        places = [k in positions for k in range(len(args))]
        flags = [
            pytrees.tree_map(lambda _, own=own: own, a) for a, own in zip(args, places, strict=True)
        ]
        named = {k: pytrees.tree_map(lambda _, own=k in by_name: own, v) for k, v in kwargs.items()}
        found, _ = pytrees.flatten((tuple(flags), named))
        return frozenset(i for i, own in enumerate(found) if own)

    return leaves
