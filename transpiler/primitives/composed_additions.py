"""``x[[0, 2]] += v`` rewritten as ``np.add.at``, which loops over scalars can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.transpiler.ir.builder import type_of
from calque.transpiler.ir.core import Slot
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.composed import composed
from calque.transpiler.primitives.indexing import add_at, update_add
from calque.transpiler.primitives.templates import is_unique


@composed(update_add)
def _update_add(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """``x[[0, 2]] += v`` adds once at each place: so does ``np.add.at`` where none comes twice."""
    base, value, *places = args
    index = params["index"]
    if not looping and len(places) < 2:
        return None  # NumPy adds to a part of a vector as fast as a loop
    if len(index) != type_of(base).ndim or not all(isinstance(t, Slot) for t in index):
        return None
    kinds = [type_of(place) for place in places]
    if any(kind.ndim != 1 or kind.dtype.kind not in "iu" for kind in kinds):
        return None
    if not is_unique(index, places):
        return None
    if type_of(value).dtype != type_of(base).dtype:
        return None  # NumPy rounds the sum, and np.add.at what is added
    return apply(add_at, base, value, *places, index=index)
