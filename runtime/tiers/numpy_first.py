"""``jit(f, first="numpy")``: NumPy's text answers until the kernels of a call are compiled.

A call that finds no kernels is answered by the NumPy text. Its types are read there and then; the
kernels' text is written by a thread, and compiled by another process. The first call that finds all
machine code at hand runs kernels, and so does each call of its types after it: no call is answered
by both. Where the types of a launch were foreseen wrong, nothing has run that is not undone, NumPy
answers once more, and the right ones are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from calque.runtime.call.dispatch import MAX_ATTEMPTS, Dispatcher, making
from calque.runtime.call.loading import Program
from calque.runtime.call.machine_code import KernelCache, NotReady, only_what_is_ready
from calque.runtime.call.plans import Key, Plan, Request, drop_unless_kept
from calque.runtime.call.progress import say
from calque.runtime.tiers import background, compiling_process
from calque.runtime.tiers.background import Waiting
from calque.runtime.tiers.compiling_child import Order
from calque.runtime.tiers.launch_types import expected_launches
from calque.transpiler.diagnostics.placements import Fallback
from calque.transpiler.frontend.trace import Traced

_MOST_READ = 8  # times for one key
Wanted = list[tuple[KernelCache, tuple[Any, ...]]]


class _NumPyAnswers(Exception):
    """There are no kernels for a call yet; ``begin`` has them made."""

    def __init__(self, begin: Callable[[], None] | None = None):
        super().__init__()
        self.begin = begin


class _ToRead(Exception):
    """The function is to be read again, which the thread that calls does."""


class NumPyFirst(Dispatcher):
    """The programs of one function with kernels, and those that answer in the meantime."""

    def __init__(self, function: Any, name: Callable[[], str], static: Any, options: Any):
        super().__init__(function, name, compiled=True, static=static, options=options)
        self.plain = Dispatcher(function, name, static=static, options=options)
        self.plain.account, self.plain.varying = self.account, self.varying
        self.tasks = Waiting()  # by plans and keys

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run kernels where there are some, else NumPy's text."""
        try:
            program, leaves = self.find(args, kwargs, self.make_aside)
            self.account.answered = "kernels"
            return self._by_kernels(program, leaves, args, kwargs)
        except _NumPyAnswers as answers:
            return self._by_numpy(args, kwargs, answers.begin)

    def clear(self) -> None:
        """Forget all programs, and what is being made."""
        super().clear()
        self.plain.clear()
        self.tasks.clear()

    def of(self, function: Any, root: Any) -> NumPyFirst:
        """The same programs, for one of the functions that share them."""
        made: Any = super().of(function, root)
        made.plain = self.plain.of(function, root)
        return made

    def wait(self) -> None:
        """Return when nothing more is made in the background: the next call runs kernels."""
        self.tasks.wait()
        for program in [p for plan in self.plans.values() for p in plan.programs.values()]:
            program.awaited = True

    def make_aside(self, request: Request, full: Key) -> None:
        """Read the function for a call's types, and have the rest done."""
        plan, key = request.plan, (request.plan, full)
        if full in plan.left or plan.uncompiled or self.tasks.is_running(key):
            raise _NumPyAnswers
        self.tasks[key].asked += 1
        if self.tasks[key].asked > _MOST_READ:
            self._leave(key, f"what it captures has changed in {_MOST_READ} calls")
            raise _NumPyAnswers
        if not self.read_ahead(request, full):
            return  # more must be known: the key is another
        raise _NumPyAnswers(lambda: self._begin(key, lambda: self._make_kernels(request, key)))

    def _make_kernels(self, request: Request, key: tuple[Plan, Any]) -> None:
        """All that is left to do once the function is read."""
        plan = request.plan
        try:
            for _ in range(MAX_ATTEMPTS):
                full = request.full_key(self.root)
                if (program := plan.programs.get(full)) is not None:
                    break
                plan.why = "kernels, while NumPy answers"
                self.make_here(request, full, True)
            else:
                raise RuntimeError("the signature does not settle")
            with making:  # a fork waits for what is imported here
                wanted = expected_launches(program, request.leaves, self.root)
                for cache in program.kernels:
                    if cache.aside is not None:
                        cache.aside.never_wait = True
            self._compile(program, wanted)
        except _ToRead:
            pass  # the next call does
        except Exception as error:
            self._leave(key, f"{type(error).__name__}: {error}")
        finally:
            drop_unless_kept(plan)

    def _compile(self, program: Program, wanted: Wanted) -> None:
        """Have compiled what is not at hand."""
        with making:
            missing = [(k.kernel, k.version, t) for k, t in wanted if not k.is_ready(t)]
            order = Order(program.text, self.name(), tuple(missing))
        if not missing or any(k.key is None for k in program.kernels):
            return
        refused = compiling_process.compile_elsewhere(order)
        if refused:
            self.account.unsaid = self.refuse(program, *refused.split(": ", 1))

    def _leave(self, key: tuple[Plan, Any], why: str) -> None:
        """NumPy answers these calls for good, and those of the plan's programs not compiled yet."""
        plan = key[0]
        untried = [f for f, p in plan.programs.items() if not p.tried]
        plan.left.update((key[1], *untried))
        for full in untried:
            del plan.programs[full]
        self.account.unsaid = (Fallback(f"No kernels can be had: {why}.", None, whole=True),)

    def _begin(self, key: tuple[Plan, Any], work: Callable[[], None]) -> None:
        if not compiling_process.start(True):
            self._leave(key, compiling_process.NO_PROCESS)
            return
        self.tasks.begin(key, work)

    def _read(self, request: Request, pinned: dict[str, int]) -> Traced:
        if background.is_worker():
            raise _ToRead
        return super()._read(request, pinned)

    def _by_kernels(
        self, program: Program, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a program whose machine code is at hand."""
        plain = not program.traced.compiled or any(k.key is None for k in program.kernels)
        if program.tried or plain or not program.kernels:
            return self.run_program(program, leaves, args, kwargs)
        key = next(
            (p, full) for p in self.plans.values() for full, q in p.programs.items() if q is program
        )
        if any(plan is key[0] and self.tasks.is_running((plan, full)) for plan, full in self.tasks):
            raise _NumPyAnswers
        try:
            with nullcontext() if program.awaited else only_what_is_ready():
                result = self.run_program(program, leaves, args, kwargs)
        except NotReady as missing:
            wanted = [(missing.cache, missing.types)]
            self._begin(key, lambda: self._compile_or_leave(key, program, wanted))
            raise _NumPyAnswers from None
        say(f"calque: kernels answer {self.name()} from now on")
        return result

    def _compile_or_leave(self, key: tuple[Plan, Any], program: Program, wanted: Wanted) -> None:
        try:
            self._compile(program, wanted)
        except compiling_process.CompilerLost as error:
            self._leave(key, str(error))

    def _by_numpy(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        begin: Callable[[], None] | None = None,
    ) -> Any:
        """NumPy's answer; its text is made before ``begin``, which shares the interpreter."""
        self.account.answered = "numpy"
        if begin is not None:
            try:
                self.plain.find(args, kwargs)
            finally:
                begin()
        if self.account.unsaid:
            unsaid, self.account.unsaid = self.account.unsaid, ()
            self.warn(unsaid)
        found = self.plain.shapes.find(args, kwargs, self.plain)
        if found is not None:
            call, hidden = found
            return call(*args, **kwargs, **hidden)
        return self.plain.call(args, kwargs)
