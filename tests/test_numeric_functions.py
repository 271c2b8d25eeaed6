"""NumPy, math and SciPy functions as users call them: bit-identical values, JAX's gradients at kinks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_eval import evaluate
from test_primitives import Derivative
from tracing import push_forward, trace_any

import calque
from calque.transpiler.errors import NotDifferentiable, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.primitives.record import PRIMITIVES

special = pytest.importorskip("scipy.special")
A = np.linspace(-2.0, 3.0, 12).reshape(3, 4)
B = np.cos(A) + 1.5
V = np.array([3.0, -1.0, 2.0, 0.5])
N = np.where(A > 2.5, np.nan, A)
I = np.array([2, 0, 3])
Z = A[0] + 1j * B[0]

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "power": (lambda a, b: b**a + a**2 + a**3 + 2.0**a, (A, B)),
    "power of int array": (lambda a, i: a[:, :3] ** i, (A, I)),
    "reflected": (lambda a: (1.0 - a) + 2.0 / (a + 5.0) + 7.0 % (a + 9.0), (A,)),
    "divmod": (lambda a, b: divmod(a, b)[0] + np.divmod(a, b)[1] + np.modf(a)[0], (A, B)),
    "clip": (lambda a: np.clip(a, -1.0, 1.0) + a.clip(0.0) + np.clip(a, None, 0.5), (A,)),
    "clip keywords": (lambda a: a.clip(min=-1.0, max=V), (A,)),
    "round": (lambda a: np.round(a, 1) + a.round() + np.around(a) + np.fix(a), (A,)),
    "where out": (lambda a, b: np.multiply(a, b, out=np.zeros_like(a), where=a > 0), (A, B)),
    "dtype": (lambda a: np.sum(a, axis=0, dtype=np.float32) + np.add(a, a, dtype=np.float32), (A,)),
    "sum": (lambda a: a.sum() + a.sum(0) + np.sum(a, axis=-1, keepdims=True) + a.sum((0, 1)), (A,)),
    "sum where": (lambda a: np.sum(a, where=a > 0) + np.sum(a, initial=2.0), (A,)),
    "mean where": (lambda a: np.mean(a, axis=0, where=a > -1.5), (A,)),
    "max": (lambda a: a.max() + np.max(a, 0) + np.amin(a, axis=-2) + np.ptp(a, axis=0), (A,)),
    "max where": (lambda a: np.max(a, initial=0.0, where=a < 1.0), (A,)),
    "var": (lambda a: a.var() + np.var(a, axis=0, ddof=1) + a.std(axis=0) + np.std(a), (A,)),
    "prod": (lambda a: a.prod(axis=0) + np.prod(a, axis=1, keepdims=True), (A,)),
    "argmax": (lambda a: a.argmax() + np.argmin(a, axis=0) + a.argmax(axis=-1, keepdims=True), (A,)),
    "any": (lambda a: (a > 0).any() | np.all(a > -1, axis=0) | np.any(a, axis=0), (A,)),
    "count": (lambda a: np.count_nonzero(a > 0) + np.count_nonzero(a > 0, axis=0), (A,)),
    "cumsum": (lambda a: np.cumsum(a) + a.cumsum(axis=0).ravel() + np.cumprod(a, axis=-1).ravel(), (A,)),
    "nan": (lambda a: np.nansum(a) + np.nanmean(a, axis=0) + np.nanmax(a, axis=0), (N,)),
    "nan more": (lambda a: np.nanvar(a, axis=0) + np.nanstd(a) + np.nanmin(a) + np.nanprod(a), (N,)),
    "nan arg": (lambda a: np.nanargmax(a, axis=0) + np.nanargmin(a, axis=0), (N,)),
    "median": (lambda a: np.median(a) + np.median(a, axis=0) + np.quantile(a, 0.3), (A,)),
    "percentile": (lambda a: np.percentile(a, 30, axis=0) + np.percentile(a, 50.0), (A,)),
    "percentiles": (lambda a: np.percentile(a, [10, 60], axis=0), (A,)),
    "average": (lambda a, v: np.average(a, axis=1, weights=v) + np.average(a), (A, V)),
    "ufunc methods": (
        lambda a: np.add.reduce(a) + np.maximum.reduce(a) + np.multiply.reduce(a, axis=0),
        (A,),
    ),
    "accumulate": (lambda a: np.add.accumulate(a) + np.maximum.accumulate(a, axis=1), (A,)),
    "outer": (lambda a, v: np.add.outer(v, v) + np.multiply.outer(v, v), (A, V)),
    "sort": (lambda a: np.sort(a, axis=0) + np.sort(a[:, ::-1]) + np.argsort(a), (A,)),
    "partition": (lambda v: np.partition(v, 2) + v[np.argpartition(v, 1)], (V,)),
    "searchsorted": (lambda a, v: np.searchsorted(np.sort(v), a) + np.digitize(a, np.sort(v)), (A, V)),
    "take": (lambda a, i: np.take(a, i, axis=1) + a.take(i) + np.take(a, i, mode="wrap"), (A, I)),
    "take along": (lambda a: np.take_along_axis(a, np.argsort(-a, axis=1), axis=1), (A,)),
    "bincount": (lambda i, v: np.bincount(i, weights=v[:3], minlength=6), (I, V)),
    "histogram": (lambda a: np.histogram(a, bins=4)[0], (A,)),
    "histogram_edges": (lambda a, v: np.histogram(a, bins=np.sort(v), weights=a)[0], (A, V)),
    "diff": (lambda a: np.diff(a) + np.diff(a, axis=-1), (A,)),
    "diff ends": (lambda a: np.diff(a, prepend=0.0) + np.diff(a, append=a[:, :1]), (A,)),
    "diff twice": (lambda a: np.diff(a, n=2, axis=0), (A,)),
    "convolve": (lambda v: np.convolve(v, v[:3], "same") + np.convolve(v, v, "full")[:4], (V,)),
    "correlate": (lambda v: np.correlate(v, v[:2]) + np.correlate(v, v[:2], "full")[1:4], (V,)),
    "interp": (lambda a, v: np.interp(a, np.sort(v), v, left=0.0, right=9.0), (A, V)),
    "gradient": (lambda a: np.gradient(a, axis=0) + np.gradient(a, 0.5)[1], (A,)),
    "gradient of coordinates": (lambda v: np.gradient(v, np.cumsum(v * v)), (V,)),
    "trapezoid": (lambda a, v: np.trapezoid(a, v) + np.trapezoid(a, dx=0.5, axis=1), (A, V)),
    "isclose": (lambda a, b: np.isclose(a, b) | np.allclose(a, b, atol=9.0), (A, B)),
    "nan_to_num": (lambda a: np.nan_to_num(a) + np.nan_to_num(a, nan=2.0), (N,)),
    "complex": (lambda z: np.abs(z) + z.real * z.imag + np.angle(z) + np.real(z.conj() * z), (Z,)),
    "angle in degrees": (lambda z: np.angle(z, deg=True), (Z,)),
    "heaviside": (lambda a: np.heaviside(a, 0.5) + np.copysign(2.0, a) + np.sinc(a), (A,)),
    "logaddexp": (lambda a, b: np.logaddexp(a, b) + np.hypot(a, b) + np.arctan2(a, b), (A, B)),
    "frexp": (lambda b: np.frexp(b)[0] + np.ldexp(b, np.frexp(b)[1]), (B,)),
    "unwrap": (lambda a: np.unwrap(3.0 * a, axis=1), (A,)),
    "comparisons": (lambda a, b: (a < b) & ~(a == b) | np.logical_xor(a > 0, b > 1), (A, B)),
    "integers": (lambda i: (i << 2) ^ (i >> 1) | i // 2 & np.gcd(i, 6), (I,)),
    "special": (lambda b: special.expit(b) + special.erf(b) + special.gammaln(b), (B,)),
    "corrcoef": (lambda a, v: np.corrcoef(a) + np.cov(v) + np.cov(v, v[::-1])[0, 1], (A * A, V)),
    "select": (lambda a: np.select([a < -1, a < 1], [a, a * a], 7.0), (A,)),
    "special pairs": (lambda a, b: special.xlogy(a, b) + special.digamma(b) + special.logit(b / 9), (A, B)),
}


def same(found: Any, want: Any) -> None:
    np.testing.assert_array_equal(found, want)
    assert np.asarray(found).dtype == np.asarray(want).dtype


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # NumPy 2.5
def test_value_is_numpys(name: str) -> None:
    f, args = CALLS[name]
    with np.errstate(all="ignore"):
        want = f(*args)
    program = trace_any(f, *args)
    (found,) = evaluate(program, list(args))
    np.testing.assert_allclose(found, want, rtol=1e-15, atol=1e-15)
    assert program.body.results[0].type.dtype == np.asarray(want).dtype
    assert np.asarray(found).dtype == np.asarray(want).dtype


def slope(f: Callable[..., Any], *args: Any, wrt: int = 0) -> np.ndarray:
    """The diagonal of the Jacobian of an elementwise f, by forward mode with ones."""
    program = trace_any(f, *args)

    def dual(*values: Any) -> Any:
        dots = [np.ones_like(v) if i == wrt else None for i, v in enumerate(values)]
        found = push_forward(program, list(values), dots)[0]
        return np.zeros_like(values[wrt]) if found is None else found

    (result,) = evaluate(trace_any(dual, *args), list(args))
    return result


KINKS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "relu": (lambda x: np.maximum(x, 0.0), [0.0, 0.5, 1.0]),
    "maximum, constant first": (lambda x: np.maximum(1.0, x), [0.0, 0.0, 0.5]),
    "minimum": (lambda x: np.minimum(x, 0.0), [1.0, 0.5, 0.0]),
    "of itself": (lambda x: np.maximum(x, x), [1.0, 1.0, 1.0]),
    "fmax": (lambda x: np.fmax(x, 0.0), [0.0, 0.0, 1.0]),
    "clip": (lambda x: np.clip(x, 0.0, 1.0), [0.0, 0.5, 0.5]),
    "clip between arrays": (lambda x: np.clip(x, 0.0 * x, 0.0 * x + 1.0), [0.0, 0.5, 0.5]),
    "abs": (np.abs, [-1.0, 1.0, 1.0]),
    "power 0": (lambda x: x**0, [0.0, 0.0, 0.0]),
    "power 2": (lambda x: x**2, [-2.0, 0.0, 2.0]),
    "power 3.0": (lambda x: x**3.0, [3.0, 0.0, 3.0]),
    "floor": (lambda x: np.floor(x) + np.sign(x) + np.round(x), [0.0, 0.0, 0.0]),
    "sinc": (np.sinc, [1.0, 0.0, -1.0]),
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", KINKS)
def test_kinks(name: str, dtype: str) -> None:
    f, want = KINKS[name]
    found = slope(f, np.array([-1.0, 0.0, 1.0], dtype))
    np.testing.assert_allclose(found, want, atol=1e-6)
    assert found.dtype == np.dtype(dtype)


def test_zero_to_a_power_has_no_logarithm_of_zero() -> None:
    found = slope(lambda x, y: x**y, np.array([0.0, 0.0, 2.0]), np.array([2.0, 0.0, 3.0]), wrt=1)
    np.testing.assert_allclose(found, [0.0, 0.0, 8.0 * math.log(2.0)])


def gradient(name: str, x: Any, **params: Any) -> np.ndarray:
    """The vjp of a reduction to one number."""
    primitive = PRIMITIVES[name]
    outs = (primitive.function(x, **params),)
    return Derivative(primitive, (x,), params, outs).vjp([np.ones_like(outs[0])])[0]


ALL = {"axis": None, "keepdims": False}


def test_ties_and_zeros_of_reductions() -> None:
    np.testing.assert_array_equal(gradient("np.max", np.array([1.0, 3, 3]), **ALL), [0, 0.5, 0.5])
    np.testing.assert_array_equal(gradient("np.min", np.zeros(4), **ALL), [0.25] * 4)
    np.testing.assert_array_equal(gradient("np.prod", np.array([2.0, 0, 3]), **ALL), [0, 6, 0])
    np.testing.assert_array_equal(gradient("np.prod", np.array([0.0, 0, 3]), **ALL), [0, 0, 0])
    two_zeros = gradient("np.cumprod", np.array([2.0, 0.0, 3.0, 0.0, 4.0]), axis=0)
    np.testing.assert_array_equal(two_zeros, [1.0, 2.0 + 6.0, 0.0, 0.0, 0.0])
    ties = gradient("np.sort", np.array([2.0, 1.0, 2.0]), axis=0, kind=None)
    np.testing.assert_array_equal(ties, [1.0, 1.0, 1.0])
    assert gradient("np.max", np.float32([1, 1]), **ALL).dtype == np.float32


def test_math_on_scalars_is_weak() -> None:
    def f(x: Any) -> Any:
        y = FUNCTIONS[math.sin](x) * FUNCTIONS[math.log](x, 2.0) + FUNCTIONS[math.hypot](x, 1.0, 2.0)
        return y + FUNCTIONS[math.gamma](x) + FUNCTIONS[math.floor](x)

    program = trace_any(f, 1.7)
    assert program.body.results[0].type.weak
    want = math.sin(1.7) * math.log(1.7, 2.0) + math.sqrt(1.7**2 + 5.0) + math.gamma(1.7) + 1
    assert evaluate(program, [1.7])[0] == pytest.approx(want, rel=1e-15)
    assert type(evaluate(program, [1.7])[0]) is float


def test_builtin_round() -> None:
    def f(x: Any, y: Any) -> Any:
        return FUNCTIONS[round](x), FUNCTIONS[round](x, 1), FUNCTIONS[round](y, 1)

    args = [1.26, np.float64(2.34)]
    found = evaluate(trace_any(f, *args), args)
    assert found == [1, 1.3, 2.3] and list(map(type, found)) == [int, float, np.float64]


def test_softmax_family() -> None:
    def f(x: Any) -> Any:
        call = FUNCTIONS.__getitem__
        y = call(special.softmax)(x, axis=1) + call(special.log_softmax)(x, axis=1)
        return y + call(special.logsumexp)(x, axis=0)

    want = special.softmax(A, axis=1) + special.log_softmax(A, axis=1) + special.logsumexp(A, axis=0)
    same(evaluate(trace_any(f, A), [A])[0], want)


def test_sort_in_place_stores() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        y.sort()
        return y

    same(evaluate(trace_any(f, V), [V])[0], np.sort(V))


def test_refusals() -> None:
    with pytest.raises(NotDifferentiable, match="np.nextafter"):
        slope(lambda x: np.nextafter(x, 2.0), A)
    with pytest.raises(UnsupportedFunction, match="leaves elements"):
        trace_any(lambda x: np.exp(x, where=x > 0), A)
    with pytest.raises(UnsupportedFunction, match=r"np\.histogram"):
        trace_any(lambda x: np.histogram(x, bins="auto")[0], A)


def test_importing_calque_leaves_scipy_out() -> None:
    import subprocess
    import sys

    code = "import sys, calque.transpiler.primitives; print('scipy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_arrays_are_the_only_leaves_of_traces() -> None:
    program = trace_any(lambda x, y: np.where(x > y, x, y), A, B)
    assert all(not isinstance(r, Array) for r in program.body.results)


@functools.cache  # JAX compiles once for all fractions
def jax_gradient_of_quantiles(call: Any) -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.jit(jax.grad(lambda x, q: jax.numpy.sum(call(jax.numpy, x, q) ** 2), argnums=(0, 1)))


@pytest.mark.parametrize("call", [
    lambda np, x, q: np.quantile(x, q), lambda np, x, q: np.percentile(x, 100.0 * q, axis=1),
    lambda np, x, q: np.quantile(x, q, axis=(0, 1), keepdims=True), lambda np, x, q: np.quantile(x, q, method="lower"),
])
@pytest.mark.parametrize("q", [0.0, 0.3, 0.77, 1.0])
def test_quantiles_by_their_fraction(call: Any, q: float) -> None:
    x = np.random.default_rng(5).normal(size=(3, 4))
    expected = jax_gradient_of_quantiles(call)(x, q)
    found = calque.grad(lambda x, q: np.sum(call(np, x, q) ** 2), argnums=(0, 1))(x, q)
    tangent = calque.jvp(lambda q: np.sum(call(np, x, q) ** 2), (q,), (1.0,))[1]
    np.testing.assert_allclose(found[0], expected[0], 1e-10, 1e-12)
    np.testing.assert_allclose([found[1], tangent], [expected[1]] * 2, 1e-10, 1e-12)


@pytest.mark.parametrize("rest", [(), (1.0, 2.0), (1.0, 2.0, 3.0, 4.0)])
def test_a_ufunc_with_other_arguments_than_it_takes(rest: tuple[float, ...]) -> None:
    with pytest.raises(TypeError):
        np.add(1.0, *rest)
    with pytest.raises(TypeError):
        calque.grad(lambda x: np.add(x, *rest))(1.0)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_the_slope_of_logaddexp_at_infinity(name: str) -> None:
    function = getattr(np, name)
    slope = calque.grad(lambda a, b: function(a, b), argnums=(0, 1))
    assert slope(np.inf, 2.0) == (1.0, 0.0)
    assert slope(-np.inf, 2.0) == (0.0, 1.0)
    assert np.isnan(slope(np.nan, 2.0)[0])


def paths_score(logits):
    """The score of paths that start at the first state, as CTC's: most states are at -inf first."""
    alpha = np.full(3, -np.inf)
    alpha[0] = logits[0, 0]
    for t in range(1, len(logits)):
        before = alpha.copy()
        for s in range(3):
            score = before[s]
            if s > 0:
                score = np.logaddexp(score, before[s - 1])
            alpha[s] = score + logits[t, s]
    return np.logaddexp(alpha[1], alpha[2])


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_a_sum_of_nothing_has_no_slope() -> None:
    logits = np.cos(np.arange(12.0)).reshape(4, 3)
    gradient = calque.grad(paths_score)(logits)
    for place in np.ndindex(4, 3):
        step = np.zeros((4, 3))
        step[place] = 1e-6
        slope = (paths_score(logits + step) - paths_score(logits - step)) / 2e-6
        np.testing.assert_allclose(gradient[place], slope, atol=1e-8)
        tangent = calque.jvp(paths_score, (logits,), (step,))[1]
        np.testing.assert_allclose(tangent, 1e-6 * slope, atol=1e-14)
    np.testing.assert_allclose(calque.jit(calque.grad(paths_score))(logits), gradient, rtol=1e-12)
