"""From a call to the generated function for its types, made once.

The key of a call holds each array's dtype, rank and which sizes are 1; values of leaves that are no
numbers; and, where interpretation asked for them, values of integers and sizes. In front of it
stands the table by exact shapes (``exact_shapes``).
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from calque.runtime.call import kept_texts
from calque.runtime.call.accounting import Account, described
from calque.runtime.call.addressed import addresses
from calque.runtime.call.argument_keys import (
    integers_of,
    is_contiguous,
    known_value,
    layout_key,
    leaf_key,
    leaf_type,
    orders,
    shape_key,
    sizes_of,
)
from calque.runtime.call.arguments import check_static, check_values, naming
from calque.runtime.call.exact_shapes import ExactShapes
from calque.runtime.call.fallback import forget
from calque.runtime.call.first_calls import FirstCalls
from calque.runtime.call.kept_texts import Source
from calque.runtime.call.loading import Program, changed_numbers, load, may_hold_again
from calque.runtime.call.plans import Key, Plan, ReadOnce, Request, capture_sizes, keep
from calque.runtime.call.progress import watched
from calque.runtime.call.symbol_letters import readable
from calque.runtime.call.unknown_values import check_present, unknown
from calque.runtime.call.varying_numbers import VaryingNumbers
from calque.runtime.gc_pause import deep, uncollected
from calque.transpiler import pipeline
from calque.transpiler.codegen.numba.numba_in_order import in_order
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.errors import (
    CalqueError,
    DtypeError,
    MixedDevices,
    NestedTooDeeply,
    SpecializationNeeded,
)
from calque.transpiler.forking import free_in_children
from calque.transpiler.frontend.function_copies import CopiedFunction
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.debug import show_text
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.ir.target import Target
from calque.transpiler.pipeline import Arguments

MAX_ATTEMPTS = 64
_REFUSALS = (CalqueError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_FORMER = 8  # programs kept that hold when captured values are again what they were


class OwnProgramsNeeded(Exception):
    """A function makes many of the programs that it shares: others would lose theirs."""


making = free_in_children("programs", threading.RLock())


class Dispatcher(FirstCalls):
    """The programs of one function; the checked ones if ``checked`` (see ``debug_nans``)."""

    def __init__(
        self,
        function: Any,
        name: Callable[[], str],
        checked: bool = False,
        compiled: bool = False,
        static: Callable[[tuple[Any, ...], dict[str, Any]], frozenset[int]] | None = None,
        options: dict[str, Any] | None = None,
        target: Target = NUMBA,
    ):
        self.function = function
        self.name = name
        self.checked = checked
        self.compiled = compiled and not checked  # into kernels
        self.static = static  # the leaves whose values are part of the key from the start
        self.options = options  # of the kernels
        ordered = (options or {}).get("reassociate") is False
        self.target = in_order(target) if ordered else target  # what compiles them
        self.root: Any = None  # the function from which captured values are read, if shared
        self.missed = 0  # programs that this function added to those that are shared
        self.account = Account()
        self.finish: Callable[[Any, Any], Any] | None = None  # what is done to Core before text
        self.varying = VaryingNumbers(name)
        self.plans: dict[Any, Plan] = {}
        self.shapes = ExactShapes(layout_key if self.compiled else shape_key)

    def of(self, function: Any, root: Any) -> Dispatcher:
        """The same programs, for one of the functions that share them: ``root`` is transformed."""
        made = copy.copy(self)
        made.function, made.root = function, root
        return made

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find or make the program for a call, and run it."""
        program, leaves = self.find(args, kwargs, partial(self.make, only_run=True))
        return self.run_program(program, leaves, args, kwargs)

    def run_program(
        self, program: Program, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run the program that was found for a call."""
        self._refuse_captured(program)
        if program.fallbacks:
            self.warn(program.fallbacks)
        try:
            if self.compiled and program.traced.compiled and not program.tried:
                program.check_aliases(leaves, self.root)
                return self.first_call(program, leaves, args, kwargs)
            if program.stored:
                program.check_aliases(leaves, self.root)
            self._remember(args, kwargs, program)
            return self.call_of(program)(*args, **kwargs, **program.hidden(self.root))
        except Exception:
            check_values(self.name(), self.function, (args, kwargs), leaves)
            raise

    def _refuse_captured(self, program: Program) -> None:
        """The host cannot read what lies on a GPU."""
        for name, value in program.hidden(self.root).items():
            if is_device_array(value):
                raise MixedDevices(
                    f"{self.name()}: {name} lies on a GPU, and the arguments do not.",
                    hint="calque.device_put(x, \"cuda:0\") moves an argument there",
                )

    def clear(self) -> None:
        """Forget all programs; what is on disk stays."""
        with making:
            forget(self.account.warned)
            for table in (self.plans, self.shapes.entries, self.account, self.varying):
                table.clear()  # which dispatchers share

    def _remember(self, args: tuple[Any, ...], kwargs: dict[str, Any], program: Program) -> None:
        self.shapes.enter(args, kwargs, program, program.call, self.root)

    def find(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        make: Callable[..., None] | None = None,
    ) -> tuple[Program, list[Any]]:
        """The program for these arguments, made if there is none; and their leaves.

        What is made by default can be read, too, not only run.
        """
        try:
            leaves, structure = pytrees.flatten((args, kwargs))
            leaves = addresses(leaves)
            kinds = tuple([leaf_key(x) for x in leaves])
        except (DtypeError, NestedTooDeeply) as error:
            raise naming(error, self.name(), self.function, (args, kwargs)) from None
        order = orders((args, kwargs))
        static = self.static(args, kwargs) if self.static is not None else frozenset()
        if static:
            check_static(self.name(), self.function, (args, kwargs), [leaves[i] for i in static])
        layout = tuple(map(is_contiguous, leaves)) if self.compiled else ()
        key = (structure, order, kinds, layout, static)
        plan = self.plans.get(key)
        if plan is None:
            with making:
                plan = self.plans.setdefault(key, Plan(static))
        sizes = sizes_of(leaves)
        request = Request(plan, leaves, structure, sizes)
        unlike = self.missed > 1
        for _ in range(MAX_ATTEMPTS):
            full = request.full_key(self.root)
            program = plan.programs.get(full)
            if program is None:
                if unlike:
                    raise OwnProgramsNeeded
                with making:
                    renamed = plan.rename(full, sizes, self.root)
                if not renamed:
                    (make or self.make)(request, full)
            elif program.abridged and make is None:
                with making:
                    plan.programs.pop(full, None)
            elif not program.still_valid(self.root):
                self._put_aside(plan, full, program)
            elif not self._holds(program, sizes, leaves):
                with making:
                    plan.note_captures(program.traced.captures)
                    plan.note_signs(program.traced)
                    plan.symbols |= program.condition_symbols
            elif not plan.has_few(sizes, self.root):
                return program, leaves
        raise RuntimeError("the signature does not settle")

    def _put_aside(self, plan: Plan, full: Any, program: Program) -> None:
        """A captured value changed: take up a former program that holds now, if there is one."""
        self.varying.note(changed_numbers(program, self.root))
        with making:
            if plan.programs.get(full) is not program:
                return  # another thread was here
            former = plan.former.setdefault(full, deque(maxlen=_FORMER))
            again = next((p for p in former if p.still_valid(self.root)), None)
            if again is None:
                plan.why = "a captured value changed"
                del plan.programs[full]
            else:
                former.remove(again)
                plan.programs[full] = again
            if may_hold_again(program, self.root):
                former.append(program)

    def _holds(self, program: Program, sizes: dict[str, int], leaves: list[Any]) -> bool:
        """True if what a program takes for granted of sizes and integers is so in this call."""
        if not program.conditions:
            return True
        full = {**sizes, **capture_sizes(program.captures, self.root), **integers_of(leaves)}
        return all(condition(full) for condition in program.conditions)

    def _traced(self, arguments: Arguments, pinned: dict[str, int]) -> Traced:
        """The program for arguments; what cannot be one while a captured number varies is fixed."""

        function, copied = self.function, None
        if self.root is not None:
            copied = CopiedFunction(self.root)
            function = function.of(copied.copy)

        def traced(inputs: frozenset[Any]) -> Traced:
            given = replace(arguments, varying=inputs, copy=copied)
            return pipeline.to_core(function, given, pinned, self.checked)

        inputs = self.varying.inputs
        try:
            return traced(inputs)
        except _REFUSALS:
            if not inputs:
                raise
        found = traced(frozenset())  # an error of its own is no matter of what varies
        for place in inputs:
            try:
                found = traced(inputs - {place})
            except (*_REFUSALS, SpecializationNeeded):
                continue
            self.varying.fix({place})
            return found
        self.varying.fix(inputs)
        return found

    def _specialize(self, plan: Plan, needed: SpecializationNeeded, leaves: list[Any]) -> None:
        """Take into the plan what must be known; an error where it is known already."""
        plan.note_captures(needed.captures)
        if needed.numbers:
            self.varying.fix(needed.numbers)
            return
        if needed.memory - plan.memory:
            check_present(needed, leaves)
            plan.memory |= needed.memory
            return
        if needed.leaves <= plan.leaves and needed.symbols <= plan.symbols:
            raise unknown(needed, "must be known.") from None
        check_present(needed, leaves)
        plan.symbols, plan.leaves = plan.symbols | needed.symbols, plan.leaves | needed.leaves

    def _read(self, request: Request, pinned: dict[str, int]) -> Traced:
        """Interpret the function for a call's types, and values and sizes that must be known."""
        plan, leaves = request.plan, request.leaves
        known = plan.leaves
        types = [None if i in known else leaf_type(x, i, pinned) for i, x in enumerate(leaves)]
        values = [known_value(x) if i in known else x for i, x in enumerate(leaves)]
        arguments = Arguments(
            tuple(types),
            tuple(values),
            lambda new: pytrees.unflatten(request.structure, new),
            frozenset(i for i, x in enumerate(leaves) if self.compiled and is_contiguous(x)),
            self.compiled and not plan.uncompiled,
            memory=plan.memory,
            grid=self.target.grid,
            saves_within=(self.options or {}).get("memory"),
        )
        try:
            return self._traced(arguments, pinned)
        except CalqueError as error:
            error.message = readable(error.message)
            raise

    def _kernels(
        self,
        request: Request,
        full: Key,
        read: Callable[[dict[str, int]], Traced],
        only_run: bool,
    ) -> Source:
        """Kernels for a call, made of a trace for another call if that serves."""
        plan, sizes = request.plan, request.sizes
        kept, few = plan.read, plan.few if full.written else {}
        if kept is not None and kept.serves((*full.traced, self.varying.inputs), sizes, self.root):
            traced = kept.traced
        else:
            traced, few = read(few), {}
            kept = ReadOnce(traced, (*full.traced, self.varying.inputs), self.root)
        plan.note_captures(traced.captures)
        known = {**capture_sizes(kept.surroundings.captures, self.root), **sizes}
        key = None
        if only_run and self.finish is None and not plan.memory and not self.target.grid:
            wishes = (self.name(), self.options, plan.comparing, few, self.target.name)
            key = kept_texts.key_of(traced, *wishes)
        written = kept_texts.find(key, known, not (plan.few or plan.inner))
        if written is not None:
            made = written.told(traced, self.target)
        else:
            made = pipeline.to_kernels(
                traced, self.options, known, plan.comparing, self.target, few=few
            )
        plan.inner = plan.inner or made.inner
        if made.has_variants() and not full.written:
            keep(plan, kept)
        return Source(made, traced, key, written, few)

    def make(self, request: Request, full: Key, only_run: bool = False) -> None:
        """Make a program for a call, or find out what must be known for it.

        If it is ``only_run``, its text may be on disk.
        """
        with watched(self.name, lambda: "writing its program"):
            self.make_here(request, full, only_run)

    def make_here(self, request: Request, full: Key, only_run: bool) -> None:
        """The same, without a word on the terminal."""
        with making, uncollected(), deep():
            if full not in request.plan.programs:
                self._make(request, full, only_run)

    def read_ahead(self, request: Request, full: Key) -> bool:
        """Read the function for a program that is to be made; False if more must be known."""
        plan = request.plan
        with making, uncollected(), deep():
            key = (*full.traced, self.varying.inputs)
            if plan.read is not None and plan.read.serves(key, request.sizes, self.root):
                return True
            try:
                traced = self._read(request, request.pinned(self.root))
            except SpecializationNeeded as needed:
                self._specialize(plan, needed, request.leaves)
                return False
            plan.read = ReadOnce(traced, key, self.root)
            return True

    def _make(self, request: Request, full: Key, only_run: bool) -> None:
        plan, leaves, sizes = request.plan, request.leaves, request.sizes
        known, compiled = plan.leaves, self.compiled and not plan.uncompiled
        pinned = request.pinned(self.root)

        def read(few: dict[str, int]) -> Traced:
            return self._read(request, pinned | few)

        source = None
        try:
            if compiled:
                source = self._kernels(request, full, read, only_run)
                traced = source.traced
            else:
                traced = read({})
        except SpecializationNeeded as needed:
            self._specialize(plan, needed, leaves)
            return
        if source is not None and plan.has_few(sizes, self.root):
            source.keep()
            return
        pinned |= plan.few if full.written else {}
        if self.finish is not None:
            traced.function = self.finish(traced.function, traced.builder)
        written = None if source is None else source.written
        program = load(traced, self.name(), known, pinned, written, self.root)
        if source is not None:
            source.keep(program.text)
        program.asks_memory = bool(plan.memory)
        program.fallbacks = (*plan.refused, *program.fallbacks)
        if traced.compares and self.root is None:
            program.call = self.comparing(program)
        plan.choices |= traced.choices
        full = request.full_key(self.root)
        if any(key[:-1] == full[:-1] for key in plan.programs):
            plan.why = "a product of sizes that decided on its loops is small now, or was before"
        plan.programs[full] = program
        self.missed += self.root is not None
        args, kwargs = pytrees.unflatten(request.structure, leaves)
        description = described(self.function, args, kwargs, known, pinned, self.compiled)
        reason = self.account.note(description, program.kernels, plan.why)
        plan.why = ""
        show_text(f"# {self.name()} generated: {reason}")
