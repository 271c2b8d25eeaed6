"""First runs of programs with kernels, which find out that Numba refuses one, or sizes differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from calque.runtime.call import fallback
from calque.runtime.call.accounting import Account
from calque.runtime.call.exact_shapes import ExactShapes
from calque.runtime.call.loading import Program
from calque.runtime.call.machine_code import NotReady
from calque.runtime.call.plans import Plan
from calque.runtime.call.progress import watched
from calque.transpiler.diagnostics.placements import Fallback
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.debug import show_text
from calque.transpiler.ir.target import Target
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.transpiler.loops import shape_guards
else:
    shape_guards = Late("calque.transpiler.loops.shape_guards")


class FirstCalls:
    """The part of a dispatcher that runs what was never run, and makes other programs for it."""

    name: Callable[[], str]
    target: Target
    plans: dict[Any, Plan]
    shapes: ExactShapes
    account: Account
    root: Any
    missed: int

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find or make the program for a call, and run it (see dispatch)."""
        raise NotImplementedError

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Program, list[Any]]:
        """The program for these arguments, which can be read, and their leaves (see dispatch)."""
        raise NotImplementedError

    def first_call(
        self, program: Program, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Compile, and run; what Numba cannot take runs as NumPy source."""
        kept = [(leaves[i], leaves[i].copy()) for i in program.stored]
        try:
            with watched(self.name, program.progress):
                result = self.call_of(program)(*args, **kwargs, **program.hidden(self.root))
        except Exception as error:
            waits = isinstance(error, NotReady)
            if not waits and not (program.kernels and fallback.is_of_compiler(error)):
                raise
            for array, before in kept:
                array[...] = before
            if waits:
                raise
            if program.abridged:
                program, _ = self.find(args, kwargs)  # which tells where its lines come from
            self.refuse(program, type(error).__name__, str(error))
            return self.call(args, kwargs)
        program.tried = True
        return result

    def refuse(self, program: Program, error: str, said: str) -> tuple[Fallback, ...]:
        """From now on NumPy source answers the calls of a program that a compiler has refused."""
        show_text(f"# {self.name()} runs as NumPy source: {error}: {said}")
        title = program.kernels[0].module
        function = program.traced.function
        found = fallback.refused_by(error, said, program.text, title, function)
        self.replan(program, (found,))
        return (found,)

    def call_of(self, program: Program) -> Callable[..., Any]:
        """The call of a program by this dispatcher's function."""
        if self.root is None or not program.traced.compares:
            return program.call
        return self.comparing(program)

    def comparing(self, program: Program) -> Callable[..., Any]:
        """The call of a program that compares sizes: once they differ, NumPy has those loops."""
        compare, hidden = program.call, {name for name, _ in program.captures}

        def call(*args: Any, **kwargs: Any) -> Any:
            leaves = pytrees.flatten((args, kwargs))[0] if program.stored else ()
            kept = [(leaves[i], leaves[i].copy()) for i in program.stored]
            try:
                return compare(*args, **kwargs)
            except ValueError as error:
                if not str(error).endswith(shape_guards.DIFFER):
                    raise
                where = str(error).removesuffix(shape_guards.DIFFER)
            for array, before in kept:
                array[...] = before
            why = f"{where}Sizes differ here, and {self._library()} spreads them: no kernel does."
            found = (Fallback(why, None),)
            self.replan(program, found, differ=True)
            before, self.account.warned = self.account.warned, "not yet"  # NumPy may refuse them
            try:
                result = self.call(args, {k: v for k, v in kwargs.items() if k not in hidden})
            finally:
                self.account.warned = before
            self.warn(found)
            return result

        return call

    def replan(
        self, program: Program, found: tuple[Fallback, ...], differ: bool = False
    ) -> None:
        """Make other programs from now on: without comparisons, or without kernels."""
        for plan in self.plans.values():
            if program not in plan.programs.values():
                continue
            if differ:
                plan.comparing = False
                plan.why = "sizes differ in a loop: NumPy compares and spreads them"
            else:
                plan.uncompiled = True
                plan.read = None
                plan.why = "Numba cannot compile it: it runs as NumPy source"
            plan.refused = found
            plan.programs.clear()
            plan.former.clear()
        self.shapes.entries.clear()
        self.missed = 0  # programs that are no more: others take their places

    def _library(self) -> str:
        """The library that computes what no kernel does."""
        return "CuPy" if self.target.grid else "NumPy"

    def warn(self, found: Sequence[Fallback]) -> None:
        """Tell once for each function what of it runs as NumPy source."""
        if found and not self.account.warned:
            self.account.warned = fallback.warn(self.name(), found, self._library())
