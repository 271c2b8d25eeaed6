"""The transformations as users call them, with JAX's names and semantics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from calque.runtime import typed
from calque.runtime.inner import by_argument
from calque.runtime.options import UNSAID, checked
from calque.runtime.parameters import check_reach
from calque.runtime.transformed import Transformed
from calque.transpiler.errors import UnsupportedFunction, UnsupportedOption
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.late import Late
from calque.transpiler.primitives.base import Primitive, apply, operand, register
from calque.transpiler.transformations.vmap import Axes

if TYPE_CHECKING:
    from calque.runtime import meshes
    from calque.runtime.devices import mapped, placed
else:
    mapped = Late("calque.runtime.devices.mapped")
    placed = Late("calque.runtime.devices.placed")
    meshes = Late("calque.runtime.meshes")

Tree = TypeVar("Tree")
Argnums = int | str | Sequence[int | str]
Argnames = str | Sequence[str] | None


def transformed(kind: str, function: Any, options: dict[str, Any]) -> Any:
    """The transformed function; without a function, a decorator."""
    if function is UNSAID:
        return Decorator(kind, options)
    checked(kind, fun=function)
    check_reach(kind, function, options)
    return (placed.Placed if "device" in options else Transformed)(kind, function, **options)


def differentiated(kind: str, function: Any, argnums: Any, argnames: Any, **flags: bool) -> Any:
    """The function transformed by one that differentiates by some arguments."""
    options = checked(kind, **flags)
    options |= {"argnums": by_argument(kind, argnums, argnames)}
    return transformed(kind, function, options)


class Decorator:
    """``grad(argnums=1)``, waiting for its function."""

    def __init__(self, kind: str, options: dict[str, Any]):
        self.kind, self.options = kind, options

    def __call__(self, fun: Callable[..., Any]) -> Any:
        return transformed(self.kind, fun, self.options)

    def __repr__(self) -> str:
        return f"<calque {self.kind}, waiting for its function>"


@typed.gradient
def grad(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The gradient of a function with a scalar result, as ``jax.grad``; also ``@grad(argnums=1)``.

    Raises NotDifferentiable (a TypeError) for integer arguments and for results that are no real
    scalar.

    ``fun`` returns a real number. ``argnums`` says which arguments, an int or several: the result
    is then one, or a tuple. Names of parameters may stand for numbers, there or in ``argnames``: an
    argument that a call gives by keyword has no number. ``has_aux``: ``fun`` returns a pair, of
    which the second part is passed through. ``holomorphic``: arguments and results are complex.
    ``allow_int``: integer arguments have a derivative of dtype float0.

    >>> grad(lambda x: x**3 + 2 * x**2)(1.0)
    7.0
    >>> grad(lambda x, *, scale: scale * x**2, argnames="scale")(3.0, scale=2.0)
    9.0
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}
    return differentiated("grad", fun, argnums, argnames, **flags)


@typed.value_and_gradient
def value_and_grad(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The value and the gradient together, as ``jax.value_and_grad``.

    Parameters, ``fun``, ``argnums``, ``has_aux``, ``holomorphic``, ``allow_int`` and ``argnames``,
    are those of ``grad``. With ``has_aux`` the first part of the result is a pair ``(value, aux)``.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (9.0, 6.0)
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}
    return differentiated("value_and_grad", fun, argnums, argnames, **flags)


@typed.compilation
def jit(
    fun: Callable[..., Any] = UNSAID,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    parallel: bool | str = "auto",
    boundscheck: bool | None = None,
    deterministic: bool = False,
    device: Any = None,
    first: str = "kernels",
    graph: bool | str = "auto",
    reassociate: bool = True,
    memory: int | str | None = None,
) -> Any:
    """``fun`` compiled to Numba kernels, as ``jax.jit``; also ``@jit(static_argnums=1)``.

    ``fun`` may be a transformed function. Stores into arguments happen, as in ``fun`` itself. What
    Numba cannot compile stays a NumPy call. ``static_argnums``, ``static_argnames`` are arguments
    whose values become part of the code; others are found where they are needed.

    ``parallel``: loops of independent iterations run on all threads, on one, or, with "auto", on
    all where there is work for them. ``boundscheck``: indices are checked, never, or, with None,
    where they are not proven to be inside; a kernel that checks runs on one thread.
    ``deterministic``: sums into cells that the data choose are made in order on a GPU, too, for the
    same bits in each run; on cores they always are, and BLAS keeps its number of threads. Machine
    code is kept on disk (``CALQUE_CACHE``). Raises ValueError for other values of these options.

    ``reassociate``: kernels may add up numbers in another order than Python (``s = s + v`` over a
    loop, in vectors of several partial sums), and fuse a product with a sum. With False they add
    and multiply as the program says, one after the other, and NumPy's own sums (``np.sum``,
    products of matrices) stay calls of NumPy's: sums are Python's, bit for bit. On a GPU that is
    refused (UnsupportedOption).

    Called with arrays on a GPU (CuPy's), it runs kernels of CUDA there. ``device`` is one of
    ``devices()``, or its name, "cuda:0": each call moves its arrays there first. Raises
    NoSuchDevice for one that is not there.
    ``graph``: on a GPU, small launches in a row are captured in a CUDA graph when calls of the same
    sizes and numbers come again; always, never, or, with "auto", where it is less to launch. With
    True, calls that can have none raise NoGraph.

    ``memory``, such as ``"2GB"``: as ``checkpoint(f, memory=...)``, in each reverse phase.

    ``first="numpy"``: no call waits for a compiler. NumPy source answers, while another process
    compiles the kernels, which answer from the first call on that finds them ready; results may
    differ in their last bits then. ``fn.wait()`` returns when they are, and
    ``fn.cache_info().answered`` says which answered. ``CALQUE_JIT=tiered`` in the environment is
    that for every ``jit``.

    >>> import numpy as np
    >>> jit(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    np.float64(5.0)
    """
    static = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    kernels = {"parallel": parallel, "boundscheck": boundscheck, "deterministic": deterministic}
    options = checked("jit", **static, **kernels)
    given = checked("jit", reassociate=reassociate, first=first, graph=graph, memory=memory)
    options |= {name: given[name] for name, unsaid in _UNSAID.items() if given[name] != unsaid}
    options |= {} if device is None else {"device": meshes.device_of(device)}
    return _compiled(fun, options)


# no part of a program's key
_UNSAID = {"reassociate": True, "first": "kernels", "graph": "auto", "memory": None}


def _compiled(fun: Any, options: dict[str, Any]) -> Any:
    if isinstance(fun, Transformed) and fun.on_devices and isinstance(fun, mapped.Mapped):
        if "device" in options:
            raise UnsupportedOption(
                "jit: pmap and shard_map choose the devices themselves.", hint="leave device out"
            )
        return mapped.jitted(fun, Decorator("jit", options))
    if isinstance(fun, Transformed) and fun.kind == "jit":
        check_reach("jit", fun.function, options)
        options, fun = _both(fun.options, options), fun.function  # jitted once more is jitted
    return transformed("jit", fun, options)


def _both(inner: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    """The options of ``jit(jit(f))``: both's static arguments; the outer's wish, if any."""
    static = ("static_argnums", "static_argnames")
    found: dict[str, Any] = {name: (*inner[name], *outer[name]) for name in static}
    for name, unsaid in (("parallel", "auto"), ("boundscheck", None)):
        found[name] = inner[name] if outer[name] == unsaid else outer[name]
    device = outer.get("device", inner.get("device"))
    found |= {} if device is None else {"device": device}
    first = outer.get("first", inner.get("first"))
    found |= {} if first is None else {"first": first}
    graph = outer.get("graph", inner.get("graph"))
    found |= {} if graph is None else {"graph": graph}
    found |= {"reassociate": False} if "reassociate" in inner.keys() | outer.keys() else {}
    memory = min((m for m in (inner.get("memory"), outer.get("memory")) if m), default=None)
    found |= {} if memory is None else {"memory": memory}
    asked = [n for n in ("explained", "deterministic") if inner.get(n) or outer.get(n)]
    return found | dict.fromkeys(asked, True)


@typed.parallelization
def parallel(
    fun: Callable[..., Any] = UNSAID,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """``fun`` with its loops on this machine's threads: ``jit(fun, parallel=True)``, explained.

    It refuses nothing that ``jit`` takes: a loop that cannot run on threads runs on one. What
    differs from ``jit``: above each loop of yours the source has a comment that says why it is
    parallel or not; what may raise is a kernel of its own, so that it keeps no other loop off
    threads; a loop known to have less than 1000 iterations, with those in it, runs on one. By
    line: ``explain(parallel(fun), *args)``.

    ``static_argnums`` and ``static_argnames`` are as for ``jit``.

    >>> import numpy as np
    >>> def half(x):
    ...     y = np.zeros(x.size)
    ...     for i in range(x.size):
    ...         y[i] = 0.5 * x[i]
    ...     return y
    >>> parallel(half)(np.array([1.0, 2.0]))
    array([0.5, 1. ])
    """
    if fun is not UNSAID:
        checked("parallel", fun=fun)
    given = checked("parallel", static_argnums=static_argnums, static_argnames=static_argnames)
    return _compiled(fun, {**given, "parallel": True, "boundscheck": None, "explained": True})


@typed.batching
def vmap(
    fun: Callable[..., Any] = UNSAID,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Any:
    """``fun`` for every example along the mapped axes at once, as ``jax.vmap``; also ``@vmap``.

    ``in_axes`` and ``out_axes`` are ints, None or trees of these that are prefixes of the arguments
    and of the result; keyword arguments are mapped over axis 0. ``axis_name`` names the batch axis
    for ``psum`` and the other collectives. ``chunk_size`` bounds memory: at most so many examples
    are computed at a time, and the results are the same. Raises ValueError where an argument has
    not the mapped axis, or not as many examples as the others.

    ``axis_size`` is the number of examples, where no argument is mapped.

    >>> import numpy as np
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.array([1.0, 2.0]), 3.0)
    array([3., 6.])
    """
    options = vmap_options(in_axes, out_axes, axis_name, axis_size, chunk_size)
    return transformed("vmap", fun, options)


@typed.jacobian
def jacfwd(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The Jacobian by forward mode, for few arguments; laid out as ``jax.jacfwd`` does.

    ``fun`` takes and returns arrays or pytrees of them. ``argnums`` says which arguments, an int or
    several: the result is then one, or a tuple. Names may stand for numbers, there or in
    ``argnames``. ``has_aux``: ``fun`` returns a pair, of which the
    second part is passed through. ``holomorphic``: arguments and results are complex.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x[0])(np.array([2.0, 3.0]))
    array([[4., 0.],
           [3., 2.]])
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic}
    return differentiated("jacfwd", fun, argnums, argnames, **flags)


@typed.jacobian
def jacrev(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The Jacobian by reverse mode, for few results; laid out as ``jax.jacrev`` does.

    Parameters, ``fun``, ``argnums``, ``has_aux``, ``holomorphic`` and ``argnames``, are those of
    ``jacfwd``.

    >>> import numpy as np
    >>> jacrev(lambda x: x * x[0])(np.array([2.0, 3.0]))
    array([[4., 0.],
           [3., 2.]])
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic}
    return differentiated("jacrev", fun, argnums, argnames, **flags)


@typed.jacobian
def hessian(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The Hessian, ``jacfwd(jacrev(fun))``; laid out as ``jax.hessian`` does.

    Parameters, ``fun``, ``argnums``, ``has_aux``, ``holomorphic`` and ``argnames``, are those of
    ``jacfwd``.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic}
    return differentiated("hessian", fun, argnums, argnames, **flags)


def vmap_options(
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> dict[str, Any]:
    """The options of ``vmap``, checked."""
    found = checked(
        "vmap",
        in_axes=in_axes,
        out_axes=out_axes,
        axis_size=axis_size,
        axis_name=axis_name,
        chunk_size=chunk_size,
    )
    if chunk_size is not None and axis_name is not None:
        raise ValueError(
            "vmap: chunk_size cannot be given together with axis_name: a collective needs all "
            "examples at once, and a chunk has but some of them"
        )
    return {"axes": Axes(**found)}


def _stopped(x: Any) -> Any:
    return x


def _store_through(base: Array, new: Array) -> Array:
    raise UnsupportedFunction(
        "The result of stop_gradient is its argument itself.",
        current().origin,
        "store into the argument, or into a .copy()",
    )


_stop = register(
    Primitive(
        "stop_gradient",
        _stopped,
        lambda x: x.type,
        "{0}",
        kind="elementwise",
        nondifferentiable=True,
        arithmetic="same",
        numba="{0}",
        total=True,
        smooth=True,
        cheap=True,
        view_back=_store_through,
        keeps_layout=True,
        samples=lambda rng: [((rng.normal(size=3),), {})],
    )
)


def stop_gradient(x: Tree) -> Tree:
    """The identity, with derivative zero, as ``jax.lax.stop_gradient``; trees too.

    ``x`` is an array, a number or a pytree of them.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    3.0
    """
    return x


def _record_stop(x: Any) -> Any:
    def stopped(leaf: Any) -> Any:
        return apply(_stop, operand(leaf)) if isinstance(leaf, Array) else leaf

    return pytrees.tree_map(stopped, x)


FUNCTIONS[stop_gradient] = _record_stop
