"""Loops over columns keep their meaning, with parallel iterations in any order."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
from random_columns import Columns
from sampling import sampled
from test_access_programs import stepped
from test_random_nests import differences, direction

import calque

pytest.importorskip("numba")


# 29: a column is summed at places that iterations have in common, which they store to
@pytest.mark.parametrize("seed", [*sampled(range(400), 50), 29])
def test_random_columns(seed: int) -> None:
    text, name = Columns(seed).text(), f"<random columns {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    program = namespace["program"]
    plain = calque.grad(program, argnums=(0, 1, 2, 3))
    for n in (6, 3):
        rng = np.random.default_rng(seed + n)
        args = tuple(rng.normal(size=shape) for shape in (n, n, (n, n), (n, n)))
        value = stepped(calque.jit(program), "program_jit", args)
        expected = program(*args)
        if not abs(expected) < 1e6:
            continue  # it has run away, and takes rounding with it
        assert np.isclose(value(*(a.copy() for a in args)), expected, rtol=1e-9, atol=1e-9), text
        wanted = plain(*args)
        slope, doubt = differences(program, args)
        along = sum(np.sum(g * d) for g, d in zip(wanted, direction(args), strict=True))
        assert np.isclose(along, slope, rtol=1e-6, atol=100.0 * doubt + 1e-6), text
        found = stepped(calque.jit(plain), "program_grad_jit", args)(*(a.copy() for a in args))
        scale = max(1.0, *(np.max(np.abs(w)) for w in wanted))
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9 * scale, err_msg=text)
