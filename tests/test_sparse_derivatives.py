"""``calque.sparse``: matrices equal dense ones, patterns hold for all inputs, colours tell apart."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.ndimage
from sampling import sampled
from test_battery import ACCEPTED, of_moving

import calque
from calque import sparse
from calque.transpiler.errors import NotDifferentiable, SparsityUndecided, WrongDerivative

scipy_sparse = pytest.importorskip("scipy.sparse")


def brusselator(u):
    n = len(u) // 2
    side = int(n**0.5)
    a, b = u[:n].reshape(side, side), u[n:].reshape(side, side)

    def spread(z):
        return np.roll(z, 1, 0) + np.roll(z, -1, 0) + np.roll(z, 1, 1) + np.roll(z, -1, 1) - 4.0 * z

    grown = a * a * b
    return np.concatenate(
        [(1.0 + grown - 4.4 * a + spread(a)).ravel(), (3.4 * a - grown + spread(b)).ravel()]
    )


def stencil(x):
    y = np.zeros_like(x)
    y[1:-1] = x[2:] - 2.0 * x[1:-1] + x[:-2] ** 2
    return y * x


def branches(x):
    y = np.empty(len(x))
    for i in range(len(x)):
        if x[i] > 0.5:
            y[i] = x[i - 1] ** 2
        else:
            y[i] = np.sin(x[(i + 1) % len(x)])
    return y


def until(x):
    y = x.copy()
    while np.max(y) > 0.1:
        y[1:] = 0.5 * y[1:] + 0.1 * y[:-1]
        y[0] *= 0.5
    return y


def masked(x):
    keep = np.arange(len(x)) % 3 != 0
    return np.where(keep, x**2, 0.0) + np.where(x > 0.5, x[::-1], 1.0)


def gathered(x):
    ends = np.array([[0, 1], [1, 3], [2, 5], [5, 0]])
    lengths = (x[ends[:, 0]] - x[ends[:, 1]]) ** 2
    pulls = np.zeros_like(x)
    np.add.at(pulls, ends[:, 0], lengths)
    return pulls


def product(x):
    return (np.eye(6) + 2.0 * np.eye(6, k=2)) @ x**2


def joined(x):
    return np.stack([x[:3], x[3:] * x[0]]).T


def total(x):
    return np.array([np.sum(x[:2]), np.max(x[3:])])


def nested(x):
    return {"last": x[-1] * x[-2], "first": [x[:2] ** 3, x[3]]}


def batched(x):
    return calque.vmap(lambda a, b: a * np.array([b, b**2]))(x[1:], x[:-1])


def steps(x):
    u = x.copy()
    for _ in range(2):
        u[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return u


def solved(x):
    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    return np.linalg.solve(a, x.reshape(2, 3))


PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "brusselator": (brusselator, 50),
    **{f.__name__: (f, 6) for f in (stencil, branches, until, masked, gathered, product, joined)},
    **{f.__name__: (f, 6) for f in (total, nested, batched, steps, solved)},
}


def dense(f: Callable[..., Any], x: Any) -> Any:
    """The Jacobian of a function of one vector by unit tangents, a row for each number."""
    columns = []
    for unit in np.eye(len(x)):
        leaves = calque.tree_leaves(calque.jvp(f, (x,), (unit,))[1])
        columns.append(np.concatenate([np.ravel(leaf) for leaf in leaves]))
    return np.stack(columns, axis=1)


def points(size: int, count: int = 3) -> list[Any]:
    return [*np.random.default_rng(size).uniform(0.05, 1.0, (count, size))]


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
@pytest.mark.parametrize("name", PROGRAMS)
def test_jacobians_equal_dense_ones(name: str, mode: str | None) -> None:
    f, size = PROGRAMS[name]
    first, *others = points(size)
    jac = sparse.jacobian(f, first, mode=mode)
    for x in (first, *others):
        found = jac(x)
        np.testing.assert_allclose(found.toarray(), dense(f, x), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(found.indices, jac.sparsity.indices)
    assert jac.coloring.mode == mode or mode is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_hessians_equal_dense_ones(name: str) -> None:
    f, size = PROGRAMS[name]

    def loss(x):
        leaves = calque.tree_leaves(f(x))
        return sum([np.sum(leaf**2 * np.cos(leaf)) for leaf in leaves])

    first, other, _ = points(size)
    found = sparse.hessian(loss, first)
    for x in (first, other):
        matrix = found(x)
        wanted = calque.hessian(loss)(x)
        np.testing.assert_allclose(matrix.toarray(), wanted, rtol=1e-9, atol=1e-10)


EXACT = {
    "stencil": 14,
    "branches": 12,
    "gathered": 8,
    "product": 10,
    "joined": 9,
    "total": 5,
    "nested": 5,
    "solved": 12,
}


@pytest.mark.parametrize("name", EXACT)
def test_patterns_are_as_small_as_they_can_be(name: str) -> None:
    f, size = PROGRAMS[name]
    pattern = sparse.jacobian_sparsity(f, points(size)[0])
    assert pattern.nnz == EXACT[name]


@pytest.mark.parametrize("program", sampled(ACCEPTED, 12), ids=lambda program: program.id)
def test_hessians_of_the_battery_are_in_their_patterns(program: Any) -> None:
    f = of_moving(program, program.scalar())
    args = [program.fresh()[k] for k in program.diff]
    leaves = calque.tree_leaves(args)
    if sum(np.size(leaf) for leaf in leaves) > 60 or any(np.iscomplexobj(leaf) for leaf in leaves):
        return
    numbers = tuple(range(len(args)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.DenseBlockWarning)
        try:
            found = sparse.hessian(f, *args, argnums=numbers)
        except SparsityUndecided:
            return
    matrix = found(*args).toarray()
    flat, unravel = calque.ravel_pytree(tuple(args))
    columns = [
        calque.ravel_pytree(calque.hvp(f, tuple(args), unravel(e)))[0] for e in np.eye(len(flat))
    ]
    np.testing.assert_allclose(matrix, np.stack(columns), rtol=1e-7, atol=1e-8)


# beside the rest of calque


def test_matrices_are_checked() -> None:
    x = points(6)[0]
    report = calque.check(sparse.jacobian(stencil, x), x)
    assert report.agrees and len(report.rows) == 1
    wrong = sparse.jacobian(stencil, x, sparsity=np.eye(6))
    with pytest.raises(WrongDerivative):
        calque.check(wrong, x)


def test_the_program_is_shown() -> None:
    x = points(6)[0]
    jac = sparse.jacobian(stencil, x)
    text = calque.source(jac, x, stage="numpy")
    assert "def stencil_entries" in text and "[places]" in text
    assert "@kernel" in calque.source(jac, x)


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


# arguments and results


class Fit(NamedTuple):
    rate: float
    shape: Any


def residuals(fit, t, scale):
    return scale * fit.shape[0] * np.exp(-fit.rate * t) + fit.shape[1]


def test_structures_and_several_arguments() -> None:
    fit, t = Fit(0.5, np.array([2.0, 1.0])), np.linspace(0.0, 1.0, 4)
    jac = sparse.jacobian(residuals, fit, t, 3.0, argnums=(0, 2))
    tree = calque.jacfwd(residuals, argnums=(0, 2))(fit, t, 3.0)
    wanted = np.column_stack([tree[0].rate, tree[0].shape, tree[1]])
    np.testing.assert_allclose(jac(fit, t, 3.0).toarray(), wanted, rtol=1e-13)
    assert jac.sparsity.nnz == 4 * 3 + 4  # the second of shape only adds


def test_values_and_aux() -> None:
    x = np.array([0.3, 0.7, 0.9])

    def with_aux(x):
        return x[1:] * x[:-1], {"sum": np.sum(x)}

    def loss(x):
        return np.sum(x**3), x[0]

    matrix, aux = sparse.jacobian(with_aux, x, has_aux=True)(x)
    assert aux["sum"] == np.sum(x) and matrix.nnz == 4
    (value, aux), matrix = sparse.value_and_jacobian(with_aux, x, has_aux=True)(x)
    np.testing.assert_array_equal(value, x[1:] * x[:-1])
    value, matrix = sparse.value_and_jacobian(stencil, x)(x)
    np.testing.assert_array_equal(value, stencil(x))
    value, matrix = sparse.value_and_hessian(lambda x: np.sum(x**3), x)(x)
    assert value == np.sum(x**3)
    np.testing.assert_allclose(matrix.toarray(), np.diag(6.0 * x))
    matrix, aux = sparse.hessian(loss, x, has_aux=True)(x)
    assert aux == x[0]
    (value, aux), matrix = sparse.value_and_hessian(loss, x, has_aux=True)(x)
    assert (value, aux) == (np.sum(x**3), x[0])


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dense"])
def test_formats(format: str) -> None:
    x = np.ones(4)
    found = sparse.jacobian(stencil, x, format=format)(x)
    if format != "dense":
        assert found.format == format
        found = found.toarray()
    np.testing.assert_allclose(found, dense(stencil, x))


def test_chunks() -> None:
    x = points(50)[0]
    whole, parts = sparse.jacobian(brusselator, x), sparse.jacobian(brusselator, x, chunk_size=2)
    np.testing.assert_allclose(parts(x).data, whole(x).data, rtol=1e-14)


def test_single_precision_stays() -> None:
    x = np.linspace(0.1, 1.0, 5, dtype=np.float32)
    assert sparse.jacobian(stencil, x)(x).dtype == np.float32


def test_a_known_pattern_is_used() -> None:
    x = np.ones(5)
    jac = sparse.jacobian(stencil, x, sparsity=np.ones((5, 5)))
    assert jac.sparsity.nnz == 25 and jac.coloring.num_colors == 5
    np.testing.assert_allclose(jac(x).toarray(), dense(stencil, x))


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
        ValueError, match=r"hessian: stencil must return one number, and returns f8\[4\]"
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


def test_a_part_at_an_unknown_place_is_refused():
    def window(x):
        k = np.argmax(x[:4])
        return np.sum(x[k : k + 2]) * x

    with pytest.raises(SparsityUndecided, match="the size of an array depends on the inputs"):
        sparse.jacobian(window, np.arange(6.0))


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
    jac = sparse.jacobian(lambda x: x**2, np.array([1, 2, 3]))
    np.testing.assert_array_equal(jac(x).toarray(), np.diag(2.0 * x))


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


# rules of the user's, other kinds of arguments and results


@calque.custom_jvp
def rounded(x):
    return np.round(x)


@rounded.defjvp
def _(primals, tangents):
    return rounded(primals[0]), tangents[0]


@calque.custom_jvp
def spread(x):
    return x * 1.0


@spread.defjvp
def _(primals, tangents):
    return spread(primals[0]), np.cumsum(tangents[0])


@calque.custom_vjp
def clipped(x):
    return np.clip(x, -0.5, 0.5)


clipped.defvjp(lambda x: (clipped(x), None), lambda _, bar: (bar[::-1],))


@pytest.mark.parametrize(
    ("f", "wanted", "mode"),
    [
        (rounded, np.eye(3), "forward"),
        (spread, np.tril(np.ones((3, 3))), None),
        (clipped, np.eye(3)[::-1], "reverse"),
    ],
    ids=["rounded", "spread", "clipped"],
)
def test_rules_of_the_user_decide_the_pattern(f: Any, wanted: Any, mode: str | None) -> None:
    x = np.array([0.2, 0.7, -0.4])
    jac = sparse.jacobian(lambda x: f(x), x)
    np.testing.assert_array_equal(jac(x).toarray(), wanted)
    assert jac.sparsity.nnz == np.count_nonzero(wanted)
    assert mode in (None, jac.coloring.mode)


def test_arguments_that_are_no_numbers() -> None:
    def f(x, how, g, *, none=None):
        return g(x) if how == "whole" else g(x[:2])

    x = np.array([0.1, 0.2, 0.3])
    jac = sparse.jacobian(f, x, "whole", np.sin)
    np.testing.assert_allclose(jac(x, "whole", np.sin).toarray(), np.diag(np.cos(x)))
    np.testing.assert_allclose(jac(x, "half", np.cos).toarray(), -np.diag(np.sin(x))[:2])


def test_complex_results_take_forward_mode() -> None:
    x = np.array([1.0, 2.0])
    jac = sparse.jacobian(lambda x: np.sum(x * 1j) + x[0], x)
    np.testing.assert_array_equal(jac(x).toarray(), [[1.0 + 1j, 1j]])
    with pytest.raises(NotDifferentiable, match="has no Jacobian in reverse mode"):
        sparse.jacobian(lambda x: x * 1j, x, mode="reverse")
    with pytest.raises(NotDifferentiable, match="an argument is complex"):
        sparse.jacobian(lambda z: np.abs(z) ** 2, x * 1j)


def test_sorts_and_medians_are_dense_where_they_mix() -> None:
    x = np.array([[3.0, 1.0, 2.0], [0.5, 0.1, 0.9]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.DenseBlockWarning)
        jac = sparse.jacobian(lambda x: np.sort(x, axis=1) + np.median(x, axis=1)[:, None], x)
    assert jac.sparsity.nnz == 18
    wanted = calque.jacfwd(lambda x: np.sort(x, axis=1) + np.median(x, axis=1)[:, None])(x)
    np.testing.assert_allclose(jac(x).toarray(), wanted.reshape(6, 6))
