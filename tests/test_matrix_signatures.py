"""Signatures of functions of matrices: those of NumPy's own generalized ufuncs, with their shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler import errors
from calque.transpiler.primitives.record import PRIMITIVES

UFUNCS = np.linalg._umath_linalg  # type: ignore[attr-defined]
SAME = {
    "np.linalg.inv": UFUNCS.inv,
    "np.linalg.det": UFUNCS.det,
    "np.linalg.slogdet": UFUNCS.slogdet,
    "np.linalg.cholesky": UFUNCS.cholesky_lo,
    "np.linalg.eig": UFUNCS.eig,
    "np.linalg.eigvals": UFUNCS.eigvals,
    "np.linalg.eigh": UFUNCS.eigh_lo,
    "np.linalg.eigvalsh": UFUNCS.eigvalsh_lo,
    "np.matmul": np.matmul,
}


def in_order(signature: str) -> str:
    """A signature with the letters a, b, c in the order in which its own ones appear."""
    letters: dict[str, str] = {}
    return "".join(
        letters.setdefault(c, chr(ord("a") + len(letters))) if c.isalpha() else c
        for c in signature.replace(" ", "")
    )


@pytest.mark.parametrize("name", SAME)
def test_a_signature_is_numpys(name: str) -> None:
    assert in_order(PRIMITIVES[name].signature) == in_order(SAME[name].signature)


@pytest.mark.parametrize("rows", [(4, 4), (2, 4, 4), (3, 1, 4, 4)])
@pytest.mark.parametrize("sides", [(4,), (4, 5), (2, 4, 5), (1, 2, 4, 5)])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("function", [np.linalg.solve, np.matmul])
def test_a_batch_of_stacks_is_one_example_after_the_other(
    function: Callable[..., Any], axes: tuple[Any, Any], rows: Any, sides: Any
) -> None:
    rng = np.random.default_rng(1)
    a, b = (
        rng.standard_normal(shape if axis is None else (6, *shape))
        for shape, axis in zip((rows, sides), axes, strict=True)
    )
    a = a + 4 * np.eye(4)
    found = calque.vmap(lambda a, b: function(a, b), axes)(a, b)
    each = [function(*(x if k is None else x[i] for x, k in zip((a, b), axes))) for i in range(6)]
    assert found.shape == np.shape(each)
    assert np.allclose(found, each, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("stack", [(4, 5), (4, 4, 5), (2, 3, 4, 5)])
def test_a_batch_of_a_vector_by_a_stack_is_one_example_after_the_other(
    axes: tuple[Any, Any], stack: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(2)
    v, a = (
        rng.standard_normal(shape if axis is None else (6, *shape))
        for shape, axis in zip(((4,), stack), axes, strict=True)
    )
    found = calque.vmap(np.matmul, axes)(v, a)
    each = [np.matmul(*(x if k is None else x[i] for x, k in zip((v, a), axes))) for i in range(6)]
    assert found.shape == np.shape(each)
    assert np.allclose(found, each, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigh", "eigvals", "slogdet"])
def test_a_matrix_that_is_not_square_is_refused(name: str) -> None:
    with pytest.raises(errors.ShapeError, match="sizes 3 and 4 do not fit together"):
        calque.jit(lambda a: getattr(np.linalg, name)(a))(np.ones((3, 4)))


def test_right_sides_of_another_length_are_refused() -> None:
    with pytest.raises(errors.ShapeError, match="sizes 3 and 4 do not fit together"):
        calque.jit(np.linalg.solve)(np.eye(3), np.ones((4, 2)))


def of_each(name: str) -> Callable[..., Any]:
    """A function that sums what a function of square matrices finds of parts of a stack."""
    function = getattr(np.linalg, name)

    def total(x: np.ndarray, n: int) -> Any:
        found = 0.0
        for i in range(len(x)):
            found += np.sum(function(x[i, :n, :2]))
        return found

    return total


def solved_each(x: np.ndarray, n: int) -> Any:
    found = 0.0
    for i in range(len(x)):
        found += np.sum(np.linalg.solve(x[i, :n, :2], x[i, 0, :n]))
    return found


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # NumPy has the loop, and raises
@pytest.mark.parametrize("function", [*map(of_each, ["inv", "det", "cholesky"]), solved_each])
@pytest.mark.parametrize("how", [calque.jit, lambda f: calque.vmap(f, (None, None), axis_size=2)])
def test_sizes_that_make_no_square_when_the_program_runs_are_refused(
    function: Callable[..., Any], how: Callable[..., Any]
) -> None:
    x = np.stack([np.diag([4.0, 5.0, 6.0, 7.0]) + k for k in range(3)])
    for n in (2, 3, 4, 2):
        transformed = how(function)
        if n == 2:
            assert np.allclose(transformed(x, n), function(x, n), rtol=1e-12)
            continue
        for _ in range(2):
            with pytest.raises(np.linalg.LinAlgError, match="must be square"):
                transformed(x, n)

def test_a_number_is_no_operand() -> None:
    with pytest.raises(errors.ShapeError, match="0-dimensional array given, at least 1 wanted"):
        calque.jit(lambda a: np.linalg.solve(a, 2.0))(np.eye(3))
