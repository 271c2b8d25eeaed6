"""``calque.random``: keyed random numbers, as ``jax.random`` draws them.

Bits, integers and uniform numbers are the same; docs/random.md says how near the others are. In
come keys and parameters, out come arrays of numbers: here arguments are checked and keys are
watched, ``transpiler/prng`` has the numbers. Read ``keys``, then ``draws`` and ``elementary``;
``distributions`` and ``choices`` are read by calque as users' code is.

>>> from calque import random
>>> key, subkey = random.split(random.key(0))
>>> random.randint(subkey, (3,), 0, 10)
array([8, 2, 3])
"""

from __future__ import annotations

import numpy as np  # noqa: F401  (of the examples)

from calque.runtime.random.checks import checked_call, checked_where_plain, read_where_plain
from calque.runtime.random.choices import categorical, choice, geometric, multinomial
from calque.runtime.random.distributions import (
    ball,
    beta,
    chisquare,
    dirichlet,
    double_sided_maxwell,
    f,
    generalized_normal,
    lognormal,
    multivariate_normal,
    pareto,
    rayleigh,
    t,
    triangular,
    truncated_normal,
    wald,
    weibull_min,
)
from calque.runtime.random.draws import (
    bernoulli,
    between,
    binomial,
    gamma,
    gamma_slope,
    log_gamma_slope,
    loggamma,
    normal,
    order,
    permutation,
    poisson,
    randint,
    uniform,
)
from calque.runtime.random.elementary import (
    cauchy,
    erf,
    erfinv,
    exponential,
    gumbel,
    laplace,
    logistic,
    maxwell,
    orthogonal,
    rademacher,
)
from calque.runtime.random.keys import (
    PRNGKey,
    bits,
    clone,
    fold_in,
    key,
    key_data,
    split,
    wrap_key_data,
)
from calque.transpiler.ir.builder import FUNCTIONS
from calque.transpiler.primitives import random_elements, random_parameters  # noqa: F401  (fill tables)
from calque.transpiler.primitives.random import HANDLERS

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "between",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "erf",
    "erfinv",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "gamma_slope",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "laplace",
    "log_gamma_slope",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "order",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]

for _name in __all__:
    _inner = globals()[_name]
    _public = globals()[_name] = checked_call(_inner)
    for _function in (_inner, _public):
        if _name in HANDLERS:
            FUNCTIONS[_function] = checked_where_plain(_inner, HANDLERS[_name])
        else:
            read_where_plain(_function, _inner)
