"""One element of a draw, under the name that kernels run as plain Python import it by."""

from calque.transpiler.prng.kernel_elements import (
    random_bits,
    random_bitsf,
    random_exponential,
    random_exponentialf,
    random_normal,
    random_normalf,
    random_uniform,
    random_uniformf,
)

__all__ = [
    "random_bits",
    "random_bitsf",
    "random_exponential",
    "random_exponentialf",
    "random_normal",
    "random_normalf",
    "random_uniform",
    "random_uniformf",
]
