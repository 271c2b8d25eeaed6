"""Instances of the user's classes in results, and imports of the user's names."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import operator
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.text.spelling import attribute, call, fill_expression, literal, name
from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.core import Function
from calque.transpiler.ir.pytrees import REGISTERED, attributes, data_of, is_object

Paths = Callable[[], Iterator[tuple[Any, gast.AST]]]


def import_name(function: Function, module: str, path: str, taken: set[str]) -> str:
    """The name of ``path`` of a module in generated code; notes it in the function's imports."""
    root, dot, rest = path.partition(".")
    wish, place = root, module
    while wish in taken or function.imports.get(wish, place) != place:
        wish = f"{module.rpartition('.')[2]}_{wish}" if wish == root else f"{wish}_"
        place = f"{module}:{root}"
    function.imports[wish] = place
    return wish + dot + rest


def reserved_names(function: Function) -> set[str]:
    """Names that an import must not take."""
    arguments = [p.name for p in function.signature]
    return {"np", "math", "cmath", function.name, *dir(builtins), *arguments}


def helper_names(function: Function) -> set[str]:
    """The functions that a function's helpers define: these, and their kernels."""
    texts = (text for name, text in function.helpers.items() if name != function.name)
    return {name for text in texts for name in re.findall(r"^def (\w+)", text, re.MULTILINE)}


def imported(thing: Any, function: Function) -> gast.AST:
    """The tree of a class or a function, imported by name; raises if that is not possible."""
    module, path = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
    try:
        found = operator.attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not thing:
        raise UnsupportedFunction(
            f"{path or thing!r} cannot be imported by name, and generated code must.",
            function.origin,
            "define it at the top level of a module",
        )
    return fill_expression(import_name(function, module, path, reserved_names(function)), [])


def rebuilt(
    tree: Any, function: Function, inner: Callable[[Any], gast.AST], paths: Paths
) -> gast.AST:
    """The tree of a new instance like ``tree``: by its class, else by its unflatten function."""
    kind = type(tree)
    data = data_of(tree)

    def value(key: str, part: Any) -> gast.AST:
        return inner(part) if key in data else static(part, function, paths)

    names = _constructor(tree)
    if names is not None:
        made: Any = call(class_of(kind, function, paths))
        made.keywords = [gast.keyword(n, value(n, getattr(tree, n))) for n in names]
        return made
    registration = REGISTERED[kind]
    unflatten: Any = registration.unflatten
    children, aux = registration.flatten(tree)
    if getattr(unflatten, "__self__", None) is kind:
        maker = attribute(class_of(kind, function, paths), unflatten.__name__)
    else:
        try:
            maker = imported(unflatten, function)
        except UnsupportedFunction as error:
            raise UnsupportedFunction(
                f"Generated code cannot make a {kind.__name__}: what its class is called with is "
                "not what its attributes hold, and its unflatten function is not importable.",
                error.origin,
                "register it with an unflatten function that stands at the top level of a module",
            ) from None
    parts = gast.Tuple([inner(c) for c in children], gast.Load())
    return call(maker, static(aux, function, paths), parts)


def _constructor(tree: Any) -> list[str] | None:
    """The names of the attributes that the class takes as arguments; None if that is not all."""
    kind = type(tree)
    if dataclasses.is_dataclass(tree):
        return [f.name for f in dataclasses.fields(tree) if f.init]
    held = dict(attributes(tree))
    try:
        names = [n for n in inspect.signature(kind).parameters if n in held]
        again = dict(attributes(kind(**{n: held[n] for n in names})))
    except Exception:  # the user's code may raise anything for values that are no arrays
        return None
    same = again.keys() == held.keys() and all(again[n] is held[n] for n in held)
    return names if same else None


def class_of(kind: type, function: Function, paths: Paths) -> gast.AST:
    """The tree of a class: the type of an argument, or imported by name."""
    for node, path in paths():
        if type(node) is kind:
            return call(name("type"), path)
    return imported(kind, function)


def dict_of(tree: dict[Any, Any], made: gast.AST, function: Function, paths: Paths) -> gast.AST:
    """The tree of a dict from its display, wrapped for OrderedDict and defaultdict."""
    if type(tree) not in (OrderedDict, defaultdict):
        return made
    kind = imported(type(tree), function)
    if not isinstance(tree, defaultdict):
        return call(kind, made)
    factory = tree.default_factory
    if factory is None or getattr(builtins, getattr(factory, "__name__", ""), None) is factory:
        return call(kind, name(getattr(factory, "__name__", "None")), made)
    for node, path in paths():
        if isinstance(node, defaultdict) and node.default_factory is factory:
            return call(kind, attribute(path, "default_factory"), made)
    return call(kind, static(factory, function, paths), made)


def static(value: Any, function: Function, paths: Paths) -> gast.AST:
    """The tree of a known value: a literal, read from an argument that holds it, or imported."""
    if _is_literal(value):
        return literal(value)
    for node, path in paths():
        if is_object(node):
            for key, part in attributes(node):
                if part is value:
                    return attribute(path, key)
    if isinstance(value, tuple) and type(value) is tuple:
        return gast.Tuple([static(v, function, paths) for v in value], gast.Load())
    if isinstance(value, np.ufunc):
        word = str(getattr(value, "__name__", ""))
        if getattr(np, word, None) is value:
            return attribute(name("np"), word)
    if isinstance(value, type) or inspect.isfunction(value):
        return imported(value, function)
    raise UnsupportedFunction(
        f"The function returns a {type(value).__name__}, which generated code cannot write down.",
        function.origin,
        "return arrays and numbers, or register its class with calque.register_pytree_node",
    )


def _is_literal(value: Any) -> bool:
    if isinstance(value, (np.generic, np.ndarray)):
        return True
    try:
        return bool(ast.literal_eval(repr(value)) == value) or value != value
    except (ValueError, SyntaxError, TypeError):
        return isinstance(value, (float, complex))
