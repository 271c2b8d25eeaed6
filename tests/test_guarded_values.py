"""A value that ``np.where`` selects away contributes zero, also where its slope is infinite."""

import numpy as np
import pytest

import calque

X = np.array([0.0, 4.0, 1.0])
FUNCTIONS = {
    "root": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), [0.0, 0.25, 0.5]),
    "inverse": (lambda x: np.where(x == 0, 0.0, 1 / x), [0.0, -1 / 16, -1.0]),
    "chain": (lambda x: np.where(x > 0, np.sqrt(np.log(x + 1.0) / x), 0.0), None),
    "power": (lambda x: np.where(x > 0, x**0.5, 0.0), [0.0, 0.25, 0.5]),
    "product": (lambda x: np.where(x > 0, x * np.log(x), 0.0), None),
    "nested": (lambda x: np.where(x > 2, np.sqrt(x), np.where(x > 0, 1 / x, 0.0)), [0, 0.25, -1]),
    "select": (lambda x: np.select([x > 0], [np.sqrt(x)], 0.0), [0.0, 0.25, 0.5]),
    "vmap": (calque.vmap(lambda t: np.sqrt(t) if t > 0 else 0.0), [0.0, 0.25, 0.5]),
}


def stored(x):
    out = np.zeros_like(x)
    out[x > 0] = 1 / x[x > 0]
    return out


FUNCTIONS["stored"] = (stored, [0.0, -1 / 16, -1.0])


@pytest.mark.parametrize("way", [calque.grad, lambda f: calque.jit(calque.grad(f))])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_lane_not_taken(name, way):
    function, want = FUNCTIONS[name]
    found = way(lambda x: np.sum(function(x)))(X)
    if want is None:
        step = 1e-6
        want = (function(X[1:] + step) - function(X[1:] - step)) / (2 * step)
        want = [0.0, *want]
    np.testing.assert_allclose(found, want, rtol=1e-6)


V = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 2.0]])


def norm_of_rows(v):
    return np.where(np.sum(v * v, axis=-1) > 0, np.linalg.norm(v, axis=-1), 0.0)


def root_of_sums(v):
    r = np.sqrt(np.sum(v * v, axis=-1))
    return np.where(r > 0, 1 / r, 0.0)


def stored_inverse(v):
    r = np.sqrt(np.sum(v * v, axis=-1))
    inverse = np.zeros_like(r)
    inverse[r > 0] = 1 / r[r > 0]
    return inverse


def unit(v):
    n = np.linalg.norm(v, axis=-1, keepdims=True)
    return np.where(n > 0, v / n, 0.0)


def unit_or_nothing(v):
    n = np.linalg.norm(v)
    if n > 0:
        return v / n
    return np.zeros_like(v)


def rows_in_turn(v):
    total = 0.0
    for i in range(v.shape[0]):
        n = np.sqrt(np.sum(v[i] ** 2))
        if n > 0:
            total = total + 1 / n
    return total


def shared_root(x):
    s = np.sqrt(x)
    return np.where(x > 0, s, 0.0) + np.where(x > 2, s * s * s, 0.0)


def scaled_inside(x):
    return np.where(x > 0, 3.0 * np.where(x > 2, 1 / (x - 4.5), np.log(x)), 0.0)


# what lies between the selection and the slope
BETWEEN = {
    **{
        name: (FUNCTIONS[name][0], X) for name in ("root", "inverse", "product", "select", "stored")
    },
    "norm of rows": (norm_of_rows, V),
    "root of sums": (root_of_sums, V),
    "stored inverse": (stored_inverse, V),
    "unit": (unit, V),
    "sum of roots": (lambda v: np.where(v[:, 0] > 0, np.sum(np.sqrt(v), axis=-1), 0.0), V),
    "mean of logs": (lambda v: np.where(v[:, 0] > 0, np.mean(v * np.log(v), axis=-1), 0.0), V),
    "deviation": (lambda v: np.where(np.ptp(v, axis=-1) > 0, np.std(v, axis=-1), 0.0), V),
    "reshape": (lambda x: np.where(x[:, None] > 0, np.sqrt(x).reshape(-1, 1), 0.0), X),
    "broadcast": (lambda x: np.where((x[:, None] > [0, 0.5]), np.sqrt(x)[:, None], 0.0), X),
    "index": (lambda x: np.where(x[:2] > 0, np.sqrt(x)[:2], 0.0), X),
    "rows of an index": (lambda x: np.where(x[[0, 1]] > 0, np.sqrt(x)[[0, 1]], 0.0), X),
    "transpose": (lambda v: np.where(v.T > 0, np.sqrt(v).T, 0.0), V),
    "matmul": (lambda v: np.where(v[:, :1] > 0, np.sqrt(v) @ np.ones((2, 3)), 0.0), V),
    "one number": (lambda v: np.where(np.sum(v * v) > 0, np.linalg.norm(v), 0.0), 0 * V),
    "shared": (shared_root, X),
    "scaled inside": (scaled_inside, X),
    "branch": (unit_or_nothing, 0 * V),
    "branch under vmap": (calque.vmap(unit_or_nothing), V),
    "branch in a loop": (rows_in_turn, V),
}


def second_order(f):
    return {
        "hessian": calque.hessian(f),
        "reverse over reverse": calque.jacrev(calque.grad(f)),
        "reverse over forward": calque.jacrev(calque.jacfwd(f)),
        "forward over forward": calque.jacfwd(calque.jacfwd(f)),
    }


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_derivatives_of_derivatives(name):
    function, x = BETWEEN[name]

    def total(x):
        y = function(x)
        return np.sum(y * y + 3.0 * y)

    rng = np.random.default_rng(0)
    direction, step = np.where(x > 0, rng.normal(size=x.shape), 0.0), 1e-4
    ahead, here, back = (total(x + k * step * direction) for k in (1, 0, -1))
    gradient = calque.grad(total)(x)
    assert np.sum(gradient * direction) == pytest.approx((ahead - back) / (2 * step), rel=1e-5)
    assert not gradient[x == 0].any()  # nor NaN, of which that is not told
    for way, derivative in second_order(total).items():
        second = derivative(x).reshape(x.size, x.size)
        assert np.isfinite(second).all(), way
        assert not second[x.ravel() == 0].any(), way
        curvature = direction.ravel() @ second @ direction.ravel()
        assert curvature == pytest.approx(
            (ahead - 2 * here + back) / step**2, rel=1e-4, abs=1e-5
        ), way


@pytest.mark.parametrize(
    "name", ["norm of rows", "stored inverse", "branch under vmap", "branch in a loop"]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_compiled(name):
    function, x = BETWEEN[name]
    gradient = calque.grad(lambda x: np.sum(function(x)))
    np.testing.assert_allclose(calque.jit(gradient)(x), gradient(x), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_lane_that_is_taken_is_not_guarded():
    def root(x):
        return np.sum(np.where(x >= 0, np.sqrt(x), 0.0) ** 2)

    assert np.isnan(calque.grad(root)(X)[0])  # 0 * inf: zero would be wrong, the slope is 1

    def square(x):
        return np.sum((np.where(x > 0, np.sqrt(x), 0.0) - 2.0) ** 2)

    # at 4 the adjoint is zero, the second derivative is not
    assert calque.hessian(square)(X)[1, 1] == pytest.approx(0.125)


def test_code_that_selects_nothing_has_no_conditions():
    def normalized(x):
        z = (x - np.mean(x)) / np.std(x)
        return np.sum(np.tanh(z) / np.sqrt(1.0 + z * z))

    assert "np.where" not in calque.source(calque.hessian(normalized), X)


def one_root_or_two(u, s, r):
    root, above = np.sqrt(u), u > 1.0
    if s > 0.0 and r > 0.0:
        y = 2.0 * root
    else:
        y = np.where(above, np.sqrt(u - 1.0) * root, 0.0)
    return np.sum(y)


def test_a_selection_within_a_branch_on_two_tests():
    """The value of `and` is not a conjunction whose parts all hold."""
    u = np.array([0.0, 2.0, 3.0])
    with np.errstate(all="ignore"):
        found = calque.grad(one_root_or_two)(u, 0.2, -0.1)
        np.testing.assert_allclose(calque.grad(one_root_or_two)(u[1:], 0.2, 0.1), u[1:] ** -0.5)
    wanted = 0.5 * (np.sqrt(u[1:] / (u[1:] - 1.0)) + np.sqrt((u[1:] - 1.0) / u[1:]))
    np.testing.assert_allclose(found, [0.0, *wanted])


def two_and_one(u, first):
    root, above, far = np.sqrt(u), u > 1.0, u > 2.0
    both = np.where(above, np.where(far, np.sqrt(u - 2.0) * root, 0.0), 0.0)
    one = np.where(above, np.sqrt(u - 1.0) * root, 0.0)
    return np.sum(one + both) if first else np.sum(both + one)


@pytest.mark.parametrize("first", [True, False])
def test_of_two_conditions_and_one_of_them_the_weaker_selects(first):
    """Both together are not the one that they share."""
    u = np.array([0.0, 1.5, 3.0])
    steps = 1e-6 * np.eye(3)[1:]
    with np.errstate(all="ignore"):
        found = calque.grad(two_and_one)(u, first)
        slopes = [(two_and_one(u + d, first) - two_and_one(u - d, first)) / 2e-6 for d in steps]
    np.testing.assert_allclose(found, [0.0, *slopes], rtol=1e-8)


def limited(x, p):
    """A factor between two limits, of a root whose slope may be infinite, as step sizes have it."""
    y = x
    t = 0.0
    while t < 1.0:
        error = np.sqrt(np.abs(np.sin(y) * p))
        if error <= 0.5:
            y = y + 0.1 * np.cos(y * error)
        y = y * min(1.5, max(0.6, 0.9 / (error + 0.1)))
        t = t + 0.125
    return y


def test_what_conditions_say_is_put_together_once():
    text = calque.source(calque.grad(limited), 0.4, 0.3)
    joined = [line.partition("=")[2].split() for line in text.splitlines() if " & " in line]
    assert len(joined) == 1
    assert joined[0][0] != joined[0][2]
    assert text.count(" | ") <= 1
    for p in (0.3, 1.2, 4.0):
        slope = (limited(0.4 + 1e-7, p) - limited(0.4 - 1e-7, p)) / 2e-7
        for gradient in (calque.grad(limited), calque.jit(calque.grad(limited))):
            np.testing.assert_allclose(gradient(0.4, p), slope, rtol=1e-5)
