"""Generated source for reading: as text, as a saved module, and an account of what the sweep keeps."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np

from calque.runtime.spec import Spec, format_args
from calque.runtime.transformed import BoundTransformed, Transformed
from calque.transpiler import pipeline, tree
from calque.transpiler.types import ArrayType

STAGES = ("core", "numpy")


def _as_transformed(fn: Any) -> Transformed:
    if isinstance(fn, BoundTransformed):
        return fn._bound()
    return fn if isinstance(fn, Transformed) else Transformed("identity", fn)


def source(fn: Any, *args: Any, stage: str = "numpy") -> str:
    """The generated source of a transformed (or plain) function for arguments of these types.

    Arguments are arrays, numbers, pytrees of them, or specs such as ``calque.spec("f8[n,3]")``;
    ``stage`` is "numpy", or "core" for the intermediate program.

    >>> import calque
    >>> print(calque.source(calque.grad(lambda x: x * x), 1.0), end="")
    def function_grad(x):
        return 2.0 * x
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(STAGES)}, not {stage!r}")
    transformed = _as_transformed(fn)
    traced = transformed.program(*args).traced
    name = transformed.generated_name()
    if stage == "core":
        return pipeline.core_text(traced, name)
    return pipeline.function_text(traced, name)


def save(fn: Any, path: str | os.PathLike[str], *args: Any) -> None:
    """Write the generated function as a module that needs only NumPy.

    Its docstring says where it comes from and how to make it again (``calque verify`` does).
    """
    text = module_source(fn, *args)
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    partial.write_text(text)
    os.replace(partial, target)


def module_source(fn: Any, *args: Any) -> str:
    """The text that ``save`` writes."""
    transformed = _as_transformed(fn)
    traced = transformed.program(*args).traced
    return pipeline.module_text(
        traced, transformed.generated_name(), title(transformed), provenance(transformed, traced, args)
    )


_TITLES = {
    "grad": "Gradient of {f} with respect to {a}",
    "value_and_grad": "Value and gradient of {f} with respect to {a}",
    "jvp": "Value and tangent of {f}",
    "vjp": "Cotangents of the arguments of {f}",
    "identity": "{f}",
}


def title(transformed: Transformed) -> str:
    """``Gradient of f with respect to w, b.``"""
    inner = transformed.function
    name = getattr(inner, "__name__", type(inner).__name__)
    if isinstance(inner, Transformed) and inner.kind != "identity":
        name = title(inner).rstrip(".")
        name = "the " + name[0].lower() + name[1:]
    names = _differentiated(transformed)
    return _TITLES.get(transformed.kind, "{f}").format(f=name, a=", ".join(names)) + "."


def _differentiated(transformed: Transformed) -> list[str]:
    argnums = transformed.options.get("argnums", 0)
    try:
        parameters = list(inspect.signature(transformed.function).parameters)
    except (TypeError, ValueError):
        return ["its arguments"]
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    return [parameters[n] if -len(parameters) <= n < len(parameters) else f"argument {n}" for n in numbers]


def _plain(transformed: Any) -> Any:
    while isinstance(transformed, Transformed):
        transformed = transformed.function
    return transformed


def transform_text(transformed: Transformed) -> str:
    """``grad(f, argnums=(0, 1))``."""
    inner = transformed.function
    text = transform_text(inner) if isinstance(inner, Transformed) else "f"
    if transformed.kind == "identity":
        return text
    defaults = {"argnums": 0}
    shown = [f"{k}={v!r}" for k, v in transformed.options.items() if v != defaults.get(k, False)]
    return f"{transformed.kind}({', '.join([text, *shown])})"


def provenance(transformed: Transformed, traced: Any, args: tuple[Any, ...]) -> list[str]:
    """The lines of the header that say where the module comes from."""
    import calque

    plain = inspect.unwrap(_plain(transformed))
    code = getattr(plain, "__code__", None)
    if code is None:
        return [f"Written by calque {calque.__version__}.", _types_line(traced)]
    file = os.path.relpath(code.co_filename) if os.path.exists(code.co_filename) else code.co_filename
    specs = tree.tree_map(_spec_of, args)
    command = f"calque show {file}:{plain.__qualname__}"
    transform = transform_text(transformed)
    if transform != "f":
        command += f' --transform "{transform}"'
    command += f' --args "{format_args(specs)}"'
    return [
        f"From {file}, line {code.co_firstlineno}. Written by calque {calque.__version__}; regenerate with",
        f"    {command}",
        _types_line(traced),
    ]


def _spec_of(leaf: Any) -> Any:
    if isinstance(leaf, Spec) or isinstance(leaf, (str, bytes, bool)) or leaf is None:
        return leaf
    if isinstance(leaf, (float, int, complex)):
        return Spec(np.dtype(type(leaf)), (), weak=True)
    value = np.asarray(leaf)
    return Spec(value.dtype, tuple(value.shape))


def _types_line(traced: Any) -> str:
    found = []
    for parameter in traced.function.signature:
        tree_types = tree.tree_map(_type_text, parameter.tree)
        text = tree_types if isinstance(tree_types, str) else str(tree_types).replace("'", "")
        found.append(f"{parameter.name} {text}")
    return f"Types: {', '.join(found)}."


def _type_text(leaf: Any) -> str:
    kind = getattr(leaf, "type", None)
    return str(kind) if isinstance(kind, ArrayType) else repr(leaf)


def explain(fn: Any, *args: Any) -> str:
    """What the reverse phase saves, recomputes or has at hand, and why, by the user's line.

    >>> import calque
    >>> print(calque.explain(calque.grad(lambda x: x * x), 1.0))
    Nothing is saved: the reverse phase has all it needs at hand.
    """
    transformed = _as_transformed(fn)
    traced = transformed.program(*args).traced
    lines: list[str] = []
    seen: set[tuple[Any, ...]] = set()
    for decision in traced.function.decisions:
        origin = decision.value.origin
        where = f"{os.path.basename(origin.file)}:{origin.line}" if origin is not None else "?"
        what = decision.value.name or "a value"
        key = (where, what, decision.how, decision.why)
        if key in seen:
            continue
        seen.add(key)
        text = f"{where}: {what} is {decision.how}: {decision.why}"
        if origin is not None and origin.statement:
            text += f"\n    {origin.statement.splitlines()[0]}"
        lines.append(text)
    if not lines:
        return "Nothing is saved: the reverse phase has all it needs at hand."
    return "\n".join(lines)
