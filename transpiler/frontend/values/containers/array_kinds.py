"""Arrays: cells of the program's memory, with a version for each store; and known arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.frontend.values.containers.container_kinds import Owned, kind
from calque.transpiler.frontend.values.containers.object_kinds import ObjectKind, WholeKind
from calque.transpiler.frontend.values.descriptions import Leaf, join_types, same_type
from calque.transpiler.ir.builder import Array, current, type_of
from calque.transpiler.ir.types import ArrayType


@kind(np.ndarray)
class KnownArrayKind(ObjectKind):
    """The kind of arrays that are known."""

    def describe(self, value: Any) -> Any:
        return Leaf(type_of(value))


@kind(Array)
class ArrayKind(KnownArrayKind, WholeKind):
    """The kind of the program's arrays and numbers; a snapshot itself follows their memory."""

    mutable = False

    def content(self, value: Array, owned: Owned) -> Any:
        return value.state() if type(value) is Array else None

    def same(self, content: Any, other: Any) -> bool:
        """True if a cell has the same version; a view has none of its own."""
        is_view = content[1] is not None
        return is_view or (content[0] is other[0] and content[5] is other[5])

    def restore(self, value: Array, content: Any) -> None:
        value.restore(content)

    def opened(self, value: Array) -> None:
        return None

    def widen(self, plan: Any, value: Any, before: Any, after: Any) -> bool:
        if before[1] is not None or after[0] is before[0]:
            return True
        known = plan.cells.get(id(value))
        old = known or before[0].type
        joined = join_types(old, after[0].type, spread=False)
        assert joined is not None
        new = ArrayType(old.dtype, joined.dims, old.weak)
        if known is not None and same_type(known, new, current().dims):
            return True
        plan.cells[id(value)] = new
        return False
