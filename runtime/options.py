"""Arguments of public functions, checked where they are given.

A check takes a value and returns it in the form that is kept, or raises ``Unfit``. ``checked``
turns that into an error which names the function and the parameter::

    grad: has_aux must be True or False, and is 'no'

``CHECKS`` has the check of each parameter, by the name that all public functions give it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.runtime.fitting import (
    NOT_NEGATIVE,
    POSITIVE,
    Unfit,
    argnums,
    at_least,
    axes,
    axis_name,
    batch,
    dtype,
    every,
    fitting,
    flag,
    function,
    function_or_none,
    in_axes,
    memory,
    modes,
    names,
    no_policy,
    one_of,
    optional,
    path,
    place,
    positions,
    sequence,
    some_class,
    some_names,
    static_positions,
    text,
    unset,
    unsupported,
    whole,
)
from calque.transpiler.errors import NestedTooDeeply
from calque.transpiler.ir import pytrees
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.runtime import meshes
    from calque.runtime.engines import choosing
    from calque.transpiler.transformations import mesh_programs
else:
    choosing = Late("calque.runtime.engines.choosing")
    meshes = Late("calque.runtime.meshes")
    mesh_programs = Late("calque.transpiler.transformations.mesh_programs")


class Unsaid:
    """The default of a parameter that may be left out, where None is no value for it."""

    def __repr__(self) -> str:
        return "<left out>"


UNSAID: Any = Unsaid()


def checked(owner: str, **given: Any) -> dict[str, Any]:
    """The values of parameters of a public function, in the form that is kept.

    >>> checked("grad", argnums=[0, 1], has_aux=np.True_)
    {'argnums': (0, 1), 'has_aux': True}
    """
    return {name: fitting(CHECKS[name], value, owner, name) for name, value in given.items()}


def given(public: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
    """The arguments of a call of a public function, by name; a TypeError that names the wrong one.

    >>> given(checked, ["grad"], {"argnums": 0})
    {'owner': 'grad', 'given': {'argnums': 0}}
    """
    try:
        bound = inspect.signature(public).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{public.__name__}: {error}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def specs(value: Any) -> Any:
    """A P, or a tree of these."""
    wanted = "a P or a tree of these"
    try:
        leaves = pytrees.flatten(value)[0]
        wrong = [x for x in leaves if not isinstance(x, mesh_programs.PartitionSpec)]
    except NestedTooDeeply:
        raise Unfit(wanted, ValueError, "it holds itself") from None
    if wrong:
        raise Unfit(wanted)
    return value


def some_devices(value: Any) -> tuple[meshes.Device, ...]:
    """Devices in a row."""
    row = isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    if row and all(isinstance(d, meshes.Device) for d in value):
        return tuple(value)
    raise Unfit("a sequence of devices or None")


CHECKS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("fun", "fn", "f", "function", "solve", "result", "flatten", "unflatten"), function
    ),
    **dict.fromkeys(("fwd", "bwd"), function),
    **dict.fromkeys(("partials", "transpose", "slope", "jvp", "vjp"), function_or_none),
    **dict.fromkeys(("tangent_solve", "is_leaf"), function_or_none),
    **dict.fromkeys(("has_aux", "holomorphic", "allow_int", "prevent_cse", "enabled"), flag),
    **dict.fromkeys(("tiled", "optimize_remat", "check_vma", "check"), flag),
    **dict.fromkeys(("in_specs", "out_specs"), specs),
    "engine": lambda value: one_of(None, *choosing.ENGINES)(value),
    "devices": optional(some_devices),
    "axis_index_groups": unsupported,
    "policy": no_policy,
    "symbolic_zeros": unset,
    "argnums": argnums,
    "argnames": some_names,
    **dict.fromkeys(("static_argnums", "static_broadcasted_argnums"), static_positions),
    "nondiff_argnums": positions,
    "wrt": optional(positions),
    "static_argnames": names,
    "static": names,
    "parallel": one_of(True, False, "auto"),
    "boundscheck": one_of(True, False, None),
    "deterministic": one_of(True, False),
    "reassociate": one_of(True, False),
    "graph": one_of("auto", True, False),
    "first": one_of("kernels", "numpy"),
    "in_axes": in_axes,
    "out_axes": axes,
    "axis_name": axis_name,
    "axis_size": optional(at_least(0)),
    "chunk_size": optional(at_least(1)),
    "mode": one_of(None, "forward", "reverse"),
    "format": one_of("csr", "csc", "coo", "dense"),
    **dict.fromkeys(("axis", "scatter_dimension", "split_axis", "concat_axis"), whole),
    "every": every,
    "memory": optional(memory),
    "seed": at_least(0, "an int that is not negative"),
    "order": at_least(0),
    "modes": modes,
    "atol": optional(NOT_NEGATIVE),
    "rtol": optional(NOT_NEGATIVE),
    "eps": optional(POSITIVE),
    "tolerance": NOT_NEGATIVE,
    "max_steps": at_least(1),
    "dtype": dtype,
    "name": place,
    "batch": batch,
    "text": text,
    **dict.fromkeys(("path", "against"), path),
    **dict.fromkeys(("primals", "tangents", "args"), sequence),
    "cls": some_class,
}
