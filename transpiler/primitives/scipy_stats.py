"""``scipy.stats.norm``: its functions said in NumPy and ``scipy.special``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.scipy_modules import HANDLERS, means
from calque.transpiler.primitives.special import SPECIAL

_ROOT_2PI = math.sqrt(2.0 * math.pi)


def _array(x: Any) -> Array:
    x = FUNCTIONS[np.asarray](x)
    if x.dtype.kind not in "biuf":
        message = f"scipy.stats.norm takes real numbers, not {x.dtype}."
        raise DtypeError(message, current().origin)
    return x


def _parameter(value: Any) -> Any:
    """A location or a scale; of Python's numbers SciPy makes arrays of 64 bits."""
    return np.float64(value) if isinstance(value, (int, float)) else _array(value)


def _is(value: Any, number: int) -> bool:
    return isinstance(value, float) and value == number


def _positive(scale: Any) -> Any:
    """A scale; where it is none, a NaN, as is all that SciPy computes with it."""
    given = _parameter(scale)
    if not isinstance(given, Array):
        return given if given > 0 else np.float64(np.nan)
    missing = np.asarray(np.nan, given.dtype if given.dtype.kind == "f" else float)[()]
    return np.where(np.greater(given, 0), given, missing)


def _double(x: Any) -> Any:
    """SciPy gives float64 even of smaller numbers."""
    return FUNCTIONS["cast"](x, np.promote_types(x.dtype, np.float64))


def _standardized(x: Any, loc: Any, scale: Any) -> Any:
    """``(x - loc) / scale``, with the dtype that SciPy computes in."""
    x, loc = _array(x), _parameter(loc)
    x = x if _is(loc, 0) else x - loc
    return _double(x if _is(scale, 1) else x / scale)


@means("scipy.stats", "norm.pdf")
def _pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    scale = _positive(scale)
    z = _standardized(x, loc, scale)
    density = np.exp(-(z**2) / 2.0) / _ROOT_2PI
    return density if _is(scale, 1) else density / scale


@means("scipy.stats", "norm.logpdf")
def _logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; no number for a scale that is not positive."""
    scale = _parameter(scale)
    z = _standardized(x, loc, scale)
    density = -(z**2) / 2.0 - math.log(_ROOT_2PI)
    return density if _is(scale, 1) else density - np.log(scale)


def _by_special(path: str, name: str, sign: int) -> None:
    """A function of the standardized number that ``scipy.special`` has, of ``z`` or of ``-z``."""

    def call(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        z = _standardized(x, loc, _positive(scale))
        return apply(SPECIAL[name], z if sign > 0 else -z)

    means("scipy.stats", path)(call)


_by_special("norm.cdf", "ndtr", 1)
_by_special("norm.logcdf", "log_ndtr", 1)
_by_special("norm.sf", "ndtr", -1)
_by_special("norm.logsf", "log_ndtr", -1)


def _quantile(sign: int) -> Callable[..., Any]:
    def call(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        q, loc, scale = _array(q), _parameter(loc), _positive(scale)
        z = apply(SPECIAL["ndtri"], q)
        z = z if sign > 0 else -z
        z = z if _is(scale, 1) else z * scale
        return _double(z if _is(loc, 0) else z + loc)

    return call


means("scipy.stats", "norm.ppf")(_quantile(1))
means("scipy.stats", "norm.isf")(_quantile(-1))


class FrozenNormal:
    """``norm(loc, scale)`` of run-time numbers; its methods are those of ``norm``."""

    def __init__(self, loc: Any = 0, scale: Any = 1):
        self.loc, self.scale = loc, scale


def _frozen_method(name: str, call: Callable[..., Any]) -> None:
    def method(self: FrozenNormal, x: Any) -> Any:
        return call(x, self.loc, self.scale)

    method.__name__ = name
    setattr(FrozenNormal, name, method)


for _path, _call in HANDLERS["scipy.stats"].items():
    _frozen_method(_path.removeprefix("norm."), _call)
means("scipy.stats", "norm")(FrozenNormal)
