"""Functions of leaves, which all bridges share, without a framework."""

from __future__ import annotations

import gc
import linecache
from typing import Any

import numpy as np
import pytest

from calque.runtime.bridges import leaf_functions
from calque.runtime.bridges.leaf_functions import ArgumentTree, FixedArgument, Unshared
from calque.runtime.trees import tree_structure

X = np.array([1.0, 2.0, 3.0])


def texts() -> int:
    return sum(name.startswith("<calque bridge") for name in linecache.cache)


def of_two(function: Any) -> Any:
    arguments = ArgumentTree(tree_structure(((0, 0), {})), (None, None))
    return leaf_functions.of_leaves(function, arguments, [True, False], flat=True)


def scaled(x: Any, scale: Any) -> Any:
    x[0] = 2.0 * x[0]
    return {"sum": scale * np.sum(x * x), "x": x}


def test_derivatives_of_derivatives() -> None:
    flat, x = of_two(scaled), X.copy()
    total, stored = Unshared("identity", flat)(x, 2.0)
    assert total == 34.0 and np.array_equal(stored, [2.0, 2.0, 3.0]) and np.array_equal(x, X)
    slope = leaf_functions.cotangent(flat, 2, (0,), (0,))
    assert np.array_equal(Unshared("identity", slope)(x, 2.0, 1.0)[0], [16.0, 8.0, 12.0])
    curved = leaf_functions.tangent(slope, 3, (0, 1), (0,))
    found = Unshared("identity", curved)(x, 2.0, 1.0, np.ones(3), 1.0)
    assert np.array_equal(found[0], [16.0 + 8.0, 4.0 + 4.0, 4.0 + 6.0])
    many = leaf_functions.batched(curved, 5, (None, None, None, 0, None), 2)
    (rows,) = Unshared("identity", many)(x, 2.0, 1.0, np.ones((2, 3)), 0.0)
    assert np.array_equal(rows, [[16.0, 4.0, 4.0]] * 2)


def test_names_that_a_text_has_itself() -> None:
    def function(x: Any, y: Any) -> Any:
        return np.sum(x * y)

    for name in ("function", "results", "x0", "chosen", "tree_leaves", "tuple", "<lambda>", "vjp"):
        function.__name__ = name
        slope = leaf_functions.cotangent(of_two(function), 2, (0,), (0,))
        assert np.array_equal(Unshared("identity", slope)(X, X, 1.0)[0], X)


def test_a_fixed_argument_is_told_from_its_equals() -> None:
    same = [FixedArgument.of(x) for x in (1, True, 1.0, 0.0, -0.0, "1")]
    assert len(set(same)) == len(same) and FixedArgument.of("a") == FixedArgument.of("a")
    with pytest.raises(TypeError, match=r"f: an argument is set, \{1\}; it must be an array"):
        FixedArgument.of({1}, "f")


def test_a_text_goes_with_its_function() -> None:
    gc.collect()
    before = texts()
    kept = of_two(scaled)
    assert texts() == before + 1
    del kept
    gc.collect()
    assert texts() == before
