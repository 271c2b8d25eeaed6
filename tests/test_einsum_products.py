"""einsum of two large arrays is a product of matrices where it is compiled; integers beside floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque

SIZES = {"a": 3, "b": 4, "i": 200, "j": 210, "k": 32, "n": 33}
PRODUCTS = """kij,nkj->nki ij,jk->ik ij,jk->ki bij,bj->bi bij,bj->ib bj,bij->ib ij,nj->ni abij,bja->iab
bi,bij->jb bij,bjk->kib i,ij->j ij,j->i ij,kj->ki""".split()
OTHERS = "bi,bi->b ij,ij-> ij,kj->i i,j->ij ijk,ijn->kn".split()


def statements(function: Any, *args: Any) -> str:
    """The kernels' text without the user's lines that it quotes."""
    text = calque.source(function, *args, stage="kernels")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def operands(subscripts: str, spread: bool) -> list[Any]:
    rng = np.random.default_rng(0)
    terms = subscripts.partition("->")[0].split(",")
    first, other = ([SIZES[d] for d in term] for term in terms)
    if spread:
        other = [1 if d == "j" else SIZES[d] for d in terms[1]]
    return [rng.normal(size=first), rng.normal(size=other)]


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("subscripts", PRODUCTS + OTHERS)
def test_products_are_numpys(subscripts: str, spread: bool) -> None:
    def product(x: Any, y: Any) -> Any:
        return np.einsum(subscripts, x, y)

    args = operands(subscripts, spread)
    expected, got = product(*args), calque.jit(product)(*args)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)

    def loss(x: Any, y: Any) -> Any:
        return np.sum(np.sin(np.einsum(subscripts, x, y)))

    gradient = calque.jit(calque.grad(loss, (0, 1)))(*args)
    rng = np.random.default_rng(1)
    for k, (x, x_bar) in enumerate(zip(args, gradient, strict=True)):
        step = 1e-6 * rng.normal(size=x.shape)
        ahead, back = (loss(*args[:k], x + s * step, *args[k + 1 :]) for s in (1.0, -1.0))
        assert np.sum(x_bar * step) == pytest.approx((ahead - back) / 2.0, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("subscripts", PRODUCTS)
def test_large_ones_are_products_of_matrices(subscripts: str) -> None:
    def product(x: Any, y: Any) -> Any:
        return np.einsum(subscripts, x, y)

    assert "np.einsum" not in statements(calque.jit(product), *operands(subscripts, False))


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "?"])
def test_integers_beside_floats_are_compiled_in_loops(dtype: str) -> None:
    def walk(x: Any, C: Any, n: int) -> Any:
        s = np.zeros(3)
        for _ in range(n):
            s = s * 0.1 + np.dot(C, x) + np.einsum("ij,j->i", C, x) + C @ s * 0.01 + np.inner(C, x)
        return np.sum(s)

    x, C = np.array([0.3, -0.2, 0.7]), np.array([[1, 2, 0], [0, 1, 1], [3, 0, 1]], dtype)
    jitted = calque.jit(calque.value_and_grad(walk))
    value, gradient = jitted(x, C, 7)
    assert value == pytest.approx(walk(x, C, 7), rel=1e-13)
    steps = 1e-6 * np.eye(3)
    differences = [(walk(x + s, C, 7) - walk(x - s, C, 7)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-7)
    text = statements(jitted, x, C, 7)
    assert "np.dot" not in text and "np.einsum" not in text and " @ " not in text
