"""Functions of ``scipy.linalg`` in loops: of small matrices, what kernels have of ``np.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.primitives import linalg, norms, scipy_linalg
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.composed import Rule, is_small_factorization
from calque.transpiler.primitives.scipy_in_numpy import IN_NUMPY
from calque.transpiler.primitives.scipy_linalg import finite


def _in_numpy(primitive: Primitive) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        if not looping or not is_small_factorization(args):
            return None
        return IN_NUMPY[primitive](lambda a, b: apply(linalg.solve, a, b), args, params)

    return rule


def _norm(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """A norm within loops; ``check_finite`` tests a sum of zeros times the elements for NaN."""
    assert norms.norm.lowering is not None
    found = norms.norm.lowering(args, params, looping) if looping else None
    if found is None or not params["check_finite"]:
        return found
    return found + apply(finite, np.sum(args[0] * 0.0))


for _record in IN_NUMPY:
    _record.lowering = _in_numpy(_record)
scipy_linalg.norm.lowering = _norm
