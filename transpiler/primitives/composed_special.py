"""Functions of ``scipy.special`` said in functions that kernels have, as SciPy has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, type_of
from calque.transpiler.ir.core import Var
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.composed import Rule, composed
from calque.transpiler.primitives.special import SPECIAL

_HALF_ROOT = math.sqrt(0.5)


def _product(logarithm: Callable[..., Any], harmless: float) -> Rule:
    """``x * log(y)``, which is zero where x is, unless y is NaN."""

    def rule(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        x, y = args
        none = np.logical_and(np.equal(x, 0.0), np.equal(y, y))
        return np.where(none, 0.0, x * logarithm(np.where(none, harmless, y)))

    return rule


composed(SPECIAL["xlogy"])(_product(np.log, 1.0))
composed(SPECIAL["xlog1py"])(_product(np.log1p, 0.0))


@composed(SPECIAL["polygamma"])
def _polygamma(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """By the zeta function of two arguments, as SciPy has it; of a run-time order it stays."""
    order, x = args
    if isinstance(order, (Array, Var)) or type_of(x).dtype.kind == "c":
        return None
    x = FUNCTIONS["cast"](x, np.dtype(np.float64))
    if order == 0:
        return apply(SPECIAL["digamma"], x)
    factor = (-1.0) ** (order + 1) * apply(SPECIAL["gamma"], order + 1.0)
    return factor * apply(SPECIAL["zeta"], order + 1.0, x)


@composed(SPECIAL["ndtr"])
def _ndtr(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    return 0.5 * apply(SPECIAL["erfc"], args[0] * -_HALF_ROOT)


@composed(SPECIAL["log_ndtr"])
def _log_ndtr(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """In the lower tail by the scaled complement, which does not underflow."""
    t = args[0] * _HALF_ROOT
    low = np.less(t, -1.0)
    tail = np.log(0.5 * apply(SPECIAL["erfcx"], np.where(low, -t, 1.0))) - t * t
    return np.where(low, tail, np.log1p(-0.5 * apply(SPECIAL["erfc"], np.where(low, 0.0, t))))
