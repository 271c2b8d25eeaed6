"""Normal numbers: uniform ones through the inverse of the error function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.prng.bits import split
from calque.transpiler.prng.uniforms import multiply_add, unit

# Giles, "Approximating the erfinv function" (2012): polynomials in w = -log(1 - x ** 2) around the
# middle of an interval, or in its root, the highest power first.
SINGLE: tuple[tuple[float, ...], ...] = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087)
    + (-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773)
    + (-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
DOUBLE: tuple[tuple[float, ...], ...] = (
    (-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18)
    + (1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17)
    + (6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14)
    + (2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11)
    + (1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08)
    + (4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05)
    + (0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533)
    + (0.24015818242558961693, 1.6536545626831027356),
    (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07)
    + (1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06)
    + (2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05)
    + (6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796)
    + (0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066)
    + (-0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334)
    + (3.0838856104922207635,),
    (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09)
    + (-3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08)
    + (2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07)
    + (-9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05)
    + (7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026)
    + (1.0103004648645343977, 4.8499064014085844221),
)
_error_function = np.vectorize(math.erf, otypes=[float])
_BLOCK = 8192  # numbers at once: what is computed on the way stays in the cache


# Moshier's Cephes: log1p by a rational function near zero
LOG1P_ABOVE: tuple[float, ...] = (
    *(4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969),
    *(29.911919328553073277375, 60.949667980987787057556, 57.112963590585538103336),
    20.039553499201281259648,
)
LOG1P_BELOW: tuple[float, ...] = (
    *(1.0, 15.062909083469192043167, 83.047565967967209469434, 221.76239823732856465394),
    *(309.09872225312059774938, 216.42788614495947685003, 60.118660497603843919306),
)


def log1p(x: np.ndarray) -> np.ndarray:
    """``np.log1p`` as JAX's compiler writes it: less exact where Cephes uses no rational function.

    A normal number follows this to its last digit.
    """
    square = x * x
    ratio = _polynomial(x, LOG1P_ABOVE) / _polynomial(x, LOG1P_BELOW)
    near = x + (x * square * ratio - x.dtype.type(0.5) * square)
    return np.where(np.abs(x) < math.sqrt(2.0) - 1.0, near, np.log(1.0 + x))


def inverse_error_function(x: np.ndarray) -> np.ndarray:
    """The number whose error function is ``x``, by JAX's formula.

    JAX rounds each step of Horner's rule once, this only the last ones: results are the same bits
    for 98 of 100, and differ by up to 2 units in the last place.
    """
    dtype = x.dtype
    with np.errstate(divide="ignore", invalid="ignore"):
        w = -log1p(x * -x)
        if dtype.itemsize < 8:
            middle, tail = SINGLE
            found = _polynomial(w - 2.5, middle, 1)
            far = w >= 5.0
            found[far] = _polynomial(np.sqrt(w[far]) - 3.0, tail, 1)
        else:
            middle, tail, end = DOUBLE
            found = _polynomial(w - 3.125, middle, 1)
            far = w >= 6.25
            root = np.sqrt(w[far])
            found[far] = np.where(
                root < 4.0, _polynomial(root - 3.25, tail, 1), _polynomial(root - 5.0, end, 1)
            )
        return np.where(np.abs(x) == 1.0, x * dtype.type(np.inf), found * x)


def _polynomial(x: np.ndarray, coefficients: tuple[float, ...], exact: int = 0) -> np.ndarray:
    """Horner's rule, its last ``exact`` steps rounded once each."""
    found = np.full_like(x, coefficients[0])
    last = len(coefficients) - exact
    for c in coefficients[1:last]:
        found *= x
        found += x.dtype.type(c)
    for c in coefficients[last:]:
        found = multiply_add(found, x, x.dtype.type(c))
    return found


def normal(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw standard normal numbers; complex ones have variance 1 in all."""
    if dtype.kind != "c":
        return _normal(keys, shape, dtype)[()]
    halves, half = split(keys, (2,)), np.empty((), dtype).real.dtype
    found = np.empty((*keys.shape[:-1], *shape), dtype)
    root = half.type(math.sqrt(2.0))
    found.real = _normal(halves[..., 0, :], shape, half) / root
    found.imag = _normal(halves[..., 1, :], shape, half) / root
    return found[()]


def _normal(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return normal_of(unit(keys, shape, dtype))


def normal_of(u: np.ndarray) -> np.ndarray:
    """Normal numbers of these from 0 to 1, in their memory."""
    dtype = u.dtype
    u *= dtype.type(2)
    u += np.nextafter(dtype.type(-1), dtype.type(0))
    if dtype.itemsize == 2:
        wide = inverse_error_function(u.astype("f4")).astype("f2")
        return np.asarray(wide * dtype.type(math.sqrt(2.0)))
    flat = u.reshape(-1)
    for start in range(0, u.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        np.multiply(inverse_error_function(block), dtype.type(math.sqrt(2.0)), out=block)
    return u


def erf(x: Any) -> Any:
    """Compute the error function."""
    x = np.asarray(x)
    return _error_function(x).astype(np.result_type(x, np.float16))[()]


def erfinv(x: Any) -> Any:
    """Compute the inverse of the error function, from -1 to 1."""
    x = np.asarray(x)
    x = x.astype(np.result_type(x, np.float16))
    wide = np.atleast_1d(x.astype(np.float32) if x.dtype.itemsize == 2 else x)
    return inverse_error_function(wide).astype(x.dtype).reshape(x.shape)[()]
