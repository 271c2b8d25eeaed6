"""Functions on a GPU: their CUDA C, compiled by NVRTC, runs in the emulator and gives NumPy's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import cuda_text, on_cuda

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(11)
VECTOR, OTHER = RNG.standard_normal((2, 700))
MATRIX = RNG.standard_normal((37, 70))
SINGLE = MATRIX.astype(np.float32)
TALL = RNG.standard_normal((300, 5))
CUBE = RNG.standard_normal((4, 9, 40))
INTEGERS = RNG.integers(-9, 9, 700)
POSITIVE = RNG.random((37, 70)) + 0.5


def selu(x):
    return 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67)


def cross_entropy(logits, targets):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))


def sums(x):
    return np.sum(x), np.sum(x, axis=0), np.sum(x, axis=1), np.mean(x), np.max(x, axis=0), np.min(x)


def heat(u, steps):
    u = u.copy()
    for _ in range(steps):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def heat_rows(u):
    u = u.copy()
    u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def kepler(m, e):
    x = m
    while abs(x - e * np.sin(x) - m) > 1e-10:
        x = x - (x - e * np.sin(x) - m) / (1 - e * np.cos(x))
    return x


def stores(x, y):
    out = np.zeros(x.size)
    for i in range(x.size):
        if x[i] > 0:
            out[i] = x[i] * y[i]
        else:
            out[i] = y[i] - x[i] ** 3
    return out


def recurrence(x):
    out = np.zeros(x.size)
    out[0] = x[0]
    for i in range(1, x.size):
        out[i] = 0.5 * out[i - 1] + x[i]
    return out


def integers(k):
    return k // 3, k % 4, -k, abs(k), k * k, k > 2, k / 2, np.where(k % 2 == 0, k, -1)


def transposed(a, b):
    return np.sin(a.T) + b, (a[::-1, 1:] * 2.0)[:, ::2]


def standardized(x):
    return (x - x.mean(axis=0)) / np.sqrt(np.var(x, axis=0) + 1e-5)


def layer(w, x, b):
    return np.sum(np.tanh(x @ w + b) ** 2)


def logsumexp_rows(x):
    top = np.max(x, axis=-1)
    return top + np.log(np.sum(np.exp(x - top[..., None]), axis=-1))


def running(x):
    return np.cumsum(x), np.cumprod(1.0 + 0.001 * x)


def with_scalar(x, alpha):
    return alpha * x + np.sin(alpha)


def numbers_on_the_device(x):
    return np.linalg.norm(x) * np.sum(np.abs(x)) + np.min(x) * np.max(x) * 2.5


def inverted(x):
    positive = x > 0
    return ~positive, np.sum(~positive), np.where(~positive, x, 0.0)


def chosen_by_a_remainder(x):
    k = np.argmax(x)
    return x[k] ** 2 + x[(k + 1) % 3] * k


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (numbers_on_the_device, (VECTOR,)),
    (inverted, (VECTOR,)),
    (chosen_by_a_remainder, (VECTOR,)),
    (selu, (MATRIX,)),
    (selu, (SINGLE,)),
    (cross_entropy, (SINGLE, SINGLE**2)),
    (cross_entropy, (MATRIX, MATRIX**2)),
    (sums, (MATRIX,)),
    (sums, (TALL,)),
    (sums, (SINGLE,)),
    (heat, (VECTOR, 5)),
    (stores, (VECTOR, OTHER)),
    (recurrence, (VECTOR,)),
    (integers, (INTEGERS,)),
    (transposed, (MATRIX, MATRIX.T.copy())),
    (standardized, (MATRIX,)),
    (layer, (RNG.standard_normal((70, 6)), MATRIX, RNG.standard_normal(6))),
    (logsumexp_rows, (CUBE,)),
    (running, (VECTOR,)),
    (with_scalar, (VECTOR, 2.5)),
]
GRADIENTS: list[tuple[Any, tuple[Any, ...]]] = [
    (chosen_by_a_remainder, (VECTOR,)),
    (lambda x: np.sum(selu(x) ** 2), (MATRIX,)),
    (cross_entropy, (MATRIX, MATRIX**2)),
    (lambda x: np.sum(np.sum(x, axis=0) ** 2) + np.max(x), (MATRIX,)),
    (lambda u: heat(u, 4), (VECTOR,)),
    (lambda x: np.sum(stores(x, OTHER) ** 2), (VECTOR,)),
    (lambda x: np.sum(recurrence(x) ** 2), (VECTOR,)),
    (lambda x: np.sum(standardized(x) ** 3), (MATRIX,)),
    (layer, (RNG.standard_normal((70, 6)), MATRIX, RNG.standard_normal(6))),
    (lambda x: np.sum(logsumexp_rows(x) ** 2), (CUBE,)),
]


def assert_same(got: Any, want: Any, tolerance: float) -> None:
    """Equal in structure, dtypes and shapes, and in numbers up to the order of sums."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, tolerance)
        return
    one, other = np.asarray(got), np.asarray(want)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def tolerance_of(args: tuple[Any, ...]) -> float:
    single = any(isinstance(a, np.ndarray) and a.dtype == np.float32 for a in args)
    return 2e-5 if single else 1e-11


@pytest.mark.parametrize("order", [0, 1, 7])
@pytest.mark.parametrize("case", range(len(PROGRAMS)))
def test_programs(case, order):
    function, args = PROGRAMS[case]
    want = function(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
    assert_same(on_cuda(function, *args, order=order), want, tolerance_of(args))


@pytest.mark.parametrize("case", range(len(GRADIENTS)))
def test_gradients(case):
    function, args = GRADIENTS[case]
    want = calque.grad(function)(*args)  # which its own tests hold to finite differences
    assert_same(on_cuda(calque.grad(function), *args), want, 1e-10)


def gathered(table, tokens):
    return np.sum(np.tanh(table[tokens]) ** 2)


def running_shares(x):
    total = np.cumsum(x * x, axis=1)
    return np.sum(np.sin(total / total[:, -1:]))


ALSO_BY_DIFFERENCES: list[tuple[Any, tuple[Any, ...]]] = [
    *GRADIENTS,
    (gathered, (MATRIX, RNG.integers(-37, 37, 60))),
    (running_shares, (CUBE[0],)),
    (lambda m: np.sum(calque.vmap(kepler)(m, np.full(m.size, 0.3)) ** 2), (RNG.random(60),)),
    (lambda x: np.sum(softmax(x) ** 2 * np.cos(MATRIX)), (MATRIX,)),
]


@pytest.mark.parametrize("case", range(len(ALSO_BY_DIFFERENCES)))
def test_gradients_are_those_of_central_differences(case):
    """Along three directions, and for some elements each by itself."""
    function, args = ALSO_BY_DIFFERENCES[case]
    x, *others = args
    got = on_cuda(calque.grad(function), *args)
    assert (got.shape, got.dtype) == (x.shape, x.dtype)
    directions = [RNG.standard_normal(x.shape) for _ in range(3)]
    for place in RNG.integers(0, x.size, 5):
        directions.append(np.eye(1, x.size, place).reshape(x.shape))
    size = np.linalg.norm(got)
    assert size > 0.0
    for direction in directions:
        step = 1e-5 / np.linalg.norm(direction)
        ends = [function(x + way * step * direction, *others) for way in (1.0, -1.0)]
        slope = (ends[0] - ends[1]) / (2.0 * step)
        tolerance = 1e-7 * size * np.linalg.norm(direction)
        np.testing.assert_allclose(np.sum(got * direction), slope, rtol=1e-6, atol=tolerance)


def test_lanes():
    m, e = RNG.random(300), 0.5 * RNG.random(300)
    want = np.array([kepler(*pair) for pair in zip(m, e, strict=True)])
    assert_same(on_cuda(calque.vmap(kepler), m, e), want, 1e-11)


def escape(cx, cy):
    x = y = 0.0
    n = 0
    for k in range(50):
        if x * x + y * y > 4.0:
            break
        x, y = x * x - y * y + cx, 2 * x * y + cy
        n = k
    return n


def walk(x):
    path = np.zeros(8)
    for k in range(8):
        path[k] = x
        x = x * x - 0.5 if x > 0 else -x
    return path[3] * path[7]


def test_lanes_with_a_break_and_with_an_array_of_their_own():
    cx, cy = 3 * (RNG.random((2, 300)) - 0.5)
    want = np.array([escape(*pair) for pair in zip(cx, cy, strict=True)])
    assert_same(on_cuda(calque.vmap(escape), cx, cy), want, 0)
    assert_same(on_cuda(calque.vmap(walk), cx), np.array([walk(x) for x in cx]), 1e-12)


def test_gradients_of_lanes_save_their_iterations_in_one_array():
    m, e = RNG.random(300), 0.5 * RNG.random(300)
    each = calque.grad(kepler)
    want = np.array([each(*pair) for pair in zip(m, e, strict=True)])
    assert_same(on_cuda(calque.vmap(each), m, e), want, 1e-11)
    whole = calque.grad(lambda m, e: np.sum(calque.vmap(kepler)(m, e) ** 2))
    values = np.array([kepler(*pair) for pair in zip(m, e, strict=True)])
    assert_same(on_cuda(whole, m, e), 2 * values * want, 1e-10)
    text = cuda_text(calque.vmap(each), m, e)
    assert "cp.empty((int(largest_count), m.shape[0]))" in text
    assert "for lane in" not in text


def test_kernels_of_other_sizes_are_not_shared():
    def two(x):
        a, b = np.zeros((x.size, 3)), np.zeros((x.size, 5))
        a[:, 1] = x
        b[:, 1] = x
        return a, b

    assert_same(on_cuda(two, VECTOR), two(VECTOR), 0)
    text = cuda_text(two, VECTOR)
    assert "[i * 3 + 1]" in text and "[i * 5 + 1]" in text


def test_sizes_are_called_as_in_the_signature_and_given_once():
    text = calque.source(calque.jit(heat_rows), calque.spec("f8[n,m]"), stage="cuda")
    assert "    n, m = u.shape\n" in text
    assert "heat_rows_kernel(tiles(n, m), (32, 8), u, " in text and ", n, m)\n" in text
    assert "i < n - 1)" in text and "shape[" not in text.partition("code = ")[0].replace("n, m = u.shape", "")


def test_sizes_of_arrays_in_a_tree():
    def deep(params, x):
        for w, b in params["layers"]:
            x = np.tanh(x @ w + b)
        return np.sum(x)

    params = {"layers": [(MATRIX.T.copy(), VECTOR[:37]), (MATRIX[:, :5].copy(), VECTOR[:5])]}
    want = calque.grad(deep)(params, CUBE[0, :, :1] * np.ones(70))
    got = on_cuda(calque.grad(deep), params, CUBE[0, :, :1] * np.ones(70))
    for one, other in zip(got["layers"], want["layers"], strict=True):
        assert_same(one, other, 1e-10)
    spec = calque.spec
    types = {"layers": [(spec("f8[n,m]"), spec("f8[m]")), (spec("f8[m,k]"), spec("f8[k]"))]}
    text = calque.source(calque.jit(calque.value_and_grad(deep)), types, spec("f8[n]"), stage="cuda")
    assert "    n, m = params['layers'][0][0].shape\n" in text


def test_a_size_called_as_a_variable_of_the_users_stays_a_shape():
    def own(x):
        n = np.sum(x)
        return x * n

    text = calque.source(calque.jit(own), calque.spec("f8[n]"), stage="cuda")
    assert "n = x.size" not in text and "x.size" in text


def test_an_empty_array_is_no_special_case():
    assert on_cuda(selu, np.zeros((0, 3))).shape == (0, 3)
    assert on_cuda(lambda x: np.sum(x), np.zeros(0)) == 0.0


def test_text_of_a_kernel():
    text = cuda_text(selu, SINGLE)
    assert "out[i] = 1.05f * (" in text
    assert "// return 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67)" in text


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(x):
    centered = x - np.mean(x, axis=1, keepdims=True)
    return centered / np.sqrt(np.var(x, axis=1, keepdims=True) + 1e-5)


def sums_and_maximum(x):
    s = np.sum(x, axis=1)
    y = x * s[:, None]
    return y, np.sum(y, axis=1) + s, np.max(y), s[::-1] + s


@pytest.mark.parametrize("order", [0, 1, 5])
@pytest.mark.parametrize("function", [softmax, layer_norm, sums_and_maximum])
def test_loops_over_the_same_rows_are_one(function, order):
    assert_same(on_cuda(function, MATRIX, order=order), function(MATRIX), 1e-11)


@pytest.mark.parametrize("order", [0, 1, 5])
@pytest.mark.parametrize("function", [softmax, layer_norm, sums_and_maximum, logsumexp_rows])
def test_a_long_row_is_a_blocks_and_the_text_is_the_same(function, order):
    short, long = MATRIX, RNG.standard_normal((3, 2500))
    assert_same(on_cuda(function, long, order=order), function(long), 1e-11)
    text = cuda_text(function, short)
    assert text == cuda_text(function, long)
    assert "row_threads(x_size_1" in text or "row_threads(x.shape[1]" in text


@pytest.mark.parametrize("function", [softmax, layer_norm])
def test_a_gradient_along_rows_is_one_kernel(function):
    gradient = calque.grad(lambda x: np.sum(function(x) ** 2 * np.cos(MATRIX)))
    want = calque.grad(lambda x: np.sum(function(x) ** 2 * np.cos(MATRIX)))(MATRIX)
    assert_same(on_cuda(gradient, MATRIX), want, 1e-10)
    assert cuda_text(gradient, MATRIX).count("__global__") == 1


def test_a_sum_of_all_elements_is_one_loop_in_the_order_of_memory():
    def sums_of_all(x):
        return np.sum(np.tanh(x) * x), np.max(x), np.mean(x * x, keepdims=True)

    assert_same(on_cuda(sums_of_all, MATRIX), sums_of_all(MATRIX), 1e-12)
    text = cuda_text(lambda x: np.mean((x - 1.0) ** 2), MATRIX)
    assert "blocks(x_flat.size)" in text
    assert "** 2" not in text.partition("code =")[0]



def test_a_function_whose_cuda_text_was_read_takes_numpy_arrays():
    """Also where there is no CuPy, which reading does not need."""
    gradient = calque.grad(lambda x: np.sum(np.sin(x)))
    x = np.linspace(0.0, 1.0, 5)
    assert "cosf" not in calque.source(gradient, x, stage="cuda")
    np.testing.assert_allclose(gradient(x), np.cos(x), rtol=1e-15)


def squares(x):
    out = np.zeros(x.size, np.int64)
    for i in range(x.size):
        out[i] = i * i
    return out


def far_multiples(x):
    out = np.zeros(x.size)
    for i in range(x.size):
        k = i * 100000
        out[i] = k * x[i] + 3 * k
    return out


def sum_of_cubes(x):
    s = 0
    for i in range(x.size):
        s += i * i * i
    return s


def cube_of_places(x):
    out = np.zeros(x.size)
    for i in range(x.size):
        out[i] = x[(i * i * i) % x.size]
    return out


@pytest.mark.parametrize("function", [squares, far_multiples, sum_of_cubes, cube_of_places])
def test_what_is_made_of_counters_has_64_bits(function):
    """Indices have 32; the emulator sees an overflow."""
    x = np.arange(70_000.0)
    assert_same(on_cuda(function, x), function(x), 1e-12)


def test_counters_have_64_bits_where_integers_need_them():
    def halves(x, n):
        total = 0.0
        for k in range(n, n + 8):
            total += x[k - n] / k
        return total

    x = np.arange(1.0, 9.0)
    assert_same(on_cuda(halves, x, 3 * 10**9), halves(x, 3 * 10**9), 1e-12)


def test_no_double_holds_an_integer_of_64_bits():
    """A name that a float had, and then an integer, is two variables of C."""

    def largest(x, k):
        out, places = np.empty(x.shape), np.empty(k.shape, dtype=np.int64)
        for i in range(x.shape[0]):
            most = -np.inf
            for j in range(x.shape[1]):
                most = max(most, x[i, j])
                out[i, j] = most
            most = 0
            for j in range(x.shape[1]):
                most = most + k[i, j]
                places[i, j] = most
        return out, places

    x = np.arange(12.0).reshape(3, 4)
    k = np.arange(12).reshape(3, 4) + (1 << 60)
    for found, want in zip(on_cuda(calque.jit(largest), x, k), largest(x, k), strict=True):
        np.testing.assert_array_equal(found, want)
