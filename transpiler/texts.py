"""The texts of a program: its function, a whole module, or Core for reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from calque.transpiler.codegen.numpy.emit import Support, emit_function, emit_module
from calque.transpiler.codegen.text.signature import name_parameters
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir import core
from calque.transpiler.ir.stages import WRITING, stage
from calque.transpiler.ir.target import NUMPY
from calque.transpiler.ir.text import show
from calque.transpiler.late import Late
from calque.transpiler.outlining.shared_functions import plan_functions, share_functions
from calque.transpiler.outlining.sharing_policy import TO_READ
from calque.transpiler.primitives.function_calls import program_functions

if TYPE_CHECKING:
    from calque.transpiler.codegen.cuda import cuda_module
    from calque.transpiler.codegen.numba import fitting_numbers
else:
    cuda_module = Late("calque.transpiler.codegen.cuda.cuda_module")
    fitting_numbers = Late("calque.transpiler.codegen.numba.fitting_numbers")


@contextmanager
def fitting(traced: Traced) -> Iterator[None]:
    """While a program's kernels are written, their integers that fit in 64 bits are marked."""
    with ExitStack() as marked:
        if traced.target is not NUMPY:
            for each in program_functions(traced.function):
                noted = fitting_numbers.fitting_noted(each.body, traced.builder)
                marked.enter_context(noted)
        yield


@contextmanager
def with_functions(traced: Traced) -> Iterator[core.Function]:
    """The program as it is written: what repeats stands in functions, as in a copy of it.

    Kernels have theirs from their passes, and checks are told apart by their places.
    """
    function = traced.function
    asked = not traced.compiled and not function.checks
    plan = plan_functions(function, traced.builder, TO_READ, nested=True) if asked else []
    if not plan:
        yield function
        return
    copied = traced.copied({})
    name_parameters(copied.function)
    share_functions(copied.function, copied.builder, plan)
    yield copied.function
    function.origins = copied.function.origins
    function.imports.update(copied.function.imports)


def function_text(traced: Traced, name: str) -> str:
    """The ``def`` of the generated function."""
    traced.function.name = name
    with stage(WRITING):
        with fitting(traced), with_functions(traced) as function:
            if traced.target.grid:
                return cuda_module.cuda_function(function)
            text = emit_function(function, kernels=traced.target)
            return "\n\n".join([*function.helpers.values(), text])


def module_text(
    traced: Traced,
    name: str,
    title: str,
    provenance: Sequence[str],
    support: Support | None = None,
    asking: bool = False,
    around: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> str:
    """A whole module, with a docstring that says where it comes from.

    ``support`` writes out the functions that kernels call, which else are imported. If ``asking``,
    the module itself refuses arguments of other sizes than its kernels are written for. ``around``
    has imports and texts of the caller of a GPU function.
    """
    traced.function.name = name
    asked = traced.builder if asking and traced.compiled else None
    with stage(WRITING):
        with fitting(traced), with_functions(traced) as function:
            if traced.target.grid:
                return cuda_module.cuda_module(
                    function, title, provenance, support, asked, around
                )
            return emit_module(
                function,
                title=title,
                provenance=list(provenance),
                kernels=traced.target,
                support=support,
                asking=asked,
            )


def core_text(traced: Traced, name: str) -> str:
    """The Core program, for reading."""
    traced.function.name = name
    functions = [*program_functions(traced.function)]
    return "\n\n".join(map(show, reversed(functions)))
