"""Functions that NumPy and JAX both run: straight lines without stores.

`twins()` executes this file's own text a second time with `jax.numpy` in NumPy's place, so that
calque sees plain NumPy and JAX sees its own.
"""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

TWINS: dict[str, tuple[Any, ...]] = {}
Pair = namedtuple("Pair", ["left", "right"])


def twin(*args):
    """Register the function below with its sample arguments; all of them are differentiated."""

    def register(fn):
        TWINS[fn.__name__] = args
        return fn

    return register


def numbers(*shape, low=-1.0, high=1.0):
    """Fixed irregular numbers between low and high, the same under NumPy and JAX."""
    size = int(np.prod(np.array(shape, dtype=int)))
    return low + (high - low) * (np.sin(12.9898 * np.arange(1.0, size + 1.0)) % 1.0).reshape(shape)


V, W = numbers(4), numbers(4, low=0.2, high=0.9)
M, N, T = numbers(3, 4), numbers(4, 3), numbers(2, 3, 4)


@twin(0.7)
def scalar_chain(x):
    return np.sin(x) * np.exp(-x) + x**3 / (1.0 + x)


@twin(V)
def vector_chain(x):
    return np.sum(np.tanh(x) * np.cos(x) + x**2)


@twin(V, 0.3)
def array_and_scalar(x, scale):
    return np.sum(x * scale) * scale


@twin(np.array(0.4), np.array([0.6]))
def zero_dim_and_size_one(x, y):
    return np.sum(x * np.exp(y))


@twin({"b": 0.3, "w": V}, [V, (W, 2.0)])
def pytrees(params, parts):
    first, (second, scale) = parts
    return np.sum(params["w"] * first * second) * scale + params["b"]


@twin({"z": V, "a": None, "m": {}, "list": [(), 0.5]})
def empty_nodes(params):
    return np.sum(params["z"] ** 2) * params["list"][1]


@twin(Pair(V, 0.5))
def namedtuples(pair):
    return np.sum(pair.left) * pair.right**2


@twin(V, V)
def unused_argument(x, y):
    return np.sum(x)


@twin(V)
def constant_function(x):
    return np.sum(np.ones(3))


@twin(V)
def identity_element(x):
    return x[2]


@twin(M, V, 0.5)
def affine(a, v, b):
    return np.sum(np.maximum(a @ v + b, 0.0) ** 2)


@twin(M, N)
def matrix_product(a, b):
    return np.sum((a @ b) ** 2) + np.trace(b @ a)


@twin(V, W)
def vector_products(x, y):
    return np.dot(x, y) * np.inner(x, x) + np.sum(np.outer(x, y) ** 2) + np.vdot(x, y)


@twin(T, M)
def broadcasts(t, m):
    return np.sum(t * m + t[:, :1] * m[0] / (2.0 + m[:, :1] ** 2))


@twin(T)
def reductions(t):
    return np.sum(np.mean(t, axis=0) * np.max(t, axis=0)) + np.sum(np.prod(t, axis=(0, 2)))


@twin(T)
def variances(t):
    return np.sum(np.var(t, axis=1)) + np.std(t) + np.sum(np.std(t, axis=(0, 2), ddof=1))


@twin(T)
def extremes(t):
    return np.sum(t.max(axis=1) * t.min(axis=1)) + np.ptp(t) + np.sum(np.max(t, axis=(0, 1)) ** 2)


@twin(M)
def scans(m):
    return np.sum(np.cumsum(m, axis=1) ** 2) + np.sum(np.cumprod(m, axis=0) * m)


@twin(M)
def shapes(m):
    a = m.reshape(2, 6).T.ravel()[::2]
    b = np.concatenate([m, m[:1]], axis=0).swapaxes(0, 1)
    return np.sum(a**2) + np.sum(np.stack([b, b**2], axis=1)[:, 1]) + np.sum(np.squeeze(m[:1]))


@twin(V, W)
def joins(x, y):
    v, h = np.vstack([x, y]), np.hstack([x, y])
    return np.sum(v[0] * v[1]) * np.sum(np.column_stack([x, y]) ** 2) + h[5] * h[0]


@twin(M)
def repeats(m):
    a = np.tile(m, (2, 1)) * np.repeat(m, 2, axis=0)
    return np.sum(a) + np.sum(np.pad(m, 1)[1:-1] ** 2) + np.sum(np.roll(m, 1) * np.flip(m))


@twin(V)
def selections(x):
    return np.sum(np.where(x > 0.0, x**2, np.sin(x))) + np.sum(np.clip(x, -0.3, 0.3) * x)


@twin(M)
def gathers(m):
    rows = m[np.array([0, 0, 2])]
    return np.sum(rows**2) + np.sum(m[:, np.array([1, 1])] * m[1:2, :2]) + m[-1, -1] * m[0, 1]


@twin(V)
def sorts(x):
    return np.sum(np.sort(x) * np.arange(4.0)) + x[np.argsort(x)[0]] ** 2 + x[np.argmax(x)]


@twin(M)
def order_statistics(m):
    return np.median(m) + np.percentile(m, 35.0) + np.sum(np.median(m, axis=0) ** 2)


@twin(M, N)
def einsums(a, b):
    return np.sum(np.einsum("ij,jk->ik", a, b) ** 2) + np.einsum("ij,ji", a, b)


@twin(T, T)
def tensor_products(a, b):
    return np.sum(np.tensordot(a, b, axes=([1, 2], [1, 2])) ** 2) + np.sum(np.kron(a[0], b[0]))


@twin(numbers(3, 3))
def triangles(a):
    return np.sum(np.tril(a) @ np.triu(a, 1)) + np.sum(np.diag(a) ** 2) + np.trace(a @ a)


@twin(W)
def many_ufuncs(x):
    y = np.arcsin(x) + np.arctan(x) * np.cosh(x) + np.log1p(x) + np.expm1(x) + np.log2(x)
    return np.sum(y + np.sqrt(x) + np.sinh(x) * np.arccosh(1.0 + x) + np.cbrt(x) + np.square(x))


@twin(W, numbers(4, low=1.1, high=1.9))
def binary_ufuncs(x, y):
    z = np.arctan2(x, y) + np.hypot(x, y) + np.power(x, y) + np.logaddexp(x, y) + np.mod(y, x)
    return np.sum(z * np.maximum(x, y) + np.minimum(x, y))


@twin(W)
def special_functions(x):
    y = special.expit(x) + special.erf(x) * special.erfc(x) + special.gammaln(x)
    return np.sum(y + special.xlogy(x, x)) + special.logsumexp(x)


@twin(M)
def log_sum_exp_with_axis(m):
    return np.sum(special.logsumexp(m, axis=1) ** 2)


@twin(M)
def differences(m):
    return np.sum(np.diff(m, axis=1) ** 2) + np.sum(np.diff(m[0], n=2) ** 3)


@twin(V, numbers(3))
def convolution(x, k):
    return np.sum(np.convolve(x, k) ** 2) + np.sum(np.convolve(x, k, mode="valid"))


@twin(V)
def interpolation(y):
    return np.sum(np.interp(np.array([0.3, 1.7, 2.5]), np.arange(4.0), y) ** 2)


@twin(numbers(3), numbers(4))
def meshes(x, y):
    a, b = np.meshgrid(x, y)
    return np.sum(a * b**2)


@twin(V)
def norm_of_vector(x):
    return np.linalg.norm(x) * np.sum(x)


@twin(V)
def container_results(x):
    return {"total": np.sum(x), "parts": [x * 2.0, (np.sin(x[0]),)]}


@twin(M)
def matrix_result(m):
    return np.tanh(m @ m.T)


@twin(V)
def integer_and_float_mix(x):
    k = np.arange(4)
    return np.sum(x * k) + np.sum(x**2 * (k > 1)) + np.sum((x > 0) * x)


@twin(V)
def python_scalars_are_weak(x):
    return np.sum(2 * x + 0.5) * 3 - 1


@twin(numbers(0), 0.7)
def empty_array(x, y):
    return np.sum(x) + np.sum(x * y) + y


@twin(M)
def softmax_by_hand(m):
    e = np.exp(m - np.max(m, axis=1, keepdims=True))
    return np.sum((e / np.sum(e, axis=1, keepdims=True)) ** 2)


@twin(T)
def axes_moved(t):
    a = np.moveaxis(t, 0, -1) * np.transpose(t, (1, 2, 0))
    return np.sum(a) + np.sum(np.expand_dims(t[0], 1) * t[:, :, None][0])


@twin(V)
def nested_functions(x):
    def outer(y):
        return (lambda z: z * y)(np.sin(y))

    return np.sum(outer(outer(x)))


KINKS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "max_ties": (lambda x: np.max(x), (np.array([1.0, 3.0, 3.0, 0.0]),)),
    "max_ties_by_axis": (lambda x: np.sum(np.max(x, axis=0) ** 2), (np.array([[1.0, 2.0], [1.0, 0.0]]),)),
    "min_ties": (lambda x: np.min(x), (np.array([1.0, 1.0, 1.0, 2.0]),)),
    "ptp_ties": (lambda x: np.ptp(x), (np.array([1.0, 1.0, 2.0, 2.0]),)),
    "maximum_tie": (lambda x, y: np.maximum(x, y), (0.5, 0.5)),
    "minimum_tie": (lambda x, y: np.sum(np.minimum(x, y)), (np.array([0.5, 1.0]), 0.5)),
    "relu_at_zero": (lambda x: np.sum(np.maximum(x, 0.0)), (np.array([0.0, 1.0, -1.0]),)),
    "fmax_tie": (lambda x, y: np.fmax(x, y), (0.5, 0.5)),
    "fmin_tie": (lambda x, y: np.fmin(x, y), (0.5, 0.5)),
    "abs_at_zero": (lambda x: np.sum(np.abs(x)), (np.array([0.0, -1.0, 2.0]),)),
    "sign": (lambda x: np.sum(np.sign(x) * x), (np.array([0.0, -1.0, 2.0]),)),
    "clip_at_bounds": (lambda x: np.sum(np.clip(x, -1.0, 1.0)), (np.array([-1.0, 0.0, 1.0, 3.0]),)),
    "clip_one_sided": (lambda x: np.sum(np.clip(x, 0.0, None)), (np.array([-1.0, 0.0, 1.0]),)),
    "clip_differentiable_bounds": (
        lambda x, low, high: np.sum(np.clip(x, low, high)), (np.array([-2.0, 0.0, 3.0]), -1.0, 1.0)
    ),
    "sort_ties": (
        lambda x: np.sum(np.sort(x) * np.array([1.0, 2.0, 4.0])), (np.array([2.0, 1.0, 2.0]),)
    ),
    "argmax_ties": (lambda x: x[np.argmax(x)] ** 2, (np.array([1.0, 3.0, 3.0]),)),
    "argsort_ties": (
        lambda x: np.sum(x[np.argsort(x)] * np.array([1.0, 2.0, 4.0])), (np.array([2.0, 1.0, 2.0]),)
    ),
    "median_ties": (lambda x: np.median(x), (np.array([1.0, 2.0, 2.0, 3.0]),)),
    "median_odd": (lambda x: np.median(x), (np.array([1.0, 5.0, 2.0]),)),
    "norm_at_zero": (lambda x: np.linalg.norm(x), (np.zeros(3),)),
    "norm_l1_at_zero": (lambda x: np.linalg.norm(x, ord=1), (np.array([0.0, 1.0]),)),
    "sqrt_at_zero": (lambda x: np.sqrt(x), (0.0,)),
    "log_at_zero": (lambda x: np.log(x), (0.0,)),
    "square_at_zero": (lambda x: x**2, (0.0,)),
    "power_one_at_zero": (lambda x: x**1, (0.0,)),
    "power_zero_at_zero": (lambda x: np.power(x, 0.0), (0.0,)),
    "power_of_exponent": (lambda x, y: np.power(x, y), (0.0, 2.0)),
    "power_negative_base": (lambda x: np.sum(x**3.0), (np.array([-2.0, 0.0]),)),
    "prod_one_zero": (lambda x: np.prod(x), (np.array([2.0, 0.0, 3.0]),)),
    "prod_two_zeros": (lambda x: np.prod(x), (np.array([2.0, 0.0, 0.0]),)),
    "cumprod_zero": (lambda x: np.sum(np.cumprod(x)), (np.array([2.0, 0.0, 3.0]),)),
    "std_of_constant": (lambda x: np.std(x), (np.ones(3),)),
    "var_of_constant": (lambda x: np.var(x), (np.ones(3),)),
    "hypot_at_zero": (lambda x, y: np.hypot(x, y), (0.0, 0.0)),
    "arctan2_at_zero": (lambda x, y: np.arctan2(x, y), (0.0, 0.0)),
    "arctan2_on_axis": (lambda x, y: np.arctan2(x, y), (0.0, -1.0)),
    "logaddexp_tie": (lambda x, y: np.logaddexp(x, y), (1.0, 1.0)),
    "where_guards_value_only": (
        lambda x: np.sum(np.where(x > 0.0, np.log(x), 0.0)), (np.array([0.0, 1.0]),)
    ),
    "double_where": (
        lambda x: np.sum(np.where(x > 0.0, np.log(np.where(x > 0.0, x, 1.0)), 0.0)),
        (np.array([0.0, 1.0]),),
    ),
    "round_and_floor": (
        lambda x: np.sum(np.round(x) * x + np.floor(x) + np.ceil(x) * 2.0), (np.array([0.4, 1.5]),)
    ),
    "modulo": (lambda x, y: np.mod(x, y), (5.5, 2.0)),
    "modulo_negative": (lambda x, y: x % y, (-5.5, 2.0)),
    "fmod": (lambda x, y: np.fmod(x, y), (-5.5, 2.0)),
    "floor_division": (lambda x, y: x // y + x, (5.5, 2.0)),
    "heaviside": (lambda x: np.sum(np.heaviside(x, 0.5) * x), (np.array([0.0, 1.0]),)),
    "nan_in_sum": (lambda x: np.sum(x * x), (np.array([np.nan, 1.0]),)),
    "nansum": (lambda x: np.nansum(x * x), (np.array([np.nan, 1.0]),)),
    "nan_to_num": (lambda x: np.sum(np.nan_to_num(x) * 2.0), (np.array([np.nan, 1.0, np.inf]),)),
    "infinite_max": (lambda x: np.max(x), (np.array([np.inf, 1.0]),)),
    "xlogy_at_zero": (lambda x, y: special.xlogy(x, y), (0.0, 2.0)),
    "log_sum_exp_far_apart": (lambda x: special.logsumexp(x), (np.array([-1000.0, 0.0, 1000.0]),)),
    "expit_far": (lambda x: np.sum(special.expit(x)), (np.array([-800.0, 0.0, 800.0]),)),
    "tanh_far": (lambda x: np.sum(np.tanh(x)), (np.array([-800.0, 0.0, 800.0]),)),
    "reciprocal_at_zero": (lambda x: 1.0 / x, (np.array(0.0),)),
    "arcsin_at_one": (lambda x: np.arcsin(x), (1.0,)),
    "interp_at_knot": (
        lambda at: np.interp(at, np.arange(3.0), np.array([0.0, 1.0, 4.0])), (1.0,)
    ),
    "interp_outside": (
        lambda at: np.interp(at, np.arange(3.0), np.array([0.0, 1.0, 4.0])), (5.0,)
    ),
}

HOLOMORPHIC = {
    "square": lambda z: z * z,
    "exponential": lambda z: np.exp(1j * z) / z,
    "trigonometric": lambda z: np.sin(z) * np.cos(z) + np.tanh(z),
    "sum_of_products": lambda z: np.sum(np.log(z) * z**3 + np.sqrt(z)),
}
COMPLEX_TO_REAL = {
    "modulus": lambda z: np.sum(np.abs(z)),
    "real_and_imaginary": lambda z: np.sum(np.real(z) ** 2 * np.imag(z)),
    "conjugate": lambda z: np.sum((z * np.conj(z)).real),
    "phase": lambda z: np.sum(np.abs(np.exp(1j * z) + z) ** 2),
}
REAL_TO_REAL_THROUGH_COMPLEX = {
    "modulus_of_exponential": lambda x: np.sum(np.abs(np.exp((0.3 + 1j) * x) + 1.0)),
    "real_part": lambda x: np.sum(np.real((x + 1j * x**2) ** 3)),
}


def jax_copy() -> dict[str, Any]:
    """The names of this file with `jax.numpy` and `jax.scipy` in the place of NumPy and SciPy."""
    text = Path(__file__).read_text()
    text = text.replace("import numpy as np\n", "import jax.numpy as np\n", 1)
    text = text.replace("from scipy import special\n", "from jax.scipy import special\n", 1)
    scope: dict[str, Any] = {"__name__": "battery.jax_twins_in_jax", "__file__": __file__}
    exec(compile(text, "<the JAX copy of jax_twins.py>", "exec"), scope)
    return scope
