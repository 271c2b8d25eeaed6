"""Patterns and their colours: what they are decided by, and when they are made anew."""

from __future__ import annotations

import functools
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal
from sparse_programs import brusselator, dense, stencil

import calque
from calque import sparse
from calque.transpiler.errors import DtypeError, NotDifferentiable, SparsityUndecided

# the pattern and its colours


def test_patterns() -> None:
    pattern = sparse.jacobian_sparsity(stencil, np.ones(5))
    assert pattern.shape == (5, 5)
    assert pattern.to_scipy().dtype == bool
    assert pattern == sparse.SparsityPattern.of(pattern.to_scipy())
    assert pattern.rows.tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert pattern.cols.tolist() == [0, 0, 1, 2, 1, 2, 3, 2, 3, 4, 4]
    assert str(pattern) == f"<SparsityPattern of 5 x 5 with 11 entries>\n{pattern.spy()}"
    assert pattern.density == 11 / 25


@pytest.mark.parametrize("seed", range(8))
def test_colours_of_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.random((30, 20)) < 0.1
    coloring = sparse.jacobian_coloring(matrix, mode="forward")
    for color in range(coloring.num_colors):
        assert matrix[:, coloring.colors == color].sum(axis=1).max() <= 1
    group_columns = pytest.importorskip("scipy.optimize._numdiff").group_columns
    theirs = group_columns(matrix.astype(int), np.arange(20)).max() + 1
    assert coloring.num_colors <= theirs
    values = np.where(matrix, rng.normal(size=matrix.shape), 0.0)
    compressed = coloring.seeds @ values.T
    np.testing.assert_array_equal(compressed.reshape(-1)[coloring.places], values[matrix])


@pytest.mark.parametrize("seed", range(8))
def test_colours_of_hessians(seed: int) -> None:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((25, 25)) < 0.08)
    matrix = upper | upper.T
    coloring = sparse.hessian_coloring(matrix)
    values = np.where(matrix, rng.normal(size=matrix.shape), 0.0)
    values = np.triu(values) + np.triu(values, 1).T
    compressed = coloring.seeds @ values
    np.testing.assert_array_equal(compressed.reshape(-1)[coloring.places], values[matrix])
    assert coloring.num_colors <= sparse.jacobian_coloring(matrix, mode="forward").num_colors


def test_compiled_colours_are_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.runtime.sparse import coloring

    pattern = sparse.jacobian_sparsity(brusselator, np.ones(200))
    plain = (
        sparse.jacobian_coloring(pattern.to_scipy()).colors,
        sparse.hessian_coloring(pattern.to_scipy()).colors,
    )
    monkeypatch.setattr(coloring, "_FEW_STEPS", -1)
    compiled = (
        sparse.jacobian_coloring(pattern.to_scipy()).colors,
        sparse.hessian_coloring(pattern.to_scipy()).colors,
    )
    for a, b in zip(plain, compiled, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_arrow_needs_its_rows_or_columns() -> None:
    row = sparse.jacobian_coloring(np.eye(30) + np.eye(1, 30).T)
    assert row.mode == "reverse" or row.num_colors == 2
    arrow = np.eye(30)
    arrow[0] = arrow[:, 0] = 1.0
    assert sparse.hessian_coloring(arrow).num_colors == 2


def test_colourings_are_saved(tmp_path: Any) -> None:
    x = np.ones(8)
    made = sparse.jacobian_coloring(stencil, x)
    made.save(tmp_path / "stencil.npz")
    read = sparse.ColoredPattern.load(tmp_path / "stencil.npz")
    assert read.sparsity == made.sparsity and read.mode == made.mode
    np.testing.assert_array_equal(read.colors, made.colors)
    found = sparse.jacobian_from_coloring(stencil, read, x)(x)
    np.testing.assert_allclose(found.toarray(), dense(stencil, x))
    np.savez(tmp_path / "other.npz", a=x)
    with pytest.raises(ValueError, match="holds no coloured pattern"):
        sparse.ColoredPattern.load(tmp_path / "other.npz")


# what the pattern was decided by


def test_other_sizes_are_prepared_anew() -> None:
    jac = sparse.jacobian(stencil, np.ones(5))
    np.testing.assert_allclose(jac(np.ones(7)).toarray(), dense(stencil, np.ones(7)))


def test_integers_and_captured_values_that_change_are_seen() -> None:
    weights = np.eye(3)

    def f(x, places):
        return weights @ x[places]

    x, places = np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2])
    jac = sparse.jacobian(f, x, places)
    assert jac.sparsity.nnz == 3
    turned = np.array([2, 0, 1])
    np.testing.assert_array_equal(jac(x, turned).toarray(), np.eye(3)[turned])
    weights[0, 2] = 5.0
    np.testing.assert_array_equal(jac(x, places).toarray(), weights)


def test_floats_of_other_arguments_decide_nothing() -> None:
    def f(x, switch):
        return x if switch > 0.0 else x[::-1] ** 2

    x = np.array([1.0, 2.0, 3.0])
    jac = sparse.jacobian(f, x, 1.0)
    np.testing.assert_array_equal(jac(x, 1.0).toarray(), np.eye(3))
    np.testing.assert_array_equal(jac(x, -1.0).toarray(), np.diag(2.0 * x[::-1])[:, ::-1])


def test_places_that_depend_on_values_warn_and_are_dense() -> None:
    def f(x):
        return x[np.argsort(x)]

    x = np.array([3.0, 1.0, 2.0])
    with pytest.warns(
        sparse.DenseBlockWarning, match=r"line \d+: the place that is read depends"
    ) as seen:
        jac = sparse.jacobian(f, x)
    assert "return x[np.argsort(x)]" in str(seen[0].message)
    np.testing.assert_array_equal(jac(x).toarray(), np.eye(3)[np.argsort(x)])
    np.testing.assert_array_equal(jac(-x).toarray(), np.eye(3)[np.argsort(-x)])


def test_sizes_that_depend_on_values_are_refused() -> None:
    with pytest.raises(SparsityUndecided, match="the size of an array depends on the inputs") as e:
        sparse.jacobian(lambda x: x[x > 0.5] ** 2, np.ones(3))
    assert "x[x > 0.5]" in str(e.value)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"argnums": 3}, ValueError),
        ({"argnums": (0, 0)}, ValueError),
        ({"mode": "sideways"}, (ValueError, TypeError)),
        ({"format": "lil"}, (ValueError, TypeError)),
        ({"chunk_size": 0}, (ValueError, TypeError)),
        ({"sparsity": np.ones(3)}, ValueError),
        ({"sparsity": np.ones((2, 2))}, ValueError),
    ],
)
def test_wrong_options(given: dict[str, Any], error: Any) -> None:
    with pytest.raises(error):
        sparse.jacobian(stencil, np.ones(4), **given)


def test_a_hessian_is_of_a_number() -> None:
    with pytest.raises(
        ValueError,
        match=r"hessian: stencil must return one number, and returns an array of shape \(4,\)",
    ):
        sparse.hessian(stencil, np.ones(4))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (5, 4), (4, 5)])
def test_a_pattern_of_another_size_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(
        ValueError, match=f"the pattern is {shape[0]} x {shape[1]}, and the derivative 4 x 4"
    ):
        sparse.jacobian(stencil, np.ones(4), sparsity=np.ones(shape))


@calque.checkpoint
def recomputed(x):
    return np.sin(x) * x


@calque.custom_jvp
def leaky(x):
    return np.where(x > 0, x, 0.1 * x)


@leaky.defjvp
def _(primals, tangents):
    return leaky(primals[0]), tangents[0] * np.where(primals[0] > 0, 1.0, 0.1)


@pytest.mark.parametrize("f", [recomputed, leaky], ids=["checkpoint", "custom_jvp"])
@pytest.mark.parametrize("what", [sparse.jacobian, sparse.value_and_jacobian])
def test_checkpoints_and_rules_of_the_user(f: Any, what: Any) -> None:
    x = np.linspace(-1.0, 1.0, 4)
    found = what(lambda x: f(f(x)) * x[::-1], x)(x)
    matrix = found if what is sparse.jacobian else found[1]
    assert matrix.nnz == 8
    np.testing.assert_allclose(matrix.toarray(), calque.jacfwd(lambda x: f(f(x)) * x[::-1])(x))


def test_moves_by_values_warn_and_are_dense() -> None:
    x = np.arange(1.0, 5.0)
    with pytest.warns(sparse.DenseBlockWarning, match="the places of elements depend on values"):
        jac = sparse.jacobian(lambda x: np.roll(x, int(x[0])), x)
    np.testing.assert_array_equal(jac(x).toarray(), np.roll(np.eye(4), 1, axis=0))
    np.testing.assert_array_equal(jac(x + 1.0).toarray(), np.roll(np.eye(4), 2, axis=0))


def a_row_somewhere(x):
    y = np.zeros((3, 4))
    y[np.argmax(x[:3])] = x[:4]
    return y


def some_rows(x):
    y = np.ones((3, 4))
    y[x[:3] > 0.0] = x[:4]
    return y


def a_column_somewhere(x):
    y = np.zeros((4, 3))
    y[:, np.argmax(x[:3])] += x[:4]
    return y.T


def a_place_in_each_row(x):
    y = np.zeros((4, 3))
    y[np.arange(4), np.argsort(x) % 3] = x
    return y.T


@pytest.mark.filterwarnings("ignore:.*taken to")
@pytest.mark.parametrize(
    "f",
    [a_row_somewhere, some_rows, a_column_somewhere, a_place_in_each_row],
    ids=lambda f: f.__name__,
)
def test_stores_at_unknown_places_are_dense_along_their_axis_alone(f: Any) -> None:
    x = np.array([0.3, -0.5, 0.9, 1.4])
    jac = sparse.jacobian(f, x)
    np.testing.assert_array_equal(jac.sparsity.to_scipy().toarray(), np.tile(np.eye(4), (3, 1)))
    for point in (x, -x, x[::-1]):
        np.testing.assert_array_equal(jac(point).toarray(), calque.jacfwd(f)(point).reshape(12, 4))


ONE_ROW = np.array([[0.0, 1.0, 0.0, 2.0, 0.0, 0.0]])
TWO_ROWS = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
MASK = np.array([[True, False, True], [False, True, False]])


def by_one_row(x):
    return np.concatenate([ONE_ROW @ x, (np.diag(np.arange(6.0)) @ x[:, None])[:, 0]])


def one_element_for_three(x):
    return np.einsum("ij,j->i", TWO_ROWS, x[1:2])


def masked_and_unplaced(x):
    A = np.broadcast_to(x, (2, 3, 6)) * np.arange(1.0, 37.0).reshape(2, 3, 6)
    return A[MASK, np.argsort(x)[:3]]


def part_of_a_row(x):
    return x.reshape(2, 3)[np.argmax(x) % 2, 0:2] * 2.0


def known_signal(x):
    return scipy.ndimage.correlate1d(np.arange(1.0, 7.0), x[:3])


def in_an_arm(x):
    if x[0] > 0:
        y = one_element_for_three(x)
    else:
        y = x[2:4]
    return y


RULES = (by_one_row, one_element_for_three, part_of_a_row, known_signal, in_an_arm)


@pytest.mark.filterwarnings("ignore:.*taken to")
@pytest.mark.parametrize("f", [*RULES, masked_and_unplaced], ids=lambda f: f.__name__)
def test_rules_of_rare_sizes(f):
    x = np.array([0.3, -0.5, 0.9, 1.4, -2.0, 0.7])
    jac = sparse.jacobian(f, x)
    for point in (x, -x):
        np.testing.assert_allclose(jac(point).toarray(), calque.jacfwd(f)(point), atol=1e-15)


KERNEL = np.array([1.0, 0.0, 2.0])
ROWS_AND_COLUMNS = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0]])
FILTERS: dict[str, Any] = {
    "correlate1d": lambda x: scipy.ndimage.correlate1d(x, KERNEL, mode="wrap"),
    "constant": lambda x: scipy.ndimage.convolve1d(x, KERNEL[:2], mode="constant"),
    "gaussian_filter": lambda x: scipy.ndimage.gaussian_filter1d(x, 0.5, truncate=2.0),
    "uniform_filter": lambda x: scipy.ndimage.uniform_filter(x.reshape(2, 3), 2),
    "convolve": lambda x: scipy.ndimage.convolve(x.reshape(3, 2), ROWS_AND_COLUMNS),
    "sobel": lambda x: scipy.ndimage.sobel(x.reshape(3, 2), axis=0),
    "laplace": lambda x: scipy.ndimage.laplace(x),
    "full": lambda x: scipy.signal.convolve(x, KERNEL),
    "same": lambda x: scipy.signal.correlate(x, KERNEL, mode="same"),
    "valid": lambda x: scipy.signal.fftconvolve(KERNEL, x, mode="valid"),
    "oaconvolve": lambda x: scipy.signal.oaconvolve(x.reshape(2, 3), KERNEL[None], axes=1),
    "convolve2d": lambda x: scipy.signal.convolve2d(x.reshape(3, 2), ROWS_AND_COLUMNS),
    "FIR": lambda x: scipy.signal.lfilter([1.0, 0.0, 0.5], [2.0], x),
    "IIR": lambda x: scipy.signal.lfilter([1.0], [1.0, -0.3], x.reshape(2, 3)),
    "savgol_filter": lambda x: scipy.signal.savgol_filter(x, 3, 1),
    "kernel": lambda x: scipy.signal.convolve(np.arange(1.0, 5.0), x[:2]),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_scipy_have_bands(name: str) -> None:
    f = FILTERS[name]
    x = np.array([0.3, -0.5, 0.9, 1.4, -2.0, 0.7])
    with warnings.catch_warnings():
        warnings.simplefilter("error", sparse.DenseBlockWarning)
        jac = sparse.jacobian(f, x)
    wanted = calque.jacfwd(f)(x).reshape(-1, 6)
    assert jac.sparsity == sparse.SparsityPattern.of(np.abs(wanted) > 1e-12)
    np.testing.assert_allclose(jac(x).toarray(), wanted, rtol=1e-12, atol=1e-14)


def numbers_read(settings):
    def f(x):
        y = settings["c"] * x[0] + x * x[settings["k"]]
        return np.cumsum(y) if settings["sums"] else y

    return f


@pytest.mark.parametrize("name, value", [("c", 2.0), ("k", 2), ("sums", True)])
def test_numbers_that_are_read_from_outside_may_change(name, value):
    settings, x = {"c": 0.0, "k": 1, "sums": False}, np.array([1.0, 2.0, 3.0])
    f = numbers_read(settings)
    jac = sparse.jacobian(f, x)
    np.testing.assert_array_equal(jac(x).toarray(), calque.jacfwd(f)(x))
    settings[name] = value
    np.testing.assert_array_equal(jac(x).toarray(), calque.jacfwd(f)(x))


def test_another_structure_or_dtype_is_prepared_anew():
    def f(x, p):
        return x * p["line"] if "line" in p else np.cumsum(x) * p["sum"]

    x = np.array([1.0, 2.0, 3.0])
    jac = sparse.jacobian(f, x, {"line": 2.0})
    np.testing.assert_array_equal(jac(x, {"sum": 2.0}).toarray(), np.tril(np.full((3, 3), 2.0)))
    jac = sparse.jacobian(lambda x: x**2, x.astype(np.float32))
    np.testing.assert_array_equal(jac(x).toarray(), np.diag(2.0 * x))
    assert jac(x).dtype == np.float64


def test_a_result_that_is_changed_changes_no_other():
    x = np.array([1.0, 2.0, 3.0])
    jac = sparse.jacobian(lambda x: np.array([x[0] * x[1], x[1] ** 2, x[2]]), x)
    wanted = jac(x).toarray()
    found = jac(np.array([0.0, 2.0, 3.0]))
    found.eliminate_zeros()
    np.testing.assert_array_equal(jac(x).toarray(), wanted)


def test_preparing_does_not_store_into_the_arguments():
    def f(x):
        x[0] = x[1] * 2.0
        return x * 3.0

    x = np.array([1.0, 2.0, 3.0])
    sparse.jacobian(f, x, mode="reverse")
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "f", [np.sin, np.diff, functools.partial(np.multiply, 2.0)], ids=["sin", "diff", "partial"]
)
def test_functions_of_libraries_and_partial_ones(f):
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(sparse.jacobian(f, x)(x).toarray(), calque.jacfwd(f)(x))


def test_colours_of_another_kind_are_refused():
    x = np.ones(3)
    with pytest.raises(ValueError, match="these are colours of mode 'symmetric'"):
        sparse.jacobian_from_coloring(lambda x: x, sparse.hessian_coloring(np.eye(3)), x)
    with pytest.raises(ValueError, match="these are colours of mode 'forward'"):
        sparse.hessian_from_coloring(np.sum, sparse.jacobian_coloring(np.eye(3)), x)


def test_threads_with_other_sizes():
    def f(x):
        return x[1:] * x[:-1]

    jac, faults = sparse.jacobian(f, np.ones(5)), []

    def work(n):
        x = np.arange(1.0, n + 1.0)
        wanted = calque.jacfwd(f)(x)
        for _ in range(30):
            try:
                np.testing.assert_array_equal(jac(x).toarray(), wanted)
            except Exception as fault:
                faults.append(fault)

    threads = [threading.Thread(target=work, args=(n,)) for n in (5, 7, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda x: sparse.jacobian(stencil, np.arange(4)),
            NotDifferentiable,
            "is of int64, not of floats",
        ),
        (
            lambda x: sparse.jacobian(stencil, np.float16(x)),
            DtypeError,
            "no sparse matrix is of float16",
        ),
        (
            lambda x: sparse.jacobian(stencil, x, sparsity="yes"),
            ValueError,
            "a pattern is a matrix",
        ),
        (
            lambda x: sparse.jacobian_from_coloring(stencil, None, x),
            TypeError,
            "must be a ColoredPattern",
        ),
        (
            lambda x: sparse.hessian_coloring(np.ones((2, 3))),
            ValueError,
            "is square, and this one is 2 x 3",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        call(np.ones(4))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_integers_in_a_result_have_no_derivative(mode: str) -> None:
    x = np.array([3.0, 1.0, 2.0])
    jac = sparse.jacobian(lambda x: (x**2, np.argsort(x), None), x, mode=mode)
    np.testing.assert_array_equal(jac(x).toarray(), np.vstack([np.diag(2.0 * x), np.zeros((3, 3))]))
    nothing = sparse.jacobian(lambda x: None, x, mode=mode)(x)
    assert nothing.shape == (0, 3)
