"""The distributions of ``calque.random`` beside JAX's: numbers, derivatives, and what they follow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from sampling import sampled
from scipy import special, stats

import calque
from calque import random

jax.config.update("jax_enable_x64", True)
A = np.array([0.3, 1.0, 4.5])
B = np.array([2.0, 0.7, 3.0])
COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])
LOGITS = np.random.default_rng(0).normal(size=(4, 5, 3))
MANY = np.array([20.0, 3000.0])
PARTS = np.stack([A, A[::-1]]) / A.sum()

# name, arguments, options: drawn by both
CALLS = [
    *[
        (name, ((40,),), {})
        for name in ("exponential", "gumbel", "laplace", "logistic", "cauchy", "maxwell")
    ],
    ("gumbel", ((40,),), {"mode": "high"}),
    ("rademacher", ((40,),), {}),
    ("rademacher", ((40,), np.float32), {}),
    ("orthogonal", (4, (2,)), {}),
    ("orthogonal", (3,), {"m": 5}),
    ("gamma", (A, (20, 3)), {}),
    ("loggamma", (A, (20, 3)), {}),
    ("loggamma", (0.001, (20,)), {}),
    ("beta", (A, B), {}),
    ("dirichlet", (A, (20,)), {}),
    ("chisquare", (A,), {}),
    ("f", (A, B), {}),
    ("t", (A, (20, 3)), {}),
    ("lognormal", (A, (20, 3)), {}),
    ("pareto", (A,), {}),
    ("rayleigh", (A,), {}),
    ("wald", (A, (20, 3)), {}),
    ("triangular", (0.0, A, 5.0, (20, 3)), {}),
    ("weibull_min", (A, 1.5, (20, 3)), {}),
    ("double_sided_maxwell", (A, 2.0, (5, 3)), {}),
    ("generalized_normal", (1.7, (20,)), {}),
    ("ball", (3,), {"shape": (9,)}),
    ("ball", (3, 1.5), {}),
    ("truncated_normal", (-1.0, A, (20, 3)), {}),
    ("multivariate_normal", (A, COVARIANCE, (7,)), {}),
    ("multivariate_normal", (A, COVARIANCE), {"method": "svd"}),
    ("poisson", (np.array([0.0, 0.3, 3.0, 12.0, 40.0]), (30, 5)), {}),
    ("poisson", (2.0,), {}),
    ("binomial", (10, 0.3, (40,)), {}),
    ("binomial", (np.array([5.0, 50.0, 1000.0, -1.0, np.inf]), 0.6, (30, 5)), {}),
    ("geometric", (A / 5, (20, 3)), {}),
    ("multinomial", (MANY, PARTS), {}),
    ("categorical", (LOGITS, 1, (6, 4, 3)), {}),
    ("categorical", (LOGITS, 1, (2, 4, 3), False), {}),
    ("choice", (10, (3, 2)), {}),
    ("choice", (10, (3, 2), False), {}),
    ("choice", (A, (9,)), {"p": PARTS[0]}),
    ("choice", (A, (2,), False, PARTS[0]), {}),
    ("choice", (LOGITS, (2,), False, None, 1), {}),
]
NAMES = [f"{name}-{k}" for k, (name, _, _) in enumerate(CALLS)]


def of_jax(name, key, args, options):
    """JAX's numbers for a call."""
    given = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    return np.asarray(getattr(jax.random, name)(key, *given, **options))


@pytest.mark.parametrize("call", sampled(range(len(CALLS)), 2), ids=NAMES.__getitem__)
def test_numbers_are_those_of_jax(call):
    name, args, options = CALLS[call]
    found = np.asarray(getattr(random, name)(random.key(5), *args, **options))
    wanted = of_jax(name, jax.random.key(5), args, options)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


SINGLE = [
    *[(name, ((40,), np.float32), {}) for name in ("exponential", "gumbel", "laplace", "cauchy")],
    ("gamma", (A, (20, 3), np.float32), {}),
    ("dirichlet", (A, (20,), np.float32), {}),
    ("t", (3.0, (20,), np.float32), {}),
    ("truncated_normal", (-1.0, 2.0, (20,), np.float32), {}),
]


@pytest.mark.parametrize(("name", "args", "options"), SINGLE, ids=[n for n, _, _ in SINGLE])
def test_single_numbers_are_those_of_jax(name, args, options):
    found = getattr(random, name)(random.key(3), *args, **options)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, of_jax(name, jax.random.key(3), args, options), rtol=5e-5, atol=1e-6
    )


SMOOTH = [
    ("gamma", (A,), {}),
    ("beta", (A, B), {}),
    ("generalized_normal", (1.7, (4,)), {}),
    ("wald", (A,), {}),
    ("truncated_normal", (-1.0, A), {}),
    ("multivariate_normal", (A, COVARIANCE), {}),
]


@pytest.mark.parametrize(("name", "args", "options"), SMOOTH, ids=[n for n, _, _ in SMOOTH])
def test_derivatives_are_those_of_jax(name, args, options):
    moving = [k for k, a in enumerate(args) if isinstance(a, (float, np.ndarray))]

    def total(draw, sine, key):
        def f(*values):
            given = list(args)
            for k, value in zip(moving, values):
                given[k] = value
            return sine(draw(key, *given, **options)).sum()

        return f

    values = [args[k] for k in moving]
    mine = total(getattr(random, name), np.sin, random.key(3))
    theirs = total(getattr(jax.random, name), jnp.sin, jax.random.key(3))
    every = tuple(range(len(values)))
    wanted = jax.jit(jax.grad(theirs, every))(*values)
    for found, slope in zip(calque.grad(mine, every)(*values), wanted):
        np.testing.assert_allclose(found, slope, rtol=1e-9, atol=1e-11)
    directions = tuple(np.ones_like(v)[()] for v in values)
    _, tangent = calque.jvp(mine, tuple(values), directions)
    np.testing.assert_allclose(tangent, sum(np.sum(s) for s in wanted), rtol=1e-9)


BY_DIFFERENCES = [
    ("lognormal", (A,), {}),
    ("pareto", (B,), {}),
    ("weibull_min", (A, 1.5, (3,)), {}),
    ("rayleigh", (A,), {}),
    ("triangular", (0.0, A, 5.0), {}),
    ("double_sided_maxwell", (A, 2.0), {}),
]


@pytest.mark.parametrize(
    ("name", "args", "options"), BY_DIFFERENCES, ids=[n for n, _, _ in BY_DIFFERENCES]
)
def test_derivatives_are_those_of_differences(name, args, options):
    moving = [k for k, a in enumerate(args) if isinstance(a, (float, np.ndarray))]

    def f(*values):
        given = list(args)
        for k, value in zip(moving, values):
            given[k] = value
        return np.sum(np.sin(getattr(random, name)(random.key(3), *given, **options)))

    values = [args[k] for k in moving]
    slopes = calque.grad(f, tuple(range(len(values))))(*values)
    for k, value in enumerate(values):
        for at in np.ndindex(np.shape(value)):
            ends = []
            for step in (-1e-6, 1e-6):
                moved = np.array(value, float)
                moved[at] += step
                ends.append(f(*values[:k], moved[()], *values[k + 1 :]))
            np.testing.assert_allclose(
                np.asarray(slopes[k])[at], (ends[1] - ends[0]) / 2e-6, rtol=1e-5, atol=1e-8
            )


TRANSFORMED = [
    c
    for k, c in enumerate(CALLS)
    if c[0]
    in (
        "gumbel rademacher orthogonal gamma beta dirichlet t truncated_normal ball poisson binomial geometric "
        "multinomial categorical choice multivariate_normal"
    ).split()
]


@pytest.mark.parametrize(
    ("name", "args", "options"), TRANSFORMED, ids=[n for n, _, _ in TRANSFORMED]
)
def test_compiled_and_batched_programs_draw_the_same(name, args, options):
    draw = lambda key: getattr(random, name)(key, *args, **options)
    keys = random.split(random.key(6), 2)
    alone = [draw(k) for k in keys]
    np.testing.assert_allclose(calque.jit(draw)(keys[0]), alone[0], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(calque.vmap(draw)(keys), alone, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ["gamma", "t", "poisson", "binomial"])
def test_parameters_of_a_batch(name):
    first = (np.array([10.0, 20.0, 30.0]),) if name == "binomial" else ()
    values = A / 5 if name == "binomial" else A
    key, keys = random.key(1), random.split(random.key(1), 3)
    draw = lambda key, *args: getattr(random, name)(key, *args, shape=(2,))
    for axes, given in (
        ((None, 0), (key, values)),
        ((0, 0), (keys, values)),
        ((0, None), (keys, values[2])),
    ):
        axes = (axes[0], *(0,) * len(first), axes[1])
        found = calque.vmap(draw, axes)(given[0], *first, given[1])
        for k in range(3):
            alone = [v if a is None else v[k] for v, a in zip((given[0], *first, given[1]), axes)]
            np.testing.assert_allclose(found[k], draw(*alone), rtol=1e-13)


def test_the_slope_of_a_gamma_number_is_that_of_its_quantile():
    a = np.array([0.02, 0.3, 1.0, 2.5, 20.0, 200.0])
    for q in (0.01, 0.4, 1.0 - 1e-9):
        x, step = special.gammaincinv(a, q), 1e-4 * a
        found = random.gamma_slope(a, x)
        ends = [special.gammaincinv(a + s * step, q) for s in (-2, -1, 1, 2)]
        slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
        np.testing.assert_allclose(found, slope, rtol=3e-8)
    assert np.isnan(random.gamma_slope(-1.0, 1.0)) and random.gamma_slope(1.0, 0.0) == 0.0


# distributions, by their own functions

SIZE = 20000
FOLLOWS = {
    "uniform": (
        lambda k: random.uniform(k, (SIZE,), minval=1.0, maxval=3.0),
        stats.uniform(1.0, 2.0),
    ),
    "normal": (lambda k: random.normal(k, (SIZE,)), stats.norm()),
    "single": (lambda k: random.normal(k, (SIZE,), np.float32), stats.norm()),
    "exponential": (lambda k: random.exponential(k, (SIZE,)), stats.expon()),
    "gumbel": (lambda k: random.gumbel(k, (SIZE,)), stats.gumbel_r()),
    "laplace": (lambda k: random.laplace(k, (SIZE,)), stats.laplace()),
    "logistic": (lambda k: random.logistic(k, (SIZE,)), stats.logistic()),
    "cauchy": (lambda k: random.cauchy(k, (SIZE,)), stats.cauchy()),
    "maxwell": (lambda k: random.maxwell(k, (SIZE,)), stats.maxwell()),
    "small gamma": (lambda k: random.gamma(k, 0.2, (SIZE,)), stats.gamma(0.2)),
    "gamma": (lambda k: random.gamma(k, 7.0, (SIZE,)), stats.gamma(7.0)),
    "loggamma": (lambda k: random.loggamma(k, 2.0, (SIZE,)), stats.loggamma(2.0)),
    "beta": (lambda k: random.beta(k, 0.5, 3.0, (SIZE,)), stats.beta(0.5, 3.0)),
    "chisquare": (lambda k: random.chisquare(k, 3.0, (SIZE,)), stats.chi2(3.0)),
    "f": (lambda k: random.f(k, 4.0, 9.0, (SIZE,)), stats.f(4.0, 9.0)),
    "t": (lambda k: random.t(k, 3.0, (SIZE,)), stats.t(3.0)),
    "lognormal": (lambda k: random.lognormal(k, 0.5, (SIZE,)), stats.lognorm(0.5)),
    "pareto": (lambda k: random.pareto(k, 2.0, (SIZE,)), stats.pareto(2.0)),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, (SIZE,)), stats.rayleigh(scale=2.0)),
    "wald": (lambda k: random.wald(k, 2.0, (SIZE,)), stats.invgauss(2.0)),
    "triangular": (
        lambda k: random.triangular(k, 0.0, 1.0, 4.0, (SIZE,)),
        stats.triang(0.25, 0.0, 4.0),
    ),
    "weibull": (
        lambda k: random.weibull_min(k, 2.0, 1.5, (SIZE,)),
        stats.weibull_min(1.5, scale=2.0),
    ),
    "generalized": (lambda k: random.generalized_normal(k, 4.0, (SIZE,)), stats.gennorm(4.0)),
    "truncated": (
        lambda k: random.truncated_normal(k, -1.0, 2.0, (SIZE,)),
        stats.truncnorm(-1.0, 2.0),
    ),
}
COUNTS = {
    "integers": (lambda k: random.randint(k, (SIZE,), -3, 9), stats.randint(-3, 9)),
    "small poisson": (lambda k: random.poisson(k, 3.0, (SIZE,)), stats.poisson(3.0)),
    "poisson": (lambda k: random.poisson(k, 25.0, (SIZE,)), stats.poisson(25.0)),
    "small binomial": (lambda k: random.binomial(k, 10, 0.3, (SIZE,)), stats.binom(10, 0.3)),
    "binomial": (lambda k: random.binomial(k, 100, 0.7, (SIZE,)), stats.binom(100, 0.7)),
    "geometric": (lambda k: random.geometric(k, 0.3, (SIZE,)), stats.geom(0.3)),
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, (SIZE,)), stats.bernoulli(0.3)),
    "choice": (
        lambda k: random.choice(k, 3, (SIZE,), p=PARTS[0]),
        stats.rv_discrete(values=(range(3), PARTS[0])),
    ),
    "categorical": (
        lambda k: random.categorical(k, np.log(PARTS[0]), shape=(SIZE,)),
        stats.rv_discrete(values=(range(3), PARTS[0])),
    ),
}


@pytest.mark.parametrize(("draw", "law"), FOLLOWS.values(), ids=FOLLOWS)
def test_numbers_follow_their_distribution(draw, law):
    assert stats.kstest(draw(random.key(2024)), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("draw", "law"), COUNTS.values(), ids=COUNTS)
def test_counts_follow_their_distribution(draw, law):
    values, counts = np.unique(draw(random.key(2024)), return_counts=True)
    wanted = SIZE * law.pmf(values.astype(float))
    common = wanted > 5
    statistic = np.sum((counts[common] - wanted[common]) ** 2 / wanted[common])
    assert stats.chi2.sf(statistic, common.sum() - 1) > 1e-3


def test_means_and_covariances_of_vectors():
    key = random.key(7)
    found = random.multivariate_normal(key, A, COVARIANCE, (SIZE,))
    np.testing.assert_allclose(found.mean(0), A, atol=0.05)
    np.testing.assert_allclose(np.cov(found.T), COVARIANCE, atol=0.08)
    parts = random.dirichlet(key, A, (SIZE,))
    np.testing.assert_allclose(parts.mean(0), A / A.sum(), atol=0.01)
    counts = random.multinomial(key, np.full(SIZE, 10.0), np.broadcast_to(PARTS[0], (SIZE, 3)))
    np.testing.assert_allclose(counts.mean(0), 10 * PARTS[0], atol=0.05)
    points = random.ball(key, 2, shape=(SIZE,))
    assert stats.kstest(np.sum(points**2, axis=1), stats.uniform().cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda k: random.gamma(k, np.ones(3), (2,)), "shape mismatch|do not broadcast"),
        (lambda k: random.beta(k, np.ones(3), 1.0, (1,)), "do not broadcast"),
        (lambda k: random.choice(k, 3, (4,), replace=False), "4 of 3 without replacement"),
        (lambda k: random.choice(k, 0, (1,)), "nothing from nothing"),
        (lambda k: random.dirichlet(k, 1.0), "an axis at least"),
        (lambda k: random.gumbel(k, mode="highest"), "'low' or 'high'"),
        (lambda k: random.multivariate_normal(k, np.ones(2), np.eye(2), method="qr"), "'cholesky'"),
        (lambda k: random.gamma(k, 1.0, (2,), int), "gives floats"),
    ],
)
def test_what_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call(random.key(0))


def test_the_slope_of_a_gamma_number_is_that_of_its_distribution_function():
    """By the continued fraction: mpmath's derivative of the distribution function, over its density."""
    mp.mp.dps = 30
    for a, x in ((0.3, 2.5), (1.0, 4.0), (2.5, 9.0), (7.0, 11.5)):
        slope = mp.diff(lambda b, x=x: mp.gammainc(b, 0, x, regularized=True), a)
        density = mp.mpf(x) ** (a - 1) * mp.exp(-x) / mp.gamma(a)
        assert abs(random.gamma_slope(a, x) / float(-slope / density) - 1.0) < 1e-12
