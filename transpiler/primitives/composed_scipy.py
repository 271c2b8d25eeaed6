"""Functions of ``scipy.linalg`` in loops: of small matrices, what kernels have of ``np.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.primitives import linalg
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.composed import COMPOSED, Rule, is_small_factorization
from calque.transpiler.primitives.scipy_in_numpy import IN_NUMPY
from calque.transpiler.primitives.scipy_linalg import finite


def _in_numpy(name: str) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        if not looping or not is_small_factorization(args):
            return None
        return IN_NUMPY[name](lambda a, b: apply(linalg.solve, a, b), args, params)

    return rule


def _norm(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """Within loops; zero times what is not finite is not a number, which is looked for."""
    found = COMPOSED["np.linalg.norm"](args, params, looping) if looping else None
    if found is None or not params["check_finite"]:
        return found
    return found + apply(finite, np.sum(args[0] * 0.0))


COMPOSED.update({name: _in_numpy(name) for name in IN_NUMPY} | {"linalg.norm": _norm})
