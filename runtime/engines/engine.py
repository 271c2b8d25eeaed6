"""The interface of engines: a program's collectives, its launcher, and how its devices run.

A further engine needs a class like ``ThreadEngine``, and a row in ``choosing``.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from calque.runtime.engines import communicator, gpu_threads, threads
from calque.transpiler.codegen.numpy.engine_launchers import (
    DeviceLauncher,
    GpuLauncher,
    Module,
    ThreadLauncher,
)
from calque.transpiler.forking import free_in_children
from calque.transpiler.spmd.library_calls import CallLibrary

Program = Callable[..., Any]  # of a device: of its communicators, and of its part of the arguments
Arguments = Sequence[tuple[Any, ...]]  # of each device
_running = free_in_children("GPUs", threading.RLock())  # NCCL's communicators are one call's


class Engine:
    """A way to run devices and carry their messages. By default all are in this process."""

    name: str
    launcher: type[DeviceLauncher]  # the text of what starts a device's program
    library: CallLibrary | None = None  # that the program calls; else methods of a ``Communicator``
    processes = False  # each device is a process of its own, which has its part of arrays alone
    platform = "cpu"  # of its devices

    def is_running(self) -> bool:
        """True if this process is one of several devices."""
        return False

    def size(self) -> int:
        """The number of processes."""
        return 1

    def rank(self) -> int:
        """The number of this process."""
        return 0

    def gathered(self, x: np.ndarray) -> np.ndarray:
        """Every process's array, along a new leading axis."""
        return x[None]

    def gpu_communicators(self, shape: Sequence[int]) -> tuple[Any, ...]:
        """The communicators of this process's program on its GPU, if it is one of many."""
        raise NotImplementedError

    def roll_call(self, text: str, description: str) -> None:
        """Every process is about to run the same program on the same shapes, or all raise."""

    def more(self, count: int) -> str:
        """Advice on how to have so many devices, for messages."""
        raise NotImplementedError

    def run(
        self, program: Program, arguments: Arguments, named: dict[str, Any], shape: Sequence[int]
    ) -> list[Any]:
        """The results of ``program(*communicators, *arguments[k], **named)``, for each device here.

        ``shape`` is that of the mesh, the last axis running fastest.
        """
        raise NotImplementedError

    def text(self) -> Module | None:
        """The definitions that a module without calque needs; None if it needs none."""
        return None


class ThreadEngine(Engine):
    """Devices that are threads of this process."""

    name = "threads"
    launcher = ThreadLauncher

    def more(self, count: int) -> str:
        """Advice to set an environment variable."""
        return f"set CALQUE_CPU_DEVICES={count} before the program starts"

    def run(
        self, program: Program, arguments: Arguments, named: dict[str, Any], shape: Sequence[int]
    ) -> list[Any]:
        """Run the program on all devices, each in a thread."""
        return threads.run(program, arguments, named, shape)

    def text(self) -> Module:
        """The modules that run a device's program, without what they import of calque."""
        return texts_of(communicator, threads)


class GpuEngine(ThreadEngine):
    """Devices that are GPUs of this process."""

    name, platform, launcher = "nccl", "gpu", GpuLauncher

    def more(self, count: int) -> str:
        """Advice to give the devices more data each."""
        return "give each of them more of the data"

    def run(
        self, program: Program, arguments: Arguments, named: dict[str, Any], shape: Sequence[int]
    ) -> list[Any]:
        """On the first of them."""
        return self.run_on(program, arguments, named, shape, range(len(arguments)))

    def run_on(
        self,
        program: Program,
        arguments: Arguments,
        named: dict[str, Any],
        shape: Sequence[int],
        numbers: Sequence[int],
    ) -> list[Any]:
        """On the GPUs of these numbers, each launched on by a thread."""
        with _running:
            return gpu_threads.run_on_gpus(program, arguments, named, shape, numbers)

    def text(self) -> Module:
        """The modules that run a device's program, without what they import of calque."""
        return texts_of(communicator, threads, gpu_threads)


def texts_of(*modules: ModuleType) -> Module:
    """The texts of modules, and what they import, without what that is of calque."""
    lines, texts = [], []
    for module in modules:
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        rows = text.splitlines()
        nodes = ast.parse(text).body
        last = 0
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                last = node.end_lineno or last
                place = getattr(node, "module", None) or ""
                if not place.startswith(("calque", "__future__")):
                    lines.append(ast.unparse(node))
        texts.append("\n".join(rows[last:]).strip("\n"))
    return lines, texts
