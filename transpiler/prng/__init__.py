"""The numbers of random keys, in plain NumPy: nothing is checked here, nothing is recorded.

In come keys, shapes and dtypes that are known to be such; out go arrays of numbers, those of
``jax.random``. ``runtime/random`` is the public face, ``primitives/random`` declares its functions.
Read ``threefry`` and ``bits``, then ``uniforms`` and ``normals``.
"""

from calque.transpiler.prng.bits import bits_of, fold_in, key, split
from calque.transpiler.prng.counts import binomial, poisson
from calque.transpiler.prng.gammas import gamma, gamma_slope, log_gamma_slope, loggamma
from calque.transpiler.prng.incomplete_betas import betainc_by_a, betainc_by_b
from calque.transpiler.prng.normals import erf, erfinv, normal
from calque.transpiler.prng.standard import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    maxwell,
    orthogonal,
    rademacher,
)
from calque.transpiler.prng.uniforms import between, order, randint, uniform

__all__ = [
    "betainc_by_a",
    "betainc_by_b",
    "between",
    "binomial",
    "bits_of",
    "cauchy",
    "erf",
    "erfinv",
    "exponential",
    "fold_in",
    "gamma",
    "gamma_slope",
    "gumbel",
    "key",
    "laplace",
    "log_gamma_slope",
    "loggamma",
    "logistic",
    "maxwell",
    "normal",
    "order",
    "orthogonal",
    "poisson",
    "rademacher",
    "randint",
    "split",
    "uniform",
]
