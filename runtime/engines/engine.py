"""What an engine is: what a device's program calls with it, what launches it, and who runs it.

A further one is a class like ``ThreadEngine``, and a row in ``choosing``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calque.runtime.engines import communicator, threads
from calque.transpiler.codegen.numpy.engine_launchers import (
    DeviceLauncher,
    Module,
    ThreadLauncher,
)
from calque.transpiler.spmd.library_calls import CallLibrary

Program = Callable[..., Any]  # of a device: of its communicators, and of its part of the arguments
Arguments = Sequence[tuple[Any, ...]]  # of each device


class Engine:
    """What carries messages between devices. By default they are all in this process."""

    name: str
    launcher: type[DeviceLauncher]  # the text of what starts a device's program
    library: CallLibrary | None = None  # that the program calls; else methods of a ``Communicator``
    processes = False  # each device is a process of its own, which has its part of arrays alone

    def is_running(self) -> bool:
        """Whether this process is one of several devices."""
        return False

    def size(self) -> int:
        """How many processes there are."""
        return 1

    def rank(self) -> int:
        """The number of this process."""
        return 0

    def gathered(self, x: np.ndarray) -> np.ndarray:
        """Every process's array, along a new leading axis."""
        return x[None]

    def roll_call(self, text: str, description: str) -> None:
        """Every process is about to run the same program on the same shapes, or all raise."""

    def more(self, count: int) -> str:
        """How to have so many devices."""
        raise NotImplementedError

    def run(
        self, program: Program, arguments: Arguments, named: dict[str, Any], shape: Sequence[int]
    ) -> list[Any]:
        """The results of ``program(*communicators, *arguments[k], **named)``, for each device here.

        ``shape`` is that of the mesh, the last axis running fastest.
        """
        raise NotImplementedError

    def text(self) -> Module | None:
        """What a module that imports no calque has of it, if it needs something."""
        return None


class ThreadEngine(Engine):
    """Devices that are threads of this process."""

    name = "threads"
    launcher = ThreadLauncher

    def more(self, count: int) -> str:
        """By an environment variable."""
        return f"set CALQUE_CPU_DEVICES={count} before the program starts"

    def run(
        self, program: Program, arguments: Arguments, named: dict[str, Any], shape: Sequence[int]
    ) -> list[Any]:
        """All of them, in threads."""
        return threads.run(program, arguments, named, shape)

    def text(self) -> Module:
        """The modules that run a device's program, without what they import of calque."""
        lines, texts = [], []
        for module in (communicator, threads):
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
