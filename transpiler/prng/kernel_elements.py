"""Random numbers at one place of an array, as in ``runtime/vecmath/random_numbers.py``.

So kernels run as plain Python, for a debugger to step through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.prng.normals import normal_of
from calque.transpiler.prng.threefry import hash_numbers
from calque.transpiler.prng.uniforms import unit_of


def _words(one: Any, two: Any, place: Any) -> tuple[int, int]:
    return hash_numbers((int(one), int(two)), int(place) >> 32, int(place) & 0xFFFFFFFF)


def random_bits(one: Any, two: Any, place: Any) -> np.uint64:
    """64 bits."""
    high, low = _words(one, two, place)
    return np.uint64(high << 32 | low)


def random_bitsf(one: Any, two: Any, place: Any) -> np.uint32:
    """32 bits."""
    high, low = _words(one, two, place)
    return np.uint32(high ^ low)


def random_uniform(one: Any, two: Any, place: Any) -> np.float64:
    """A float64 from 0 to 1."""
    return unit_of(np.array([random_bits(one, two, place)]), np.dtype(np.float64))[0]


def random_uniformf(one: Any, two: Any, place: Any) -> np.float32:
    """A float32 from 0 to 1."""
    return unit_of(np.array([random_bitsf(one, two, place)]), np.dtype(np.float32))[0]


def random_normal(one: Any, two: Any, place: Any) -> np.float64:
    """A standard normal float64."""
    return normal_of(np.array([random_uniform(one, two, place)]))[0]


def random_normalf(one: Any, two: Any, place: Any) -> np.float32:
    """A standard normal float32."""
    return normal_of(np.array([random_uniformf(one, two, place)]))[0]


def random_exponential(one: Any, two: Any, place: Any) -> np.float64:
    """A float64 of the exponential distribution."""
    return -np.log1p(-random_uniform(one, two, place))


def random_exponentialf(one: Any, two: Any, place: Any) -> np.float32:
    """A float32 of the exponential distribution."""
    return -np.log1p(-random_uniformf(one, two, place))
