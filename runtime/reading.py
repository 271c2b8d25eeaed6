"""Generated source for reading: as text, as a module, and what the sweep keeps."""

from __future__ import annotations

import inspect
import operator
import os
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from calque.runtime import support
from calque.runtime.dispatch import letters
from calque.runtime.keys import dim_name
from calque.runtime.loading import Program
from calque.runtime.spec import Spec, format_args
from calque.runtime.transformed import BoundTransformed, Transformed
from calque.runtime.version import __version__
from calque.runtime.writing import write_whole
from calque.transpiler import pipeline, tree
from calque.transpiler.batching import Axes
from calque.transpiler.core import Var
from calque.transpiler.errors import Origin, UnsupportedFunction
from calque.transpiler.frontend.trace import Traced, map_leaves
from calque.transpiler.placements import CALL, KERNEL, LOOP, placements
from calque.transpiler.types import DimLike, substitute_dim, symbol

STAGES = ("core", "numpy", "kernels")


def _as_transformed(fn: Any) -> Transformed:
    if isinstance(fn, BoundTransformed):
        return fn.unbound()
    return fn if isinstance(fn, Transformed) else Transformed("identity", fn)


def _at_stage(fn: Any, stage: str | None) -> Transformed:
    """A function as ``jit`` runs it for "kernels", without ``jit`` for "numpy", else as it is."""
    if stage is not None and stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(STAGES)}, not {stage!r}")
    transformed = _as_transformed(fn)
    if stage == "kernels" and not transformed.compiled:
        inner = transformed.function if transformed.kind == "identity" else transformed
        return Transformed("jit", inner)
    return _without_jit(transformed) if stage == "numpy" else transformed


def _without_jit(transformed: Transformed) -> Transformed:
    """The same composition, uncompiled."""
    if not transformed.compiled:
        return transformed
    inner = transformed.function
    bare = _without_jit(_as_transformed(inner))
    if transformed.kind == "jit":
        return bare
    function = bare.function if bare.kind == "identity" else bare
    return Transformed(transformed.kind, function, **transformed.options)


def source(fn: Any, *args: Any, stage: str | None = None) -> str:
    """The generated source of a transformed (or plain) function for arguments of these types.

    Arguments are arrays, numbers, pytrees of them, or specs such as ``calque.spec("f8[n,3]")``.
    ``stage`` is "numpy" for NumPy source, "kernels" for what ``jit`` runs, or "core" for the
    intermediate program; without it, the function as it runs: kernels where it is jitted.

    >>> import calque
    >>> def cube(x):
    ...     return x**3
    >>> print(calque.source(cube, 1.0), end="")
    def cube(x):
        return x ** 3
    """
    transformed = _at_stage(fn, stage)
    traced = transformed.program(*args).traced
    name = transformed.generated_name()
    if stage == "core":
        return pipeline.core_text(traced, name)
    return pipeline.function_text(traced, name)


def save(
    fn: Any, path: str | os.PathLike[str], *args: Any, stage: str | None = None
) -> None:
    """Write the generated function as a module that needs only NumPy, and Numba where it is jitted.

    A jitted function's module holds the text of all that its kernels call, and compiles them when
    they are first called. The docstring says where the module comes from and how to make it again
    (``calque verify`` does). ``stage`` is as for ``source``; "core" cannot be saved.
    """
    write_whole(path, module_source(fn, *args, stage=stage))


def module_source(
    fn: Any, *args: Any, stage: str | None = None, alone: bool = True
) -> str:
    """The text that ``save`` writes; not ``alone``, it imports what kernels call from calque."""
    if stage == "core":
        raise ValueError('stage "core" is no module: it can only be shown')
    transformed = _at_stage(fn, stage)
    program = transformed.program(*args)
    name = transformed.generated_name()
    origin = provenance(_as_transformed(fn), program, args, stage)
    called = support.embedded if alone else None
    text = pipeline.module_text(program.traced, name, title(transformed), origin, called, True)
    lost = [n for n, module in program.traced.function.imports.items() if module == "__main__"]
    if lost:
        raise UnsupportedFunction(
            f"{', '.join(lost)} stands in __main__, from where a saved module cannot import it.",
            hint="move it to a module of its own, and import it from there",
        )
    return text


_TITLES = {
    "grad": "Gradient of {f} with respect to {a}",
    "value_and_grad": "Value and gradient of {f} with respect to {a}",
    "jvp": "Value and tangent of {f}",
    "vjp": "Cotangents of the arguments of {f}",
    "jit": "Kernels of {f}",
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
        name = "the " + name[0].lower() + name[1:]
        text = _NESTED.get(transformed.kind, text)
    return text.format(f=name, a=", ".join(_differentiated(transformed))) + "."


def _differentiated(transformed: Transformed) -> list[str]:
    argnums = transformed.options.get("argnums", 0)
    try:
        parameters = list(inspect.signature(transformed.function).parameters)
    except (TypeError, ValueError):
        return ["its arguments"]
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    return [
        parameters[n] if -len(parameters) <= n < len(parameters) else f"argument {n}"
        for n in numbers
    ]


def _plain(transformed: Any) -> Any:
    while isinstance(transformed, Transformed):
        transformed = transformed.function
    return transformed


def transform_text(transformed: Any) -> str:
    """``grad(f, argnums=(0, 1))``; f is what its name in the file stands for, decorated or not."""
    if not isinstance(transformed, Transformed) or _has_name(transformed):
        return "f"
    text = transform_text(transformed.function)
    if transformed.kind == "identity":
        return text
    defaults: dict[str, Any] = {
        "argnums": 0,
        "static_argnums": (),
        "static_argnames": (),
        "parallel": "auto",
        "boundscheck": None,
    }
    options, axes = dict(transformed.options), transformed.options.get("axes")
    if isinstance(axes, Axes):  # as vmap was given them
        del options["axes"]
        options |= vars(axes)
        defaults = {**defaults, **vars(Axes())}
    shown = [f"{k}={v!r}" for k, v in options.items() if v != defaults.get(k, False)]
    return f"{transformed.kind}({', '.join([text, *shown])})"


def _has_name(transformed: Transformed) -> bool:
    """Whether a module's name stands for the transformed function, which decorators made."""
    module = sys.modules.get(getattr(transformed, "__module__", ""))
    try:
        found = operator.attrgetter(getattr(transformed, "__qualname__", ""))(module)
    except AttributeError:
        return False
    return found is transformed


def provenance(
    transformed: Transformed, program: Program, args: tuple[Any, ...], stage: str | None = None
) -> list[str]:
    """The lines of the header that say where the module comes from."""
    plain = inspect.unwrap(_plain(transformed))
    code = getattr(plain, "__code__", None)
    types = types_line(program.traced)
    if code is None or not os.path.exists(code.co_filename):
        return [f"Written by calque {__version__}.", types]
    file = os.path.relpath(code.co_filename).replace(os.sep, "/")
    if any(map(tree.is_object, _instances(args))):
        return [f"From {file}, line {code.co_firstlineno}. Written by calque {__version__}.", types]
    command = f"calque show {file}:{plain.__qualname__}"
    transform = transform_text(transformed)
    if transform != "f":
        command += f' --transform "{transform}"'
    command += f" --stage {stage}" if stage is not None else ""
    command += f' --args "{format_args(_specs_of(program, args))}"'
    return [
        f"From {file}, line {code.co_firstlineno}. "
        f"Written by calque {__version__}; regenerate with",
        f"    {command}",
        types,
    ]


def _instances(value: Any) -> list[Any]:
    """What the tuples, lists and dicts of a tree hold."""
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [x for v in value for x in _instances(v)] if isinstance(value, (tuple, list)) else [value]
    )


def _specs_of(program: Program, args: tuple[Any, ...]) -> Any:
    """The arguments as types, general where the generated code is."""
    leaves, structure = tree.flatten(args)
    known = program.known_symbols
    names = [
        dim_name(position, axis)
        for position, leaf in enumerate(leaves)
        if isinstance(leaf, np.ndarray)
        for axis, size in enumerate(leaf.shape)
        if size != 1 and dim_name(position, axis) not in known
    ]
    own = [d for leaf in leaves if isinstance(leaf, Spec) for d in leaf.dims if isinstance(d, str)]
    table = letters(own + names)

    def spec_of(position: int, leaf: Any) -> Any:
        if isinstance(leaf, (Spec, str, bytes, bool)) or leaf is None:
            return leaf
        if isinstance(leaf, (float, int, complex)):
            whole = position in program.known_leaves
            return leaf if whole else Spec(np.dtype(type(leaf)), (), weak=True)
        value = np.asarray(leaf)
        if position in program.known_leaves:
            return value.item()
        axes = [table.get(dim_name(position, axis), s) for axis, s in enumerate(value.shape)]
        return Spec(value.dtype, tuple(axes))

    return tree.unflatten(structure, [spec_of(i, leaf) for i, leaf in enumerate(leaves)])


def types_line(traced: Traced) -> str:
    """``Types: w float64[n], x float64[m, n].``, with the user's letters or letters of its own."""
    resolve = traced.builder.dims.resolve
    params = traced.function.params
    kinds = {p: p.type.with_dims([resolve(d) for d in p.type.dims]) for p in params}
    used = [s for p in params for d in kinds[p].dims for s, _ in getattr(d, "terms", ())]
    values: dict[str, DimLike] = {old: symbol(new) for old, new in letters(used).items()}

    def text(leaf: Any) -> str:
        if not isinstance(leaf, Var):
            return repr(leaf)
        kind = kinds[leaf]
        return str(kind.with_dims([substitute_dim(d, values) for d in kind.dims]))

    found = []
    for parameter in traced.function.signature:
        made = map_leaves(text, parameter.tree)
        shown = made if isinstance(made, str) else str(made).replace("'", "")
        found.append(f"{parameter.name} {shown}")
    lines = textwrap.wrap(f"Types: {', '.join(found)}.", 98, subsequent_indent="    ")
    return "\n".join(lines)


def explain(fn: Any, *args: Any) -> str:
    """What the reverse phase saves, recomputes or has at hand, and why, by the user's line.

    Of a jitted function also where each line runs: in kernels, in a call of NumPy's or SciPy's, or
    in a loop that stays Python's, with what keeps it out of the kernels.

    ``fn``: a transformed function, or a plain one; ``args``: arguments, or types (``spec``), for
    which to explain it. Raises what the transformation raises.

    >>> import calque
    >>> print(calque.explain(calque.grad(lambda x: x * x), 1.0))
    Nothing is saved: the reverse phase has all it needs at hand.
    """
    traced = _as_transformed(fn).program(*args).traced
    placed = _placement_lines(traced) if traced.compiled else []
    lines = list(dict.fromkeys(_decision_lines(traced)))
    if not lines and not placed:
        return "Nothing is saved: the reverse phase has all it needs at hand."
    return "\n".join([*placed, *lines])


def _decision_lines(traced: Traced) -> Iterator[str]:
    """What is saved and why, each with the statement."""
    for decision in traced.function.decisions:
        origin = decision.value.origin
        what = decision.value.name or "a value"
        text = f"{_place(origin)}: {what} is {decision.how}: {decision.why}"
        if origin is not None and origin.statement:
            text += f"\n    {origin.statement.splitlines()[0]}"
        yield text


def _placement_lines(traced: Traced) -> list[str]:
    """Where each line runs; what is in kernels alone comes in one line of numbers."""
    found = placements(traced.function)
    kernels = sorted({p.origin.line for p in found if p.origin and p.where == KERNEL})
    lines = [f"In kernels: lines {', '.join(map(str, kernels))}."] if kernels else []
    for p in found:
        if p.where == CALL:
            lines.append(f"{_place(p.origin)}: {p.what} is a call of NumPy's or SciPy's")
        elif p.where == LOOP:
            reasons = ", ".join(f"{what} ({_place(at)})" for what, at in p.why)
            because = f": no kernel has {reasons}" if reasons else ""
            lines.append(f"{_place(p.origin)}: the loop is Python's{because}")
        else:
            continue
        if p.origin is not None:
            lines[-1] += f"\n    {p.origin.text.strip()}"
    lines = list(dict.fromkeys(lines))
    return lines or ["Nothing is compiled: there is no loop, nor work on arrays."]


def _place(origin: Origin | None) -> str:
    return "?" if origin is None else f"{os.path.basename(origin.file)}:{origin.line}"
