# PYTHON_ARGCOMPLETE_OK
"""The command `calque`: show, check, verify and explain derivatives from a shell.

    calque show examples/logistic_regression.py:loss --transform "grad(f, argnums=(0, 1))"

Exit codes: 0 done, 1 the function cannot be transformed or a saved module is stale, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import difflib
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

import calque
from calque import help_pages
from calque.argument_files import doubts
from calque.runtime.call import disk_cache
from calque.runtime.call.progress import quiet_log
from calque.runtime.check.checking import examine
from calque.runtime.check.directional import is_float
from calque.runtime.engines.choosing import ENGINES
from calque.runtime.saving.pass_remarks import explaining
from calque.runtime.saving.reading import module_source
from calque.runtime.saving.viewing import page_text
from calque.runtime.saving.writing import write_whole
from calque.runtime.spec import leaves, sample_args
from calque.targets import (
    UsageError,
    argument_completions,
    completions,
    load_function,
    resolve,
)
from calque.transpiler.errors import CalqueError, NotDifferentiable, SpecError
from calque.transpiler.ir import debug, pytrees
from calque.verifying import saved_command, verdicts

# what a user's program may raise
_PROGRAMS = (
    *(TypeError, ValueError, AttributeError, NameError),
    *(LookupError, ArithmeticError, ImportError),
)


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports by exception."""

    def error(self, message: str) -> NoReturn:
        if found := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            close = difflib.get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), n=1)
            message += f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    quiet_log()
    options = argparse.Namespace()
    try:
        parser = _parser()
        _complete(parser)
        if not (sys.argv[1:] if argv is None else argv):
            parser.print_help()
            return 0
        parser.parse_args(argv, options)
        return int(options.run(options))
    except (UsageError, SpecError) as error:
        print("\n".join([f"calque: {error}", *_notes(error)]), file=sys.stderr)
        return 2
    except CalqueError as error:
        told = [f"{type(error).__name__}: {error}", *_doubts(options, error), *_notes(error)]
        print("\n".join(told), file=sys.stderr)
        return 1
    except _PROGRAMS as error:
        notes = _notes(error)  # the user's line, where it is their program's
        if debug.level() or not (notes or isinstance(error, (TypeError, ValueError))):
            raise
        told = [f"{type(error).__name__}: {error}", *notes, *_doubts(options, error)]
        print("\n".join(told), file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _notes(error: Exception) -> list[str]:
    """The lines below an error's message: the user's line, the page that says more."""
    return getattr(error, "__notes__", [])


def _doubts(options: argparse.Namespace, error: Exception) -> list[str]:
    """Remarks on arguments of a JSON file from which an error may have come."""
    found, integers = getattr(options, "doubts", ([], []))
    return [*found, *integers] if isinstance(error, NotDifferentiable) else list(found)


def _complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks what a command line may go on with, and end."""
    if "_ARGCOMPLETE" in os.environ:
        with contextlib.suppress(ImportError):
            import argcomplete

            argcomplete.autocomplete(parser)


_FIRST_STEPS = """\
calque writes the derivative of a NumPy function as source code that you can read, review and
commit.

Put this into model.py:

  import numpy as np


  def loss(u: "f8[n]", k: float):
      for t in range(10):
          u[1:-1] += k * (u[:-2] - 2.0 * u[1:-1] + u[2:])
      return np.sum(u * u)

and type:

  calque show model.py:loss --transform "grad(f)"
  calque check model.py:loss
  calque show model.py:loss --transform "jit(grad(f))" -o loss_grad.py

The first prints the gradient, the second compares it with differences, and the third writes a
module."""

_EXAMPLES = {  # on the program above
    "show": """\
  calque show model.py:loss --transform "grad(f, argnums=(0, 1))"
  calque show model.py:loss --transform "vmap(grad(f), in_axes=(0, None))" --args "f8[m,n], float"
  calque show model.py:loss --transform "jit(grad(f))" -o loss_grad.py
  echo '{"u": [1.0, 2.0, 4.0, 0.0], "k": 0.1}' > args.json
  calque show model.py:loss --transform "grad(f)" --args @args.json
  calque show model.py:loss --transform "grad(f)" --html -o page.html
  calque show --html --against loss_grad.py -o page.html""",
    "check": """\
  calque check model.py:loss
  calque check model.py:loss --args "f4[7], 0.1"
  echo '{"u": [1.0, 2.0, 4.0, 0.0], "k": 0.1}' > args.json
  calque check model.py:loss --args @args.json""",
    "explain": """\
  calque explain model.py:loss
  calque explain model.py:loss --transform "jit(grad(f))"
  calque explain model.py:loss --parallel
  calque explain model.py:loss --cost --args "f8[1000000], float"
  calque explain model.py:loss --why interchange""",
    "cache": """\
  calque cache info""",
    "help": """\
  calque help ShapeError
  calque help limits""",
    "verify": """\
  calque show model.py:loss --transform "grad(f)" -o loss_grad.py
  calque verify loss_grad.py
  calque verify *_grad.py --source ../models""",
}


def _parser() -> _Parser:
    laid_out = argparse.RawDescriptionHelpFormatter

    def examples(name: str) -> str:
        several = "s" * ("\n" in _EXAMPLES[name])
        of = " (model.py is what `calque` alone shows)" if "model.py" in _EXAMPLES[name] else ""
        return f"example{several}{of}:\n{_EXAMPLES[name]}"

    more = "calque COMMAND --help says more of each command."
    parser = _Parser("calque", description=_FIRST_STEPS, epilog=more, formatter_class=laid_out)
    parser.add_argument("--version", action="version", version=f"calque {calque.__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> _Parser:
        sub = commands.add_parser(
            name, help=text, description=text, epilog=examples(name), formatter_class=laid_out
        )
        sub.set_defaults(run=run)
        return sub

    def target(sub: _Parser, optional: bool = False) -> None:
        what = sub.add_argument(
            *("target",),
            metavar="FILE:FUNC",
            nargs="?" if optional else None,
            help="a file, and a function in it",
        )
        what.completer = completions  # type: ignore[attr-defined]  # read by argcomplete
        sub.add_argument("--transform", metavar="TEXT", help='such as "grad(f, argnums=(0, 1))"')
        told = "such as \"f8[3], {'W': f8[n,3]}, float\"; or a file, @args.json or @args.npz"
        given = sub.add_argument("--args", metavar="TYPES", help=told)
        given.completer = argument_completions  # type: ignore[attr-defined]

    _add_commands(command, target)
    return parser


def _add_commands(
    command: Callable[[str, Callable[[argparse.Namespace], int], str], _Parser],
    target: Callable[..., None],
) -> None:
    """Add the commands, each with what it takes."""
    show = command("show", _show, "Print the source of a function, transformed.")
    target(show, optional=True)
    stages = ("core", "numpy", "kernels", "cuda")
    show.add_argument("--stage", choices=stages, help="which form; else the one that runs")
    engines = "of pmap and shard_map: what carries messages; else threads"
    show.add_argument("--engine", choices=ENGINES, help=engines)
    show.add_argument("-o", dest="output", metavar="FILE", help="write a module instead")
    told = "a page with the function and its source side by side; with -o, into that file"
    show.add_argument("--html", action="store_true", help=told)
    told = "with --html: as a difference to a saved module, whose header can stand for FILE:FUNC"
    show.add_argument("--against", metavar="SAVED", help=told)
    told = "with --html: compare each statement's derivative with differences, at random arguments"
    show.add_argument("--check", action="store_true", help=told)
    check = command("check", _check, "Compare forward mode, reverse mode and differences.")
    target(check)
    check.add_argument("--seed", type=_seed, default=0, help="of the random arguments (0)")
    saved = "Say what the reverse phase saves or recomputes, and why."
    explain = command("explain", _explain, saved)
    target(explain)
    told = "say instead which loops run on threads, and why the others do not"
    explain.add_argument("--parallel", action="store_true", help=told)
    told = "say instead what a pass of kernels did with each loop, and why not; or all"
    explain.add_argument("--why", metavar="PASS", help=told)
    told = "say instead what a call costs: operations, bytes moved, and bytes saved"
    explain.add_argument("--cost", action="store_true", help=told)
    kept = command("cache", _cache, "Show, or empty, the folder of compiled kernels.")
    told, asked = "what is there; or remove it all", ("info", "clear")
    kept.add_argument("what", choices=asked, metavar="{info,clear}", help=told)
    page = command("help", _help, "Print the page of an error or a limit, or list all pages.")
    page.add_argument("page", nargs="?", metavar="NAME", help="such as ShapeError, or branches")
    verify = command("verify", _verify, "Check that saved modules are what calque writes today.")
    verify.add_argument("files", nargs="+", metavar="FILE", help="modules that calque wrote")
    told = "a file or folder outside of the checkout that headers may name; may be repeated"
    verify.add_argument("--source", action="append", default=[], metavar="PATH", help=told)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 0 on")
    return int(text)


def _resolved(
    options: argparse.Namespace, transform: str | None
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The transformed function and its arguments, which an error that they cause is to name."""
    fn, args = resolve(options.target, transform, options.args)
    if options.args is not None and options.args.strip().lower().endswith(".json"):
        options.doubts = doubts(fn, args)
    return fn, args


def _show(options: argparse.Namespace) -> int:
    if options.html or options.against is not None or options.check:
        return _show_page(options)
    if options.target is None:
        raise UsageError("FILE:FUNC is missing, as in model.py:loss")
    fn, args = _resolved(options, options.transform)
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
    return _written(options.output, text)


def _written(path: str, text: str) -> int:
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return 0


def _show_page(options: argparse.Namespace) -> int:
    if not options.html:
        raise UsageError("--against and --check are for pages: write --html, too")
    if options.stage == "core":
        raise UsageError("--stage core has no page: it can only be printed")
    folder = os.getcwd()
    against = options.against and os.path.abspath(options.against)
    if options.target is None:
        if against is None:
            raise UsageError("a page needs FILE:FUNC, or --against a module that calque wrote")
        folder, command = saved_command(options.against)
        for name in ("target", "transform", "args", "stage", "engine"):
            setattr(options, name, command.get(name if name == "target" else f"--{name}"))
    with contextlib.chdir(folder):
        fn, args = _resolved(options, options.transform)
        values = None
        if options.check:
            values = _usable_args(load_function(options.target), args, 0)
        asked = {"stage": options.stage, "engine": options.engine, "values": values}
        try:
            text = page_text(fn, *args, against=against, **asked)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{options.against} cannot be read: {error}") from None
    if options.output:
        return _written(options.output, text)
    print(text, end="")
    return 0


def _help(options: argparse.Namespace) -> int:
    width = min(shutil.get_terminal_size().columns, 100)
    contents, page = help_pages.contents, help_pages.page
    print(contents(width) if options.page is None else page(options.page, width), end="")
    return 0


def _cache(options: argparse.Namespace) -> int:
    if options.what == "clear":
        print(f"{disk_cache.clear()} files removed")
        return 0
    folder = disk_cache.folder()
    if folder is None:
        print("nothing is kept on disk")
        return 0
    found = disk_cache.entries(folder)
    modules = sum(entry.path.suffix == ".py" for entry in found)
    kernels = sum(entry.path.suffix in (".code", ".cubin") for entry in found)
    size, most = (f"{n / 2**20:.1f} MiB" for n in (sum(e.size for e in found), disk_cache.limit()))
    print(f"{folder}\n{modules} modules, {kernels} compiled kernels, {size} of at most {most}")
    return 0


def _explain(options: argparse.Namespace) -> int:
    if options.cost and (options.parallel or options.why is not None):
        raise UsageError("--cost, --parallel and --why are asked one at a time")
    if options.why is not None:
        try:
            explaining(options.why)
        except ValueError as error:
            raise UsageError(f"--why: {error}") from None
    loops = options.parallel or options.why is not None  # of the function as it stands
    transform = options.transform or (None if loops else "grad(f)")
    fn, args = _resolved(options, transform)
    asked = {"parallel": options.parallel, "why": options.why, "cost": options.cost}
    print(calque.explain(fn, *args, **asked).rstrip("\n"))
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
    found = verdicts(options.files, options.source)
    for verdict in found:
        if verdict.problem:
            print(f"calque: {verdict.problem}", file=sys.stderr)
        elif verdict.difference:
            print(_painted(verdict.difference, "diff"), end="")
            print(f"{verdict.file}: stale", file=sys.stderr)
        else:
            print(f"{verdict.file}: up to date")
    return max(verdict.code for verdict in found)


# by which random arguments are multiplied, while nothing is checked by some of them
_FURTHER = (1.0, 1.0, 3.0, 3.0, 10.0, 10.0, 30.0)


def _check(options: argparse.Namespace) -> int:
    fn, specs = _resolved(options, options.transform)
    args = _usable_args(fn, specs, options.seed)
    if not any(map(is_float, _leaves(args))):
        said = "no argument is of a floating dtype: nothing to differentiate by"
        raise UsageError("\n".join([said, *getattr(options, "doubts", ((), ()))[1]]))
    report = examine(fn, args, options.seed)
    factors = _FURTHER if any(leaves(specs)) else ()  # given values are taken as they are
    for draw, factor in enumerate(factors, options.seed + 1):
        if not report.agrees or not report.unchecked:
            break
        args = sample_args(specs, draw, factor=factor)
        if _is_finite(fn, args):
            report = report.with_more(examine(fn, args, draw))
    print(report)
    if not report.agrees:
        print(report.error() if report.faults else "Every statement is right by itself.")
    elif report.unchecked and factors:
        print(f"So they are in {len(factors) + 1} draws of arguments; --seed N draws others.")
    return int(not report.agrees)


def _usable_args(fn: Callable[..., Any], specs: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
    """Random arguments at which the function is finite: positive ones where others are not."""
    args = sample_args(specs, seed)
    try:
        found = _is_finite(fn, args)
    except (TypeError, AttributeError, NameError, LookupError, ImportError) as error:
        if not _notes(error):
            error.add_note(_users_line(error))
        raise
    return args if found else sample_args(specs, seed, positive=True)


def _is_finite(fn: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """True if a function has finite values at these arguments."""
    try:
        with np.errstate(all="ignore"):
            values = _leaves(fn(*copy.deepcopy(args)))
    except (ValueError, ArithmeticError):
        return False
    return all(np.all(np.isfinite(value)) for value in values if is_float(value))


def _users_line(error: Exception) -> str:
    """The last line of the user's program on the way to an error."""
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith((own, "<calque"))] or frames
    last = theirs[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}\n    {last.line}"


def _leaves(value: Any) -> list[Any]:
    return list(pytrees.flatten(value)[0])


if __name__ == "__main__":
    sys.exit(main())
