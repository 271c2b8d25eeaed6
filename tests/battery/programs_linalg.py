"""Linear algebra written out: factorizations, solves, iterations."""

from __future__ import annotations

import numpy as np

from battery.registry import definite, matrix, program, vector


@program(definite(3), vector(3), diff=(0, 1))
def lu_solve(a, b):
    a = a.copy()
    b = b.copy()
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
            b[i] -= a[i, k] * b[k]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= a[i, j] * b[j]
        b[i] /= a[i, i]
    return np.sum(b * b)


@program(definite(3))
def lu_in_place_polybench(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return np.sum(np.sin(a))


@program(definite(3))
def log_determinant_by_elimination(a):
    a = a.copy()
    total = 0.0
    for k in range(a.shape[0]):
        total += np.log(a[k, k])
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :]) / a[k, k]
    return total


@program(definite(3))
def gauss_with_pivoting(a):
    a = a.copy()
    n = a.shape[0]
    sign = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[pivot, k]):
                pivot = i
        if pivot != k:
            a[[k, pivot]] = a[[pivot, k]]
            sign = -sign
        for i in range(k + 1, n):
            a[i, k:] -= a[i, k] / a[k, k] * a[k, k:]
    return sign * np.prod(np.diag(a))


@program(definite(3))
def cholesky(a):
    n = a.shape[0]
    low = np.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - np.dot(low[i, :j], low[j, :j])
            if i == j:
                low[i, i] = np.sqrt(s)
            else:
                low[i, j] = s / low[j, j]
    return np.sum(low * np.arange(1.0, n * n + 1.0).reshape(n, n))


@program(definite(3))
def cholesky_in_place(a):
    n = a.shape[0]
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, n):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])
    return np.sum(np.tril(a) ** 3)


@program(matrix(4, 3))
def gram_schmidt(a):
    rows, columns = a.shape
    q = np.zeros((rows, columns))
    r = np.zeros((columns, columns))
    for k in range(columns):
        v = a[:, k]
        for j in range(k):
            r[j, k] = np.dot(q[:, j], a[:, k])
            v = v - r[j, k] * q[:, j]
        r[k, k] = np.sqrt(np.dot(v, v))
        q[:, k] = v / r[k, k]
    return np.sum(q * a) + np.sum(r**2) * q[0, 1]


@program(matrix(4, 3))
def modified_gram_schmidt_in_place(a):
    a = a.copy()
    for k in range(a.shape[1]):
        a[:, k] /= np.sqrt(np.sum(a[:, k] ** 2))
        for j in range(k + 1, a.shape[1]):
            a[:, j] -= np.dot(a[:, k], a[:, j]) * a[:, k]
    return np.sum(a * np.arange(12.0).reshape(4, 3))


@program(definite(4), vector(4), diff=(0, 1))
def forward_substitution(a, b):
    x = np.zeros_like(b)
    for i in range(b.shape[0]):
        x[i] = (b[i] - np.dot(a[i, :i], x[:i])) / a[i, i]
    return np.sum(x**2)


@program(definite(4), vector(4), diff=(0, 1))
def back_substitution(a, b):
    n = b.shape[0]
    x = b.copy()
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            x[i] -= a[i, j] * x[j]
        x[i] /= a[i, i]
    return np.sum(x * np.arange(1.0, n + 1.0))


@program(vector(5, low=-0.4, high=0.4))
def durbin(r):
    n = r.shape[0]
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, n):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return np.sum(y * np.arange(1.0, n + 1.0))


@program(vector(4), vector(4, 1, 3.0, 4.0), vector(4, 2), vector(4, 3), diff=(0, 1, 2, 3))
def thomas_algorithm(lower, main, upper, rhs):
    n = main.shape[0]
    c, d = upper.copy(), rhs.copy()
    c[0] = upper[0] / main[0]
    d[0] = rhs[0] / main[0]
    for i in range(1, n):
        m = main[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / m
        d[i] = (d[i] - lower[i] * d[i - 1]) / m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return np.sum(d * d)


@program(definite(3), vector(3), diff=(0, 1))
def power_iteration(a, v):
    for _ in range(8):
        w = a @ v
        v = w / np.sqrt(np.sum(w * w))
    return v @ a @ v


@program(definite(3), vector(3), diff=(0, 1))
def conjugate_gradient(a, b):
    x = np.zeros_like(b)
    r = b - a @ x
    p = r
    rr = r @ r
    for _ in range(2):
        ap = a @ p
        alpha = rr / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        new = r @ r
        p = r + new / rr * p
        rr = new
    return np.sum(x * np.array([1.0, 2.0, 3.0]))


@program(definite(4), vector(4), diff=(0, 1))
def jacobi_iteration(a, b):
    x = np.zeros_like(b)
    new = np.zeros_like(b)
    for _ in range(4):
        for i in range(b.shape[0]):
            s = b[i]
            for j in range(b.shape[0]):
                if j != i:
                    s -= a[i, j] * x[j]
            new[i] = s / a[i, i]
        x[:] = new
    return np.sum(x * x)


@program(definite(4), vector(4), diff=(0, 1))
def gauss_seidel_system(a, b):
    x = np.zeros_like(b)
    for _ in range(3):
        for i in range(b.shape[0]):
            x[i] = (b[i] - a[i, :i] @ x[:i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return np.sum(x**3)


@program(definite(3))
def newton_schulz_inverse(a):
    x = a.T / np.sum(a * a)
    for _ in range(6):
        x = x @ (2.0 * np.eye(3) - a @ x)
    return np.sum(x * np.arange(9.0).reshape(3, 3))


@program(definite(3))
def inverse_by_gauss_jordan(a):
    n = a.shape[0]
    work = np.concatenate([a, np.eye(n)], axis=1)
    for i in range(n):
        work[i] /= work[i, i]
        for j in range(n):
            if j != i:
                work[j] -= work[j, i] * work[i]
    return np.sum(work[:, n:] ** 2)


@program(matrix(3, 3, 0, -0.5, 0.5))
def matrix_exponential_series(a):
    term = np.eye(3)
    total = np.eye(3)
    for k in range(1, 9):
        term = term @ a / k
        total = total + term
    return np.sum(total * total)


@program(matrix(2, 3), matrix(3, 2, 1), diff=(0, 1))
def matrix_product_written_out(a, b):
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return np.sum(out * out)


@program(matrix(3, 4))
def column_statistics_in_place(data):
    """Covariance by centring the argument in place (PolyBench)."""
    rows, columns = data.shape
    mean = np.zeros(columns)
    for j in range(columns):
        mean[j] = np.sum(data[:, j]) / rows
    data -= mean
    cov = np.zeros((columns, columns))
    for i in range(columns):
        for j in range(i, columns):
            cov[i, j] = np.dot(data[:, i], data[:, j]) / (rows - 1.0)
            cov[j, i] = cov[i, j]
    return np.sum(cov**2)


@program(definite(3), definite(3, 4), diff=(0, 1))
def symmetric_rank_update(a, c):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= 0.7
        for k in range(a.shape[1]):
            c[i, : i + 1] += 1.5 * a[i, k] * a[: i + 1, k]
    return np.sum(c * c) / 100.0


@program(matrix(3, 3), vector(3), diff=(0, 1))
def householder_reflection(a, v):
    norm = np.sqrt(v @ v)
    u = v.copy()
    u[0] += norm if v[0] > 0.0 else -norm
    u = u / np.sqrt(u @ u)
    reflected = a - 2.0 * np.outer(u, u @ a)
    return np.sum(reflected * np.arange(9.0).reshape(3, 3))


@program(definite(3))
def jacobi_rotation(a):
    a = a.copy()
    for p in range(2):
        for q in range(p + 1, 3):
            theta = 0.5 * np.arctan2(2.0 * a[p, q], a[q, q] - a[p, p] + 1.0)
            c, s = np.cos(theta), np.sin(theta)
            for k in range(3):
                kp, kq = a[k, p], a[k, q]
                a[k, p] = c * kp - s * kq
                a[k, q] = s * kp + c * kq
            row_p, row_q = a[p].copy(), a[q].copy()
            a[p] = c * row_p - s * row_q
            a[q] = s * row_p + c * row_q
    return a[0, 0] * a[1, 1] + a[0, 2]
