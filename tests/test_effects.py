"""The effects of statements: which stores are plain, and which may repeat an element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calque.transpiler.ir import effects
from calque.transpiler.ir.core import Apply, Slot, Var
from calque.transpiler.ir.types import INT, ArrayType
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import add_at, getitem, update, update_add
from calque.transpiler.primitives.record import Primitive

VECTOR, NUMBER = (ArrayType(np.dtype("f8"), dims) for dims in ((3,), ()))
INDEX = {"index": (Slot(0),)}


def statement(primitive: Primitive, *types: Any, **params: Any) -> Apply:
    return Apply((Var(VECTOR),), primitive, tuple(map(Var, types)), params, None)


@pytest.mark.parametrize(
    ("s", "expected"),
    [
        (statement(update, VECTOR, NUMBER, INT, **INDEX), (True, True, True, True)),
        (statement(update_add, VECTOR, NUMBER, INT, **INDEX), (True, True, True, True)),
        (statement(add_at, VECTOR, NUMBER, INT, **INDEX), (True, True, False, False)),
        (statement(room, VECTOR, INT), (True, False, False, False)),
        (statement(getitem, VECTOR, INT, **INDEX), (False, False, False, True)),
    ],
    ids=["update", "update_add", "add_at", "room", "getitem"],
)
def test_stores(s: Apply, expected: tuple[bool, ...]) -> None:
    """np.add.at is no plain store: it may add to one element several times."""
    found = (effects.is_store, effects.is_indexed_store, effects.is_plain_store, effects.is_access)
    assert tuple(is_one(s) for is_one in found) == expected
    assert (effects.stored_into([s]) == {s.args[0]}) == expected[2]
