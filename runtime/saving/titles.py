"""Titles: what a generated function is, as ``Gradient of f with respect to w, b.``"""

from __future__ import annotations

import inspect

from calque.runtime.transformed import Transformed

_TITLES = {
    "grad": "Gradient of {f} with respect to {a}",
    "value_and_grad": "Value and gradient of {f} with respect to {a}",
    "jvp": "Value and tangent of {f}",
    "vjp": "Cotangents of the arguments of {f}",
    "jit": "Kernels of {f}",
    "jacfwd": "Jacobian of {f} with respect to {a}, by forward mode",
    "jacrev": "Jacobian of {f} with respect to {a}, by reverse mode",
    "jacobian": "Jacobian of {f} with respect to {a}",
    "value_and_jacobian": "Value and Jacobian of {f} with respect to {a}",
    "hessian": "Hessian of {f} with respect to {a}",
    "value_and_hessian": "Value and Hessian of {f} with respect to {a}",
    "hessian_diag": "Diagonal of the Hessian of {f} with respect to {a}",
    "laplacian": "Laplacian of {f} with respect to {a}",
    "hvp": "Hessian of {f} times a vector",
    "vmap": "{f} for a batch of {b}",
    "pmap": "{f} on several devices",
    "shard_map": "{f} on a mesh of devices",
    "identity": "{f}",
}

_NESTED = {
    "grad": "Gradient with respect to {a} of {f}",
    "value_and_grad": "Value and gradient with respect to {a} of {f}",
}


def title(transformed: Transformed) -> str:
    """``Gradient of f with respect to w, b.``"""
    inner = transformed.function
    name = getattr(inner, "__name__", type(inner).__name__)
    text = _TITLES.get(transformed.kind, "{f}")
    if isinstance(inner, Transformed) and inner.kind != "identity":
        name = title(inner).rstrip(".")
        if name.startswith("The "):
            name = f"the {name.removeprefix('The ')}"
        elif not _TITLES.get(inner.kind, "{f}").startswith("{f}"):
            name = f"the {name[0].lower()}{name[1:]}"
        text = _NESTED.get(transformed.kind, text)
    if text.startswith("{f}"):
        name = name[0].upper() + name[1:] if name.startswith("the ") else name
    differentiated = ", ".join(_differentiated(transformed))
    return text.format(f=name, a=differentiated, b=_batched(transformed)) + "."


def _batched(transformed: Transformed) -> str:
    """The names of the arguments that have an axis of examples; "arguments" where all have one."""
    axes = getattr(transformed.options.get("axes"), "in_axes", 0)
    if not isinstance(axes, (tuple, list)):
        return "arguments"
    try:
        names = list(inspect.signature(transformed.function).parameters)
    except (TypeError, ValueError):
        names = []
    mapped = [k for k, axis in enumerate(axes) if axis is not None]
    if len(mapped) == len(axes) or len(names) < len(axes):
        return "arguments"
    return ", ".join(names[k] for k in mapped)


def _differentiated(transformed: Transformed) -> list[str]:
    argnums = transformed.options.get("argnums", 0)
    try:
        parameters = list(inspect.signature(transformed.function).parameters)
    except (TypeError, ValueError):
        return ["its arguments"]
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    return [
        n
        if isinstance(n, str)
        else parameters[n]
        if -len(parameters) <= n < len(parameters)
        else f"argument {n}"
        for n in numbers
    ]
