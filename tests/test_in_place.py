"""Loops of kernels copy or allocate whole arrays in an iteration only if code by hand would."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(5)


def scaled_rows(C, b):
    """The part that is scaled is read and set to 0 in the sweep back."""
    for i in range(C.shape[0]):
        C[i, : i + 1] *= b
    return np.sum(C * C)


def mirrored(x):
    """A column is copied from a row: in the sweep back it is read after it is set to 0."""
    n = x.shape[0]
    out = np.eye(n)
    for i in range(n - 1):
        out[i, i + 1 :] = x[:, i] @ x[:, i + 1 :]
        out[i + 1 :, i] = out[i, i + 1 :]
    return np.sum(out * out)


def windows(x, weights):
    """A window is read of an adjoint of which a part is then set to 0."""
    size = weights.shape[0]
    out = np.empty((x.shape[0] - size + 1, x.shape[1] - size + 1, weights.shape[2]))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            window = x[i : i + size, j : j + size, np.newaxis]
            out[i, j, :] = np.sum(window * weights, axis=(0, 1))
    return np.sum(out * out)


def steps(x, v):
    """Carried arrays are computed anew, element by element, in each iteration."""
    for _ in range(5):
        v = v - 0.1 * np.sin(x)
        x = x + 0.1 * v
    return np.sum(x * v)


CASES: dict[Callable[..., Any], tuple[np.ndarray | float, ...]] = {
    scaled_rows: (RNG.normal(size=(5, 5)), 1.5),
    mirrored: (RNG.normal(size=(5, 5)),),
    windows: (RNG.normal(size=(7, 6)), RNG.normal(size=(3, 3, 2))),
    steps: (RNG.normal(size=6), RNG.normal(size=6)),
}


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_no_whole_copies_in_loops(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    args = CASES[fn]
    gradient = calque.jit(calque.grad(fn, argnums=tuple(range(len(args)))))
    kept = [np.copy(a) for a in args]
    found = gradient(*args)
    directions = [np.cos(np.arange(np.size(a)) + k).reshape(np.shape(a)) for k, a in enumerate(args)]
    step = 1e-6
    sides = [fn(*(a + s * d for a, d in zip(args, directions))) for s in (step, -step)]
    slope = (sides[0] - sides[1]) / (2.0 * step)
    got = sum(np.vdot(f, d) for f, d in zip(found, directions, strict=True))
    assert np.isclose(got, slope, rtol=1e-7)
    for a, before in zip(args, kept, strict=True):
        np.testing.assert_array_equal(a, before)
    source = gradient.source(*args, stage="kernels")
    looped = [line for line in source.splitlines() if line.startswith(" " * 8)]
    assert not [line for line in looped if re.search(r"\w\.copy\(\)", line)], source
    assert not [line for line in looped if re.search(r"np\.(empty|copy)\w*\(\(", line)], source


def test_stored_arguments_take_what_is_computed(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")

    def updated(A, u, v):
        A += np.outer(u, v)
        return A @ v

    A, u, v = RNG.normal(size=(3, 4)), RNG.normal(size=3), RNG.normal(size=4)
    want, want_A = (A + np.outer(u, v)) @ v, A + np.outer(u, v)
    jitted = calque.jit(updated)
    np.testing.assert_allclose(jitted(A, u, v), want, rtol=1e-14)
    np.testing.assert_array_equal(A, want_A)
    source = jitted.source(A, u, v, stage="kernels")
    assert "A[i, j] +=" in source and "A[...]" not in source, source


def test_a_slice_whose_place_is_not_known_is_stored_by_a_kernel(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")

    def ragged(starts, values, x):
        out = np.zeros(values.shape)
        for i in range(starts.shape[0] - 1):
            out[starts[i] : starts[i + 1]] += values[starts[i] : starts[i + 1]] * x[i]
            out[starts[i] : starts[i + 1]] = np.sin(out[starts[i] : starts[i + 1]])
        return out

    starts, values, x = np.array([0, 2, 2, -1, 7]), RNG.normal(size=7), RNG.normal(size=4)
    compiled = calque.jit(ragged)
    np.testing.assert_allclose(compiled(starts, values, x), ragged(starts, values, x), rtol=1e-14)
    launcher = compiled.source(starts, values, x, stage="kernels").split("def ragged_jit")[1]
    assert "for " not in launcher, launcher
    gradient = calque.jit(calque.grad(lambda v, x: np.sum(ragged(starts, v, x) ** 2), argnums=(0, 1)))
    found = gradient(values, x)
    step = 1e-20j
    for k, at in enumerate((values, x)):
        for j in range(at.size):
            args = [values.astype(complex), x.astype(complex)]
            args[k][j] += step
            out = np.zeros(values.shape, complex)
            for i in range(4):
                part = slice(starts[i], starts[i + 1])
                out[part] = np.sin(out[part] + args[0][part] * args[1][i])
            assert np.isclose(found[k][j], np.sum(out**2).imag / 1e-20, rtol=1e-12)


def test_a_block_that_is_planned_again_keeps_its_results(monkeypatch: Any) -> None:
    """The block around the inner loop cannot be planned at first: planning is tried once more."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def program(y, A, B):
        n = y.shape[0]
        M = np.eye(n)
        for i in range(n - 2):
            M[i, max(i - 1, 0) : i + 1] -= 0.5 * B[max(i - 1, 0) : i + 1, i]
            for _ in range(i, -1, -1):
                B[i] *= 0.3 * (y @ A)
            B[i + 1 :, i] *= B[i, i + 1 :] + 0.3 * M[i, i + 1 :] * (A[: n - i - 1, :] @ y)
        return np.sum(y) + np.sum(B * B) + np.sum(M * M)

    args, way = ((RNG.normal(size=5), *RNG.normal(size=(2, 5, 5))) for _ in range(2))
    found = calque.jit(calque.grad(program, argnums=(0, 1, 2)))(*args)
    up, down = (program(*(a + s * w for a, w in zip(args, way))) for s in (1e-6, -1e-6))
    got = sum(np.vdot(f, w) for f, w in zip(found, way, strict=True))
    assert np.isclose(got, (up - down) / 2e-6, rtol=1e-6)


def test_an_element_that_stays_is_read_before_the_loop(monkeypatch: Any) -> None:
    """Of an array that the loop stores into, elsewhere."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def program(A, B):
        for i in range(1, B.shape[0] - 1):
            B[1:-1, :1] *= B[:-2, -1:] * B[i, -1:]
            A[i, 1:-1] = A[0, 1:-1] * A[i - 1, -1:]
        return np.sum(B) + np.sum(A)

    A, B = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 4))
    compiled = calque.jit(program)
    assert np.isclose(compiled(A.copy(), B.copy()), program(A.copy(), B.copy()), rtol=1e-14)
    pinned = calque.jit(lambda A, B: program(A, B) if B.shape == (5, 4) else 0.0)
    assert np.isclose(pinned(A.copy(), B.copy()), program(A.copy(), B.copy()), rtol=1e-14)


def windows_of_rows(A, B, x):
    """In the sweep back a block is written a second time, after its sums were made stores."""
    n = x.shape[0]
    M = np.eye(n)
    for i in range(n):
        M[:, i : i + 2] += B[:, i : i + 2]
        for _ in range(i):
            B[i] *= x
    return np.sum(M * M) + np.sum(A)


def test_a_block_that_is_written_again(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    args = RNG.normal(size=(5, 5)), RNG.normal(size=(5, 5)), RNG.normal(size=5)
    way = RNG.normal(size=(5, 5)), RNG.normal(size=(5, 5)), RNG.normal(size=5)
    found = calque.jit(calque.grad(windows_of_rows, argnums=(0, 1, 2)))(*args)
    up, down = (
        windows_of_rows(*(a + s * w for a, w in zip(args, way, strict=True)))
        for s in (1e-6, -1e-6)
    )
    slope = sum(np.vdot(f, w) for f, w in zip(found, way, strict=True))
    assert np.isclose(slope, (up - down) / 2e-6, rtol=1e-6)


def test_a_number_is_computed_before_the_loops_that_need_it(monkeypatch: Any) -> None:
    """Two slices begin at the same number, computed twice."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def program(x, y, A, B):
        n = x.shape[0]
        for i in range(n // 2):
            for j in range(i, -1, -1):
                B[max(j - 1, 0) : j + 1, n - j :] = np.outer(y[max(j - 1, 0) : j + 1], y[n - j :])
                A[:, i] = x * 0.5
            y *= 0.9
            y[i] *= 0.3 * A[min(i + 1, n - 1), i]
        return np.sum(x * y) + np.sum(A * 0.7) + np.sum(B * B)

    args, way = ((*RNG.normal(size=(2, 5)), *RNG.normal(size=(2, 5, 5))) for _ in range(2))
    found = calque.jit(calque.grad(program, argnums=(0, 1, 2, 3)))(*args)
    up, down = (program(*(a + s * w for a, w in zip(args, way))) for s in (1e-6, -1e-6))
    got = sum(np.vdot(f, w) for f, w in zip(found, way, strict=True))
    assert np.isclose(got, (up - down) / 2e-6, rtol=1e-6)


def test_a_loop_that_carries_many_arrays(monkeypatch: Any) -> None:
    """Each is computed in place, however many there are."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    names = [f"w{k}" for k in range(90)]
    lines = [f"def program({', '.join(names)}, x):", "    for _ in range(3):"]
    lines += [f"        {w} = {w} - 0.1 * np.sin({w} * x)" for w in names]
    lines.append(f"    return {' + '.join(names)}")
    text, name = "\n".join(lines) + "\n", "<many arrays>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), scope)
    args = [*RNG.normal(size=(90, 4)), RNG.normal(size=4)]
    jitted = calque.jit(scope["program"])
    np.testing.assert_allclose(jitted(*args), scope["program"](*args), rtol=1e-13)
    source = jitted.source(*args, stage="kernels")
    code = [line.split("#")[0] for line in source.splitlines()]
    assert not [line for line in code if "np.sin" in line], source
