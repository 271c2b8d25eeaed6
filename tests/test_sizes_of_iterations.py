"""Arrays and elements of lists with another size in each iteration, as in pyramids and filters."""

import numpy as np
import pytest

import calque


def haar(x, levels):
    """Lifting: each level's details are half as long as those before."""
    out, n, details = x.copy(), len(x), []
    for _ in range(levels):
        s, d = out[:n:2].copy(), out[1:n:2].copy()
        d -= s
        s += d / 2
        details.append(d)
        out[: n // 2] = s
        n //= 2
    return out[:n], details


def pyramid(x, levels):
    found, n = [], len(x)
    for _ in range(levels):
        found.append(x[: n // 2] * 2.0)
        n //= 2
    return found


def levinson(x, levels):
    """A Toeplitz system, whose solution has one more element in each iteration."""
    r = x / np.sum(x)
    f, y = np.array([1.0 / r[0]]), np.array([levels / r[0]])
    for k in range(1, len(r)):
        wrong = r[1 : k + 1][::-1] @ f
        longer = np.zeros(k + 1)
        longer[:k] += f
        longer[1:] -= wrong * f[::-1]
        f = longer / (1.0 - wrong * wrong)
        y = np.append(y, 0.0) + (k - r[1 : k + 1][::-1] @ y) * f[::-1]
    return y


def total(function):
    def loss(x, levels):
        parts = function(x, levels)
        flat = parts if function is not haar else [parts[0], *parts[1]]
        return sum(np.sum(part * part) for part in flat)

    return loss


@pytest.mark.parametrize("function", [haar, pyramid])
def test_as_plain_python(function, monkeypatch):
    monkeypatch.setenv("CALQUE_JIT", "0")  # kernels run as plain Python
    x = np.array([8.0, 3.0, 1.0, 0.5])
    wanted, found = function(x, 2), calque.jit(function)(x.copy(), 2)
    flat = [[*v] if function is not haar else [v[0], *v[1]] for v in (wanted, found)]
    for left, right in zip(*flat, strict=True):
        np.testing.assert_allclose(right, left, rtol=1e-12)
    loss = total(function)
    steps = 1e-5 * np.eye(4)
    slope = [(loss(x + s, 2) - loss(x - s, 2)) / 2e-5 for s in steps]
    for gradient in (calque.grad(loss), calque.jit(calque.grad(loss))):
        np.testing.assert_allclose(gradient(x, 2), slope, rtol=1e-6, atol=1e-6)


def test_a_solution_that_grows_in_each_iteration():
    """Its value; the gradient is in test_ragged_storage."""
    x = np.array([8.0, 3.0, 1.0, 0.5])
    np.testing.assert_allclose(calque.jit(levinson)(x, 2), levinson(x, 2), rtol=1e-12)


def strassen(a, b):
    if a.shape[0] <= 1:
        return a * b
    h = a.shape[0] // 2
    (p, q), (r, s) = (a[:h, :h], a[:h, h:]), (a[h:, :h], a[h:, h:])
    (t, u), (v, w) = (b[:h, :h], b[:h, h:]), (b[h:, :h], b[h:, h:])
    one, two = strassen(p, u - w), strassen(p + q, w)
    three, four = strassen(r + s, t), strassen(s, v - t)
    five, six, seven = strassen(p + s, t + w), strassen(q - s, v + w), strassen(p - r, t + u)
    whole = np.empty((2 * h, 2 * h))
    whole[:h, :h], whole[:h, h:] = five + four - two + six, one + two
    whole[h:, :h], whole[h:, h:] = three + four, one + five - three - seven
    return whole


def test_a_recursion_on_sizes_of_sums():
    a, b = np.random.default_rng(0).normal(size=(2, 4, 4))
    np.testing.assert_allclose(calque.vmap(strassen)(a[None], b[None])[0], a @ b, rtol=1e-10)
    found = calque.grad(lambda a, b: np.sum(strassen(a, b)), argnums=(0, 1))(a, b)
    np.testing.assert_allclose(found[0], np.tile(b.sum(axis=1), (4, 1)), rtol=1e-10)
    np.testing.assert_allclose(found[1], np.tile(a.sum(axis=0)[:, None], (1, 4)), rtol=1e-10)


def peeled(a):
    """The elements in a spiral: each iteration takes a row and rotates the rest."""
    out, m = [], a
    while m.size:
        out.append(m[0] * m[0])
        m = m[1:].T[::-1]
    return np.concatenate(out)


def powers(a, x):
    """The size of the first element follows only from later statements of the iteration."""
    out = []
    for _ in range(6):
        out.append(x)
        x = a @ x
    return np.array(out)


def test_elements_of_what_is_turned_in_each_iteration():
    a = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_allclose(calque.jit(peeled)(a), peeled(a), rtol=1e-12)
    np.testing.assert_allclose(calque.vmap(peeled)(a[None])[0], peeled(a), rtol=1e-12)
    found = calque.grad(lambda a: np.sum(peeled(a) * np.arange(12.0)))(a)
    order = peeled(np.arange(12.0).reshape(3, 4)) ** 0.5  # which element stands at which place
    wanted = np.empty(12)
    wanted[order.round().astype(int)] = np.arange(12.0)
    np.testing.assert_allclose(found, 2 * a * wanted.reshape(3, 4), rtol=1e-12)


def test_elements_of_a_size_that_the_body_settles():
    a, x = np.random.default_rng(1).normal(size=(3, 3)), np.arange(3.0)
    assert "for" in calque.source(powers, a, x)
    np.testing.assert_allclose(calque.vmap(powers)(a[None], x[None])[0], powers(a, x), rtol=1e-12)
