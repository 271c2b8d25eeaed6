"""A kernel's other version, for one thread or for several, is compiled while the first one answers.

Each call decides which of the two it wants, by the sizes of its arrays and by what calls before it
took. Only the first call of a kernel waits for a compiler. Another process compiles, as for
``jit(f, first="numpy")``; where no other process can be started, and where a kernel calls functions
of the user's by name, a thread of this process does.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from typing import Any

from calque.runtime.call.dispatch import making
from calque.runtime.call.machine_code import KernelCache
from calque.runtime.tiers import background, compiling_process
from calque.runtime.tiers.background import Waiting
from calque.runtime.tiers.compiling_child import Order
from calque.transpiler.forking import free_in_children
from calque.transpiler.ir.debug import show_text

_PATIENCE = 60.0  # seconds that the end of the process waits for what it compiles itself
# held while this process compiles: LLVM must not be cut off
_here = free_in_children("versions", threading.RLock())


class VersionAside:
    """One version of a kernel, compiled in the background for the types of calls that want it."""

    def __init__(self, cache: KernelCache, text: str, name: str):
        self.cache, self.text, self.name = cache, text, name
        self.tasks = Waiting()  # by types

    def ask(self, types: tuple[Any, ...]) -> None:
        """Have the version compiled for some types, if nobody has asked yet; return at once."""
        if types not in self.tasks:
            self.tasks.begin(types, lambda: self._make(types), background.LATER)

    def wait(self) -> None:
        """Return when everything that was asked for is compiled, or has been refused."""
        self.tasks.wait()

    def _make(self, types: tuple[Any, ...]) -> None:
        try:
            with making:  # a fork waits for what is imported here
                elsewhere = self.cache.key is not None and not self.cache.is_ready(types)
            if elsewhere:
                self._compile_elsewhere(types)
            with _here, making:
                self.cache.dispatcher.compile(types)  # which loads what is compiled
        except Exception as error:  # whatever it is, the other version goes on
            show_text(f"# {self.cache.kernel} has no {self.cache.version} version: {error}")

    def _compile_elsewhere(self, types: tuple[Any, ...]) -> None:
        order = Order(self.text, self.name, ((self.cache.kernel, self.cache.version, types),))
        try:
            refused = compiling_process.compile_elsewhere(order)
        except compiling_process.CompilerLost as error:
            show_text(f"# {self.cache.kernel} is compiled in this process: {error}")
            refused = ""
        if background.is_idle():
            compiling_process.stop_if_unwanted()
        if refused:
            raise RuntimeError(refused)


def offer(kernels: tuple[KernelCache, ...], text: str, name: str) -> None:
    """Let each version of a module's kernels be compiled aside once a call wants it."""
    for cache in kernels:
        if cache.aside is not None:
            maker = VersionAside(cache, text, name)
            cache.aside.makers[cache.version == "parallel"] = maker.ask
            cache.maker = maker


def wait_for(kernels: Iterable[KernelCache]) -> None:
    """Return when no version of these kernels is being compiled aside."""
    for cache in kernels:
        if cache.maker is not None:
            cache.maker.wait()


def _finish() -> None:
    """Let the thread in the background end what it compiles, and begin nothing more."""
    _here.acquire(timeout=_PATIENCE)


atexit.register(_finish)
