"""Whole-array NumPy in ordinary combinations, with the arguments that users use."""

from __future__ import annotations

import numpy as np

from battery.registry import definite, matrix, program, tensor, vector


@program(vector(4, low=0.2, high=0.9))
def unary_ufuncs(x):
    y = np.sin(x) + np.cosh(x) * np.arctan(x) - np.arcsin(x) + np.log2(x) + np.log10(x)
    y = y * np.exp2(x) + np.cbrt(x) + np.expm1(x) / np.sinh(x) + np.tan(x) + np.arccos(x)
    y = y + np.arcsinh(x) * np.arctanh(x) + np.reciprocal(x) + np.square(x) + np.rad2deg(x)
    return np.sum(y + np.fabs(-x) + np.positive(x) + np.negative(x) + np.deg2rad(x))


@program(vector(4, low=0.2, high=0.9), vector(4, 1, 1.1, 1.9), diff=(0, 1))
def binary_ufuncs(x, y):
    z = np.arctan2(x, y) + np.hypot(x, y) + np.power(x, y) + np.logaddexp(x, y)
    z = z + np.maximum(x, y) * np.fmin(x, y) + np.mod(y, x) + np.fmod(y, x) + np.remainder(y, 2.0)
    z = z + np.copysign(x, -y) + np.logaddexp2(x, y) + np.true_divide(x, y) + np.heaviside(x, 0.5)
    return np.sum(z * np.float_power(y, 2) + np.subtract(x, y) + np.floor_divide(y, x))


@program(tensor(2, 3, 4))
def reductions_with_axes(x):
    a = np.sum(x, axis=(0, 2)) * np.mean(x, axis=(0, 2))
    b = np.prod(x, axis=1, keepdims=True) + np.var(x, axis=1, ddof=1, keepdims=True)
    c = x.std(axis=-1) + x.max(axis=2) - x.min(axis=2) + np.ptp(x, axis=2)
    return np.sum(a) + np.sum(b * x) + np.sum(c**2)


@program(tensor(2, 3, 4))
def scans_and_differences(x):
    a = np.cumsum(x, axis=1) * np.cumprod(x, axis=2)
    b = np.diff(x, axis=2, n=2)
    c = np.cumsum(x)
    return np.sum(a * a) + np.sum(b**3) + np.sum(c[::3] ** 2)


@program(matrix(3, 4))
def shapes_and_layout(x):
    a = x.reshape(2, -1).T.ravel() + x.flatten()[::-1]
    b = np.concatenate([x, x[:1] * 2.0], axis=0)
    c = np.stack([x, x**2], axis=-1).swapaxes(0, 1)
    d = np.moveaxis(c, -1, 0)[1]
    return np.sum(a**2) + np.sum(b[1:] * x) + np.sum(c[..., 0] * d)


@program(vector(4), vector(4, 1), diff=(0, 1))
def stacks(x, y):
    v, h, c = np.vstack([x, y]), np.hstack([x, y]), np.column_stack([x, y])
    d = np.stack([x, y], axis=1)[None]
    return np.sum(v @ c) * np.sum(h**2) + np.sum(np.sin(d))


@program(vector(6))
def tiles_rolls_flips_pads(x):
    a = np.tile(x, 2) * np.repeat(x, 2)
    b = np.roll(x, 2) * np.flip(x)
    c = np.pad(x, (1, 2)) + np.pad(x, (2, 1), constant_values=0.5)
    grid = x.reshape(2, 3)
    d = np.rot90(grid) @ grid
    e = np.tile(grid, (2, 1)) * np.repeat(grid, 2, axis=0) + np.roll(np.tile(grid, (2, 1)), 1, axis=1)
    return np.sum(a) + np.sum(b**2) + np.sum(c**2) + np.sum(d) * np.sum(np.sin(e))


@program(matrix(3, 3), vector(3), diff=(0, 1))
def products(a, v):
    s = np.dot(a, v) @ np.matmul(v, a) + np.inner(v, v) * np.vdot(a, a)
    s = s + np.sum(np.outer(v, v) * a) + np.trace(a @ a.T) + np.sum(np.kron(v, a[0]))
    return s + np.sum(np.tensordot(a, a, axes=1) * np.cross(a, v))


@program(matrix(3, 4), matrix(4, 2, 1), diff=(0, 1))
def einsum_forms(a, b):
    s = np.einsum("ij,jk->", a, b) + np.einsum("ij,ij->i", a, a) @ np.ones(3)
    t = np.einsum("ij,jk,k->i", a, b, np.array([1.0, 2.0]))
    return s + np.sum(t**2) + np.einsum("ij->ji", a)[0, 1] * np.einsum("ii", a[:, :3])


@program(matrix(4, 4))
def triangles_and_diagonals(a):
    s = np.sum(np.tril(a) @ np.triu(a, 1)) + np.sum(np.diag(np.diag(a)) * a)
    return s * np.trace(a, offset=1) + np.sum(np.diagonal(a, offset=-1) ** 2)


@program(vector(6))
def sorting(x):
    a = np.sort(x)
    order = np.argsort(x)
    return np.sum(a * np.arange(6.0)) + np.sum(x[order[::-1]] ** 2 * a)


@program(matrix(3, 4))
def sort_axis_and_order_statistics(x):
    a = np.sort(x, axis=0)
    return np.sum(a[0] * a[2]) + np.median(x) ** 2 + np.percentile(x, 30.0) + np.average(
        x[0], weights=np.array([1.0, 2.0, 3.0, 4.0])
    )


@program(vector(6))
def take_and_along_axis(x):
    a = np.take(x, [0, 2, 2]) * x.take(np.array([5, 1, 0]))
    grid = x.reshape(2, 3)
    index = np.argmax(grid, axis=1)
    b = np.take_along_axis(grid, index[:, None], axis=1)
    return np.sum(a**2) + np.sum(b) * np.sum(np.take(grid, [1], axis=1))


@program(vector(6), vector(3, 1), diff=(0, 1))
def boolean_masks(x, y):
    chosen = x[x > 0.0]
    z = np.where(x > 0.2, x**2, np.exp(x))
    a = np.where(y > 0.0, y, 0.0)
    return np.sum(chosen**2) + np.sum(z) + np.sum(a) * np.sum(chosen) + np.mean(chosen)


@program(np.array([0.5, np.nan, -1.0, np.nan]), vector(4), diff=(1,))
def nan_handling(data, x):
    clean = np.nan_to_num(data) * x
    return np.nansum(data + x * x) + np.sum(clean**2) + np.nanmean(data + x**3) + np.sum(
        np.where(np.isnan(data), 0.0, 1.0) * x
    )


@program(vector(5))
def clip_round_sign_family(x):
    y = np.clip(x, -0.5, 0.5) + np.abs(x) * np.sign(x) + np.floor(x) * x + np.rint(x) + np.trunc(x)
    return np.sum(y * np.clip(x, None, 0.3) + np.ceil(x) * x + np.round(x, 1) * x)


@program(matrix(3, 4))
def where_argument_of_reductions(x):
    positive = x > 0.0
    a = np.sum(x, where=positive) + np.mean(x, where=positive)
    b = np.max(x, axis=1, initial=-5.0, where=positive)
    return a**2 + np.sum(b)


@program(vector(4))
def where_and_out_of_ufuncs(x):
    out = np.zeros(4)
    np.sqrt(x, out=out, where=x > 0.0)
    np.multiply(out, 2.0, out=out)
    y = np.divide(1.0, x, out=np.ones(4), where=x > 0.1)
    return np.sum(out * x) + np.sum(y)


@program(vector(5), np.array([0.3, 1.7, 2.2]), diff=(0, 1))
def interpolation_family(y, at):
    values = np.interp(at, np.arange(5.0), y)
    slopes = np.gradient(y, 0.5)
    return np.sum(values**2) + np.sum(slopes**3) + np.trapezoid(y * y, dx=0.25)


@program(vector(5), diff=(0,))
def search_sorted_then_gather(x):
    edges = np.array([-0.5, 0.0, 0.5])
    k = np.searchsorted(edges, x)
    scale = np.array([1.0, 2.0, 3.0, 4.0])
    return np.sum(scale[k] * x**2) + np.count_nonzero(x > 0.0) * x[0]


@program(vector(3), vector(4, 1), diff=(0, 1))
def meshgrid_and_axes(x, y):
    a, b = np.meshgrid(x, y)
    c, d = np.meshgrid(x, y, indexing="ij")
    return np.sum(a * b**2) + np.sum(np.sin(c) * d) + np.sum(np.atleast_2d(x) @ np.atleast_1d(x))


@program(vector(4), diff=(0,))
def constructors(x):
    a = np.linspace(x[0], x[1], 4) * np.arange(4) + np.full(4, x[2]) * np.eye(4)[1]
    b = np.identity(4) @ x + np.ones(4) * np.zeros(4) + np.asarray([x[3]] * 4)
    return np.sum(a * b) + np.array(x[0] * x[1])


@program(vector(4))
def dtype_arguments(x):
    k = np.arange(4, dtype=np.int64)
    y = x * k.astype(float) + np.zeros(4, dtype="float64") + np.sum(x, dtype=np.float64)
    flags = (x > 0.0).astype(np.float64)
    return np.sum(y * y) + np.sum(flags * x) + np.sum(k[x > 0.0]) * x[0]


@program(tensor(2, 3, 4), matrix(3, 4), diff=(0, 1))
def indexing_of_every_kind(x, y):
    a = x[1, :, ::2] + x[0, ..., 1:3] * y[:, None, 0]
    b = x[:, [0, 2], 1:][:, ::-1] * x[..., np.array([1, 0, 2])][:, :2]
    c = x[np.array([0, 1]), np.array([2, 0])] * y[[1, 1]]
    return np.sum(a**2) + np.sum(b) + np.sum(c) + np.sum(x[:, y > 0.0] ** 2) + x[-1, -1, -1]


@program(matrix(3, 4))
def methods_of_arrays(x):
    a = x.T.dot(x).trace() + x.sum(0).prod() + x.mean(1).max() - x.min() + x.std()
    b = x.reshape((4, 3)).ravel().cumsum()[-1] + x.swapaxes(0, 1).diagonal().sum()
    c = x.clip(-0.5, 0.5).var() + x.copy().flatten().take([1, 2]).sum() + x.repeat(2).squeeze()[0]
    return a * b + c + x.astype(float).transpose(1, 0)[0, 1] + (x > 0).any() * x[0, 0]


@program(matrix(3, 4))
def splits_and_broadcasts(x):
    left, middle, right = np.array_split(x, 3, axis=1)
    a, b = np.split(x, [1], axis=0)
    wide = np.broadcast_to(x[0], (2, 4)) * np.expand_dims(x[1], 0)
    return np.sum(left**2) + np.sum(middle * right) + np.sum(a * b) + np.sum(wide)


@program(definite(3), vector(3), diff=(0, 1))
def norms(a, v):
    return np.linalg.norm(v) * np.linalg.norm(a) + np.sum(np.linalg.norm(a, axis=0)) + np.linalg.norm(
        v, ord=1
    )


@program(vector(3), vector(3, 1), diff=(0, 1))
def complex_inside_real_result(re, im):
    z = re + 1j * im
    w = np.exp(z) * np.conj(z) + z**2
    return np.sum(np.abs(w)) + np.sum(w.real * np.imag(w))


@program(vector(4))
def stable_log_sum_exp(x):
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top))) + np.log1p(np.sum(np.exp(-x)))


@program(vector(0), 0.7, diff=(0, 1))
def empty_array(x, scale):
    return np.sum(x) + scale * np.sum(np.sin(x) ** 2) + scale**2


@program(np.array(0.7), np.array([0.4]), diff=(0, 1))
def zero_dim_and_size_one(x, y):
    return np.sum(x * y) + x[()] ** 2 * y[0] + np.sin(x)
