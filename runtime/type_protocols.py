"""Types of the transformations for type checkers: parameters kept, results where known.

The type of a gradient is that of an argument, which ``argnums`` picks at run time: it is ``Any``.
Programs do not import this module.
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
Rule = TypeVar("Rule", bound=Callable[..., Any])
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


class Jacobian(Protocol):
    """``jacfwd``, ``jacrev``, ``hessian``, ``jacobian``, called or as decorators."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Any],
        argnums: Arguments = 0,
        has_aux: Literal[False] = False,
        holomorphic: bool = False,
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
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, tuple[Any, Result]]: ...
    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Any],
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, Any]: ...
    @overload
    def __call__(
        self,
        *,
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Callable[[Callable[Parameters, Any]], Derived[Parameters, Any]]: ...


class ValueAndJacobian(Protocol):
    """``value_and_jacobian`` and ``value_and_hessian``, called or as decorators."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Result],
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, tuple[Result, Any]]: ...
    @overload
    def __call__(
        self,
        *,
        argnums: Arguments = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Callable[[Callable[Parameters, Result]], Derived[Parameters, tuple[Result, Any]]]: ...


class SecondDerivative(Protocol):
    """``hessian_diag`` and ``laplacian``, called or as decorators."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Any],
        argnums: Arguments = 0,
        has_aux: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Derived[Parameters, Any]: ...
    @overload
    def __call__(
        self,
        *,
        argnums: Arguments = 0,
        has_aux: bool = False,
        argnames: str | Sequence[str] | None = None,
    ) -> Callable[[Callable[Parameters, Any]], Derived[Parameters, Any]]: ...


class ForwardMode(Protocol):
    """``jvp``: at primals, or the function of primals and tangents."""

    @overload
    def __call__(
        self,
        fun: Callable[..., Any],
        primals: None = None,
        tangents: None = None,
        has_aux: bool = False,
    ) -> Derived[..., Any]: ...
    @overload
    def __call__(
        self,
        fun: Callable[..., Result],
        primals: Sequence[Any],
        tangents: Sequence[Any],
        has_aux: Literal[False] = False,
    ) -> tuple[Result, Result]: ...
    @overload
    def __call__(
        self,
        fun: Callable[..., Any],
        primals: Sequence[Any],
        tangents: Sequence[Any],
        has_aux: bool = False,
    ) -> Any: ...


class HessianProduct(Protocol):
    """``hvp``: at primals, or the function of primals and tangents."""

    @overload
    def __call__(
        self, fun: Callable[..., Any], primals: None = None, tangents: None = None
    ) -> Derived[..., Any]: ...
    @overload
    def __call__(
        self, fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> Any: ...


class ReverseMode(Protocol):
    """``vjp``: at primals, or the function of primals and a cotangent."""

    @overload
    def __call__(self, fun: Callable[..., Any], *, has_aux: bool = False) -> Derived[..., Any]: ...
    @overload
    def __call__(
        self,
        fun: Callable[..., Result],
        primal: Any,
        /,
        *primals: Any,
        has_aux: Literal[False] = False,
    ) -> tuple[Result, Callable[[Any], tuple[Any, ...]]]: ...
    @overload
    def __call__(
        self, fun: Callable[..., Any], primal: Any, /, *primals: Any, has_aux: bool
    ) -> tuple[Any, Callable[[Any], tuple[Any, ...]], Any]: ...


class Linearization(Protocol):
    """``linearize``: at primals, or the function of primals and tangents."""

    @overload
    def __call__(self, fun: Callable[..., Any], *, has_aux: bool = False) -> Derived[..., Any]: ...
    @overload
    def __call__(
        self,
        fun: Callable[..., Result],
        primal: Any,
        /,
        *primals: Any,
        has_aux: Literal[False] = False,
    ) -> tuple[Result, Callable[..., Result]]: ...
    @overload
    def __call__(
        self, fun: Callable[..., Any], primal: Any, /, *primals: Any, has_aux: bool
    ) -> tuple[Any, Callable[..., Any], Any]: ...


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
        memory: int | str | None = None,
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
        memory: int | str | None = None,
    ) -> Callable[[Callable[Parameters, Result]], Derived[Parameters, Result]]: ...


class Parallelization(Protocol):
    """``parallel``, called or as a decorator."""

    @overload
    def __call__(
        self,
        fun: Callable[Parameters, Result],
        static_argnums: Numbers = (),
        static_argnames: str | Sequence[str] = (),
    ) -> Derived[Parameters, Result]: ...
    @overload
    def __call__(
        self, *, static_argnums: Numbers = (), static_argnames: str | Sequence[str] = ()
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


class ShardMapping(Protocol):
    """``shard_map``, called or as a decorator."""

    @overload
    def __call__(
        self,
        f: Callable[Parameters, Result],
        *,
        mesh: Any = None,
        in_specs: Any = None,
        out_specs: Any = None,
        check_vma: bool = True,
        engine: str | None = None,
    ) -> Derived[Parameters, Result]: ...
    @overload
    def __call__(
        self,
        *,
        mesh: Any = None,
        in_specs: Any = None,
        out_specs: Any = None,
        check_vma: bool = True,
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


class WithTangentRule(Protocol[Parameters, Given]):
    """A function with a tangent rule of its own."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Given: ...

    def defjvp(self, jvp: Rule, symbolic_zeros: bool = False) -> Rule:
        """Declare the rule."""

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Declare a rule for each argument."""


class WithCotangentRule(Protocol[Parameters, Given]):
    """A function with a cotangent rule of its own."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Given: ...

    def defvjp(
        self,
        fwd: Callable[Parameters, Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Declare the rule."""


class TangentRules(Protocol):
    """``custom_jvp``, called or as a decorator."""

    @overload
    def __call__(
        self, fun: Callable[Parameters, Result], nondiff_argnums: Numbers = ()
    ) -> WithTangentRule[Parameters, Result]: ...
    @overload
    def __call__(
        self, *, nondiff_argnums: Numbers = ()
    ) -> Callable[[Callable[Parameters, Result]], WithTangentRule[Parameters, Result]]: ...


class CotangentRules(Protocol):
    """``custom_vjp``, called or as a decorator."""

    @overload
    def __call__(
        self, fun: Callable[Parameters, Result], nondiff_argnums: Numbers = ()
    ) -> WithCotangentRule[Parameters, Result]: ...
    @overload
    def __call__(
        self, *, nondiff_argnums: Numbers = ()
    ) -> Callable[[Callable[Parameters, Result]], WithCotangentRule[Parameters, Result]]: ...
