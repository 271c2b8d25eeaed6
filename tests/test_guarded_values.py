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
