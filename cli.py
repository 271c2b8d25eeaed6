"""The command `calque`: show, check, verify and explain derivatives from a shell.

    calque show examples/logistic_regression.py:loss --transform "grad(f, argnums=(0, 1))"

Exit codes: 0 done, 1 the function cannot be transformed or a saved module is stale, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

import numpy as np

import calque
from calque.runtime import cache
from calque.runtime.checking import examine
from calque.runtime.comparing import is_float
from calque.runtime.device_source import ENGINES
from calque.runtime.provenance import LOST
from calque.runtime.reading import module_source
from calque.runtime.spec import annotated_args, parse_args, sample_args
from calque.runtime.writing import write_whole
from calque.transpiler import debug, tree
from calque.transpiler.errors import CalqueError, SpecError

TRANSFORMATIONS = (
    *("grad", "value_and_grad", "jvp", "vjp", "linearize", "hessian", "jacfwd", "jacrev"),
    *("vmap", "jit", "checkpoint", "pmap", "shard_map"),
)
_HEADER = {"--transform", "--stage", "--engine", "--args"}  # of the command in a header
_VALUES = ("P", "make_mesh")  # what may be called to give a transformation its options


# what a user's program may raise
_PROGRAMS = (
    *(TypeError, ValueError, AttributeError, NameError),
    *(LookupError, ArithmeticError, ImportError),
)


class UsageError(Exception):
    """The command line asks for something that makes no sense; exit code 2."""


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports by exception, so that `verify` can use it on headers."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        options = _parser().parse_args(argv)
        return int(options.run(options))
    except (UsageError, SpecError) as error:
        print(f"calque: {error}", file=sys.stderr)
        return 2
    except CalqueError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except _PROGRAMS as error:
        notes = getattr(error, "__notes__", [])  # the user's line, where it is their program's
        if debug.level() or not (notes or isinstance(error, (TypeError, ValueError))):
            raise
        print("\n".join([f"{type(error).__name__}: {error}", *notes]), file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> _Parser:
    parser = _Parser(prog="calque", description="Derivatives of NumPy functions, as source.")
    parser.add_argument("--version", action="version", version=f"calque {calque.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> _Parser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    def target(sub: _Parser) -> None:
        sub.add_argument("target", metavar="FILE:FUNC", help="a file, and a function in it")
        sub.add_argument("--transform", metavar="TEXT", help='such as "grad(f, argnums=(0, 1))"')
        sub.add_argument("--args", metavar="TYPES", help="such as \"f8[3], {'W': f8[n,3]}, float\"")

    show = command("show", _show, "Print the source of a function, transformed.")
    target(show)
    stages = ("core", "numpy", "kernels")
    show.add_argument("--stage", choices=stages, help="which form; else the one that runs")
    engines = "of pmap and shard_map: what carries messages; else threads"
    show.add_argument("--engine", choices=ENGINES, help=engines)
    show.add_argument("-o", dest="output", metavar="FILE", help="write a module instead")
    check = command("check", _check, "Compare forward mode, reverse mode and differences.")
    target(check)
    check.add_argument("--seed", type=int, default=0, help="of the random arguments (0)")
    target(command("explain", _explain, "Say what the reverse phase saves or recomputes, and why."))
    kept = command("cache", _cache, "Show, or empty, the folder of compiled kernels.")
    kept.add_argument("what", choices=("info", "clear"), help="what is there; or remove it all")
    verify = command("verify", _verify, "Check that saved modules are what calque writes today.")
    verify.add_argument("files", nargs="+", metavar="FILE", help="modules that calque wrote")
    told = "a file or folder outside of the checkout that headers may name; may be repeated"
    verify.add_argument("--source", action="append", default=[], metavar="PATH", help=told)
    return parser


def _resolve(options: argparse.Namespace) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The transformed function, and the types of its arguments."""
    fn = load_function(options.target)
    if options.args is not None:
        args = parse_args(options.args)
    elif re.search("vmap|pmap|shard_map", options.transform or ""):
        raise UsageError("under vmap the batched types must be given: --args 'f8[n,3], ...'")
    else:
        args = annotated_args(fn)
    try:
        inspect.signature(fn).bind(*args)
    except TypeError as error:
        shown = f"{options.target.rpartition(':')[2]}{inspect.signature(fn)}"
        raise UsageError(f"--args does not fit {shown}: {error}") from None
    return (apply_transform(options.transform, fn) if options.transform else fn), args


def load_function(target: str) -> Callable[..., Any]:
    """The function that `FILE:FUNC` names; a method of a class is bound to `Class()`."""
    file, colon, dotted = target.rpartition(":")
    if not colon or not file or not dotted:
        raise UsageError(f"{target!r} names no function: write FILE:FUNC, as in model.py:loss")
    if not os.path.isfile(file):
        raise UsageError(f"there is no file {file}")
    found: Any = _load_module(os.path.abspath(file), file)
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
    return found


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
    calque.cli.UsageError: in --transform: os.system('ls') is no transformation of f
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
                known = ", ".join(n for n in TRANSFORMATIONS if hasattr(calque, n))
                raise UsageError(f"in --transform: {name} is none of {known}")
            values = [_literal(value) for value in rest]
            named = {str(k.arg): _literal(k.value) for k in keywords if k.arg is not None}
            if len(named) < len(keywords):
                raise UsageError("in --transform: write keywords out, not **")
            try:
                return _transformation(name)(_apply(inner, fn), *values, **named)
            except CalqueError:
                raise
            except TypeError as error:
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


def _show(options: argparse.Namespace) -> int:
    fn, args = _resolve(options)
    text = (
        calque.source(fn, *args, stage="core", engine=options.engine)
        if options.stage == "core"
        else module_source(
            fn, *args, stage=options.stage, alone=bool(options.output), engine=options.engine
        )
    )
    if not options.output:
        print(text if options.stage == "core" else _painted(text), end="")
        return 0
    try:
        write_whole(options.output, text)
    except OSError as error:
        raise UsageError(f"{options.output} cannot be written: {error.strerror}") from None
    return 0


def _cache(options: argparse.Namespace) -> int:
    if options.what == "clear":
        print(f"{cache.clear()} files removed")
        return 0
    folder = cache.folder()
    if folder is None:
        print("nothing is kept on disk")
        return 0
    found = cache.entries(folder)
    modules = sum(entry.path.suffix == ".py" for entry in found)
    kernels = sum(entry.path.suffix == ".code" for entry in found)
    size, most = (f"{n / 2**20:.1f} MiB" for n in (sum(e.size for e in found), cache.limit()))
    print(f"{folder}\n{modules} modules, {kernels} compiled kernels, {size} of at most {most}")
    return 0


def _explain(options: argparse.Namespace) -> int:
    options.transform = options.transform or "grad(f)"
    fn, args = _resolve(options)
    print(calque.explain(fn, *args).rstrip("\n"))
    return 0


def _painted(text: str, lexer: str = "python") -> str:
    """The text in colour where it is read on a terminal and the user does not object."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name

    return str(highlight(text, get_lexer_by_name(lexer), TerminalFormatter()))


def _verify(options: argparse.Namespace) -> int:
    """Each file by itself: one that cannot be verified fails, and hides nothing of the others."""
    worst = 0
    for file in options.files:
        try:
            difference = _difference(file, options.source)
        except (UsageError, SpecError) as error:
            print(f"calque: {error}", file=sys.stderr)
            worst = 2
            continue
        except (Exception, SystemExit) as error:  # of the program that it was made from
            if debug.level():
                raise
            print(f"calque: {file} cannot be made again: {_told(error)}", file=sys.stderr)
            worst = max(worst, 1)
            continue
        if difference:
            worst = max(worst, 1)
            print(_painted(difference, "diff"), end="")
            print(f"{file}: stale", file=sys.stderr)
        else:
            print(f"{file}: up to date")
    return worst


def _told(error: BaseException) -> str:
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


def _difference(file: str, given: Sequence[str]) -> str:
    """A saved module against what its own command writes today, as a unified diff."""
    try:
        saved = Path(file).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    options = _shown_by(provenance(saved, file), file)
    source = options.target.rpartition(":")[0]
    folder = os.getcwd() if os.path.isfile(source) else os.path.dirname(os.path.abspath(file))
    trusted = [*map(_checkout, (os.getcwd(), os.path.dirname(os.path.abspath(file)))), *given]
    place = os.path.realpath(os.path.join(folder, source))
    if not any(_is_within(place, root) for root in trusted):
        message = f"{file} names {source}, which is not in this checkout and would be run"
        raise UsageError(f"{message}; give it with --source, if you trust it")
    with contextlib.chdir(folder):
        try:
            fn, args = _resolve(options)
        except (UsageError, SpecError) as error:
            raise UsageError(f"{file} cannot be made again: {error}") from error
        stage, engine = options.stage, options.engine
        written = module_source(fn, *args, stage=stage, engine=engine)
        printed = module_source(fn, *args, stage=stage, engine=engine, alone=False)
    if saved == printed:  # kept as it was shown: what kernels call is imported
        return ""
    names = (file, f"{file} (regenerated)")
    lines = (saved.splitlines(True), written.splitlines(True))
    difference = list(difflib.unified_diff(*lines, *names))
    return "".join(line if line.endswith("\n") else line + "\n" for line in difference)


def _checkout(folder: str) -> str:
    """The root of the checkout that holds a folder; the folder itself where none does."""
    path = Path(os.path.realpath(folder))
    return str(next((p for p in (path, *path.parents) if (p / ".git").exists()), path))


def _is_within(place: str, root: str) -> bool:
    root = os.path.realpath(root)
    return place == root or place.startswith(root.rstrip(os.sep) + os.sep)


def _shown_by(words: list[str], file: str) -> argparse.Namespace:
    """The command of a header, which has a function and its types, and nothing else."""
    names = words[2::2]
    plain = len(words) % 2 == 0 and len(set(names)) == len(names)
    if not plain or words[1].startswith("-") or {*names} - _HEADER:
        raise UsageError(f"{file} has a header that calque does not write: {shlex.join(words)}")
    if "core" in words[3::2]:
        raise UsageError(f"{file} has a header that makes no module")
    return _parser().parse_args(words)


def provenance(text: str, file: str = "the module") -> list[str]:
    """The arguments of the `calque` command in the header of a saved module.

    >>> provenance('"Gradient. Regenerate with" ')
    Traceback (most recent call last):
    ...
    calque.cli.UsageError: the module has no header that says how calque wrote it
    """
    try:
        header = ast.get_docstring(ast.parse(text), clean=False) or ""
    except (SyntaxError, ValueError):
        header = ""
    found = re.search(r"regenerate with\n((?:[ \t]+\S.*(?:\n|$))+)", header)
    words: list[str] = []
    if found:
        with contextlib.suppress(ValueError):
            words = shlex.split(found[1].replace("\\\n", " "))
    reason = header.partition(f"\n{LOST}")[2].partition("\nTypes: ")[0]
    if reason:
        why = " ".join(reason.split()).rstrip(".")
        raise UsageError(f"{file} cannot be made again by a command: {why}")
    if words[:2] != ["calque", "show"] or "-o" in words:
        raise UsageError(f"{file} has no header that says how calque wrote it")
    return words[1:]


def _check(options: argparse.Namespace) -> int:
    fn, specs = _resolve(options)
    args = _usable_args(fn, specs, options.seed)
    if not any(map(is_float, _leaves(args))):
        raise UsageError("no argument is of a floating dtype: nothing to differentiate by")
    report = examine(fn, args, options.seed)
    print(report)
    if not report.agrees:
        print(report.error() if report.faults else "Every statement is right by itself.")
    return int(not report.agrees)


def _usable_args(fn: Callable[..., Any], specs: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
    """Random arguments at which the function is finite: positive ones where others are not."""
    args = sample_args(specs, seed)
    try:
        with np.errstate(all="ignore"):
            values = _leaves(fn(*copy.deepcopy(args)))
        if all(np.all(np.isfinite(value)) for value in values if is_float(value)):
            return args
    except (ValueError, ArithmeticError):
        pass
    except (TypeError, AttributeError, NameError, LookupError, ImportError) as error:
        if not getattr(error, "__notes__", []):
            error.add_note(_users_line(error))
        raise
    return sample_args(specs, seed, positive=True)


def _users_line(error: Exception) -> str:
    """The last line of the user's program on the way to an error."""
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith((own, "<calque"))] or frames
    last = theirs[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}\n    {last.line}"


def _leaves(value: Any) -> list[Any]:
    return list(tree.flatten(value)[0])


if __name__ == "__main__":
    sys.exit(main())
