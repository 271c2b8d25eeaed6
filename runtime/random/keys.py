"""Keys: what random numbers are drawn with. A key is an array of two uint32, several are (..., 2).

Names and numbers are those of ``jax.random`` (JAX is where keys as values, ``split`` and
``fold_in`` come from). Where JAX takes one key, a batch of keys is taken too: results have its axes
in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.runtime import debug_nans
from calque.runtime.fitting import fitting, shown, sizes
from calque.runtime.random import reuse
from calque.transpiler import prng

Shape = Sequence[int]


def checked_key(key: Any, name: str) -> np.ndarray:
    """A key, or a batch of keys, as an array; TypeError for what is none."""
    try:
        found = np.asarray(key)
    except Exception:  # ragged, nested too deeply, or whatever the value does when it is asked
        raise TypeError(f"{name} takes a key, and got {shown(key)}") from None
    if found.dtype != np.uint32 or found.shape[-1:] != (2,):
        raise TypeError(
            f"{name} takes a key, two uint32 as random.key(seed) gives them, and got "
            f"{found.dtype} of shape {found.shape}"
        )
    return found


def used_key(key: Any, name: str) -> np.ndarray:
    """A key, or a batch of keys, that a draw uses up."""
    found = checked_key(key, name)
    if debug_nans.threads:
        reuse.use(found, name)
    return found


def fresh(keys: np.ndarray) -> np.ndarray:
    """Keys that have not been used."""
    if debug_nans.threads:
        reuse.renew(keys)
    return keys


def checked_shape(shape: Any, name: str) -> tuple[int, ...]:
    """A shape as a tuple; an error that names it for what is none."""
    return fitting(sizes, shape, name, "shape")


def used(key: Any, shape: Any, name: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """The key that a draw uses up, and the shape of the draw, both checked."""
    return used_key(key, name), checked_shape(shape, name)


def _checked_implementation(impl: Any) -> None:
    if not (impl is None or (isinstance(impl, str) and impl == "threefry2x32")):
        raise ValueError(f"impl: keys are of threefry2x32, and not of {shown(impl)}")


def key(seed: Any, *, impl: str | None = None, dtype: Any = None) -> np.ndarray:
    """The key of an integer; of an array of integers, a key of each.

    ``seed`` is the integer, or the array. ``impl``, or ``dtype``, may be "threefry2x32", the one
    kind of keys there is. Raises TypeError for a seed that is no integer.

    >>> from calque import random
    >>> random.key(42)
    array([ 0, 42], dtype=uint32)
    """
    _checked_implementation(impl if dtype is None else dtype)
    if not isinstance(seed, int):
        seed = np.asarray(seed)
        if seed.dtype.kind not in "iu":
            raise TypeError(f"a key is made of an integer, not of {seed.dtype}")
    return fresh(prng.key(seed))


def PRNGKey(seed: Any, *, impl: str | None = None) -> np.ndarray:
    """``key``: JAX's older name for it.

    ``seed`` is an integer or an array of integers, ``impl`` "threefry2x32" or None.

    >>> from calque import random
    >>> random.PRNGKey(42)
    array([ 0, 42], dtype=uint32)
    """
    return key(seed, impl=impl)


def key_data(keys: Any) -> np.ndarray:
    """The numbers of keys: the keys themselves.

    ``keys`` are one key or many; TypeError for what is none.

    >>> from calque import random
    >>> random.key_data(random.key(42))
    array([ 0, 42], dtype=uint32)
    """
    return checked_key(keys, "random.key_data")


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None, dtype: Any = None) -> np.ndarray:
    """Keys of these numbers, uint32 of shape (..., 2).

    ``key_bits_array`` are the numbers; ``impl``, or ``dtype``, may be "threefry2x32".

    >>> from calque import random
    >>> random.wrap_key_data(np.array([0, 42], np.uint32))
    array([ 0, 42], dtype=uint32)
    """
    _checked_implementation(impl if dtype is None else dtype)
    return fresh(checked_key(key_bits_array, "random.wrap_key_data"))


def clone(key: Any) -> np.ndarray:
    """The same key, which ``debug_keys`` allows to be used once more.

    ``key`` is one key, or an array of keys.

    >>> from calque import random
    >>> random.clone(random.key(42))
    array([ 0, 42], dtype=uint32)
    """
    return fresh(checked_key(key, "random.clone"))


def split(key: Any, num: int | Shape = 2) -> np.ndarray:
    """``num`` new keys (or a shape of them), as if drawn independently.

    ``key`` is used up by it.

    >>> from calque import random
    >>> key, subkey = random.split(random.key(0))
    >>> random.split(key, 4).shape
    (4, 2)
    """
    keys = used_key(key, "random.split")
    several = isinstance(num, (tuple, list, range, np.ndarray)) and np.ndim(num) > 0
    return prng.split(keys, fitting(sizes, num if several else (num,), "random.split", "num"))


def fold_in(key: Any, data: Any) -> np.ndarray:
    """The key that belongs to an integer: the number of an iteration or step, or a name's hash.

    ``key`` is not used up. ``data`` is the integer, or an array of them.

    >>> from calque import random
    >>> random.fold_in(random.key(0), 7)
    array([2716826189,  292468403], dtype=uint32)
    """
    keys = checked_key(key, "random.fold_in")
    if not isinstance(data, int):
        data = np.asarray(data)
        if data.dtype.kind not in "iub":
            raise TypeError(f"random.fold_in takes an integer, not {data.dtype}")
    return prng.fold_in(keys, data)


def bits(key: Any, shape: Shape = (), dtype: Any = None) -> np.ndarray:
    """Random bits: unsigned integers, uint64 unless ``dtype`` says otherwise.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's.

    >>> from calque import random
    >>> random.bits(random.key(0), (2,), np.uint8)
    array([167, 146], dtype=uint8)
    """
    keys, shape = used(key, shape, "random.bits")
    dtype = np.dtype(np.uint64 if dtype is None else dtype)
    if dtype.kind != "u":
        raise ValueError(f"random.bits gives unsigned integers, not {dtype}")
    return prng.bits_of(keys, shape, 8 * dtype.itemsize)
