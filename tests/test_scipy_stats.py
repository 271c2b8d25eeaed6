"""``scipy.stats.norm``, under all its names, against SciPy itself, JAX and differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.scipy.stats as jss
import numpy as np
import pytest
import scipy
import scipy.stats
import scipy.stats as st
from scipy import stats
from scipy.stats import norm

import calque
from calque.transpiler import errors

jax.config.update("jax_enable_x64", True)
NAMES = ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"]
X = np.array([-1.3, 0.2, 0.0, 2.5])
Q = np.array([0.02, 0.3, 0.5, 0.93])
LOC, SCALE = np.array([0.3, -0.2, 1.0, 0.5]), np.array([0.7, 1.5, 2.0, 0.4])


def density(x, loc, scale):
    return np.sum(norm.pdf(x, loc, scale) ** 2)


def log_density(x, loc, scale):
    return np.sum(norm.logpdf(x, loc=loc, scale=scale) ** 2)


def probability(x, loc, scale):
    return np.sum(stats.norm.cdf(x, loc, scale=scale) ** 2)


def log_probability(x, loc, scale):
    return np.sum(scipy.stats.norm.logcdf(x, scale=scale, loc=loc) ** 2)


def above(x, loc, scale):
    return np.sum(st.norm.sf(x, loc, scale) ** 2)


def log_above(x, loc, scale):
    return np.sum(st.norm.logsf(x, loc, scale) ** 2)


def quantile(x, loc, scale):
    return np.sum(norm.ppf(x, loc, scale) ** 2)


def upper_quantile(x, loc, scale):
    return np.sum(norm.isf(x, loc, scale) ** 2)


PROGRAMS = [
    density,
    log_density,
    probability,
    log_probability,
    above,
    log_above,
    quantile,
    upper_quantile,
]


def of(name: str, x: Any, loc: Any, scale: Any) -> Any:
    return jax.numpy.sum(getattr(jss.norm, name)(x, loc, scale) ** 2)


def moved(args, argument, step):
    return [a + step if k == argument else a for k, a in enumerate(args)]


@pytest.mark.parametrize(("name", "program"), list(zip(NAMES, PROGRAMS, strict=True)), ids=NAMES)
def test_value_and_gradient_are_jaxs_and_the_hessian_theirs(name, program):
    args = (Q if name in ("ppf", "isf") else X, LOC, SCALE)
    value, found = calque.value_and_grad(program, argnums=(0, 1, 2))(*args)
    np.testing.assert_allclose(value, program(*args), rtol=1e-13)
    want = jax.jit(jax.grad(lambda *a: of(name, *a), argnums=(0, 1, 2)))(*args)
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    for argument in range(3):
        got = calque.hessian(program, argument)(*args) @ np.ones(4)
        gradient = calque.grad(program, argument)
        high, low = (gradient(*moved(args, argument, step)) for step in (1e-5, -1e-5))
        np.testing.assert_allclose(got, (high - low) / 2e-5, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "program"), list(zip(NAMES, PROGRAMS, strict=True)), ids=NAMES)
def test_forward_mode_and_vmap(name, program):
    x = Q if name in ("ppf", "isf") else X
    gradient = calque.grad(program)(x, LOC, SCALE)
    pushed = calque.jvp(lambda x: program(x, LOC, SCALE), (x,), (x,))[1]
    np.testing.assert_allclose(pushed, np.sum(gradient * x), rtol=1e-12)
    mapped = calque.vmap(calque.grad(program), in_axes=(0, None, 0))(x, 0.3, SCALE)
    want = [calque.grad(program)(x[k], 0.3, SCALE[k]) for k in range(4)]
    np.testing.assert_allclose(mapped, want, rtol=1e-12)


def everything(x, q, loc, scale):
    total = norm.pdf(x, loc, scale) + norm.logpdf(x, loc, scale) + norm.cdf(x, loc, scale)
    total = total + norm.logcdf(x, loc, scale) + norm.sf(x, loc, scale)
    return np.sum(total + norm.logsf(x, loc, scale) + norm.ppf(q, loc, scale) + norm.isf(q))


def test_jit():
    found = calque.jit(calque.value_and_grad(everything, argnums=(0, 1, 2, 3)))(X, Q, LOC, SCALE)
    want = calque.value_and_grad(everything, argnums=(0, 1, 2, 3))(X, Q, LOC, SCALE)
    np.testing.assert_allclose(found[0], everything(X, Q, LOC, SCALE), rtol=1e-12)
    for got, expected in zip(found[1], want[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("name", NAMES)
def test_values_and_dtypes_are_scipys(name, dtype):
    """Also outside of what has a density, and of scales that are none."""
    method = getattr(norm, name)
    edges = np.array([-np.inf, -3.0, 0.0, 0.25, 1.0, np.inf, np.nan])
    x = np.array([-2, 0, 1]) if dtype == "i8" else edges.astype(dtype)

    def plain(x):
        return method(x)

    def both(x, loc, scale):
        return method(x, loc, scale)

    def known(x):
        return method(x, 1, 2.5)

    calls = [(plain, (x,)), (known, (x,))]
    calls += [(both, (x, 0.5, s)) for s in (2.0, 0.0, -1.0, np.nan, np.inf)]
    calls += [(both, (x, np.float32(0.5), np.float32(0.7))), (both, (x, np.nan, 1))]
    calls += [(both, (x[:, None], np.array([0.5, 1.0]), np.array([2.0, -1.0])))]
    for function, args in calls:
        with np.errstate(all="ignore"):
            want = function(*args)
            got = calque.vmap(function, axis_size=1, in_axes=None)(*args)[0]
        tolerance = 1e-6 if np.asarray(args[-1]).dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=1e-300)
        assert np.asarray(got).dtype == want.dtype


def test_a_scale_that_is_no_scale_has_no_derivative_elsewhere():
    """A NaN in one place leaves the others alone."""
    scale = np.array([1.0, -1.0, 2.0])
    with np.errstate(all="ignore"):
        found = calque.grad(lambda x: np.nansum(norm.cdf(x, 0.0, scale)))(np.ones(3))
    np.testing.assert_allclose(found[[0, 2]], norm.pdf(1.0, 0.0, scale[[0, 2]]), rtol=1e-13)


PRIOR, MEANS = norm(0.5, 2.0), np.array([0.1, 0.2, 0.3, 0.4])
AROUND = scipy.stats.norm(loc=MEANS, scale=2.0)


def frozen(x, loc, scale):
    return np.sum(norm(loc, scale).logpdf(x) + norm(scale=scale, loc=loc).cdf(x) + norm(1).pdf(x))


def from_outside(x, loc, scale):
    return np.sum(PRIOR.logpdf(x) * AROUND.pdf(x) + loc * scale)


@pytest.mark.parametrize("program", [frozen, from_outside])
def test_distributions_that_hold_their_parameters(program):
    found = calque.grad(program, argnums=(0, 1, 2))(X, LOC, SCALE)
    for argument, got in enumerate(found):
        for k in range(4):
            high, low = ([a.copy() for a in (X, LOC, SCALE)] for _ in range(2))
            high[argument][k] += 1e-6
            low[argument][k] -= 1e-6
            want = (program(*high) - program(*low)) / 2e-6
            np.testing.assert_allclose(got[k], want, rtol=1e-7, atol=1e-8)


def test_what_they_hold_is_read_anew():
    gradient = calque.grad(from_outside)
    before = gradient(X, LOC, SCALE)
    MEANS[0] = 3.0
    try:
        assert gradient(X, LOC, SCALE)[0] != before[0]
    finally:
        MEANS[0] = 0.1


def test_of_other_distributions_the_function_is_named():
    waiting = stats.levy_stable(1.8, 0.5)
    for function in (lambda x: stats.levy_stable.pdf(x, 1.8, 0.5), lambda x: waiting.pdf(x)):
        with pytest.raises(errors.CalqueError) as caught:
            calque.grad(function)(1.0)
        assert "lambda x" in caught.value.origin.text


def test_the_declaration_of_a_users_comes_first():
    """Methods of distributions are called by the name under which they are imported."""
    calque.opaque(
        stats.mielke.logpdf,
        result=lambda x, k, s: x,
        vjp=lambda y_bar, y, x, k, s: (y_bar * 3.0, None, None),
    )
    function = lambda x: np.sum(stats.mielke.logpdf(x, 2.0, 1.5) ** 2)
    want = 6.0 * stats.mielke.logpdf(0.7, 2.0, 1.5)
    np.testing.assert_allclose(calque.grad(function)(0.7), want, rtol=1e-13)
    text = calque.source(calque.value_and_grad(function), 0.7)
    assert "mielke.logpdf(x, 2.0, 1.5)" in text


def test_random_numbers_are_refused():
    for function in (lambda x: x * norm.rvs(), lambda x: x * PRIOR.rvs()):
        with pytest.raises(errors.CalqueError):
            calque.grad(function)(1.0)
