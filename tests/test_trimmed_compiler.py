"""Kernels compiled with less: the same numbers as with all of Numba, and as NumPy's."""

from __future__ import annotations

import gc
import inspect
import itertools

import numba
import numpy as np
import pytest
from sampling import FEW

import calque
from calque.runtime.gc_pause import uncollected
from calque.runtime.kernels import (
    kernel_functions,
    llvm_numbers,
    matrix_functions,
    trimmed_compiler,
)
from calque.runtime.kernels.trimmed_compiler import quick

VALUES = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan]
PLAIN = {"maximum": np.maximum, "minimum": np.minimum, "heaviside": np.heaviside, "sign": np.sign}


def looped(function, count):
    if count == 1:

        def loop(x, y, out):
            for i in range(out.size):
                out[i] = function(x[i])

    else:

        def loop(x, y, out):
            for i in range(out.size):
                out[i] = function(x[i], y[i])

    flags = {"fastmath": {"contract", "reassoc"}, "error_model": "numpy"}
    return numba.njit(**flags)(loop)


TYPES = ["dd", "ff", "qq", "dq", "fq", "fd"]  # the sign is of the first number alone
CASES = [
    (name, types)
    for name in [*PLAIN, "divide"]
    for types in (TYPES[:3] if name == "sign" else TYPES)
]


@pytest.mark.parametrize("name, types", CASES)
def test_functions_on_numbers(name, types):
    """Written in LLVM, or by Numba where they are not: NumPy's numbers, and those of a saved module."""
    plain = getattr(kernel_functions, name)
    count = plain.__code__.co_argcount
    with np.errstate(all="ignore"):
        x, y = (np.array(VALUES, t) if t != "q" else np.arange(-6, 6) for t in types)
        x, y = (a.ravel() for a in np.meshgrid(x, y))
        if name == "divide":
            x, y = x[y != 0], y[y != 0]
            wanted = np.true_divide(x, y)
        else:
            wanted = PLAIN[name](*(x, y)[:count])
        if name in ("heaviside", "sign"):
            wanted = wanted.astype(x.dtype)  # as kernels have it
    found = [np.empty_like(wanted), np.empty_like(wanted)]
    looped(llvm_numbers.DIRECT[plain], count)(x, y, found[0])
    looped(plain, count)(x, y, found[1])
    assert found[0].tobytes() == found[1].tobytes() or np.isnan(wanted).any()
    for got in found:
        assert np.array_equal(got, wanted, equal_nan=True)


@pytest.mark.parametrize("kinds", [(1.0, 0.0), (1, 0), (np.float32(1), np.float32(0)), (0.0, -0.0)])
def test_a_division_by_zero_is_pythons(kinds):
    divide = llvm_numbers.DIRECT[kernel_functions.divide]
    compiled = numba.njit(error_model="numpy")(lambda a, b: divide(a, b))
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        compiled(*kinds)


def named_again(x, y):
    """Names with several values: in one block, before a loop and in it, in arms."""
    a = x + 1.0
    b = a * y
    a = b - a
    a = a * a + b
    total = a
    for i in range(4):
        c = total * 0.5 + i
        d = c
        c = c + y
        c = c * d
        if c > y:
            b = b + c
            b = b - 1.0
        total = total + c - b
        y = y + 0.25
        y = y * 1.5
    return total, a, b, y


def test_names_that_are_assigned_again():
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(named_again)
    for x, y in [(0.5, 1.0), (-2.0, 0.1), (3.0, -4.0)]:
        assert np.allclose(compiled(x, y), named_again(x, y), rtol=1e-14)


def random_function(seed):
    """A function of loops and arms that assign and read the same few names."""
    rng = np.random.default_rng(seed)
    lines = ["def f(a, b):", "    c = a - b", "    d = 0.5 * b"]

    def value():
        x, y = rng.choice(list("abcd"), 2)
        return rng.choice([f"0.5 * {x} + {y}", f"{x} - 0.25 * {y}", f"abs({x}) * 0.5 - 1.0", x])

    def block(depth, indent):
        for k in range(rng.integers(1, 4)):
            kind = rng.integers(0, 5) if depth < 3 else 0
            inner = indent + "    "
            if kind == 4:
                lines.append(f"{indent}for i{depth}{k} in range({rng.integers(0, 4)}):")
                block(depth + 1, inner)
                if rng.random() < 0.5:
                    lines.extend([f"{inner}if {value()} > 1.0:", f"{inner}    break"])
            elif kind == 3:
                lines.append(f"{indent}if {value()} > {value()}:")
                block(depth + 1, inner)
                if rng.random() < 0.7:
                    lines.append(f"{indent}else:")
                    block(depth + 1, inner)
            else:
                lines.append(f"{indent}{rng.choice(list('abcd'))} = {value()}")

    for _ in range(3):
        block(0, "    ")
    namespace = {}
    exec("\n".join([*lines, "    return a, b, c, d"]), namespace)
    return namespace["f"]


@pytest.mark.parametrize("seed", range(12))
def test_names_in_random_functions(seed):
    plain = random_function(seed)
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(plain)
    for x, y in [(0.5, 1.0), (-2.0, 0.1), (3.0, -4.0), (0.0, 0.0), (7.5, 7.5)]:
        np.testing.assert_allclose(compiled(x, y), plain(x, y), rtol=1e-13)


def row_of_its_own(x, y):
    out = 0.0
    for i in range(x.shape[0]):
        row = np.empty(x.shape[1])
        for j in range(x.shape[1]):
            row[j] = x[i, j] * y[j]
        part = x[i]
        for j in range(part.size):
            out += row[j] + part[j]
    return out


def gives_an_array(x, y):
    return x[1] if y[0] > 0.0 else y


def gives_a_new_array(x, y):
    return x[0] + y


def chosen(x, y):
    total = 0.0
    for row in range(2):
        total += x[row][y > 0.0].sum()
    return total


def gives_several(x, y):
    count, some = 0, x.shape
    for v in y:
        count += v > 0.0
    return count, some[0], x[0, 0]


def refuses(x, y):
    if y[0] > 0.0:
        raise ValueError(f"{x.shape[0]} rows")
    return 0.0


@pytest.mark.parametrize(
    "function", [row_of_its_own, gives_an_array, gives_a_new_array, chosen, gives_several, refuses]
)
def test_memory_that_a_kernel_holds(function):
    """References are counted only where something is to be let go of."""
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(function)
    x, y = np.arange(12.0).reshape(3, 4), np.array([1.0, -1.0, 2.0, 3.0])
    for k in range(3):
        if function is refuses:
            with pytest.raises(ValueError, match="3 rows"):
                compiled(x.copy(), y.copy())
            continue
        found = compiled(x.copy(), y.copy())
        if k == 2:  # it goes through all that the tests before have made
            gc.collect()
        np.testing.assert_allclose(found, function(x, y), rtol=1e-15)


def changing_types(n):
    """Types that a later statement changes, and arms of several."""
    total, count = 0, 0
    for i in range(n):
        if i % 3 == 0:
            total = total + 0.5
        elif i % 3 == 1:
            count = count + total
            continue
        total = total * count + i
    return total, count


def test_types_that_change_in_a_loop():
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(changing_types)
    for n in (0, 1, 2, 7):
        assert compiled(n) == changing_types(n)


def test_a_type_error_says_where_it_is():
    def wrong(x):
        y = x + 1.0
        return y + "text"

    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(wrong)
    with pytest.raises(numba.TypingError, match=r"(?s)test_trimmed_compiler.py.*line \d+.*unicode|text"):
        compiled(1.0)


def long_line(x, y):
    a, b = x, y
    for _ in [0] * 8:
        a, b = np.sin(a) * np.cos(b) + np.tanh(b), np.exp(-a * a) + np.log1p(b * b)
    return a + b


def test_many_calls_of_vector_functions_stay_calls():
    """More than are inlined: what a loop calls for several numbers at once."""
    x, y = np.random.default_rng(0).normal(size=(2, 1003))
    compiled = calque.jit(long_line)
    assert np.allclose(compiled(x, y), long_line(x, y), rtol=1e-13)
    gradient = calque.jit(calque.grad(lambda x, y: np.sum(long_line(x, y))))
    direction = np.cos(np.arange(x.size))
    step = 1e-6
    sides = [np.sum(long_line(x + s * direction, y)) for s in (step, -step)]
    slope = np.vdot(gradient(x, y), direction)
    assert np.isclose(slope, (sides[0] - sides[1]) / (2 * step), rtol=1e-6)
    assert np.array_equal(calque.jit(long_line, parallel=True)(x, y), compiled(x, y))


def test_collection_is_left_as_it_was():
    with pytest.raises(KeyError), uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def turned(x):
    return np.transpose(x, (1, 2, 0))


def in_other_sizes(x):
    return x.reshape(x.shape[1], x.shape[0], x.shape[2])


def in_fixed_sizes(x):
    return x[1].reshape(6, 2)


def flattened(x):
    return x.reshape(-1)


def stores_rows(x):
    out = np.zeros((3, x.shape[1], x.shape[2]))
    out[1] = x[0]
    out[2, 1:] = x[1, 0]
    out[:, :, 0] = 2.0
    return out


X = np.arange(24.0).reshape(2, 3, 4)
VIEWS = [turned, in_other_sizes, in_fixed_sizes, flattened, stores_rows]


@pytest.mark.parametrize("function", VIEWS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", [X, X.astype(np.float32), X[:, :, ::-1], X[::-1]])
def test_views_are_numpys(function, x):
    if function in (in_other_sizes, flattened) and not x.flags.c_contiguous:
        return  # no view is there: calque has a kernel reshape what is known to be contiguous
    x = np.array(x, order="C") if function is in_fixed_sizes else x
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(function)
    found, wanted = compiled(x), function(x)
    assert found.dtype == wanted.dtype and found.strides == wanted.strides
    np.testing.assert_array_equal(found, wanted)


def test_what_does_not_fit_is_refused():
    def into_seven(x):
        return x.reshape(7, 2)

    def gaps(x):
        return x.reshape(12, 1)

    def row(x, y):
        x[0] = y
        return x

    def compiled(function):
        return numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(function)

    for x in (np.zeros(12), np.zeros((3, 4)), np.zeros((0, 2))):
        with pytest.raises(ValueError, match="cannot reshape"):
            compiled(into_seven)(x)
    with pytest.raises(ValueError, match="not contiguous"):
        compiled(gaps)(np.zeros((6, 4))[:, ::2])
    with pytest.raises(ValueError, match="could not broadcast"):
        compiled(row)(np.zeros((2, 3)), np.zeros(4))
    np.testing.assert_array_equal(compiled(row)(np.zeros((2, 3)), np.ones(1)), [[1] * 3, [0] * 3])


def test_an_array_outlives_what_it_is_a_view_of():
    def made(n):
        return np.transpose(np.full((n, 2, 3), 7.0).reshape(2, n, 3), (2, 0, 1))

    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(made)
    kept = [compiled(n) for n in range(1, 200)]
    assert all((view == 7.0).all() and view.shape == (3, 2, n + 1) for n, view in enumerate(kept))


KINDS = ["f", "d", "F", "D", "q"] if not FEW else ["F"]  # each compiles for 3 seconds
LAYOUTS = [np.ascontiguousarray, np.asfortranarray, lambda a: a.repeat(2, 1)[:, ::2], np.flipud]


def with_matrices(a, b, c):
    """Functions of small matrices, as kernels call them."""
    found = matrix_functions.solve(a, b), matrix_functions.solve(a, c)
    return *found, matrix_functions.matrix_inverse(a), matrix_functions.determinant(a)


def with_complex_matrices(a, b, c):
    """The same where the determinant may be complex."""
    found = matrix_functions.solve(a, b), matrix_functions.solve(a, c)
    return *found, matrix_functions.matrix_inverse(a), matrix_functions.complex_determinant(a)


def with_determinant(a):
    return matrix_functions.determinant(a)


def with_factors(a):
    return matrix_functions.sign_and_logdet(a), matrix_functions.cholesky_factor(a)


def as_kernels(function):
    compiled = numba.njit(error_model="numpy", pipeline_class=quick(numba.core.compiler.Compiler))
    return compiled(of_names(function))


def of_names(function):
    """The same with the functions by their names, as in the text of kernels."""
    names = {n: getattr(matrix_functions, n) for n in matrix_functions.__dict__}
    text = inspect.getsource(function).replace("matrix_functions.", "")
    space = {**names, "np": np}
    exec(text, space)
    return space[function.__name__]


@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_every_layout_in_memory(kind):
    rng = np.random.default_rng(1)
    tolerance = 1e-4 if kind in "fF" else 1e-12
    compiled, known = as_kernels(with_complex_matrices if kind in "FD" else with_matrices), set()
    for size, laid in itertools.product((1, 2, 5), LAYOUTS):
        a = (4 * rng.normal(size=(size, size)) + 9 * np.eye(size)).astype(kind)
        if kind in "FD":
            a += (1j * rng.normal(size=(size, size))).astype(kind)
        b, c = (5 * rng.normal(size=(2, size, 3))).astype(kind)
        given = laid(a), b[:, 0], laid(c)
        wanted = np.linalg.solve(given[0], given[1]), np.linalg.solve(given[0], given[2])
        wanted = *wanted, np.linalg.inv(given[0]), np.linalg.det(given[0])
        for got, right in zip(compiled(*given), wanted, strict=True):
            assert np.ndim(got) == 0 or got.dtype == right.dtype
            np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance)
        known.add(trimmed_compiler._part_of_matrices.cache_info().currsize)
    assert len(known) == 1  # no layout needs code of its own


@pytest.mark.parametrize("kind", ["f", "d"])
def test_factors_of_every_layout_in_memory(kind):
    a = np.array([[4.0, 1.0, -0.5], [1.0, 3.0, 0.25], [-0.5, 0.25, 2.0]], kind)
    compiled = as_kernels(with_factors)
    for laid in LAYOUTS[:3]:
        (sign, logarithm), low = compiled(laid(a))
        np.testing.assert_allclose((sign, logarithm), np.linalg.slogdet(a), rtol=1e-6)
        np.testing.assert_allclose(low, np.linalg.cholesky(a), rtol=1e-6)


def test_a_singular_matrix_is_refused_and_its_determinant_is_zero():
    compiled = as_kernels(with_matrices)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        compiled(np.ones((2, 2)), np.ones(2), np.ones((2, 1)))

    found = as_kernels(with_determinant)
    assert found(np.ones((2, 2))) == 0.0
    assert found(np.zeros((0, 0))) == 1.0
    wide = np.diag([1e200, -1e200, 1e-200, 1e-200])  # a part of the product is out of range
    np.testing.assert_allclose(found(wide), -1.0)


def new_arrays(n, m, x):
    a, b, c = np.empty(n), np.empty((n, m), np.float32), np.empty((n, 2), dtype=np.int64)
    a[:], b[:], c[:] = 1.0, 2.0, 3
    like = np.empty_like(x)
    like[:] = x
    zeros = np.zeros(n), np.zeros((m, n), dtype=np.bool_), np.zeros_like(x)
    return a, b, c, like, *zeros, np.zeros_like(x, dtype=np.complex128)


@pytest.mark.parametrize("turned", [lambda x: x, np.transpose, lambda x: x[::-1, ::2]])
def test_new_arrays(turned):
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(new_arrays)
    x = turned(np.arange(24.0).reshape(4, 6))
    for n, m in [(0, 0), (0, 3), (1, 2), (5, 7)]:
        found, wanted = compiled(n, m, x), new_arrays(n, m, x)
        for got, right in zip(found, wanted, strict=True):
            assert (got.dtype, got.shape) == (right.dtype, right.shape)
            assert np.array_equal(got, right)


def test_new_arrays_that_cannot_be():
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(
        lambda n, m: np.empty((n, m)).size
    )
    for sizes in [(-1, 2), (2, -1), (2**40, 2**40), (2**61, 1)]:
        with pytest.raises(ValueError, match="negative dimensions|too big"):
            compiled(*sizes)


def test_a_reshape_into_one_axis():
    compiled = numba.njit(pipeline_class=quick(numba.core.compiler.Compiler))(
        lambda x: x.reshape(-1)
    )
    for x in (np.arange(6.0).reshape(2, 3), np.zeros((0, 4)), np.arange(4.0), np.ones((2, 1, 3))):
        assert np.array_equal(compiled(x), x.reshape(-1))
    flat = compiled(whole := np.zeros((2, 2)))
    flat[:] = 1.0
    assert whole.all()  # a view
    one = np.arange(12.0).reshape(3, 4)[:1, :]
    assert np.array_equal(compiled(one), one.ravel())
    with pytest.raises(ValueError, match="not contiguous"):
        compiled(np.arange(12.0).reshape(3, 4)[:, :2])
