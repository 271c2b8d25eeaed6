"""``calque.random``: keyed random numbers, the same as ``jax.random`` draws, bit for bit.

>>> from calque import random
>>> key, subkey = random.split(random.key(0))
>>> random.randint(subkey, (3,), 0, 10)
array([8, 2, 3])
"""

from __future__ import annotations

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
from calque.runtime.random.normals import normal
from calque.runtime.random.uniforms import (
    bernoulli,
    between,
    order,
    permutation,
    randint,
    uniform,
)
from calque.transpiler.builder import FUNCTIONS
from calque.transpiler.frontend.substitutes import interpret
from calque.transpiler.primitives.random import HANDLERS

__all__ = [
    "PRNGKey",
    "bernoulli",
    "between",
    "bits",
    "clone",
    "fold_in",
    "key",
    "key_data",
    "normal",
    "order",
    "permutation",
    "randint",
    "split",
    "uniform",
    "wrap_key_data",
]

for _name in __all__:
    if _name in HANDLERS:
        FUNCTIONS[globals()[_name]] = HANDLERS[_name]
    else:
        interpret(globals()[_name])
