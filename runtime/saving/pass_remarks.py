"""The remarks of the passes of kernels on a function's loops: what each did, and why not more."""

from __future__ import annotations

from typing import Any

from calque.runtime.call.argument_keys import sizes_of
from calque.runtime.call.dispatch import Dispatcher
from calque.runtime.call.loading import Program
from calque.runtime.call.plans import capture_sizes
from calque.runtime.fitting import shown
from calque.runtime.transformed import Transformed
from calque.transpiler.codegen.cuda.cuda_target import CUDA
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.old_pass_names import OLD_NAMES
from calque.transpiler.ir.pass_manager import Work
from calque.transpiler.ir.target import Target
from calque.transpiler.kernel_passes import KERNEL_PASSES
from calque.transpiler.pipeline import to_kernels


def remarked(transformed: Transformed, args: tuple[Any, ...], policy: str) -> Builder:
    """The builder of a function's kernels, which has the remarks of a pass, or of "all"."""
    sizes: dict[str, int] = {}  # passes ask them what pays

    def find(dispatcher: Dispatcher, given: Any) -> Program:
        program, leaves = dispatcher.find(given, {})
        sizes.update({**capture_sizes(program.captures, dispatcher.root), **sizes_of(leaves)})
        return program

    traced = transformed.asked(find, args).traced
    target = _target_of(policy, traced)
    return to_kernels(traced, sizes=sizes, target=target, remarks=True).builder


def _target_of(policy: str, traced: Traced) -> Target:
    """The target of the kernels that a pass is asked about: a GPU if it runs for no CPU."""
    work = Work(traced.function, traced.builder, NUMBA)
    passes = [each for each in KERNEL_PASSES if policy in ("all", each.name)]
    return NUMBA if any(each.when(work) for each in passes) else CUDA


def explaining(why: Any) -> str:
    """The name of a pass that explains itself, or "all"; ValueError for others."""
    names = list(dict.fromkeys(each.name for each in KERNEL_PASSES if each.explains))
    policy = OLD_NAMES.get(why, why) if isinstance(why, str) else None
    if policy is None or policy not in ("all", *names):
        raise ValueError(f'why must be "all", or one of {", ".join(names)}, not {shown(why)}')
    return policy
