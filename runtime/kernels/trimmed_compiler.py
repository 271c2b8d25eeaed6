"""Numba's compiler for the kernels of this process, less the passes that they do not need.

A kernel is plain loops over numbers: what Numba does for closures, literals, `with` and whole
arrays finds nothing in it. The loops that come out are the same; a saved module has Numba's own.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from llvmlite.binding import Linkage, create_new_module_pass_manager
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import (
    AnalysisPass,
    FunctionPass,
    PassManager,
    register_pass,
)
from numba.core.ir_utils import build_definitions
from numba.core.typed_passes import (
    AnnotateTypes,
    DumpParforDiagnostics,
    InlineOverloads,
    IRLegalization,
    NativeLowering,
    NopythonRewrites,
    NoPythonSupportedFeatureValidation,
    NopythonTypeInference,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    IRProcessing,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    ReconstructSSA,
    RewriteSemanticConstants,
    WithLifting,
)
from numba.extending import intrinsic

from calque.runtime.gc_pause import uncollected
from calque.runtime.kernels.decorator import _Lowering, kernel_part
from calque.runtime.kernels.late_blas import blas_later
from calque.runtime.kernels.llvm_numbers import DIRECT
from calque.runtime.kernels.matrix_functions import IN_ROWS, PARTS
from calque.runtime.kernels.trimmed_assignments import Single
from calque.runtime.kernels.trimmed_lowering import References, lowering
from calque.runtime.kernels.trimmed_passes import PASSES
from calque.runtime.kernels.trimmed_types import QuickTypes
from calque.runtime.kernels.trimmed_views import short_refusals, views_at_once
from calque.runtime.vecmath import direct

INLINED = 16  # calls of vector functions; with more, they stay calls
BY_RANK = {RewriteSemanticConstants, DeadBranchPrune}  # of use where an argument's rank is asked
NEEDLESS = {DeadBranchPrune, NopythonRewrites, WithLifting}
# of code for one thread; the other has Numba's own way to loops on several
SERIAL_NEEDLESS = {
    *(DumpParforDiagnostics, FindLiterallyCalls, InlineClosureLikes, InlineInlinables),
    *(InlineOverloads, IRLegalization, LiteralPropagationSubPipelinePass, LiteralUnroll),
    *(MakeFunctionToJitFunction, NoPythonSupportedFeatureValidation, RewriteSemanticConstants),
}
SERIAL = {**PASSES, NopythonTypeInference: QuickTypes, AnnotateTypes: References}


@register_pass(mutates_CFG=False, analysis_only=False)
class _Written(FunctionPass):
    """Puts what is written in LLVM for a function into its place."""

    _name = "calque_written"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Change the globals that are such functions: Python loads one for each call."""
        found = []
        for block in state.func_ir.blocks.values():
            views_at_once(state.func_ir, block)
            for s in block.find_insts(ir.Assign):
                if not isinstance(s.value, (ir.Global, ir.FreeVar)):
                    continue
                known = s.value.value
                if direct.is_vector(known):
                    found.append(s)
                elif type(known) is FunctionType and known in DIRECT:
                    s.value = ir.Global(s.value.name, DIRECT[known], s.value.loc)
                elif state.flags.auto_parallel.enabled:
                    if hasattr(known, "on_threads"):
                        s.value = ir.Global(s.value.name, known.on_threads, s.value.loc)
                elif type(known) is FunctionType and known in PARTS:
                    s.value = ir.Global(s.value.name, _of_matrices(known), s.value.loc)
        for s in found:
            function = direct.direct(s.value.value, len(found) > INLINED)
            s.value = ir.Global(s.value.name, function, s.value.loc)
        state.typingctx.refresh()  # else it does not know functions that are new
        state.targetctx.refresh()
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


class _Library(JITCodeLibrary):
    """The code of one kernel and its parts, with one manager of passes for all of its functions.

    Its parts stay functions: in one, LLVM's passes would take longer than in all of them.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._parts: list[_Part] = []

    def add_linking_library(self, library: Any) -> None:
        """Note what the kernel calls; its parts as they are before any pass of LLVM's."""
        if not isinstance(library, _Part):
            super().add_linking_library(library)
        elif library not in self._parts:
            self._parts.append(library)
            for other in library._linking_libraries:
                super().add_linking_library(other)
            for part in library._parts:
                self.add_linking_library(part)

    def finalize(self) -> None:
        """Link, optimize and load."""
        own = set[str]()
        for part in self._parts:
            module = part._final_module.clone()
            for function in module.functions:
                if not function.is_declaration and function.linkage == Linkage.external:
                    function.linkage = "linkonce_odr"
                    own.add(function.name)
            self._final_module.link_in(module)
        for name in own:
            function = self._final_module.get_function(name)
            function.linkage = "internal"
            function.add_function_attribute("noinline")
        super().finalize()

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        manager, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                title = f"Function passes on {function.name!r}"
                with self._recorded_timings.record(title, builder):
                    manager.run(function, builder)

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        # variants of vector functions that no loop came to call
        for function in self._final_module.functions:
            if function.name.startswith("vecmath.") and not function.is_declaration:
                function.linkage = "internal"
        cleaning = create_new_module_pass_manager()
        cleaning.add_global_dead_code_eliminate_pass()
        cleaning.run(self._final_module, self._codegen._pass_builder())


class _Part(_Library):
    """The code of a part, which only kernels load."""


@functools.cache
def _of_matrices(function: Any) -> Any:
    """A function of matrices for kernels to call, compiled as a part of these.

    One for all layouts that its arguments may have in memory.
    """

    def typed(typing_context: Any, *given: Any) -> Any:
        if function not in IN_ROWS:
            given = tuple([_of_any_layout(t) for t in given])
        known = types.Dispatcher(_part_of_matrices(function, given))
        signature = known.get_call_type(typing_context, given, {})

        def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
            return context.get_function(known, signature)(builder, args)

        return signature, code

    by_count = {
        1: lambda typing_context, a: typed(typing_context, a),
        2: lambda typing_context, a, b: typed(typing_context, a, b),
        3: lambda typing_context, a, b, c: typed(typing_context, a, b, c),
    }
    return intrinsic(by_count[function.__code__.co_argcount])


def _of_any_layout(t: Any) -> Any:
    return t.copy(layout="A", readonly=False) if isinstance(t, types.Array) else t


@functools.cache
def _part_of_matrices(function: Any, kinds: tuple[Any, ...]) -> Any:
    part = kernel_part(function)
    plain = part._compiler.pipeline_class
    part._compiler.pipeline_class = quick(plain, True, True)
    part.targetoptions["no_cfunc_wrapper"] = True
    return part


@register_pass(mutates_CFG=False, analysis_only=True)
class _OwnLibrary(AnalysisPass):
    """Lets the kernel be lowered into such a library."""

    _name = "calque_own_library"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make it."""
        kind = _Part if state.pipeline.is_part else _Library
        state.library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False


class _Passes(PassManager):
    """Numba's passes without its looking at the function between any two of them."""

    def _runPass(self, index: int, step: Any, state: Any) -> None:
        if self._print_before or self._print_after or self._print_wrap:
            super()._runPass(index, step, state)
            return
        step.analysis = self._analysis
        step.run_initialization(state)
        step.run_pass(state)
        step.run_finalizer(state)


@functools.cache
def quick(plain: type, part: bool = False, by_rank: bool = False) -> type:
    """A compiler as another one, without what kernels, or parts of them, have no need of."""
    asked = BY_RANK if by_rank else set()

    class Quick(plain):
        is_part = part

        def __init__(self, *args: Any) -> None:
            with global_compiler_lock, blas_later():
                super().__init__(*args)

        def define_pipelines(self) -> list[Any]:
            """Numba's passes, some in other words, some not at all."""
            (passes,) = super().define_pipelines()
            passes.passes = [p for p in passes.passes if p[0] not in NEEDLESS - asked]
            passes.add_pass_after(_Written, IRProcessing)
            passes.add_pass_after(_Written, InlineInlinables)  # parts stand in their places now
            passes.add_pass_after(_OwnLibrary, AnnotateTypes)
            passes.passes = [(Single if p is ReconstructSSA else p, t) for p, t in passes.passes]
            if not self.state.flags.auto_parallel.enabled:
                passes = self._serial(passes)
            passes.finalize()
            return [passes]

        def _serial(self, passes: Any) -> Any:
            found = _Passes(passes.pipeline_name)
            for step, told in passes.passes:
                if step in (NativeLowering, _Lowering):
                    found.add_pass(lowering(step, part), told)
                elif step not in SERIAL_NEEDLESS - asked:
                    found.add_pass(SERIAL.get(step, step), told)
            return found

        def compile_extra(self, func: Any) -> Any:
            """Numba's result for a function."""
            with global_compiler_lock, uncollected(), short_refusals():
                return super().compile_extra(func)

    return Quick
