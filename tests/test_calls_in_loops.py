"""Calls of NumPy within a loop are compiled with the loop: rows are sorted, summed and searched."""

import linecache
import math

import numpy as np
import pytest
from sampling import sampled

import calque

RNG = np.random.default_rng(7)
ARGS = RNG.random(9), np.sort(RNG.random(9)), RNG.random((9, 8))

SMOOTH = """
s = np.cumsum(A[i])[2] * x[i]
s = np.cumprod(A[i])[-1]
s = np.sort(A[i])[2] * x[i]
s = sorted(A[i])[0]
s = A[i][np.argmax(A[i] - x[i])]
s = A[i, np.argmin(A[i])] * x[i]
s = A[i, np.argsort(A[i])[1]]
s = np.interp(x[i], y, A[:, 0])
s = np.roll(A[i], 2)[0] * x[i]
s = np.convolve(A[i], y[:3])[4]
s = np.cross(A[i, :3], A[i, 1:4])[1]
s = np.kron(A[i, :2], A[i, 1:3])[1]
s = np.repeat(x[i], 3).sum()
s = np.append(A[i], x[i]).sum()
s = np.linspace(0.5, x[i], 5)[3]
s = np.amax(A[i, : i % 7 + 1])
s = np.sum(A[i, ::2]) * np.prod(A[i, 1::3])
s = np.einsum("i,i->", A[i], A[i])
s = np.einsum("ij,j->i", A[:8], A[i])[2]
s = np.einsum("ij,jk->ik", A[:3, :3] + x[i], A[2:5, :3]).sum()
s = np.tensordot(A[:3, :4] * x[i], A[:4, :3], ([1], [0])).sum()
s = np.sinc(x[i])
s = np.nan_to_num(x[i]) * x[i]
s = abs(complex(x[i], 1.0))
s = (np.exp(1j * x[i]) * (2.0 + 1j)).real
s = np.imag(np.conj(1j * x[i]) * x[i])
s = A[i].reshape(-1, 1)[3, 0] + A[..., 0][i] + A[i][:, None][2, 0]
s = np.polyval([1.0, 2.0, 3.0], x[i])
s = (np.array([[x[i], 1.0], [y[i], 2.0]]) @ A[i, :2]).sum()
s = np.array([A[i], A[i] * x[i]])[1, 2]
s = (np.diag(A[i, :3]) @ A[:3, :3] * x[i]).sum()
s = A[:3, :4].ravel()[i] * x[i] + (A[:3, :4] * x[i]).flatten()[5]
s = (A[:3, :4] * x[i]).reshape(4, 3)[:, 1].sum()
s = A[i].reshape(2, 4)[1, 2] * x[i] + A.reshape(-1, 4)[i, 3]
s = np.vstack([A[i], A[0]])[0, 1] * np.hstack([A[i], A[0]])[3]
s = np.column_stack([A[i], A[0]])[3, 0] * x[i]
s = np.maximum.accumulate(A[i])[5] * np.minimum.accumulate(A[i])[4]
s = np.median(A[i]) * np.median(A[i, :7])
s = np.quantile(A[i], 0.3) + np.percentile(A[i], 100)
s = np.quantile(A[i], 0.0) * np.quantile(A[i, :3], 0.75)
""".strip().split("\n")

STEPS = """
s = np.round(x[i] * 3.3, 1)
s = float(round(x[i] * 10.0))
s = np.round(x[i] * 1000.0, -2)
s = float(np.isclose(x[i], y[i], rtol=0.2))
s = float(x[i] > 0.5 and y[i] < 0.5 or i == 3)
s = np.digitize(x[i], y) * 1.0
s = np.argsort(A[i])[0] + np.argmax(A[i]) * 1.0
s = np.isin(i, [1, 2]) * 1.0
s = np.nonzero(A[i] > 0.5)[0].sum() + np.flatnonzero(A[i] > 0.2).size * 1.0
""".strip().split("\n")


def looping(line):
    """A loop with this line."""
    text = f"""def f(x, y, A):
    total = 0.0
    for i in range(x.size):
        {line}
        total += s * 1.5 + total * 0.1
    return total
"""
    name = f"<{line}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"np": np, "math": math}
    exec(compile(text, name, "exec"), space)
    return space["f"]


def launcher(function, *args):
    text = calque.source(calque.jit(function), *args, stage="kernels")
    return text[text.index("_jit(") :]


@pytest.mark.parametrize("line", [*sampled(SMOOTH, 4, 1), *sampled(STEPS, 4)])
def test_values(line):
    function = looping(line)
    np.testing.assert_allclose(calque.jit(function)(*ARGS), function(*ARGS), rtol=1e-12)
    assert "for " not in launcher(function, *ARGS)


@pytest.mark.parametrize("line", sampled(SMOOTH, 4))
def test_gradients(line):
    function = looping(line)
    ways = [np.cos(np.arange(a.size)).reshape(a.shape) for a in ARGS]
    at = [
        function(*(a + k * 1e-5 * w for a, w in zip(ARGS, ways, strict=True)))
        for k in (-2, -1, 1, 2)
    ]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / 12e-5
    found = calque.jit(calque.grad(function, argnums=(0, 1, 2)))(*ARGS)
    found = sum(np.sum(g * w) for g, w in zip(found, ways, strict=True))
    np.testing.assert_allclose(found, slope, rtol=1e-7)


def test_special_numbers():
    def f(x, out):
        for i in range(x.size):
            out[i, 0] = np.nan_to_num(x[i])
            out[i, 1] = np.isclose(x[i], np.inf)
            out[i, 2] = np.round(x[i])
            out[i, 3] = np.round(x[i], 2)
            out[i, 4] = np.sinc(x[i])
        return out

    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1.5, -2.5, 1e300, 1e-300, 2.675])
    with np.errstate(all="ignore"):
        wanted = f(x, np.zeros((x.size, 5)))
    found = calque.jit(f)(x, np.zeros((x.size, 5)))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_rows_of_special_numbers():
    def f(A, k, out):
        for i in range(A.shape[0]):
            row = A[i, : A.shape[1] - k]
            out[i, 0] = np.max(row)
            out[i, 1] = np.min(row)
            out[i, 2] = np.argmax(row)
            out[i, 3] = np.cumsum(row)[0]
            out[i, 4] = np.cumsum(row)[-1]
            out[i, 5] = np.sort(row)[1]
            out[i, 6] = np.interp(row[0], [0.0, 1.0, 2.0], [1.0, -1.0, np.inf])
            out[i, 7] = np.prod(A[i, ::2])
            out[i, 8] = np.maximum.accumulate(row)[-1]
            out[i, 9] = np.minimum.accumulate(row)[1]
            out[i, 10] = np.median(row)
            out[i, 11] = np.median(A[i])
            out[i, 12] = np.quantile(row, 0.25)
            out[i, 13] = np.quantile(A[i], 0.6)
        return out

    rows = [
        *([-0.0, 0.0, -0.0, 9.0], [0.0, -0.0, -1.0, 9.0], [np.nan, 1.0, 2.0, 9.0]),
        *([1.0, np.nan, np.inf, 9.0], [-np.inf, np.inf, 0.5, 9.0], [2.0, 2.0, 3.0, 9.0]),
    ]
    with np.errstate(all="ignore"):
        wanted = f(np.array(rows), 1, np.zeros((len(rows), 14)))
    found = calque.jit(f)(np.array(rows), 1, np.zeros((len(rows), 14)))
    np.testing.assert_array_equal(found, wanted)
    # NumPy's extrema of 0.0 and -0.0 are either, by the place in a vector register
    np.testing.assert_array_equal(np.signbit(found[:, 2:8]), np.signbit(wanted[:, 2:8]))


def test_refused_as_by_numpy():
    def largest(A, n):
        total = 0.0
        for i in range(A.shape[0]):
            total += np.max(A[i, : n - i])
        return total

    assert calque.jit(largest)(ARGS[2], 12) == largest(ARGS[2], 12)
    with pytest.raises(ValueError):
        largest(ARGS[2], 5)
    with pytest.raises(ValueError):
        calque.jit(largest)(ARGS[2], 5)


def test_quantiles_refused_as_by_numpy():
    def between(A, q, n):
        total = 0.0
        for i in range(A.shape[0]):
            total += np.quantile(A[i, :n], q) + np.median(A[i])
        return total

    compiled = calque.jit(between)
    assert "parallel=False" in calque.source(compiled, ARGS[2], 0.3, 4, stage="kernels")
    for q in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(compiled(ARGS[2], q, 4), between(ARGS[2], q, 4), rtol=1e-13)
    for q, n, error in ((1.5, 4, ValueError), (np.nan, 4, ValueError), (0.5, 0, IndexError)):
        for function in (between, compiled):
            with pytest.raises(error):
                function(ARGS[2], q, n)


def first_past(x, limit):
    total = 0.0
    for i in range(x.size):
        total += x[i]
        if total > limit:
            break
    return total * total


def test_break_stays_in_the_kernel():
    text = calque.source(calque.jit(first_past), ARGS[0], 2.0, stage="kernels")
    assert "while" not in text[text.index("def first_past_jit") :], text
    for limit in (0.0, 2.0, 100.0):
        assert np.isclose(calque.jit(first_past)(ARGS[0], limit), first_past(ARGS[0], limit))
        found = calque.jit(calque.grad(first_past))(ARGS[0], limit)
        wanted = [
            (first_past(ARGS[0] + e, limit) - first_past(ARGS[0] - e, limit)) / 2e-6
            for e in 1e-6 * np.eye(9)
        ]
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_arguments_called_as_functions_of_kernels_are():
    def f(exp, sign):
        exp = exp * 1.0
        for i in range(exp.size):
            exp[i] += np.exp(exp[i]) * np.sign(sign[i])
        return exp

    np.testing.assert_allclose(calque.jit(f)(ARGS[0], ARGS[1]), f(ARGS[0], ARGS[1]), rtol=1e-14)
    text = calque.source(calque.jit(f), ARGS[0], ARGS[1], stage="kernels")
    assert "exp(exp_with_sign_given[i]) * sign(sign_given[i])" in text, text


REDUCED = {
    "np.sum": np.sum, "np.max": np.max, "np.min": np.min, "np.prod": np.prod, "np.mean": np.mean,
    "np.any": np.any, "np.all": np.all, "np.argmax": np.argmax, "np.linalg.norm": np.linalg.norm,
    "sum of a truth": lambda a: np.sum(a > 0.25),
    "any of a truth": lambda a: np.any(a > 0.25),
    "the method": lambda a: a.sum() + a.max(),
}


OF_COMPLEX = ["np.sum", "np.prod", "np.mean", "np.any", "np.all", "np.linalg.norm"]
KINDS = [(n, d) for n in REDUCED for d in ("f8", "f4", "i2") if (n, d) != ("np.linalg.norm", "i2")]
KINDS += [(n, "c16") for n in OF_COMPLEX]


@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_reductions_of_numbers_leave_a_loop_a_kernel(name, dtype):
    """Code that is written for arrays and numbers alike meets a number."""
    reduce = REDUCED[name]

    def total(x):
        s = 0.5
        for k in range(x.size):
            s = s + 0.5 * reduce(x[k])
        return s

    x = (np.array([0.0, 1.5, -2.0, 0.25, 3.0]) * (1 + 1j if dtype == "c16" else 1)).astype(dtype)
    fast = calque.jit(total)
    fast.cache_clear()
    found, wanted = fast(x), total(x)
    assert found == wanted and np.asarray(found).dtype == np.asarray(wanted).dtype
    assert "the loop is Python's" not in calque.explain(fast, x)
