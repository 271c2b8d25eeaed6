"""Types of the transformations for type checkers: parameters kept, results where known.

The type of a gradient is that of an argument, which ``argnums`` picks at run time: it is ``Any``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeVar, overload

from calque.runtime.call.accounting import CacheInfo

Parameters = ParamSpec("Parameters")
Others = ParamSpec("Others")
Result = TypeVar("Result")
Given = TypeVar("Given", covariant=True)
Instance = TypeVar("Instance")
Numbers = int | Sequence[int]
Arguments = int | str | Sequence[int | str]


class Derived(Protocol[Parameters, Given]):
    """A transformed function: called as the function is, with its source and its account."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Given: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Derived[Concatenate[Instance, Others], Result],
        instance: Instance,
        owner: type | None = None,
    ) -> Derived[Others, Result]: ...

    def source(self, *args: Any, stage: str | None = None) -> str:
        """The generated source."""

    def cache_info(self) -> CacheInfo:
        """The programs and kernels that have been generated and compiled."""

    def cache_clear(self) -> None:
        """Forget it."""


class Gradient(Protocol):
    """``grad``, called or as a decorator."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Any],
        argnums: Arguments = 0,
        has_aux: Literal[False] = False,
        holomorphic: bool = False,
        allow_int: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, Any]: ...
    @overload
    def __call__(
        self,
        fun: Callable[Parameters, tuple[Any, Result]],
        argnums: Arguments = 0,
        *,
        has_aux: Literal[True],
        holomorphic: bool = False,
        allow_int: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, tuple[Any, Result]]: ...
    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Any],
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        allow_int: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, Any]: ...
    @overload
    def __call__(
        self,
        *,
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        allow_int: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Callable[[Callable[Parameters, Any]], Derived[Parameters, Any]]: ...


class ValueAndGradient(Protocol):
    """``value_and_grad``, called or as a decorator."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Result],
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        allow_int: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, tuple[Result, Any]]: ...
    @overload
    def __call__(
        self,
        *,
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        allow_int: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Callable[[Callable[Parameters, Result]], Derived[Parameters, tuple[Result, Any]]]: ...


class JitFunction(Protocol):
    """``jit``, called or as a decorator."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Result],
        static_argnums: Numbers = (),
        static_argnames: str | Sequence[str] = (),
        parallel: bool | str = "auto",
        boundscheck: bool | None = None,
        deterministic: bool = False,
        device: Any = None,
        first: str = "kernels",
        graph: bool | str = "auto",
        reassociate: bool = True,
    ) -> Derived[Parameters, Result]: ...
    @overload
    def __call__(
        self,
        *,
        static_argnums: Numbers = (),
        static_argnames: str | Sequence[str] = (),
        parallel: bool | str = "auto",
        boundscheck: bool | None = None,
        deterministic: bool = False,
        device: Any = None,
        first: str = "kernels",
        graph: bool | str = "auto",
        reassociate: bool = True,
    ) -> Callable[[Callable[Parameters, Result]], Derived[Parameters, Result]]: ...


class Batching(Protocol):
    """``vmap``, called or as a decorator."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Result],
        in_axes: Any = 0,
        out_axes: Any = 0,
        axis_name: Any = None,
        axis_size: int | None = None,
        chunk_size: int | None = None,
    ) -> Derived[Parameters, Result]: ...
    @overload
    def __call__(
        self,
        *,
        in_axes: Any = 0,
        out_axes: Any = 0,
        axis_name: Any = None,
        axis_size: int | None = None,
        chunk_size: int | None = None,
    ) -> Callable[[Callable[Parameters, Result]], Derived[Parameters, Result]]: ...


class Mapping(Protocol):
    """``pmap``, called or as a decorator."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Result],
        axis_name: Hashable | None = None,
        in_axes: Any = 0,
        out_axes: Any = 0,
        static_broadcasted_argnums: Numbers = (),
        devices: Sequence[Any] | None = None,
        axis_size: int | None = None,
        engine: str | None = None,
    ) -> Derived[Parameters, Result]: ...
    @overload
    def __call__(
        self,
        *,
        axis_name: Hashable | None = None,
        in_axes: Any = 0,
        out_axes: Any = 0,
        static_broadcasted_argnums: Numbers = (),
        devices: Sequence[Any] | None = None,
        axis_size: int | None = None,
        engine: str | None = None,
    ) -> Callable[[Callable[Parameters, Result]], Derived[Parameters, Result]]: ...


class Checkpointing(Protocol):
    """``checkpoint``, called or as a decorator."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Result],
        *,
        every: Any = None,
        memory: int | str | None = None,
        prevent_cse: bool = True,
        policy: None = None,
        static_argnums: Numbers = (),
    ) -> Callable[Parameters, Result]: ...
    @overload
    def __call__(
        self,
        *,
        every: Any = None,
        memory: int | str | None = None,
        prevent_cse: bool = True,
        policy: None = None,
        static_argnums: Numbers = (),
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...


def gradient(declared: Any) -> Gradient:
    """The same, with the types of ``grad``."""
    return declared


def value_and_gradient(declared: Any) -> ValueAndGradient:
    """The same, with the types of ``value_and_grad``."""
    return declared


def compilation(declared: Any) -> JitFunction:
    """The same, with the types of ``jit``."""
    return declared


def batching(declared: Any) -> Batching:
    """The same, with the types of ``vmap``."""
    return declared


def mapping(declared: Any) -> Mapping:
    """The same, with the types of ``pmap``."""
    return declared


def checkpointing(declared: Any) -> Checkpointing:
    """The same, with the types of ``checkpoint``."""
    return declared
