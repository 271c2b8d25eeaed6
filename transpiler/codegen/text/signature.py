"""Arguments and results: access paths of pytree leaves, the ``def`` line, the returned tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any

import gast

from calque.transpiler.codegen.text.instances import class_of, dict_of, rebuilt, static
from calque.transpiler.codegen.text.spelling import attribute, call, fill_expression, literal, name
from calque.transpiler.ir.core import Function, Parameter, Slot, Var
from calque.transpiler.ir.naming import tell_apart
from calque.transpiler.ir.pytrees import Field, children, is_object, words_of_leaves


def _step(tree: gast.AST, key: Any) -> gast.AST:
    if isinstance(key, Field):
        return attribute(tree, str(key))
    return gast.Subscript(tree, literal(key), gast.Load())


def _walk(tree: Any, path: gast.AST) -> Iterator[tuple[Any, gast.AST]]:
    """Every node of a pytree with its access path."""
    yield tree, path
    for key, part in children(tree):
        yield from _walk(part, _step(path, key))


def leaf_paths(function: Function) -> dict[Var, tuple[gast.AST, str]]:
    """The leaves of structured arguments, with access path and name."""
    found: dict[Var, tuple[gast.AST, str]] = {}
    taken = {parameter.name for parameter in function.signature}
    for parameter in function.signature:
        leaves = words_of_leaves(parameter.tree, parameter.name)
        words = {id(leaf): word for leaf, word in leaves}
        for node, path in _walk(parameter.tree, name(parameter.name)):
            if isinstance(node, Var) and node is not parameter.tree:
                word = node.name or words[id(node)]
                found[node] = (path, _own(word, parameter.name, taken))
    return found


def whole_tuples(function: Function) -> list[tuple[tuple[Var, ...], gast.AST]]:
    """The tuples and lists in arguments that hold leaves alone, with their access paths."""
    found = []
    for parameter in function.signature:
        for node, path in _walk(parameter.tree, name(parameter.name)):
            plain = type(node) in (tuple, list) and len(node) > 1
            if plain and all(isinstance(item, Var) for item in node):
                found.append((tuple(node), path))
    return found


def _own(word: str, parameter: str, taken: set[str]) -> str:
    """The word, or the first of its variants that no other leaf has."""
    longer = f"{parameter}_{word}"
    numbered = (f"{longer}_{k}" for k in count(1))
    made = next(w for w in chain((word, longer), numbered) if w not in taken)
    taken.add(made)
    return made


def name_parameters(function: Function) -> None:
    """Name the Vars of array arguments like the arguments, and leaves of others by words."""
    for var, (_, word) in leaf_paths(function).items():
        var.name = word
    tell_apart(function.params)
    for parameter in function.signature:
        if isinstance(parameter.tree, Var):
            parameter.tree.name = parameter.name


def argument_names(function: Function) -> list[str]:
    """The names in the ``def`` line."""
    return [p.name for p in function.signature] or [p.name or "x" for p in function.params]


def arguments(function: Function) -> Any:
    """The arguments of the ``def`` line."""
    signature = function.signature or [Parameter(p.name or "x", p) for p in function.params]
    parts: list[str] = []
    starred = False
    ordered = [p for p in signature if not p.keyword_only and not p.variadic]
    bare = max((k for k, p in enumerate(ordered) if p.default is None), default=0)
    without = {id(p) for p in ordered[:bare]}  # no default before a parameter without one
    for p in signature:
        if p.keyword_only and not starred and p.variadic != "**":
            parts.append("*")
            starred = True
        starred = starred or p.variadic == "*"
        default = "" if p.default is None or id(p) in without else f"={p.default}"
        parts.append(p.variadic + p.name + default)
    return fill_expression(f"lambda {', '.join(parts)}: 0", []).args


def result_tree(tree: Any, function: Function, value: Callable[[int], gast.AST]) -> gast.AST:
    """The display of a result: tuples, lists, dicts, and instances of the user's classes."""
    if isinstance(tree, Slot):
        return value(tree.position)

    def inner(item: Any) -> gast.AST:
        return result_tree(item, function, value)

    if isinstance(tree, list):
        return gast.List([inner(i) for i in tree], gast.Load())
    if isinstance(tree, dict):
        made = gast.Dict([literal(k) for k in tree], [inner(v) for v in tree.values()])
        return dict_of(tree, made, function, lambda: parts_of_arguments(function))
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        return gast.Tuple([inner(i) for i in tree], gast.Load())

    def paths() -> Iterator[tuple[Any, gast.AST]]:
        return parts_of_arguments(function)

    if is_object(tree):
        return rebuilt(tree, function, inner, paths)
    if hasattr(tree, "_fields"):
        made = call(class_of(type(tree), function, paths))
        made.keywords = [gast.keyword(str(key), inner(part)) for key, part in children(tree)]
        return made
    return static(tree, function, paths)


def parts_of_arguments(function: Function) -> Iterator[tuple[Any, gast.AST]]:
    """Every node of the arguments, with its access path."""
    for parameter in function.signature:
        yield from _walk(parameter.tree, name(parameter.name))
