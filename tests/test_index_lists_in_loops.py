"""Lists of known places within compiled loops: read, added to, and their gradients."""

import numpy as np
import pytest

import calque

X = np.random.default_rng(4).normal(size=(7, 4))


def summed(places):
    def f(x):
        total = 0.0
        for k in range(x.shape[0]):
            v = x[k]
            total = total + np.sum(v[places] ** 3)
        return total

    return f


@pytest.mark.parametrize("places", [[0, 2], [3, 1, 0], [1], [0, -1], [2, 2], [0, -4]], ids=str)
def test_gradients(places):
    expected = np.zeros_like(X)
    for place in places:
        expected[:, place] += 3.0 * X[:, place] ** 2
    gradient = calque.jit(calque.grad(summed(places)))
    np.testing.assert_allclose(gradient(X), expected, rtol=1e-12)
    text = gradient.source(X)
    if min(places) >= 0 and len(set(places)) == len(places):
        assert "for k" not in text.split("def f_grad_jit")[1]  # a kernel has the loop
    single = X[:, :1]
    if set(places) <= {0, -1}:
        expected = len(places) * 3.0 * single**2
        np.testing.assert_allclose(gradient(single.copy()), expected, rtol=1e-12)
    else:
        with pytest.raises(IndexError):
            gradient(single.copy())


def stores(places, dtype):
    def f(x):
        out = np.zeros((x.shape[0], 4), dtype=dtype)
        for k in range(x.shape[0]):
            row = out[k]
            row[places] += x[k][: len(places)]
            row[places] += 0.5
        return out

    return f


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("places", [[0, 2], [2, 2], [0, -4], [3, 0]], ids=str)
def test_stores(places, dtype):
    """For an index that is listed twice, NumPy stores the last sum."""
    f = stores(places, dtype)
    np.testing.assert_array_equal(calque.jit(f)(X), f(X))


def assembled(K, places, parts):
    """Small matrices added at the places of their nodes; of two for one place, the last counts."""
    K = K.copy()
    for e in range(places.shape[0]):
        i = places[e]
        K[np.ix_(i, i)] += parts[e]
    return np.sum(np.sin(K))


def stored(K, places, parts):
    K = K.copy()
    for e in range(places.shape[0]):
        K[places[e]] = np.exp(parts[e, 0])[:, None] * K[places[e]]
    return np.sum(np.sin(K))


def test_the_last_of_several_stores_is_found_without_filling_an_array():
    """The marks of stores are read where they were set, so the array of marks is not filled."""
    rng = np.random.default_rng(9)
    K, parts = rng.normal(size=(7, 7)), rng.normal(size=(4, 3, 3))
    places = np.array([[0, 1, 2], [3, 3, 5], [6, -1, 6], [2, 2, 2]])
    for program in (assembled, stored):
        gradient = calque.grad(program, argnums=(0, 2))
        assert "np.zeros((K" not in calque.source(gradient, K, places, parts)
        ways = rng.normal(size=K.shape), rng.normal(size=parts.shape)

        def at(step, program=program, ways=ways):
            return program(K + step * ways[0], places, parts + step * ways[1])

        slope = (at(1e-5) - at(-1e-5)) / 2e-5
        lanes = calque.vmap(gradient, in_axes=(None, None, 0))(K, places, parts[None])
        for found in (
            gradient(K, places, parts),
            calque.jit(gradient)(K, places, parts),
            (lanes[0][0], lanes[1][0]),
        ):
            total = sum(np.sum(a * b) for a, b in zip(found, ways))
            np.testing.assert_allclose(total, slope, rtol=1e-6)


def of_outer_products(K, rows, places, factors):
    K = K.copy()
    for e in range(rows.shape[0]):
        i = places[e]
        K[np.ix_(i, i)] += factors[e] * np.outer(rows[e], rows[e])
    return np.sum(np.sin(K))


def places_of(rng):
    return rng.integers(0, 7, (3, 4))


def test_a_value_of_another_size_is_computed_in_a_loop_of_its_own():
    """A store at places that are not proven to be inside cannot read it by element."""
    rng = np.random.default_rng(2)
    value = calque.jit(of_outer_products)
    slopes = calque.jit(calque.grad(of_outer_products, argnums=(0, 1, 3)))
    plain = calque.grad(of_outer_products, argnums=(0, 1, 3))
    for size, count in ((4, 4), (3, 3), (1, 4), (1, 1), (0, 0), (3, 4), (4, 1)):
        K, rows = rng.normal(size=(7, 7)), rng.normal(size=(3, size))
        args = K, rows, rng.integers(-7, 7, (3, count)), rng.normal(size=3)
        if size not in (1, count):
            for form in (of_outer_products, value, slopes):
                with pytest.raises(ValueError):
                    form(*args)
            continue
        np.testing.assert_allclose(value(*args), of_outer_products(*args), rtol=1e-12)
        for found, other in zip(slopes(*args), plain(*args), strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-10, atol=1e-12)
    args = rng.normal(size=(7, 7)), rng.normal(size=(3, 4)), places_of(rng), rng.normal(size=3)
    text = calque.source(slopes, *args, stage="kernels")
    assert "np.outer" not in "".join(line for line in text.splitlines() if "#" not in line)
