"""Collectives between the examples of a ``vmap``, or the devices of a ``pmap``.

Names and semantics are those of ``jax.lax``: the derivative of a collective is a collective, so
``vmap(grad(f), axis_name="i")`` gives each example the derivative of the sum of all examples'
results by its own argument; so does ``pmap``, and ``shard_map`` with ``check_vma=False``. Trees are
taken leaf by leaf. A collective must be reached by every example or device: under a test that
differs between them it is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from calque.runtime.fitting import shown
from calque.runtime.options import checked, given
from calque.transpiler.errors import UnboundAxisName, UnsupportedFunction
from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.constant_folding import NotConstant, known_tree
from calque.transpiler.primitives import axis_collectives as primitives
from calque.transpiler.primitives import collective_calls as meaning

AxisName = Hashable | Sequence[Hashable]


def _unbound(name: str, axis_name: Any) -> UnboundAxisName:
    text = shown(axis_name)
    return UnboundAxisName(
        f"{name}: unbound axis name {text}: it is called in plain Python.",
        hint=f"call it in a function that vmap or pmap transforms with axis_name={text}",
    )


_OPTIONS = ("axis", "tiled", "scatter_dimension", "split_axis", "concat_axis")


def _numeric(owner: str, x: Any) -> Any:
    """The value to send to other examples; TypeError unless it is a tree of arrays and numbers."""
    for leaf in pytrees.flatten(x)[0]:
        if isinstance(leaf, (np.ndarray, np.generic)):
            numeric = leaf.dtype.kind in "biufc"
        else:
            numeric = isinstance(leaf, Array) or is_number(leaf)
        if not numeric:
            raise TypeError(f"{owner}: x must hold arrays and numbers, and holds {shown(leaf)}")
    return x


def _means(public: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let interpreted code that calls ``public`` do what the decorated function says."""

    def declare(recorded: Callable[..., Any]) -> Callable[..., Any]:
        def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
            found = {k: listed(v) for k, v in given(public, args, kwargs).items()}
            if found.pop("axis_index_groups", None) is not None:
                raise UnsupportedFunction(
                    f"{public.__name__}: axis_index_groups is not supported.",
                    machine.builder.origin,
                    "use two named axes, from two vmaps, instead of groups of one",
                )
            options = {k: v for k, v in found.items() if k in _OPTIONS}
            x = {"x": _numeric(public.__name__, found["x"])} if "x" in found else {}
            return recorded(**{**found, **x, **checked(public.__name__, **options)})

        builtin(public)(call)
        return recorded

    return declare


def _single(axis_name: Any, function: str) -> primitives.NamedAxis:
    found = meaning.axes_named(axis_name, function)
    if len(found) != 1:
        raise UnsupportedFunction(
            f"{function} over several axes is not supported.",
            current().origin,
            "call it for one axis after the other",
        )
    return found[0]


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum over all examples of the axis, as ``jax.lax.psum``; ``psum(1, name)`` counts them.

    ``axis_name`` is a name or a tuple of names. Raises UnboundAxisName (a NameError) where nothing
    around the call has that name.

    ``x`` is an array, a number or a pytree. ``axis_index_groups`` must be None, and is there for
    JAX's sake.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    raise _unbound("psum", axis_name)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean over all examples of the axis, as ``jax.lax.pmean``.

    Raises UnboundAxisName (a NameError) where nothing around the call has that name.

    ``x`` is an array, a number or a pytree. ``axis_name`` is the name of the axis, or a tuple of
    names; ``axis_index_groups`` must be None, and is there for JAX's sake.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: x - pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    raise _unbound("pmean", axis_name)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The greatest value among all examples, elementwise, as ``jax.lax.pmax``.

    Differentiable, unlike JAX's: examples that share the maximum share the derivative equally.
    Raises UnboundAxisName (a NameError) where nothing around the call has that name.

    ``x`` is an array, a number or a pytree. ``axis_name`` is the name of the axis, or a tuple of
    names; ``axis_index_groups`` must be None, and is there for JAX's sake.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: x / pmax(x, "i"), axis_name="i")(np.array([1.0, 4.0]))
    array([0.25, 1.  ])
    """
    raise _unbound("pmax", axis_name)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The least value among all examples, elementwise, as ``jax.lax.pmin``.

    Differentiable as ``pmax`` is. Raises UnboundAxisName (a NameError) where no ``vmap`` around the
    call has that name.

    ``x`` is an array, a number or a pytree. ``axis_name`` is the name of the axis, or a tuple of
    names; ``axis_index_groups`` must be None, and is there for JAX's sake.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: x - pmin(x, "i"), axis_name="i")(np.array([1.0, 4.0]))
    array([0., 3.])
    """
    raise _unbound("pmin", axis_name)


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """Every example's ``x`` along a new axis, as ``jax.lax.all_gather``.

    ``axis`` is where the new axis stands; with ``tiled`` the arrays are joined along that axis
    instead. Over several axes the last one runs fastest. Raises UnboundAxisName (a NameError)
    where nothing around the call has that name.

    ``axis_name`` is the name of the axis, or a tuple of names; ``axis_index_groups`` must be None,
    and is there for JAX's sake.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: np.sort(all_gather(x, "i"))[0], axis_name="i")(np.array([3.0, 1.0]))
    array([1., 1.])
    """
    raise _unbound("all_gather", axis_name)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over all examples, of which example k keeps part k, as ``jax.lax.psum_scatter``.

    Raises UnboundAxisName (a NameError) where no ``vmap`` around the call has that name, and
    ShapeError where ``scatter_dimension`` is not as long as the axis (a multiple, with ``tiled``).

    ``x`` is split along ``scatter_dimension``; with ``tiled`` the axis stays, as a block of it.
    ``axis_name`` is the name of the axis, or a tuple of names; ``axis_index_groups`` must be None,
    and is there for JAX's sake.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    raise _unbound("psum_scatter", axis_name)


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Example k is given part k of every example's ``x``, as ``jax.lax.all_to_all``.

    ``x`` is split along ``split_axis``, which must be as long as the mapped axis and disappears;
    the parts stand along a new axis ``concat_axis`` of the result. With ``tiled`` blocks of
    ``split_axis`` are dealt out and joined along ``concat_axis``, and no axis comes or goes. Raises
    UnboundAxisName (a NameError) where nothing around the call has that name.

    ``axis_name`` is the name of the axis, or a tuple of names; ``axis_index_groups`` must be None,
    and is there for JAX's sake.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]])
    """
    raise _unbound("all_to_all", axis_name)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """``x`` sent from example to example, as ``jax.lax.ppermute``.

    ``perm`` holds pairs (source, target); an example that is sent nothing has zeros. Raises
    UnboundAxisName (a NameError) where no ``vmap`` around the call has that name, ValueError where
    a source or a target stands twice.

    ``axis_name`` is the name of the axis.

    >>> import numpy as np
    >>> from calque import vmap
    >>> around = [(0, 1), (1, 2), (2, 0)]
    >>> vmap(lambda x: ppermute(x, "i", around), axis_name="i")(np.array([1.0, 2.0, 3.0]))
    array([3., 1., 2.])
    """
    raise _unbound("ppermute", axis_name)


def pcast(x: Any, axis_name: AxisName, *, to: str) -> Any:
    """The value, taken to differ from device to device, as ``jax.lax.pcast``.

    It matters within ``shard_map``: the derivative by a value that is the same on all devices of
    an axis is summed over them, that by ``pcast(w, "x", to="varying")`` is each device's own.
    Elsewhere it is the identity. ``axis_name`` is a name or a tuple of names; ``to`` must be
    "varying". Raises UnboundAxisName (a NameError) where nothing around the call has that name.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: pcast(x, "i", to="varying"), axis_name="i")(np.array([1.0, 2.0]))
    array([1., 2.])
    """
    raise _unbound("pcast", axis_name)


def axis_index(axis_name: AxisName) -> Any:
    """The number of the example along the axis, as ``jax.lax.axis_index``.

    Over several axes the last one runs fastest. Raises UnboundAxisName (a NameError) where no
    ``vmap`` around the call has that name.

    ``axis_name`` is the name of the axis, or a tuple of names.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: x * axis_index("i"), axis_name="i")(np.array([5.0, 5.0, 5.0]))
    array([ 0.,  5., 10.])
    """
    raise _unbound("axis_index", axis_name)


def axis_size(axis_name: AxisName) -> Any:
    """The number of examples along the axis, as ``jax.lax.axis_size``.

    Raises UnboundAxisName (a NameError) where nothing around the call has that name.

    ``axis_name`` is the name of the axis, or a tuple of names: then the product.

    >>> import numpy as np
    >>> from calque import vmap
    >>> vmap(lambda x: x / axis_size("i"), axis_name="i")(np.array([4.0, 8.0]))
    array([2., 4.])
    """
    raise _unbound("axis_size", axis_name)


@_means(psum)
def _psum(x: Any, axis_name: Any) -> Any:
    axes = meaning.axes_named(axis_name, "psum")
    return pytrees.tree_map(lambda leaf: meaning.summed(leaf, axes), x)


@_means(pmean)
def _pmean(x: Any, axis_name: Any) -> Any:
    axes = meaning.axes_named(axis_name, "pmean")
    return pytrees.tree_map(lambda leaf: meaning.averaged(leaf, axes), x)


@_means(pmax)
def _pmax(x: Any, axis_name: Any) -> Any:
    axes = meaning.axes_named(axis_name, "pmax")
    return pytrees.tree_map(lambda leaf: meaning.extreme(primitives.pmax, leaf, axes), x)


@_means(pmin)
def _pmin(x: Any, axis_name: Any) -> Any:
    axes = meaning.axes_named(axis_name, "pmin")
    return pytrees.tree_map(lambda leaf: meaning.extreme(primitives.pmin, leaf, axes), x)


@_means(all_gather)
def _all_gather(x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> Any:
    axes, place = meaning.axes_named(axis_name, "all_gather"), operator.index(axis)
    return pytrees.tree_map(lambda leaf: meaning.gathered(leaf, axes, place, tiled), x)


@_means(psum_scatter)
def _psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, tiled: bool = False
) -> Any:
    axis, place = _single(axis_name, "psum_scatter"), operator.index(scatter_dimension)
    return pytrees.tree_map(lambda leaf: meaning.scattered(leaf, axis, place, tiled), x)


@_means(all_to_all)
def _all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> Any:
    axis = _single(axis_name, "all_to_all")
    split, concat = operator.index(split_axis), operator.index(concat_axis)
    return pytrees.tree_map(lambda leaf: meaning.exchanged(leaf, axis, split, concat, tiled), x)


@_means(ppermute)
def _ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    axis, builder = _single(axis_name, "ppermute"), current()
    try:
        perm = known_tree(perm, builder)
    except NotConstant:
        raise builder.needs_dims([builder.dim_of(axis.size)], "The pairs of ppermute") from None
    return pytrees.tree_map(lambda leaf: meaning.permuted(leaf, axis, perm), x)


@_means(pcast)
def _pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    if to != "varying":
        raise ValueError(f"pcast: to must be 'varying', and is {to!r}")
    axes = meaning.axes_named(axis_name, "pcast")
    return pytrees.tree_map(lambda leaf: meaning.varying(leaf, axes), x)


@_means(axis_index)
def _axis_index(axis_name: Any) -> Any:
    return meaning.index_along(meaning.axes_named(axis_name, "axis_index"))


@_means(axis_size)
def _axis_size(axis_name: Any) -> Any:
    return meaning.size_of_axes(meaning.axes_named(axis_name, "axis_size"))
