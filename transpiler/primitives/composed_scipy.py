"""Functions of ``scipy.linalg`` in loops: of small matrices, what kernels have of ``np.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.transpiler.primitives import linalg
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.composed import COMPOSED, Rule, is_small_factorization
from calque.transpiler.primitives.scipy_in_numpy import IN_NUMPY


def _in_numpy(name: str) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        if not looping or not is_small_factorization(args):
            return None
        return IN_NUMPY[name](lambda a, b: apply(linalg.solve, a, b), args, params)

    return rule


def _norm(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """Within loops; what is not finite gives a norm that is none, or infinite."""
    return COMPOSED["np.linalg.norm"](args, params, looping) if looping else None


COMPOSED.update({name: _in_numpy(name) for name in IN_NUMPY} | {"linalg.norm": _norm})
