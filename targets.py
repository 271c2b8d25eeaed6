"""Targets of a command line: a function of a file, transformed, and its arguments' types."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import calque
from calque.argument_files import file_args
from calque.runtime.spec import annotated_args, names_of, parse_args
from calque.transpiler.errors import CalqueError

TRANSFORMATIONS = (
    *("grad", "value_and_grad", "jvp", "vjp", "linearize", "hessian", "jacfwd", "jacrev"),
    *("jacobian", "value_and_jacobian", "value_and_hessian", "hessian_diag", "laplacian"),
    *("vmap", "jit", "parallel", "checkpoint", "pmap", "shard_map"),
)
_VALUES = ("P", "make_mesh")  # what may be called to give a transformation its options


class UsageError(Exception):
    """The command line asks for something that makes no sense; exit code 2."""


def resolve(
    target: str, transform: str | None, types: str | None
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The transformed function, and the types of its arguments."""
    module, fn = _loaded(target)
    if types is not None:
        args = _given_args(types.strip(), fn, module)
    elif re.search("vmap|pmap|shard_map", transform or ""):
        raise UsageError("under vmap the batched types must be given: --args 'f8[n,3], ...'")
    else:
        args = annotated_args(fn)
    try:
        inspect.signature(fn).bind(*args)
    except TypeError as error:
        shown = f"{target.rpartition(':')[2]}{inspect.signature(fn)}"
        raise UsageError(f"--args does not fit {shown}: {error}") from None
    return (apply_transform(transform, fn) if transform else fn), args


def _given_args(text: str, fn: Callable[..., Any], module: ModuleType) -> tuple[Any, ...]:
    """The arguments that a text describes, or a file that it names: `@args.json`."""
    if text.startswith("@"):
        return file_args(text[1:], fn)
    if text.endswith((".json", ".npz")) and "," not in text:
        raise UsageError(f"--args {text} names a file: did you mean @{text}?")
    return parse_args(text, {**names_of(fn), **vars(module)})


def load_function(target: str) -> Callable[..., Any]:
    """The function that `FILE:FUNC` names; a method of a class is bound to `Class()`."""
    return _loaded(target)[1]


def _loaded(target: str) -> tuple[ModuleType, Callable[..., Any]]:
    """The module of a file, and the function that `FILE:FUNC` names in it."""
    file, colon, dotted = target.rpartition(":")
    if not colon or not file or not dotted:
        known = completions(f"{target.rstrip(':')}:") or ["model.py:loss"]
        raise UsageError(f"{target!r} names no function: write FILE:FUNC, as in {known[0]}")
    if not os.path.isfile(file):
        raise UsageError(f"there is no file {file}")
    module = _load_module(os.path.abspath(file), file)
    found: Any = module
    for name in dotted.split("."):
        owner = found
        found = getattr(owner, name, None)
        if found is None:
            known = [n for n, v in vars(owner).items() if callable(v) and not n.startswith("__")]
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"{file} has no function {dotted}{hint}")
        if inspect.isclass(owner) and not isinstance(
            inspect.getattr_static(owner, name), staticmethod | classmethod | type
        ):
            found = getattr(_instance(owner, target), name)
    if not callable(found):
        raise UsageError(f"{target} is a {type(found).__name__}, not a function")
    return module, found


def _instance(owner: type, target: str) -> Any:
    """An instance on which a method named through its class can be called."""
    try:
        return owner()
    except TypeError as error:
        message = f"{target} needs an instance of {owner.__name__}: {error}"
        hint = "make one at module level and name it, as in model.py:model.loss"
        raise UsageError(f"{message}; {hint}") from None


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Runs the file's text: byte code counts as current while second and size stay the same."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_module(path: str, shown: str) -> ModuleType:
    """Import a file: as a submodule where it lies in a package, else as `python FILE` would."""
    folder, parts = os.path.dirname(path), [Path(path).stem]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, parts = os.path.dirname(folder), [os.path.basename(folder), *parts]
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        if len(parts) > 1:
            return _submodule(".".join(parts), path)
        known = sys.modules.get(parts[0])
        mine = known is None or getattr(known, "__file__", None) == path
        name = parts[0] if mine else f"{parts[0]}_file"
        loader = _TextLoader(name, path)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        message = f"{shown} cannot be imported: {type(error).__name__}: {error}"
        raise UsageError(message) from error


def _submodule(name: str, path: str) -> ModuleType:
    """A submodule of a package, unless another package of that name has been imported."""
    found = importlib.import_module(name)
    if os.path.realpath(found.__file__ or "") != os.path.realpath(path):
        raise ImportError(f"{name} is {found.__file__}")
    return found


def apply_transform(text: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` under the transformations that a text names; the text is read, never evaluated.

    >>> apply_transform("grad(os.system('ls'))", abs)
    Traceback (most recent call last):
    ...
    calque.targets.UsageError: in --transform: os.system('ls') is no transformation of f
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise UsageError(f"--transform {text!r} cannot be read; write grad(f, argnums=0)") from None
    return _apply(node, fn)


def _apply(node: ast.expr, fn: Callable[..., Any]) -> Callable[..., Any]:
    match node:
        case ast.Name(id="f"):
            return fn
        case ast.Name(id=name) if name in TRANSFORMATIONS:
            return _transformation(name)(fn)
        case ast.Call(func=ast.Name(id=name), args=[inner, *rest], keywords=keywords):
            if name not in TRANSFORMATIONS:
                known = [n for n in TRANSFORMATIONS if hasattr(calque, n)]
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise UsageError(f"in --transform: {name} is none of {', '.join(known)}{hint}")
            values = [_literal(value) for value in rest]
            named = {str(k.arg): _literal(k.value) for k in keywords if k.arg is not None}
            if len(named) < len(keywords):
                raise UsageError("in --transform: write keywords out, not **")
            try:
                return _transformation(name)(_apply(inner, fn), *values, **named)
            except CalqueError:
                raise
            except (TypeError, ValueError) as error:
                raise UsageError(f"in --transform: {ast.unparse(node)}: {error}") from None
    raise UsageError(f"in --transform: {ast.unparse(node)} is no transformation of f")


def _transformation(name: str) -> Callable[..., Any]:
    found = getattr(calque, name, None)
    if found is None:
        raise UsageError(f"calque {calque.__version__} has no {name}")
    return found


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _VALUES:
            return getattr(calque, name)(*map(_literal, args))
        case ast.Tuple(elts=items):
            return tuple(map(_literal, items))
        case ast.List(elts=items):
            return list(map(_literal, items))
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {_literal(k): _literal(v) for k, v in zip(keys, values) if k is not None}
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        shown = ast.unparse(node)
        raise UsageError(f"in --transform: {shown} is not a literal") from None


def completions(prefix: str, **asked: Any) -> list[str]:
    """The completions of a prefix of FILE:FUNC: folders and files, then a file's functions.

    ``prefix``: the text typed so far; ``asked``: argcomplete's other arguments. Nothing is imported
    or run.
    """
    file, colon, start = prefix.rpartition(":")
    if not colon:
        names = _in_folder(os.path.dirname(prefix), (".py",), ":")
        return [name for name in names if name.startswith(prefix)]
    try:
        body = ast.parse(Path(file).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    return [f"{file}:{name}" for name in _defined(body) if name.startswith(start)]


def argument_completions(prefix: str, **asked: Any) -> list[str]:
    """The completions of a prefix of @args.json: folders, and files that hold arguments.

    ``prefix``: the text typed so far; ``asked``: argcomplete's other arguments.
    """
    if not prefix.startswith("@"):
        return []
    names = _in_folder(os.path.dirname(prefix[1:]), (".json", ".npz"), "")
    return [f"@{name}" for name in names if name.startswith(prefix[1:])]


def _in_folder(folder: str, endings: tuple[str, ...], then: str) -> list[str]:
    """The folders in a folder, and its files with these endings, each with what follows it."""
    try:
        found = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        return []
    shown = [(os.path.join(folder, e.name), e) for e in found if not e.name.startswith(".")]
    wanted = [(n, e) for n, e in shown if e.is_dir() or n.endswith(endings)]
    return [f"{n}/" if e.is_dir() else f"{n}{then}" for n, e in wanted]


def _defined(body: list[ast.stmt]) -> list[str]:
    """The functions that statements define, and the methods of classes, but dunder ones."""
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [f"{node.name}.{name}" for name in _defined(node.body)]
    return found
