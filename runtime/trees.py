"""Functions on pytrees, with the names and the meaning of ``jax.tree_util``.

A pytree is a number or an array, or a tuple, list, dict, namedtuple, dataclass or instance of a
registered class that holds pytrees. The keys of a dict are taken in sorted order, None holds
nothing. All of them work within transformed functions, too. ``calque.tree`` has the same functions
under JAX's short names: ``calque.tree.map``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.fitting import Unfit, fitting, function_or_none, shown
from calque.runtime.fitting import function as callable_
from calque.runtime.options import UNSAID, checked
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees as nodes
from calque.transpiler.ir import treedefs

IsLeaf = Callable[[Any], bool] | None


@dataclass(frozen=True)
class DictKey:
    """A step of a path: into a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class SequenceKey:
    """A step of a path: into a tuple or a list."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@dataclass(frozen=True)
class GetAttrKey:
    """A step of a path: into an attribute of a namedtuple, a dataclass, an instance."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


KeyPath = tuple[DictKey | SequenceKey | GetAttrKey, ...]


def keystr(path: KeyPath) -> str:
    """A path as one writes it in Python.

    ``path`` is one of those that ``tree_flatten_with_path`` gives.

    >>> keystr((DictKey("layers"), SequenceKey(0), GetAttrKey("w")))
    "['layers'][0].w"
    """
    return "".join(map(str, fitting(_keys, path, "keystr", "path")))


def _keys(path: Any) -> Any:
    kinds = (DictKey, SequenceKey, GetAttrKey)
    if isinstance(path, (tuple, list)) and all(isinstance(key, kinds) for key in path):
        return path
    raise Unfit("a path, as tree_flatten_with_path gives them")


def _structure(treedef: Any) -> Any:
    if isinstance(treedef, treedefs.PyTreeDef):
        return treedef
    raise Unfit("a structure, as tree_structure gives them")


def _ends(is_leaf: IsLeaf, owner: str) -> Callable[[Any], bool]:
    """Return the function that is true where a tree ends; it registers dataclasses on the way."""
    if is_leaf is None:
        return nodes.discover
    is_leaf = fitting(function_or_none, is_leaf, owner, "is_leaf")
    return lambda value: nodes.discover(value) or bool(is_leaf(value))


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Any]:
    """``(leaves, structure)`` of a pytree, as ``jax.tree.flatten``.

    ``is_leaf(value)`` says of a node whether it is to count as a leaf, whatever it holds.

    >>> leaves, structure = tree_flatten({"b": 1, "a": (2, None)})
    >>> leaves, tree_unflatten(structure, [20, 10])
    ([2, 1], {'b': 10, 'a': (20, None)})
    """
    return _flattened(tree, is_leaf, "tree_flatten")


def _flattened(tree: Any, is_leaf: IsLeaf, owner: str) -> Any:
    try:
        return treedefs.flatten(tree, _ends(is_leaf, owner), every=is_leaf is not None)
    except RecursionError:
        raise nodes.too_deep("tree") from None


def tree_unflatten(treedef: Any, leaves: Iterable[Any]) -> Any:
    """The pytree of a structure with these leaves, as ``jax.tree.unflatten``.

    Raises ValueError where their number is not that of the structure.

    ``treedef`` is the structure, as ``tree_structure`` gives it; ``leaves`` are as many as it has.

    >>> tree_unflatten(tree_structure((0, [0])), [1, 2])
    (1, [2])
    """
    treedef = fitting(_structure, treedef, "tree_unflatten", "treedef")
    try:
        given = list(leaves)
    except TypeError:
        text = f"tree_unflatten: leaves must be a sequence, and is {shown(leaves)}"
        raise TypeError(text) from None
    if len(given) != treedef.num_leaves:
        raise ValueError(
            f"tree_unflatten: leaves has {len(given)} items, and treedef {treedef.num_leaves}"
        )
    return treedefs.unflatten(treedef, given)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a pytree in order, as ``jax.tree.leaves``; ``is_leaf`` as in ``tree_flatten``.

    >>> tree_leaves({"b": 1, "a": (2, None)})
    [2, 1]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The structure of a pytree, as ``jax.tree.structure``; ``is_leaf`` as in ``tree_flatten``.

    >>> tree_structure((1, 2)) == tree_structure((3, 4)), tree_structure((1, 2)).num_leaves
    (True, 2)
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """``f`` of corresponding leaves, in the structure of the first tree, as ``jax.tree.map``.

    ``rest`` are more trees, of the same structure. Raises ValueError where theirs is another.

    ``is_leaf``, a function of a subtree, says what else is a leaf.

    >>> tree_map(lambda w, g: w - 0.5 * g, {"w": 1.0, "b": (2.0,)}, {"w": 2.0, "b": (4.0,)})
    {'w': 0.0, 'b': (0.0,)}
    """
    f = fitting(callable_, f, "tree_map", "f")
    leaves, structure = _flattened(tree, is_leaf, "tree_map")
    others = [_up_to(structure, other, k) for k, other in enumerate(rest)]
    return tree_unflatten(structure, [f(*row) for row in zip(leaves, *others, strict=True)])


def _up_to(structure: Any, other: Any, number: int) -> list[Any]:
    """The parts of another tree that stand where the first one has its leaves."""
    try:
        found: list[Any] = structure.flatten_up_to(other)
        return found
    except ValueError as error:
        raise ValueError(f"rest[{number}] has another structure than tree: {error}") from None


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = UNSAID,
    is_leaf: IsLeaf = None,
) -> Any:
    """The leaves joined from left to right, as ``jax.tree.reduce``.

    ``function(joined, leaf)`` gives what is joined next; ``initializer``, if given, comes first.
    Raises TypeError for a tree without leaves and no initializer.

    ``is_leaf``, a function of a subtree, says what else is a leaf.

    >>> tree_reduce(lambda total, x: total + x, {"a": 1, "b": (2, 3)}, 10)
    16
    >>> tree_reduce(max, {"a": 1, "b": (2, 3)}, initializer=5)
    5
    """
    function = fitting(callable_, function, "tree_reduce", "function")
    leaves = tree_leaves(tree, is_leaf)
    if initializer is not UNSAID:
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise TypeError("tree_reduce: tree has no leaves, and there is no initializer")
    return functools.reduce(function, leaves)


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """True if all leaves are true, as ``jax.tree.all``.

    ``is_leaf``, a function of a subtree, says what else is a leaf.

    >>> tree_all({"a": True, "b": (1, 0)})
    False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: Any, inner_treedef: Any, pytree_to_transpose: Any) -> Any:
    """A tree of trees turned inside out, as ``jax.tree.transpose``.

    ``outer_treedef`` is the structure outside, ``inner_treedef`` that of each of its leaves: it
    becomes the one outside. None is that of the first of them, and the same tree must stand at
    each. Raises ValueError where the tree is of other structures.

    ``pytree_to_transpose`` is the tree.

    >>> outer, inner = tree_structure((0, 0)), tree_structure({"a": 0, "b": 0})
    >>> tree_transpose(outer, inner, ({"a": 1, "b": 2}, {"a": 3, "b": 4}))
    {'a': (1, 3), 'b': (2, 4)}
    >>> tree_transpose(outer, None, ([1, 2], [3, 4]))
    [(1, 3), (2, 4)]
    """
    owner = "tree_transpose"
    outer = fitting(_structure, outer_treedef, owner, "outer_treedef")
    if inner_treedef is not None:
        fitting(_structure, inner_treedef, owner, "inner_treedef")
    if inner_treedef is None and not outer.num_leaves:
        raise ValueError(f"{owner}: outer_treedef has no leaves: give inner_treedef")
    try:
        parts = outer.flatten_up_to(pytree_to_transpose)
        inner = _inner_structure([tree_structure(part) for part in parts], inner_treedef)
    except RecursionError:
        raise nodes.too_deep("pytree_to_transpose") from None
    except ValueError as error:
        raise ValueError(f"{owner}: pytree_to_transpose has another structure: {error}") from None
    return treedefs.transposed(outer, inner, parts)


def _inner_structure(found: list[Any], inner: Any) -> Any:
    """The structure of all subtrees that stand where the outer one has its leaves."""
    inner = found[0] if inner is None else inner
    wrong = [other for other in found if other != inner]
    if wrong:
        raise ValueError(f"{wrong[0]} stands where {inner} is due")
    return inner


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], Any]:
    """``([(path, leaf), ...], structure)``, as ``jax.tree.flatten_with_path``.

    A path is a tuple of ``DictKey``, ``SequenceKey`` and ``GetAttrKey``; see ``keystr``.

    ``is_leaf``, a function of a subtree, says what else is a leaf.

    >>> tree_flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    owner = "tree_flatten_with_path"
    leaves, structure = _flattened(tree, is_leaf, owner)
    paths = [tuple(map(_step, path)) for path in treedefs.paths(structure)]
    return list(zip(paths, leaves, strict=True)), structure


def _step(step: treedefs.Step) -> DictKey | SequenceKey | GetAttrKey:
    if step.how == "key":
        return DictKey(step.entry)
    return SequenceKey(step.entry) if step.how == "index" else GetAttrKey(str(step.entry))


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """``[(path, leaf), ...]``, as ``jax.tree.leaves_with_path``.

    ``is_leaf``, a function of a subtree, says what else is a leaf.

    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """``f(path, leaf, ...)`` of corresponding leaves, as ``jax.tree.map_with_path``.

    ``rest`` are more trees, of the same structure. ``is_leaf``, a function of a subtree, says what
    else is a leaf.

    >>> tree_map_with_path(lambda path, x: f"{keystr(path)}={x}", {"a": [1]})
    {'a': ["['a'][0]=1"]}
    """
    f = fitting(callable_, f, "tree_map_with_path", "f")
    found, structure = tree_flatten_with_path(tree, is_leaf)
    others = [_up_to(structure, other, k) for k, other in enumerate(rest)]
    made = [f(path, leaf, *row) for (path, leaf), *row in zip(found, *others, strict=True)]
    return tree_unflatten(structure, made)


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """``(flat, unravel)``: all leaves in one array, as ``jax.flatten_util.ravel_pytree``.

    ``flat`` is one-dimensional, of the dtype that the leaves share; ``unravel(flat)`` gives a
    pytree of the old structure, shapes and dtypes. Raises ValueError where ``unravel`` is given
    an array of another size.

    ``pytree`` holds arrays and numbers.

    >>> flat, unravel = ravel_pytree({"w": np.array([[1.0, 2.0]]), "b": 3.0})
    >>> flat, unravel(2.0 * flat)
    (array([3., 1., 2.]), {'w': array([[2., 4.]]), 'b': np.float64(6.0)})
    """
    leaves, structure = tree_flatten(pytree)
    shapes = [np.shape(leaf) for leaf in leaves]
    dtypes = [np.asarray(leaf).dtype for leaf in leaves]
    for dtype in dtypes:
        if dtype.kind not in "biufc":
            raise TypeError(f"ravel_pytree: pytree must hold arrays and numbers, not {dtype}")
    parts = [np.reshape(leaf, -1) for leaf in leaves]
    flat = np.concatenate(parts) if parts else np.zeros(0)
    dtype_of_all = flat.dtype
    is_complex = dtype_of_all.kind == "c"
    total = sum(math.prod(shape) for shape in shapes)

    def unravel(flat: Any) -> Any:
        flat = np.asarray(flat)
        if flat.dtype.kind not in "biufc" or (flat.dtype.kind == "c" and not is_complex):
            raise TypeError(f"unravel: numbers of {dtype_of_all} are due, not of {flat.dtype}")
        if np.shape(flat) != (total,):
            raise ValueError(f"unravel: an array of {total} elements is due, not {np.shape(flat)}")
        made = []
        start = 0
        for shape, dtype in zip(shapes, dtypes, strict=True):
            count = math.prod(shape)
            part = flat[start : start + count].astype(dtype)
            made.append(part.reshape(shape) if shape else part[0])
            start += count
        return tree_unflatten(structure, made)

    return flat, unravel


def _of_trees(function: Any, called: bool) -> Any:
    """A function on pytrees; ``called`` if its first argument is a function of leaves."""

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        def interpreted(f: Any) -> Any:
            return lambda *values: machine.call_value(f, list(values), {}, node)

        trees_given = [nodes.plain(a) for a in (args[1:] if called else args)]
        if called and args:
            checked(function.__name__, f=args[0])
            trees_given.insert(0, interpreted(args[0]))
        named = {k: interpreted(v) if k == "is_leaf" and v else v for k, v in kwargs.items()}
        return function(*trees_given, **named)

    return call


for _mapping in (tree_map, tree_reduce, tree_map_with_path):
    builtin(_mapping)(_of_trees(_mapping, True))
for _reading in (
    *(tree_flatten, tree_unflatten, tree_leaves, tree_structure),
    *(tree_all, tree_transpose, tree_flatten_with_path),
    *(tree_leaves_with_path, keystr),
):
    builtin(_reading)(_of_trees(_reading, False))
