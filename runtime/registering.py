"""Classes whose instances are nodes of pytrees, as users register them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from calque.runtime.fitting import fitting, names
from calque.runtime.options import checked
from calque.runtime.outside import outside
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.pytrees import Flatten, Unflatten


@outside
def register_pytree_node(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Make instances of ``cls`` nodes of pytrees, as ``jax.tree_util.register_pytree_node``.

    ``flatten(x) -> (children, aux)``, ``unflatten(aux, children) -> x``; aux must have equality and
    a hash. Generated source reads the leaves through attributes of the instance, and makes a new
    one by its class where the arguments have the attributes' names, else by ``unflatten``, which
    must then be importable by name. Raises ValueError for a class that is registered already.

    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> apart = lambda x: ((x.low, x.high), None)
    >>> register_pytree_node(Interval, apart, lambda aux, children: Interval(*children))
    >>> import calque
    >>> calque.tree_map(lambda x: 2 * x, Interval(1, 2)).high
    4
    """
    checked("register_pytree_node", cls=cls, flatten=flatten, unflatten=unflatten)
    pytrees.register(cls, pytrees.Registration(flatten, unflatten))


@outside
def register_pytree_node_class(cls: Any) -> Any:
    """Register a class by its methods ``tree_flatten(self)`` and ``tree_unflatten(cls, aux, c)``.

    A decorator, as ``jax.tree_util.register_pytree_node_class``.

    >>> @register_pytree_node_class
    ... class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    ...     def tree_flatten(self):
    ...         return (self.low, self.high), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> import calque
    >>> calque.tree_map(lambda x: 2 * x, Interval(1, 2)).high
    4
    """
    checked("register_pytree_node_class", cls=cls)
    for method in ("tree_flatten", "tree_unflatten"):
        if not callable(getattr(cls, method, None)):
            raise TypeError(f"register_pytree_node_class: cls, {cls.__name__}, has no {method}")
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)
    return cls


@outside
def register_dataclass(
    cls: Any,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Register a dataclass, as ``jax.tree_util.register_dataclass``: some fields are no data.

    A dataclass is a node without this; fields with ``metadata={"static": True}`` are part of its
    structure, as ``meta_fields`` are. Serves as a decorator. Raises ValueError where the fields
    named are not those of the class.

    ``cls`` is the dataclass. ``data_fields`` are children, ``meta_fields`` part of the structure;
    ``drop_fields`` are neither, and have their defaults in a copy. Without any, all fields are
    data.

    >>> @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     kind: str
    >>> import calque
    >>> calque.tree_map(lambda x: 2 * x, register_dataclass(Layer, ["w"], ["kind"])(2.0, "dense"))
    Layer(w=4.0, kind='dense')
    """
    owner = "register_dataclass"
    checked(owner, cls=cls)
    if not hasattr(cls, "__dataclass_fields__"):
        raise TypeError(f"{owner}: cls must be a dataclass, and is the class {cls.__name__}")
    drop_fields = fitting(names, drop_fields, owner, "drop_fields")
    fields = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in drop_fields]
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(f"{owner}: give both data_fields and meta_fields, or neither")
    if data_fields is None or meta_fields is None:
        meta_fields = [n for n in fields if n in pytrees.static_fields(cls)]
        data_fields = [n for n in fields if n not in meta_fields]
    data: tuple[str, ...] = fitting(names, data_fields, owner, "data_fields")
    meta: tuple[str, ...] = fitting(names, meta_fields, owner, "meta_fields")
    if sorted([*data, *meta]) != sorted(fields):
        raise ValueError(
            f"{owner}: data_fields and meta_fields must name each field of {cls.__name__} once: "
            f"{', '.join(fields)}"
        )
    pytrees.register(cls, pytrees.of_dataclass(cls, data, meta), data)
    return cls
