"""Tests that say for which matrices a factorization raises LinAlgError, for handlers of ``try``."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.frontend.control.raising import TESTS_OF_MATRICES
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.logic import not_
from calque.transpiler.primitives.record import apply
from calque.transpiler.transformations.recorded_hosts import host_call


def has_cholesky(a: Any) -> bool:
    """True if NumPy can factor each matrix of a stack."""
    try:
        np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return False
    return True


def _truth(*_: Any) -> tuple[ArrayType]:
    return (ArrayType(np.dtype(bool), (), True),)


def _not_positive_definite(a: Array) -> Any:
    machine = current().machine
    factored = host_call(machine, has_cholesky, [], [a], {}, _truth, None, ())
    return apply(not_, factored[0] if isinstance(factored, tuple) else factored)


TESTS_OF_MATRICES[np.linalg.cholesky] = (
    _not_positive_definite,
    "Matrix is not positive definite",
)
