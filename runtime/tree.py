"""``calque.tree``: functions on pytrees under the short names of ``jax.tree``."""

from calque.runtime.trees import tree_all as all
from calque.runtime.trees import tree_flatten as flatten
from calque.runtime.trees import tree_flatten_with_path as flatten_with_path
from calque.runtime.trees import tree_leaves as leaves
from calque.runtime.trees import tree_leaves_with_path as leaves_with_path
from calque.runtime.trees import tree_map as map
from calque.runtime.trees import tree_map_with_path as map_with_path
from calque.runtime.trees import tree_reduce as reduce
from calque.runtime.trees import tree_structure as structure
from calque.runtime.trees import tree_transpose as transpose
from calque.runtime.trees import tree_unflatten as unflatten

__all__ = [
    "all",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "structure",
    "transpose",
    "unflatten",
]
