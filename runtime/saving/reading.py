"""Generated source for reading: as text, as a module, and what the sweep keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from calque.runtime import api
from calque.runtime.call import kernel_source
from calque.runtime.call.fallback import message
from calque.runtime.call.loading import Program
from calque.runtime.call.progress import watched
from calque.runtime.cuda import launching_source
from calque.runtime.devices.device_source import DeviceSource
from calque.runtime.devices.mapped import Mapped
from calque.runtime.options import checked
from calque.runtime.outside import outside
from calque.runtime.pages.html_pages import framed, page_html
from calque.runtime.pages.line_notes import thread_verdicts
from calque.runtime.pages.reviews import Review, review_of
from calque.runtime.saving.pass_remarks import explaining, remarked
from calque.runtime.saving.provenance import provenance, specs_of
from calque.runtime.saving.stage_programs import (
    as_transformed,
    at_stage,
    engine_of,
    program_at,
    refuse_engine,
)
from calque.runtime.saving.titles import title
from calque.runtime.saving.writing import write_whole
from calque.runtime.tiers.launch_types import tried
from calque.runtime.tracebacks import hide_own_frames
from calque.runtime.transformed import Transformed
from calque.runtime.version import NUMBA_TRIED
from calque.transpiler import texts
from calque.transpiler.codegen.numba.numba_in_order import NUMBA_IN_ORDER
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.codegen.numpy.emit import Support
from calque.transpiler.diagnostics.placements import CALL, KERNEL, LOOP, placements
from calque.transpiler.errors import Origin, UnsupportedFunction, file_name
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir.remarks import remark_lines
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.runtime.saving import cost_report
else:
    cost_report = Late("calque.runtime.saving.cost_report")

_BLOCK_STYLE = "font-family: monospace; white-space: pre; overflow-x: auto"
_UNCOMPILED = {"CALQUE_JIT": "0", "NUMBA_DISABLE_JIT": "1"}  # what the user asks for


class SourceText(str):
    """Source as text, which a notebook shows in colour, and beside the user's functions."""

    __slots__ = ("_review",)

    _review: Callable[[], Review] | None

    def __new__(cls, text: str, review: Callable[[], Review] | None = None) -> SourceText:
        made = super().__new__(cls, text)
        made._review = review
        return made

    def __reduce__(self) -> Any:
        return SourceText, (str(self),)  # the program stays in this process

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self).rstrip("\n"))

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer

        # styles stand in the elements: a page has no sheet of ours
        formatter = HtmlFormatter(noclasses=True, prestyles=_BLOCK_STYLE)
        text = str(highlight(self, PythonLexer(), formatter))
        if self._review is None:
            return text
        return text + framed(page_html(self._review()))


@outside
def source(fn: Any, *args: Any, stage: str | None = None, engine: str | None = None) -> SourceText:
    """The generated source of a transformed (or plain) function for arguments of these types.

    ``fn`` is the function, ``args`` are those of a call: arrays, numbers, pytrees of them, or specs
    such as ``calque.spec("f8[n,3]")``.
    ``stage`` is "numpy" for NumPy source, "kernels" for what ``jit`` runs, "cuda" for a GPU, or
    "core" for the intermediate program; without it, the function as it runs: kernels where it is
    jitted.
    Of a function over devices (``pmap``, ``shard_map``) it is the program of each, and what starts
    it; ``engine`` is "threads" (by default), "mpi": then collectives are calls of mpi4py, or
    "nccl", for GPUs. The arguments are those of a call: under mpiexec, this rank's parts.

    >>> import calque
    >>> def cube(x):
    ...     return x**3
    >>> print(calque.source(cube, 1.0), end="")
    def cube(x):
        return x ** 3
    """
    try:
        transformed = at_stage(fn, stage)
        name = transformed.generated_name()
        if isinstance(transformed, Mapped):
            found = DeviceSource(transformed, args, engine_of(transformed, stage, engine))
            if stage == "core":
                return SourceText(texts.core_text(found.program.traced, name))
            return SourceText(found.source(), partial(review_of, fn, found.specs(), stage, engine))
        refuse_engine(engine)
        program = program_at(transformed, args, stage)
        traced = program.traced
        if stage == "core":
            return SourceText(texts.core_text(traced, name))
        with watched(lambda: name, lambda: "writing its source"):
            text = texts.function_text(traced, name)
        return SourceText(text, partial(review_of, fn, specs_of(program, args), stage))
    except Exception as error:
        hide_own_frames(error)
        raise




@outside
def save(
    fn: Any,
    path: str | os.PathLike[str],
    *args: Any,
    stage: str | None = None,
    engine: str | None = None,
) -> None:
    """Write the generated function as a module that needs only NumPy, and Numba where it is jitted.

    A jitted function's module holds the text of all that its kernels call, and compiles them when
    they are first called. The docstring says where the module comes from and how to make it again
    (``calque verify`` does). ``stage`` is as for ``source``; "core" cannot be saved.

    A function over devices takes whole arrays and gives whole arrays there. With ``engine="mpi"``
    it needs mpi4py, too, and runs under ``mpiexec``: ``mpiexec -n 4 python saved.py arguments.npz
    results.npz``, where its arguments are arrays and numbers.

    ``fn`` is a transformed (or plain) function, ``path`` the file, ``args`` are as for ``source``.
    What stands in the file already is replaced as a whole, or not at all.

    >>> import pathlib, tempfile, calque
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "half.py")
    >>> calque.save(lambda x: 0.5 * x, path, 1.0)
    >>> "return 0.5 * x" in path.read_text()
    True
    >>> folder.cleanup()
    """
    try:
        checked("save", path=path)
        write_whole(path, module_source(fn, *args, stage=stage, engine=engine))
    except Exception as error:
        hide_own_frames(error)
        raise


def module_source(
    fn: Any,
    *args: Any,
    stage: str | None = None,
    alone: bool = True,
    engine: str | None = None,
) -> str:
    """The text that ``save`` writes; not ``alone``, it imports what kernels call from calque."""
    if isinstance(stage, str) and stage == "core":
        raise ValueError('stage "core" is no module: it can only be shown')
    transformed = at_stage(fn, stage)
    called: Support | None = kernel_source.embedded if alone else None
    if isinstance(transformed, Mapped):
        found = DeviceSource(transformed, args, engine_of(transformed, stage, engine))
        called = launching_source.embedded if alone and found.on_gpus else called
        specs = found.specs()
        origin = provenance(as_transformed(fn), found.program, specs, stage, engine)
        _note_numba(found.program.traced, origin, alone)
        return found.module(origin, title(transformed), called)
    refuse_engine(engine)
    program = program_at(transformed, args, stage)
    if stage == "cuda" and alone:
        called = launching_source.embedded
    name = transformed.generated_name()
    origin = provenance(as_transformed(fn), program, args, stage)
    _note_numba(program.traced, origin, alone)
    with watched(lambda: name, lambda: "writing its module"):
        text = texts.module_text(program.traced, name, title(transformed), origin, called, True)
    lost = [n for n, module in program.traced.function.imports.items() if module == "__main__"]
    if lost:
        raise UnsupportedFunction(
            f"{', '.join(lost)} stands in __main__, from where a saved module cannot import it.",
            hint="move it to a module of its own, and import it from there",
        )
    return text


def _note_numba(traced: Traced, origin: list[str], alone: bool) -> None:
    """Record the Numba versions tried in the header of a stand-alone module with kernels."""
    if alone and traced.target in (NUMBA, NUMBA_IN_ORDER):
        tried = " to ".join(NUMBA_TRIED)
        origin.append(f"Kernels need Numba alone; they were tried with {tried}.")


@outside
def explain(
    fn: Any,
    *args: Any,
    parallel: bool = False,
    why: str | None = None,
    cost: bool = False,
) -> str:
    """Report what the reverse phase saves, recomputes or has at hand, and why, by the user's line.

    For a jitted function the report also says where each line runs: in kernels, in a call of
    NumPy's or SciPy's, or in a Python loop, with what keeps it out of the kernels; for
    ``calque.parallel(f)``, which loops run on threads, and why others do not. With
    ``parallel=True`` it says that alone, for any function. With ``why="interchange"``, or the name
    of another pass that explains itself, it says for each loop what that pass did with it, or why
    it left it as it is; ``why="all"`` says so for all such passes. A pass that runs for a GPU alone
    is asked about the kernels for a GPU.

    With ``cost=True`` it says instead what a call costs: floating-point operations, bytes read and
    written in memory, and bytes that the forward phase saves for the reverse phase, as formulas of
    the arguments' sizes and as numbers, beside those of the function that is differentiated.

    ``fn``: a transformed function, or a plain one; ``args``: arguments, or types (``spec``), for
    which to explain it. Raises what the transformation raises, and ValueError where it is asked
    about the cost and about something else.

    >>> import calque
    >>> print(calque.explain(calque.grad(lambda x: x * x), 1.0))
    Nothing is saved: the reverse phase has all it needs at hand.
    >>> types = calque.spec("f8[n,m]"), calque.spec("f8[m]")
    >>> report = calque.explain(lambda x, y: x @ y, *types, cost=True)
    >>> [line for line in report.splitlines() if "operations" in line][0].split()[-1]
    '2*m*n'
    """
    try:
        if cost:
            if parallel or why is not None:
                raise ValueError("ask for one of cost, parallel and why at a time")
            compiled = as_transformed(fn).compiled
            return cost_report.cost_report(at_stage(fn, "numpy"), args, compiled)
        if why is not None:
            return _remarks(at_stage(fn, "numpy"), args, why)
        made = api.parallel(fn) if parallel else fn
        transformed = as_transformed(made)
        program = transformed.program(*args) if parallel else transformed.asked(tried, args)
        traced = program.traced
        loops = list(dict.fromkeys(_loop_lines(traced)))
        if parallel:
            return "\n".join(loops) or "No loop of the function's is left to run on threads."
        placed = _placement_lines(traced) if traced.compiled else []
        lines = list(dict.fromkeys(_decision_lines(traced)))
        slow = _fallback_lines(transformed, program)
        if not lines and not placed and not slow:
            return "Nothing is saved: the reverse phase has all it needs at hand."
        return "\n".join([*slow, *placed, *loops, *lines])
    except Exception as error:
        hide_own_frames(error)
        raise


def _remarks(transformed: Transformed, args: tuple[Any, ...], why: str) -> str:
    """The remarks of one pass of kernels on each loop, or those of all passes."""
    policy = explaining(why)
    lines = remark_lines(remarked(transformed, args, policy), None if policy == "all" else policy)
    return "\n".join(lines) or f"{policy} considers no loop of {transformed.generated_name()}."


def _fallback_lines(transformed: Transformed, program: Program) -> list[str]:
    """The parts that run as NumPy source under ``jit``, or uncompiled, with the reasons."""
    lines = []
    for name, off in _UNCOMPILED.items():
        if program.traced.compiled and os.environ.get(name) == off:
            lines.append(f"{name}={off}: kernels run uncompiled, as plain Python.")
    if program.fallbacks:
        lines.append(message(transformed.generated_name(), program.fallbacks))
    return lines


def _loop_lines(traced: Traced) -> Iterator[str]:
    """Reports on the user's loops that run on threads or not, if ``parallel`` asked for them."""
    for origin, (told, *statements) in thread_verdicts(traced):
        head = f"{_place(origin)}: {told}\n    {origin.text.strip()}"
        yield "\n".join([head, *(f"    {line}" for line in statements)])


def _decision_lines(traced: Traced) -> Iterator[str]:
    """Reports on the saved values, each with its reason and its statement."""
    for decision in traced.function.decisions:
        origin = decision.value.origin
        what = decision.value.name or "a value"
        text = f"{_place(origin)}: {what} is {decision.how}: {decision.why}"
        if origin is not None and origin.statement:
            text += f"\n    {origin.statement.splitlines()[0]}"
        yield text


def _placement_lines(traced: Traced) -> list[str]:
    """Reports on where each line runs; lines in kernels alone share one line of numbers."""
    found = placements(traced.function, traced.target)
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
    if traced.function.kernel_options.get("reassociate") is False:
        lines.append("Sums are made in the order of the program (reassociate=False).")
    lines = list(dict.fromkeys(lines))
    return lines or ["Nothing is compiled: there is no loop, nor work on arrays."]


def _place(origin: Origin | None) -> str:
    return "?" if origin is None else f"{file_name(origin.file)}:{origin.line}"
