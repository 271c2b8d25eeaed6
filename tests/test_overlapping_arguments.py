"""An argument whose elements share memory with each other is refused where it is stored into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque


def windows() -> Any:
    return np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 2, writeable=True)


def carried(m: Any) -> Any:
    for i in range(1, 3):
        m[i, 0] += m[i - 1, 1]
    return np.sum(m * m)


@pytest.mark.parametrize("transform", [calque.jit, calque.grad, lambda f: calque.jit(calque.grad(f))])
def test_an_argument_that_overlaps_itself(transform: Any) -> None:
    function = transform(carried)
    for _ in range(3):
        function(np.ones((3, 2)))
        with pytest.raises(calque.transpiler.errors.AliasUndecided, match="pass a copy"):
            function(windows())
    read_only = calque.grad(lambda m: np.sum(m * m))
    np.testing.assert_array_equal(read_only(windows()), 2.0 * windows())
