"""The source of ``pmap`` and ``shard_map``: what each device runs, and what starts it."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.runtime.call.loading import Program
from calque.runtime.devices.mapped import DeviceProgram, Mapped, require_own
from calque.runtime.engines.choosing import ENGINES, GPUS, THREADS
from calque.runtime.spec import Spec
from calque.transpiler import texts
from calque.transpiler.codegen.numpy.device_launchers import Cut
from calque.transpiler.codegen.numpy.emit import (
    Support,
    emit_function,
    imports,
    kernel_imports,
    sorted_imports,
)
from calque.transpiler.codegen.numpy.engine_launchers import DeviceLauncher
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.core import Function
from calque.transpiler.spmd.library_calls import write_calls
from calque.transpiler.transformations.mesh_programs import Layout


class DeviceSource:
    """The text for arguments, or types, of one call; on one of the engines."""

    def __init__(self, mapped: Mapped, args: Sequence[Any], engine: str):
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
        self.mapped, self.engine = mapped, ENGINES[engine]
        self.layout = mapped.layout(args, {})
        self.on_gpus = self.engine.platform == "gpu"
        # of no library
        self.device: DeviceProgram = mapped.device(self.layout, GPUS if self.on_gpus else THREADS)
        if mapped.in_parts():
            args = _of_all_ranks(mapped, args, self.layout)
        self.args = args
        parts = mapped.example_parts(args, self.layout)
        programs = self.device.cuda_programs() if self.on_gpus else self.device.dispatcher()
        self.program: Program = programs.find(parts, {})[0]
        require_own(self.program, self.layout)
        self.function: Function = self.program.traced.function
        self.sizes = self.layout.sizes
        self.name = mapped.generated_name()

    def device_text(self, name: str | None = None) -> str:
        """The ``def`` of what each device runs."""
        traced = self.program.traced
        if self.on_gpus:
            return texts.function_text(traced, name or self.device.generated_name())
        with texts.fitting(traced), texts.with_functions(traced) as function:
            if self.engine.library is not None:
                own = set(self.device.communicators)
                function = write_calls(self.engine.library, function, traced.builder)
                function.signature = [p for p in function.signature if p.name not in own]
            self.function = function
            function.name = name or self.device.generated_name()
            return emit_function(function, kernels=traced.target)

    def launcher_text(self) -> str:
        """The ``def`` that takes whole arrays and gives whole arrays."""
        return self._launcher().text()

    def _launcher(self) -> DeviceLauncher:
        return self.engine.launcher(
            self.function,
            self.name,
            self.device.generated_name(),
            self.device.called,
            self.sizes,
            self.mapped.cuts_of_arguments(self.layout),
            self.mapped.cuts_of_result(self.layout, self.function.result),
            [capture.name for capture in self.program.traced.captures],
        )

    def source(self) -> str:
        """Both, for reading, behind the functions that they call."""
        device = self.device_text()
        called = [text.strip("\n") for text in self.function.helpers.values()]
        return "\n\n\n".join([*called, device.rstrip(), self.launcher_text()])

    def specs(self) -> tuple[Any, ...]:
        """The whole arguments as types."""

        def spec_of(leaf: Any) -> Any:
            if not isinstance(leaf, (np.ndarray, np.generic)):
                return leaf
            return Spec(leaf.dtype, leaf.shape)

        found: tuple[Any, ...] = pytrees.tree_map(spec_of, tuple(self.args))
        return found

    def module(self, header: Sequence[str], title: str, support: Support | None) -> str:
        """A whole module; ``support`` writes out what it calls, which else is imported."""
        if self.on_gpus:
            return self._cuda_module(header, title, support)
        parts = [self.device_text(), self.launcher_text()]
        helpers: list[str] = [*self.function.helpers.values()]
        used = {n.id for n in ast.walk(ast.parse("".join(parts))) if isinstance(n, ast.Name)}
        lines = imports(self.function, used | {"np"})
        if self.program.traced.compiled:
            more, ahead, behind = kernel_imports(used, support)
            lines += more
            helpers = [ahead, *helpers] if ahead else helpers
            parts += [behind] if behind else []
        made = self._launcher()
        alone = None if support is None else self.engine.text()
        more, texts = made.module(parts, helpers, alone)
        lines = [li for li in lines if "mpi4py" not in li] + more
        quoted = "\n".join([title, "", *header]).rstrip().replace("\\", "\\\\")
        body = "\n\n\n".join(t.strip("\n") for t in texts if t.strip())
        return f'"""{quoted}\n"""\n' + "\n".join(sorted_imports(lines)) + made.blank + body + "\n"


    def _cuda_module(self, header: Sequence[str], title: str, support: Support | None) -> str:
        alone = None if support is None else self.engine.text()
        around = self._launcher().module([self.launcher_text()], [], alone)
        name = self.device.generated_name()
        traced = self.program.traced
        return texts.module_text(traced, name, title, header, support, around=around)


def _of_all_ranks(mapped: Mapped, args: Sequence[Any], layout: Layout) -> tuple[Any, ...]:
    """The types of the whole arguments, of which a call under mpiexec is given this rank's part."""

    def whole(leaf: Any, cut: Cut) -> Any:
        if not cut.names:
            return leaf
        if not isinstance(leaf, Spec):
            leaf = np.asarray(leaf)
            leaf = Spec(leaf.dtype, leaf.shape)
        counts = {axis: [layout.sizes[n] for n in names] for axis, names in enumerate(cut.blocks)}
        if cut.element:
            name, axis = cut.element
            counts[axis] = [layout.sizes[name]]
        dims = [
            size * math.prod(counts.get(axis, ())) if isinstance(size, int) else size
            for axis, size in enumerate(leaf.dims)
        ]
        return Spec(leaf.dtype, tuple(dims))

    leaves, structure = pytrees.flatten(list(args))
    cuts = mapped.cuts_of_arguments(layout)
    return tuple(pytrees.unflatten(structure, [*map(whole, leaves, cuts)]))
