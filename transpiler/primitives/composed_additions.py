"""``x[[0, 2]] += v`` rewritten as ``np.add.at``, which loops over scalars can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.transpiler.ir.builder import type_of
from calque.transpiler.primitives.base import apply, definition
from calque.transpiler.primitives.composed import composed
from calque.transpiler.primitives.creation import constant
from calque.transpiler.primitives.indexing import add_at, update_add


@composed(update_add)
def _update_add(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """``x[[0, 2]] += v`` adds once at each place: so does ``np.add.at`` where none comes twice."""
    base, value, *places = args
    if not looping or len(params["index"]) != 1 or len(places) != 1 or type_of(base).ndim != 1:
        return None
    made = definition(places[0])
    if made is None or made.primitive is not constant or type_of(places[0]).ndim != 1:
        return None
    known = made.params["value"]
    if type_of(places[0]).dtype.kind not in "iu" or len(set(known)) < len(known):
        return None
    if min(known, default=0) < 0:
        return None  # -1 may be another name of 0
    if type_of(value).dtype != type_of(base).dtype:
        return None  # NumPy rounds the sum, and np.add.at what is added
    return apply(add_at, base, value, *places, index=params["index"])
