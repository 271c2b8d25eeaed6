"""Patterns where sizes depend on values: what a mask chooses stays at its places."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_sparsity_batches import loaded

import calque
from calque import sparse
from calque.transpiler.errors import SparsityUndecided

LINE, ALL = np.eye(6), np.ones((6, 6))


def stored_where_chosen(x):
    y = x * 1.0
    y[x > 0.0] = np.sin(x[x > 0.0]) * x[x > 0.0]
    return y


def added_where_chosen(x):
    y = x**2
    positive = x > 0.1
    y[positive] += np.abs(x[positive]) * np.exp(-x[positive])
    y[~positive] *= 3.0
    return y


def chosen_of_chosen(x):
    y = x[x > -0.5]
    y[y > 0.5] = y[y > 0.5] ** 3
    out = np.zeros(6)
    out[x > -0.5] = y
    return out


def by_places(x):
    places = np.flatnonzero(x < 0.3)
    y = np.zeros(6)
    y[places] = x[places] ** 2
    return y


def of_two_axes(x):
    u = x.reshape(2, 3)
    w = u * 1.0
    w[u > 0.0] = np.tanh(u[u > 0.0])
    return w.ravel()


def rows_of_a_matrix(x):
    u = np.outer(x, [1.0, 2.0])
    u[x > 0.0] = u[x > 0.0] ** 2 + x[x > 0.0][:, None]
    return u[:, 1]


def in_pieces(x):
    return np.piecewise(x, [x < 0.0, x > 0.5], [lambda t: t**2, lambda t: -t, 3.0])


def in_pieces_of_one(x):
    return np.piecewise(x, x < 0.0, [np.exp])


def in_a_loop(x):
    y = x * 1.0
    for k in range(3):
        y[y > 0.1 * k] = np.cos(y[y > 0.1 * k])
    while np.max(y) > 0.2:
        y[y > 0.2] *= 0.5
    return y


AT_THEIR_PLACES: tuple[Callable[..., Any], ...] = (
    *(stored_where_chosen, added_where_chosen, chosen_of_chosen, by_places, of_two_axes),
    *(rows_of_a_matrix, in_pieces, in_pieces_of_one, in_a_loop),
)


@pytest.mark.parametrize("f", AT_THEIR_PLACES, ids=lambda f: f.__name__)
def test_what_a_mask_chooses_stays_at_its_places(f: Any) -> None:
    first, *points = np.random.default_rng(1).normal(size=(4, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error", sparse.DenseBlockWarning)
        jac = sparse.jacobian(f, first)
        hess = sparse.hessian(lambda x: np.sum(f(x) ** 2), first)
    assert jac.sparsity == sparse.SparsityPattern.of(LINE) or f is in_pieces
    assert jac.sparsity.nnz == hess.sparsity.nnz == 6
    for x in points:
        np.testing.assert_allclose(jac(x).toarray(), calque.jacfwd(f)(x), rtol=1e-12, atol=1e-14)
        wanted = calque.hessian(lambda x: np.sum(f(x) ** 2))(x)
        np.testing.assert_allclose(hess(x).toarray(), wanted, rtol=1e-10, atol=1e-12)


# places are lost


def summed(x):
    return np.sum(x[x > 0.0] ** 2) * np.ones(6)


def turned(x):
    y = np.zeros(6)
    y[x > 0.0] = x[x > 0.0][::-1]
    return y


def of_other_masks(x):
    y = np.zeros(6)
    y[x > 0.0] = np.sort(x)[: np.sum(x > 0.0)]
    return y


def first_of_chosen(x):
    return x[np.flatnonzero(x > -9.0)[0]] * x


def sorted_without_repetitions(x):
    return np.sum(np.unique(x)) + 0.0 * x


def window(x):
    k = np.argmax(x[:4])
    return np.sum(x[k : k + 2]) * x


def appended(x):
    values, t = [], 0.0
    while t < abs(x[0]) + 0.5:
        values.append(x * t)
        t += 0.3 + x[1] ** 2
    total = 0.0
    for value in values:
        total = total + np.sum(value)
    return total * x


def least_squares(x):
    a = np.arange(12.0).reshape(6, 2) % 5.0 + x[:, None]
    found, left, _, _ = np.linalg.lstsq(a, np.cos(x), rcond=None)
    return found[0] * x + np.sum(left)


DENSE: tuple[Callable[..., Any], ...] = (
    *(summed, turned, of_other_masks, first_of_chosen, sorted_without_repetitions),
    *(window, appended, least_squares),
)


@pytest.mark.filterwarnings("ignore:.*taken to")
@pytest.mark.parametrize("f", DENSE, ids=lambda f: f.__name__)
def test_other_parts_are_dense(f: Any) -> None:
    points = np.random.default_rng(2).normal(size=(6, 6))
    jac = sparse.jacobian(f, points[0])
    for x in points:
        np.testing.assert_allclose(jac(x).toarray(), calque.jacfwd(f)(x), rtol=1e-10, atol=1e-12)
    assert jac.sparsity == sparse.SparsityPattern.of(ALL) or f is summed


def of_one_of_two_sizes(x):
    y = x[:2] * 1.0 if x[0] > 0.0 else x[1:4] * x[1:4]
    return np.sum(y) * np.ones(6)


def test_arms_of_other_sizes_are_joined() -> None:
    pattern = sparse.jacobian_sparsity(of_one_of_two_sizes, np.ones(6))
    assert pattern.cols.tolist() == [0, 1, 2, 3] * 6


def test_a_size_by_values_in_the_result_is_refused() -> None:
    def f(x):
        return np.concatenate([x[x > 0.0], x[x <= 0.0]])

    with pytest.raises(SparsityUndecided, match="the size of an array depends on the inputs") as e:
        sparse.jacobian(f, np.ones(3))
    assert "x[x > 0.0]" in str(e.value)


STATEMENTS = """
p = x[{m}]
p = {v}[{m}]
p = np.sin(p) * x[1]
p = p[::-1]
p = p - np.mean(p)
p = np.cumsum(p)
p = p[p > 0.1]
p = np.concatenate([p, p])
p = np.sort(p)
v = {v} * 1.0; v[{m}] = np.cos({v}[{m}])
v = {v} * 1.0; v[{m}] += x[{m}] * 0.5
v = {v} * 1.0; v[x > 0.1] *= x[0]
v = {v} * np.sum(p)
v = x * 1.0; v[: len(p[:6])] += p[:6]
v = np.where({m}, {v}, x[::-1])
""".strip().split("\n")
MASKS = ("x > 0.1", "{v} < 0.5", "np.abs(x) > 0.3", "~(x > 0.1)", "(x > 0.0) & ({v} < 1.0)")


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.filterwarnings("ignore")
def test_random_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = ["def program(x):", "    v, p = x * 1.0, x[x > 0.1]"]
    for line in rng.choice(STATEMENTS, 5):
        for part in line.split("; "):
            mask = rng.choice(MASKS).format(v="v")
            lines.append("    " + part.format(m=mask, v=rng.choice(["v", "x"])))
    lines.append("    return np.append(v, np.sum(p**2))")
    f = loaded("import numpy as np\n\n" + "\n".join(lines) + "\n", f"<random parts {seed}>")
    points = rng.normal(size=(12, 6))
    pattern = sparse.jacobian_sparsity(f, points[0]).to_scipy().toarray()
    with np.errstate(all="ignore"):
        slopes = [np.nan_to_num(calque.jacfwd(f)(x)) for x in points]
    assert not (~pattern & (np.abs(slopes) > 1e-12).any(axis=0)).any(), "\n".join(lines)
