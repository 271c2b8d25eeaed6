"""A transformed function: called, it runs the generated one; inside another, it is inlined."""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calque.runtime import debug_nans
from calque.runtime.call.accounting import CacheInfo, KernelCache, info
from calque.runtime.call.addressed import addressed
from calque.runtime.call.argument_keys import shape_key, sizes_of
from calque.runtime.call.arguments import (
    FLOAT0,
    check_cotangent,
    check_numbers,
    check_tangents,
    naming,
    note_containers,
    private_copies,
)
from calque.runtime.call.dispatch import Dispatcher, OwnProgramsNeeded
from calque.runtime.call.loading import Program, when_loaded
from calque.runtime.call.plans import capture_sizes
from calque.runtime.call.sharing import kept, of_code, shared, table_of
from calque.runtime.call.signatures import extended_signature, static_leaves
from calque.runtime.cuda import chosen_device
from calque.runtime.cuda.given_arrays import adopted, any_on_gpu
from calque.runtime.inlining import TRACE
from calque.runtime.spec import Spec
from calque.runtime.tracebacks import hide_own_frames
from calque.transpiler.errors import MixedDevices, NestedTooDeeply
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import type_of
from calque.transpiler.ir.core import Slot, map_tree
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.runtime.cuda import launcher_dispatch
    from calque.runtime.kernels import kept_memory
    from calque.runtime.tiers import numpy_first, versions_aside
else:
    launcher_dispatch = Late("calque.runtime.cuda.launcher_dispatch")
    kept_memory = Late("calque.runtime.kernels.kept_memory")
    numpy_first = Late("calque.runtime.tiers.numpy_first")
    versions_aside = Late("calque.runtime.tiers.versions_aside")

SUFFIXES = {"value_and_grad": "value_and_grad", "identity": "numpy"}
OTHER_ARGUMENTS = ("jvp", "vjp", "hvp", "linear_transpose", "jet")  # not those of the function


def _offer(kernels: tuple[KernelCache, ...], text: str, name: str) -> None:
    """Let versions of loaded kernels be compiled aside."""
    versions_aside.offer(kernels, text, name)


when_loaded.append(_offer)


class Transformed:
    """``grad(f)`` and the like. Keeps the function's name, docstring, signature and pickling."""

    source_of: ClassVar[Callable[..., str]]  # ``calque.source``: ``interpreted`` enters it
    on_devices: ClassVar[bool] = False  # whether it runs on several, as those of pmap

    def __init__(self, kind: str, function: Callable[..., Any], **options: Any):
        self.kind = kind
        self.function = function
        self.options = options
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = function
        signature = extended_signature(kind, function)
        if signature is not None:
            self.__signature__ = signature
        self.compiled = kind == "jit" or getattr(function, "compiled", False) is True
        static = static_leaves(function, options) if kind == "jit" else None
        self._static = static
        # of programs that it shares with other functions of its code
        self._table = of_code(self._chain()[0]) if self._can_be_of_another() else None
        self._dispatcher: Dispatcher = self._found("cpu", self._made)
        self._cuda: launcher_dispatch.DeviceDispatcher | None = None  # of programs for a GPU
        self._debugger: Dispatcher | None = None  # of the checked variants, under debug_nans
        self._checked: set[Any] = set()

    def _chain(self) -> tuple[Any, tuple[Any, ...]]:
        """The plain function at the bottom, and what is done to it: all that a program is of."""
        inner = self.function
        own = (type(self), self.kind, tuple(sorted(self.options.items())))
        if isinstance(inner, Transformed):
            function, chain = inner._chain()
            return function, (own, *chain)
        return inner, (own, self.generated_name())

    def _made(self, name: Callable[[], str]) -> Dispatcher:
        """A dispatcher that has no programs yet."""
        wishes = kernel_options(self) if self.compiled else None
        if self.compiled and answers_first(self) == "numpy":
            return numpy_first.NumPyFirst(self, name, self._static, wishes)
        return Dispatcher(self, name, compiled=self.compiled, static=self._static, options=wishes)

    def _made_for_gpus(self, name: Callable[[], str]) -> launcher_dispatch.DeviceDispatcher:
        graph = _wishes(self).get("graph", "auto")
        made = launcher_dispatch.DeviceDispatcher
        return made(self, name, self._static, kernel_options(self), graph)

    def _found(self, where: str, make: Callable[[Callable[[], str]], Any]) -> Any:
        """The dispatcher of programs made before of this function, or of others of its code."""
        function, chain = self._chain()
        chain = (where, *chain)
        if self._table is None:
            return shared(function, chain, lambda: make(self.generated_name))
        name = self.generated_name()
        found = kept(self._table, chain, lambda: make(lambda: name).of(None, None))
        return found.of(self._without_programs(), function)

    def _without_programs(self) -> Transformed:
        """The same transformation for its dispatcher: no cycle keeps what its function captured."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), _dispatcher=None, _cuda=None)
        return made

    def _use(self, programs: Callable[[], Any], use: Callable[[Any], Any]) -> Any:
        """The result of a use of programs; of its own where those of its code do not serve it."""
        try:
            return use(programs())
        except OwnProgramsNeeded:
            self._table = None
            self._dispatcher, self._cuda = self._found("cpu", self._made), None
            return use(programs())

    def _can_be_of_another(self) -> bool:
        """True if ``of`` can make this transformation of another function.

        Programs for devices belong to their function.
        """
        inner = self.function
        inner_can = not isinstance(inner, Transformed) or inner._can_be_of_another()
        return type(self) is Transformed and inner_can

    def of(self, function: Any) -> Transformed:
        """The same transformations of another function."""
        inner = self.function
        if isinstance(inner, Transformed):
            function = inner.of(function)
        return Transformed(self.kind, function, **self.options)

    def generated_name(self) -> str:
        """``f_grad``, ``f_grad_jvp``: what was done, in order."""
        inner = self.function
        own = getattr(inner, "__name__", type(inner).__name__)
        stem = inner.generated_name() if isinstance(inner, Transformed) else own
        stem = "function" if stem == "<lambda>" else stem
        return stem if self.kind == "identity" else f"{stem}_{SUFFIXES.get(self.kind, self.kind)}"

    def calque_same_arguments(self) -> Any:
        """The function with the same positional arguments as this one; None if they differ."""
        return None if self.kind in OTHER_ARGUMENTS else self.function

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The generated program for arguments, or specs, of these types."""
        return self.asked(lambda dispatcher, given: dispatcher.find(given, kwargs)[0], args)

    def asked(self, find: Callable[[Dispatcher, Any], Program], args: tuple[Any, ...]) -> Program:
        """The result of ``find`` for this function's dispatcher and complete arguments."""
        args = complete(self, args)
        return self._use(self.dispatcher, lambda programs: find(programs, args))

    def dispatcher(self) -> Dispatcher:
        """The dispatcher of this thread's programs: under ``debug_nans``, of the checked ones."""
        if not debug_nans.checking():
            return self._dispatcher
        if self._debugger is None:
            wishes = kernel_options(self) if self.compiled else None
            self._debugger = Dispatcher(self, self.generated_name, checked=True, options=wishes)
        return self._debugger

    def cuda_programs(self) -> launcher_dispatch.DeviceDispatcher:
        """The dispatcher of programs for a GPU, launchers of CUDA C, which runs them there."""
        if self._cuda is None:
            self._cuda = self._found("cuda", self._made_for_gpus)
        return self._cuda

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if debug_nans.threads and debug_nans.checking():
                return self._checked_call(args, kwargs)
            if chosen_device.contexts and (device := chosen_device.chosen_gpu()) is not None:
                self._check_on_gpu(args)
                return self._use(
                    self.cuda_programs, lambda programs: programs.call_there(args, kwargs, device)
                )
            if self._cuda is not None:
                found = self._cuda.at_hand(args, kwargs)
                if found is not None:
                    return self._cuda.run(found, args, kwargs)
            programs = self._dispatcher
            found = programs.shapes.find(args, kwargs, programs)
            if found is not None:
                call, hidden = found
                return call(*args, **kwargs, **hidden) if hidden or kwargs else call(*args)
            return self.call_first(args, kwargs)
        except Exception as error:
            note_containers(error, self, args, kwargs)
            hide_own_frames(error)
            raise

    def call_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call of which no table knows; it looks for arrays on a GPU, then for a program."""
        if any_on_gpu(args, kwargs):
            return self._on_gpu(args, kwargs)
        self._check(args)
        try:
            return self._use(self.dispatcher, lambda programs: programs.call(args, kwargs))
        except MixedDevices:
            if any(isinstance(x, np.ndarray) for x in pytrees.flatten((args, kwargs))[0]):
                raise
            return self._on_gpu(args, kwargs)

    def _checked_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Under ``debug_nans``, or ``debug_keys``: NumPy looks at each value."""
        if any_on_gpu(args, kwargs):
            raise MixedDevices(
                f"{self.generated_name()}: debug_nans and debug_keys look at values on the host.",
                hint="pass calque.device_get(x)",
            )
        self._check(args)
        return self.dispatcher().call(args, kwargs)

    def _on_gpu(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_on_gpu(args)
        return self._use(self.cuda_programs, lambda programs: programs.call(args, kwargs))

    def _check_on_gpu(self, args: tuple[Any, ...]) -> None:
        if self.kind in ("jvp", "hvp", "vjp"):
            self._check(pytrees.tree_map(adopted, args))

    def _check(self, args: tuple[Any, ...]) -> None:
        """Tangents and cotangents must fit: checked once for arguments of each shape."""
        try:
            if self.kind in ("jvp", "hvp") and len(args) % 2 == 0:
                half = len(args) // 2
                check_tangents(args[:half], args[half:], self.kind, self.function)
            elif self.kind == "vjp" and args:
                self._check_cotangent(args)
        except NestedTooDeeply as error:
            raise naming(error, self.generated_name(), self, (args, {})) from None

    def _check_cotangent(self, args: tuple[Any, ...]) -> None:
        on_gpu = any_on_gpu(args, {})
        key = launcher_dispatch.device_key(args) if on_gpu else shape_key(args)
        if key is not None and key in self._checked:
            return
        try:
            if on_gpu:
                value = result_spec(self.function, args[:-1], sized=True)
            else:
                value = self.function(*private_copies(args[:-1]))
        except Exception as error:
            check_numbers(self.generated_name(), self.function, args[:-1], error)
            raise
        check_cotangent(value[0] if self.options.get("has_aux") else value, args[-1])
        self._checked.add(key)

    def source(self, *args: Any, stage: str | None = None) -> str:
        """The generated source for arguments, or specs, of these types."""
        return self.source_of(self, *args, stage=stage)

    def cache_info(self) -> CacheInfo:
        """The programs generated, why each was, and the kernels compiled or loaded from disk.

        >>> import calque
        >>> square = calque.grad(lambda x: x * x)
        >>> square(3.0), square(np.float32(3.0))
        (6.0, np.float32(6.0))
        >>> print(square.cache_info())
        2 generated; kernels: 0 compiled, 0 loaded
        - first call
        - x: float32, and before: float
        """
        on_gpu = [] if self._cuda is None else [self._cuda.account]
        return info(self._dispatcher.account, *on_gpu)

    def wait(self) -> None:
        """Return when everything is compiled that calls so far have had compiled aside.

        With ``jit(f, first="numpy")`` the kernels answer the next call of types that were seen
        before. Otherwise these are versions of kernels, for several threads or for one, that later
        calls wanted while the version of the first call answered.
        """
        if isinstance(self._dispatcher, numpy_first.NumPyFirst):
            self._dispatcher.wait()
        versions_aside.wait_for(self._dispatcher.account.kernels)

    def cache_clear(self) -> None:
        """Forget the programs of this function, and its account; the cache on disk stays.

        Memory that is kept for later calls goes back to the system.
        """
        self._dispatcher.clear()
        kept_memory.give_back()
        if self._cuda is not None:
            self._cuda.clear()
        self._debugger = None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundTransformed(self, instance)

    def __repr__(self) -> str:
        return f"<calque {self.kind} of {getattr(self.function, '__qualname__', self.function)}>"

    def __reduce__(self) -> Any:
        name = getattr(self, "__qualname__", "")
        module: Any = sys.modules.get(getattr(self, "__module__", ""))
        try:
            if operator.attrgetter(name)(module) is self:
                return name  # a decorated function: pickled by name, as functions are
        except AttributeError:
            pass
        return _rebuild, (self.kind, self.function, self.options, type(self))

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return TRACE[self.kind](self, machine, args, kwargs, node)


def run(transformed: Transformed, *args: Any) -> Any:
    """Call with arguments that are known to fit each other."""
    if debug_nans.threads and debug_nans.checking():
        return transformed._checked_call(args, {})
    programs = transformed._dispatcher
    found = programs.shapes.find(args, {}, programs)
    return transformed.call_first(args, {}) if found is None else found[0](*args, **found[1])


class BoundTransformed:
    """A transformed method, bound to an instance, which is a known value of the generated code."""

    def __init__(self, transformed: Transformed, instance: Any):
        self.transformed, self.instance = transformed, instance
        functools.update_wrapper(self, transformed, updated=())
        self.__wrapped__ = bound(transformed, instance).function
        signature = getattr(transformed, "__signature__", None)
        if signature is not None and signature.parameters:
            self.__signature__ = signature.replace(
                parameters=list(signature.parameters.values())[1:]
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return bound(self.transformed, self.instance)(*args, **kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    def source(self, *args: Any, stage: str | None = None) -> str:
        """The generated source."""
        return bound(self.transformed, self.instance).source(*args, stage=stage)

    def cache_info(self) -> CacheInfo:
        """The programs generated and the kernels compiled for this instance, with the reasons."""
        return bound(self.transformed, self.instance).cache_info()

    def wait(self) -> None:
        """Return when kernels for this instance that are made aside are compiled."""
        bound(self.transformed, self.instance).wait()

    def cache_clear(self) -> None:
        """Forget what has been generated for this instance."""
        bound(self.transformed, self.instance).cache_clear()

    def unbound(self) -> Transformed:
        """The transformation of the bound method, as a function of the other arguments."""
        return bound(self.transformed, self.instance)

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return self.unbound().__calque_trace__(machine, args, kwargs, node)

    def __reduce__(self) -> Any:
        return getattr, (self.instance, getattr(self.transformed, "__name__", ""))


def bound(transformed: Transformed, instance: Any) -> Transformed:
    """The transformation of the bound method; argnums do not count ``self``."""
    table = table_of(instance)
    if id(transformed) not in table:
        inner: Any = transformed.function
        nested = isinstance(inner, Transformed)
        method = bound(inner, instance) if nested else inner.__get__(instance)
        made = type(transformed)(transformed.kind, method, **transformed.options)
        table[id(transformed)] = transformed, made
    found: Transformed = table[id(transformed)][1]
    return found


def _rebuild(
    kind: str, function: Any, options: dict[str, Any], made: type[Transformed] = Transformed
) -> Transformed:
    return made(kind, function, **options)


def complete(transformed: Transformed, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of ``f_jvp`` and ``f_vjp``, where only types of the function's are given."""
    inner = transformed.function
    if isinstance(inner, Transformed):
        args = complete(inner, args)
    if transformed.kind not in ("jvp", "vjp"):
        return args
    signature = getattr(transformed, "__signature__", None)
    count = 0 if signature is None else len(signature.parameters)
    given = 2 * len(args) if transformed.kind == "jvp" else len(args) + 1
    if given > count:
        return args
    if transformed.kind in ("jvp", "hvp"):
        return (*args, *pytrees.tree_map(_tangent_spec, args))
    return (*args, result_spec(inner, args))


def _tangent_spec(leaf: Any) -> Any:
    if isinstance(leaf, Spec):
        return np.zeros((), FLOAT0) if leaf.dtype.kind not in "fc" and not leaf.dims else leaf
    value = np.asarray(addressed(leaf))
    return leaf if value.dtype.kind in "fc" else np.zeros(value.shape, FLOAT0)


def result_spec(
    function: Any, args: tuple[Any, ...], sized: bool = False, captured: bool = False
) -> Any:
    """The types of a function's result, as specs.

    ``sized``: for the sizes of these arguments; ``captured``: for those of the captured arrays.
    """
    programs = Transformed("identity", function).dispatcher()
    program, leaves = programs.find(args, {})
    made = program.traced
    results = made.function.body.results
    sizes = capture_sizes(program.captures, programs.root) if sized or captured else {}
    sizes = {**sizes, **sizes_of(leaves)} if sized else sizes
    known = made.builder.dims

    def leaf(found: Any) -> Any:
        kind = type_of(results[found.position]) if isinstance(found, Slot) else None
        if kind is None:
            return found
        dims = [known.of_arguments(known.resolve(d), sizes) for d in kind.dims]
        return Spec(kind.dtype, tuple(d if isinstance(d, int) else str(d) for d in dims), kind.weak)

    return map_tree(leaf, made.function.result)


def answers_first(function: Any) -> str:
    """The text that answers until kernels are compiled: "numpy"; "kernels" if calls wait."""
    if os.environ.get("CALQUE_JIT") == "0":
        return "kernels"  # which nobody compiles
    wished: str = _wishes(function).get("first", "kernels")
    return "numpy" if os.environ.get("CALQUE_JIT") == "tiered" else wished


def _wishes(function: Any) -> dict[str, Any]:
    """The options of the outermost ``jit`` of a composition."""
    while isinstance(function, Transformed) and function.kind != "jit":
        function = function.function
    return function.options if isinstance(function, Transformed) else {}


def kernel_options(function: Any) -> dict[str, Any]:
    """The wishes of the outermost ``jit`` of a composition, for its kernels."""
    wished = _wishes(function)
    names = ("parallel", "boundscheck", "deterministic", "explained", "reassociate", "memory")
    return {name: wished[name] for name in names if name in wished}
