"""Element forms of random draws: one number, from its key and its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, current, type_of
from calque.transpiler.primitives import random
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.element_forms import Read, Rule, element_of, is_number
from calque.transpiler.primitives.random import AT_PLACE


def _place(read: Read, index: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """The number of an element among those of an array."""
    place: Any = 0
    for i, size in zip(index, sizes, strict=True):
        place = i if is_number(place, 0) else place * read.size(current().dim_of(size)) + i
    return place


def _drawn(primitive: Primitive) -> Rule:
    def rule(
        read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]
    ) -> Any:
        key, *sizes = args
        at_place = AT_PLACE.get((primitive, params["dtype"]))
        if at_place is None:
            raise NotImplementedError(f"{primitive} of {params['dtype']}")
        batch = type_of(key).ndim - 1
        place = _place(read, index[batch:], sizes)
        one, two = (read(key, [*index[:batch], half]) for half in (0, 1))
        return apply(at_place, one, two, place)

    return rule


@element_of(random.split)
def _split(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    key, *sizes = args
    batch = type_of(key).ndim - 1
    one, two = (read(key, [*index[:batch], half]) for half in (0, 1))
    return apply(random.word, one, two, _place(read, index[batch:-1], sizes), index[-1])


@element_of(random.fold_in)
def _fold_in(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    key, data = args
    one, two = (read(key, [*index[:-1], half]) for half in (0, 1))
    place = FUNCTIONS["cast"](read(data, index[:-1]), np.dtype(np.uint32))
    return apply(random.word, one, two, place, index[-1])


random.split.on_grid = random.fold_in.on_grid = True  # on a CPU they are quicker as they are
for _record in {primitive for primitive, _ in AT_PLACE}:
    _record.element = _drawn(_record)
