"""Products, factorizations and statistics of matrices."""

import jax
import jax.numpy as jnp
import numpy as np

from programs.record import Program, compiled


def gemm(alpha, beta, C, A, B):
    C[:] = alpha * A @ B + beta * C
    return C


def gemm_jax(alpha, beta, C, A, B):
    return alpha * A @ B + beta * C


@compiled
def gemm_numba(alpha, beta, C, A, B):
    product = A @ B
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = alpha * product[i, j] + beta * C[i, j]
    return C


def gemm_arguments(rng, n):
    return (
        1.5,
        1.2,
        rng.normal(size=(n, n)),
        rng.normal(size=(n, n + 2)),
        rng.normal(size=(n + 2, n)),
    )


def three_products(A, B, C, D):
    return A @ B @ (C @ D)


@compiled
def three_products_numba(A, B, C, D):
    return (A @ B) @ (C @ D)


def three_products_arguments(rng, n):
    return tuple(rng.normal(size=(n, n)) for _ in range(4))


def atax(A, x):
    return (A @ x) @ A


@compiled
def atax_numba(A, x):
    out = np.zeros(A.shape[1])
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * x[j]
        for j in range(A.shape[1]):
            out[j] += s * A[i, j]
    return out


def atax_arguments(rng, n):
    return rng.normal(size=(n, n + 1)), rng.normal(size=n + 1)


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * A @ x
    return w


def gemver_jax(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A = A + jnp.outer(u1, v1) + jnp.outer(u2, v2)
    x = x + beta * y @ A + z
    return w + alpha * A @ x


@compiled
def gemver_numba(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    n = A.shape[0]
    for i in range(n):
        for j in range(n):
            A[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
            x[j] += beta * y[i] * A[i, j]
    for j in range(n):
        x[j] += z[j]
    for i in range(n):
        s = 0.0
        for j in range(n):
            s += A[i, j] * x[j]
        w[i] += alpha * s
    return w


def gemver_arguments(rng, n):
    return 1.5, 1.2, rng.normal(size=(n, n)), *(rng.normal(size=n) for _ in range(8))


def syrk(alpha, beta, C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]
    return C


def syrk_jax(alpha, beta, C, A):
    return jnp.where(jnp.tri(C.shape[0], dtype=bool), beta * C + alpha * A @ A.T, C)


@compiled
def syrk_numba(alpha, beta, C, A):
    for i in range(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * s
    return C


def syrk_arguments(rng, n):
    return 1.5, 1.2, rng.normal(size=(n, n)), rng.normal(size=(n, n // 2))


def correlation(data):
    n, m = data.shape
    stddev = np.std(data, axis=0)
    stddev[stddev <= 0.1] = 1.0
    data = (data - np.mean(data, axis=0)) / (np.sqrt(n) * stddev)
    corr = np.eye(m)
    for i in range(m - 1):
        corr[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
        corr[i + 1 :, i] = corr[i, i + 1 :]
    return corr


def correlation_jax(data):
    n, m = data.shape
    stddev = jnp.std(data, axis=0)
    stddev = jnp.where(stddev <= 0.1, 1.0, stddev)
    data = (data - jnp.mean(data, axis=0)) / (np.sqrt(n) * stddev)
    return jnp.where(jnp.eye(m, dtype=bool), 1.0, data.T @ data)


@compiled
def correlation_numba(data):
    n, m = data.shape
    scaled = np.empty((m, n))
    for j in range(m):
        mean = 0.0
        for i in range(n):
            mean += data[i, j]
        mean /= n
        square = 0.0
        for i in range(n):
            square += (data[i, j] - mean) ** 2
        stddev = np.sqrt(square / n)
        if stddev <= 0.1:
            stddev = 1.0
        for i in range(n):
            scaled[j, i] = (data[i, j] - mean) / (np.sqrt(n) * stddev)
    corr = scaled @ scaled.T
    for j in range(m):
        corr[j, j] = 1.0
    return corr


def correlation_arguments(rng, n):
    return (rng.normal(size=(n + 3, n)),)


def cholesky2(A):
    return np.linalg.cholesky(A) + np.triu(A, k=1)


def cholesky2_jax(A):
    return jnp.linalg.cholesky(A) + jnp.triu(A, k=1)


@compiled
def cholesky2_numba(A):
    out = np.linalg.cholesky(A)
    for i in range(A.shape[0]):
        for j in range(i + 1, A.shape[1]):
            out[i, j] = A[i, j]
    return out


def cholesky2_arguments(rng, n):
    A = rng.normal(size=(n, n))
    return (A @ A.T + n * np.eye(n),)


def spmv(starts, columns, values, x):
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        cols = columns[starts[i] : starts[i + 1]]
        vals = values[starts[i] : starts[i + 1]]
        y[i] = vals @ x[cols]
    return y


def spmv_jax(starts, columns, values, x):
    rows = jnp.searchsorted(starts, jnp.arange(values.size), side="right") - 1
    return jax.ops.segment_sum(values * x[columns], rows, starts.size - 1, indices_are_sorted=True)


@compiled
def spmv_numba(starts, columns, values, x):
    y = np.empty(starts.size - 1)
    for i in range(starts.size - 1):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s
    return y


def spmv_arguments(rng, n):
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 12, n))])
    count = int(starts[-1])
    return starts, rng.integers(0, n, count), rng.normal(size=count), rng.normal(size=n)


PROGRAMS = [
    Program(gemm, gemm_jax, gemm_numba, gemm_arguments, 5, 400, (0, 2, 3, 4)),
    Program(
        *(three_products, three_products, three_products_numba, three_products_arguments),
        *(4, 400, (0, 1, 2, 3)),
    ),
    Program(atax, atax, atax_numba, atax_arguments, 5, 2000, (0, 1)),
    Program(gemver, gemver_jax, gemver_numba, gemver_arguments, 5, 1500, (2, 3, 4, 8, 9)),
    Program(syrk, syrk_jax, syrk_numba, syrk_arguments, 6, 150, (0, 2, 3)),
    Program(correlation, correlation_jax, correlation_numba, correlation_arguments, 6, 200),
    Program(cholesky2, cholesky2_jax, cholesky2_numba, cholesky2_arguments, 5, 200),
    Program(spmv, spmv_jax, spmv_numba, spmv_arguments, 8, 4000, (2, 3)),
]
