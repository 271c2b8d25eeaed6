"""Equality of parts of a program: flow of values, sizes, what is assumed of these, floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import ArrayType, symbol
from calque.transpiler.outlining.last_parts import last_part
from calque.transpiler.outlining.part_forms import Occurrence, PartFormer, may_be_renamed
from calque.transpiler.outlining.sharing_policy import SharingPolicy

pytest.importorskip("numba")

RNG = np.random.default_rng(11)
N = 12


@pytest.fixture(autouse=True)
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share all that repeats."""
    always = SharingPolicy(3, 3, 2)
    monkeypatch.setattr("calque.transpiler.kernel_passes.to_compile", lambda builder: always)
    monkeypatch.setattr("calque.transpiler.texts.TO_READ", always)


def layers(*widths: int) -> list[np.ndarray]:
    pairs = zip(widths, widths[1:])
    return [RNG.normal(size=pair) / pair[0] ** 0.5 for pair in pairs]


def by_differences(f: Any, params: Any, k: int, j: int, direction: Any) -> float:
    """The slope of ``f`` by one of its parameters, along a direction."""
    step, values = 1e-6, []
    for sign in (1.0, -1.0):
        moved = [[*pair] for pair in params]
        moved[k][j] = moved[k][j] + sign * step * direction
        values.append(f(moved))
    return (values[0] - values[1]) / (2.0 * step)


def part(x, w, gain, inside, outside):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return x + np.tanh(np.dot(centred * gain, w) * inside) * outside


def another_first(params):
    """The first part takes two values where the others take one of them twice."""
    x = np.linspace(-1.0, 1.0, N * N).reshape(N, N) ** 3
    weights, others = np.cos(x), np.exp(x)
    for k, (w, _) in enumerate(params):
        x = part(x, w, params[0][1], weights, others if k == 0 else weights)
    return np.sum(x * x)


def coefficients(params):
    """The parts have other floats, one of them twice."""
    x = np.linspace(-1.0, 1.0, N * N).reshape(N, N) ** 3
    for (w, gain), rate in zip(params, (0.1, 0.25, 0.75, 1.5)):
        h = np.tanh(np.dot(x, w) + rate) * np.cos(x * 0.5)
        x = x - rate * (h * gain) + np.exp(-x * x)
    return np.sum(x * x)


@pytest.mark.parametrize("f", [another_first, coefficients])
@pytest.mark.parametrize("way", [calque.jit, calque.checkpoint])
def test_slopes_by_each_parameter(f: Any, way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    params = [[w, RNG.normal(size=N)] for w in layers(*[N] * 5)]
    gradient = way(calque.grad(f))(params)
    for k, pair in enumerate(params):
        for j, value in enumerate(pair):
            direction = RNG.normal(size=value.shape)
            wanted = by_differences(f, params, k, j, direction)
            found = np.sum(gradient[k][j] * direction)
            np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
    assert "_reverse(" in calque.source(way(calque.grad(f)), params)


def traced_layer(x, w):
    h = np.tanh(np.dot(x, w))
    total = 0.0
    for i in range(h.shape[0]):
        total += h[i, i]
    return h * total + np.cos(h) * np.sin(h)


def traced_stack(ws, x):
    for w in ws:
        x = traced_layer(x, w)
    return np.sum(x * x)


def test_an_index_is_inside_in_every_part() -> None:
    """A condition on the sizes of the first part is one on those of the others."""
    x, fn = RNG.normal(size=(N, N)), calque.jit(traced_stack)
    wide, narrow = layers(N, N + 3, N + 1, N + 2), layers(N, N + 3, N + 1, N - 4)
    np.testing.assert_allclose(fn(wide, x), traced_stack(wide, x), rtol=1e-12)
    assert calque.source(fn, wide, x).count("= traced_layer(") == 3
    with pytest.raises(IndexError):
        traced_stack(narrow, x)
    with pytest.raises(IndexError):
        fn(narrow, x)


def test_sizes_are_renamed_where_the_same_is_known_of_them() -> None:
    builder, n, m = Builder(("n", "m")), symbol("n"), symbol("m")
    assert may_be_renamed(builder, {}) and may_be_renamed(builder, {"n": m})
    builder.dims.assumptions[n - 4] = None
    assert not may_be_renamed(builder, {"n": m}) and may_be_renamed(builder, {"m": n})
    builder.dims.assumptions[m - 5] = None
    assert may_be_renamed(builder, {"n": m})
    builder.spread.add(frozenset((n, builder.dims.fresh())))
    assert not may_be_renamed(builder, {"n": m})


def test_an_array_made_elsewhere_is_stored_into_where_it_is() -> None:
    """A function would have to copy its argument."""

    def steps(ws, x):
        total = np.zeros_like(x)
        for w in ws:
            x = np.tanh(np.dot(x, w)) + np.cos(x)
            total[1:] += x[1:] * x[:-1]
            x = x - np.sin(x) * 0.1
        return np.sum(total)

    ws, x = layers(*[N] * 6), RNG.normal(size=(N, N))
    for way in (calque.jit, calque.checkpoint):
        assert ".copy()" not in calque.source(way(steps), ws, x)
        np.testing.assert_allclose(way(steps)(ws, x), steps(ws, x), rtol=1e-12)


def test_the_last_part_has_the_flow_of_values_of_the_others() -> None:
    """Its second statement reads another value than its first, where the others read one twice."""
    builder = Builder(("n",))
    x, u, v = (Var(ArrayType(np.dtype("f8"), (symbol("n"),)), name) for name in "xuv")
    with builder.active(), builder.block() as block:
        for second in (u, u, v):
            made = np.maximum(Array(x), Array(u))
            made = np.maximum(made, Array(second))
            if second is u:
                np.tanh(made)
    former = PartFormer(builder)
    parts = [Occurrence(k, s, former.part(s)) for k in (0, 3) for s in [block.statements[k : k + 3]]]
    found = last_part(block.statements[6:], [parts], 0, former)
    assert found is not None and found.statements == [block.statements[6]]
