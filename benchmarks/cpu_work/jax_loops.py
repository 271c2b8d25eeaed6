"""The loops in JAX, in all usual forms; the one with the fastest gradient counts."""

import jax
import jax.numpy as jnp
from jax import lax


def jacobi_1d(A, B, steps):
    def step(_, both):
        A, B = both
        B = B.at[1:-1].set(0.33333 * (A[:-2] + A[1:-1] + A[2:]))
        return A.at[1:-1].set(0.33333 * (B[:-2] + B[1:-1] + B[2:])), B

    A, _ = lax.fori_loop(0, steps, step, (A, B))
    return jnp.sum(A * A)


def jacobi_2d(A, B, steps):
    def mean(u, v):
        inner = u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1]
        return v.at[1:-1, 1:-1].set(0.2 * inner)

    def step(_, both):
        A, B = both
        B = mean(A, B)
        return mean(B, A), B

    A, _ = lax.fori_loop(0, steps, step, (A, B))
    return jnp.sum(A * A)


def heat_3d(A, B, steps):
    def diffused(u, v):
        c = u[1:-1, 1:-1, 1:-1]
        inner = (
            0.125 * (u[2:, 1:-1, 1:-1] - 2.0 * c + u[:-2, 1:-1, 1:-1])
            + 0.125 * (u[1:-1, 2:, 1:-1] - 2.0 * c + u[1:-1, :-2, 1:-1])
            + 0.125 * (u[1:-1, 1:-1, 2:] - 2.0 * c + u[1:-1, 1:-1, :-2])
            + c
        )
        return v.at[1:-1, 1:-1, 1:-1].set(inner)

    def step(_, both):
        A, B = both
        B = diffused(A, B)
        return diffused(B, A), B

    A, _ = lax.fori_loop(0, steps, step, (A, B))
    return jnp.sum(A * A)


def seidel_2d_stores(A, steps):
    """Element by element, with `.at`."""
    n, m = A.shape

    def cell(k, A):
        i, j = 1 + k // (m - 2), 1 + k % (m - 2)
        mean = jnp.sum(lax.dynamic_slice(A, (i - 1, j - 1), (3, 3))) / 9.0
        return A.at[i, j].set(mean)

    def step(_, A):
        return lax.fori_loop(0, (n - 2) * (m - 2), cell, A)

    A = lax.fori_loop(0, steps, step, A)
    return jnp.sum(A * A)


def seidel_2d_scans(A, steps):
    """Row by row, each a scan of the recurrence along it."""

    def row(above, rows):
        old, below = rows
        known = above[:-2] + above[1:-1] + above[2:] + old[1:-1] + old[2:]
        known = known + below[:-2] + below[1:-1] + below[2:]

        def cell(left, term):
            now = (left + term) / 9.0
            return now, now

        _, inner = lax.scan(cell, old[0], known)
        new = jnp.concatenate([old[:1], inner, old[-1:]])
        return new, new

    def step(_, A):
        _, inner = lax.scan(row, A[0], (A[1:-1], A[2:]))
        return jnp.concatenate([A[:1], inner, A[-1:]])

    A = lax.fori_loop(0, steps, step, A)
    return jnp.sum(A * A)


def seidel_2d_associative(A, steps):
    """Row by row, each recurrence as an associative scan."""

    def joined(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    def row(above, rows):
        old, below = rows
        known = above[:-2] + above[1:-1] + above[2:] + old[1:-1] + old[2:]
        known = (known + below[:-2] + below[1:-1] + below[2:]) / 9.0
        known = known.at[0].add(old[0] / 9.0)
        _, inner = lax.associative_scan(joined, (jnp.full(known.shape, 1.0 / 9.0), known))
        new = jnp.concatenate([old[:1], inner, old[-1:]])
        return new, new

    def step(_, A):
        _, inner = lax.scan(row, A[0], (A[1:-1], A[2:]))
        return jnp.concatenate([A[:1], inner, A[-1:]])

    A = lax.fori_loop(0, steps, step, A)
    return jnp.sum(A * A)


def fdtd_2d(ex, ey, hz, wave):
    def step(fields, value):
        ex, ey, hz = fields
        ey = ey.at[0, :].set(value)
        ey = ey.at[1:, :].add(-0.5 * (hz[1:, :] - hz[:-1, :]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return (ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)), None

    (_, _, hz), _ = lax.scan(step, (ex, ey, hz), wave)
    return jnp.sum(hz * hz)


def lu(A):
    """Elimination by columns: a masked update of rank one."""
    row = jnp.arange(A.shape[0])

    def step(k, A):
        factor = jnp.where(row > k, A[:, k] / A[k, k], 0.0)
        rest = jnp.where(row > k, A[k, :], 0.0)
        A = A - jnp.outer(factor, rest)
        return A.at[:, k].set(jnp.where(row > k, factor, A[:, k]))

    A = lax.fori_loop(0, A.shape[0], step, A)
    return jnp.sum(A * A)


def _cholesky_loss(L):
    return jnp.sum(jnp.tril(L) ** 2 * (1.0 + 0.1 * jnp.arange(L.shape[0])))


def cholesky(A):
    """By columns: a masked update of rank one."""
    row = jnp.arange(A.shape[0])

    def step(k, A):
        pivot = jnp.sqrt(A[k, k])
        column = jnp.where(row > k, A[:, k] / pivot, 0.0)
        A = A - jnp.outer(column, column)
        return A.at[:, k].set(jnp.where(row > k, column, A[:, k]).at[k].set(pivot))

    return _cholesky_loss(lax.fori_loop(0, A.shape[0], step, A))


def cholesky_library(A):
    """LAPACK. The adjoint of an unsymmetrised input reads the lower triangle only."""
    lower = jnp.tril(A)
    return _cholesky_loss(jnp.linalg.cholesky(lower + jnp.tril(A, -1).T, symmetrize_input=False))


def gram_schmidt(A):
    column = jnp.arange(A.shape[1])

    def step(k, state):
        A, Q, R = state
        norm = jnp.sqrt(jnp.sum(A[:, k] ** 2))
        q = A[:, k] / norm
        products = jnp.where(column > k, q @ A, 0.0)
        A = A - jnp.outer(q, products)
        return A, Q.at[:, k].set(q), R.at[k, :].set(products.at[k].set(norm))

    start = A, jnp.zeros(A.shape), jnp.zeros((A.shape[1], A.shape[1]))
    _, Q, R = lax.fori_loop(0, A.shape[1], step, start)
    return jnp.sum(Q * Q * Q) + jnp.sum(R * R)


def durbin(r):
    place = jnp.arange(r.shape[0])

    def step(k, state):
        y, alpha, beta = state
        beta = (1.0 - alpha * alpha) * beta
        inside = place < k
        turned = jnp.where(inside, k - 1 - place, 0)
        alpha = -(r[k] + jnp.sum(jnp.where(inside, r[turned] * y, 0.0))) / beta
        y = y + jnp.where(inside, alpha * y[turned], 0.0)
        return y.at[k].set(alpha), alpha, beta

    start = jnp.zeros(r.shape).at[0].set(-r[0]), -r[0], jnp.array(1.0)
    y, _, _ = lax.fori_loop(1, r.shape[0], step, start)
    return jnp.sum(y * y)


def triangular_solve_rows(L, b):
    """Row by row: one masked dot product each."""
    place = jnp.arange(b.shape[0])

    def step(i, x):
        known = jnp.sum(jnp.where(place < i, L[i] * x, 0.0))
        return x.at[i].set((b[i] - known) / L[i, i])

    x = lax.fori_loop(0, b.shape[0], step, jnp.zeros(b.shape))
    return jnp.sum(x * x)


def triangular_solve_columns(L, b):
    """Column by column: what is found is taken off the rest."""
    place = jnp.arange(b.shape[0])

    def step(rest, rows):
        i, column, pivot = rows
        found = rest[i] / pivot
        return rest - jnp.where(place > i, column * found, 0.0), found

    _, x = lax.scan(step, b, (place, L.T, jnp.diagonal(L)))
    return jnp.sum(x * x)


def triangular_solve_library(L, b):
    """LAPACK."""
    x = jax.scipy.linalg.solve_triangular(L, b, lower=True)
    return jnp.sum(x * x)


def shortest_paths(path):
    def step(k, path):
        return jnp.minimum(path, path[:, k][:, None] + path[k, :])

    path = lax.fori_loop(0, path.shape[0], step, path)
    return jnp.sum(path * path)


# The same loops, as they are: one `.at[i, j].set` where the program stores an element.


def lu_stores(A):
    n = A.shape[0]
    place = jnp.arange(n)

    def cell(k, A):
        i, j = k // n, k % n
        known = jnp.sum(jnp.where(place < jnp.minimum(i, j), A[i] * A[:, j], 0.0))
        value = A[i, j] - known
        return A.at[i, j].set(jnp.where(j < i, value / A[j, j], value))

    A = lax.fori_loop(0, n * n, cell, A)
    return jnp.sum(A * A)


def cholesky_stores(A):
    n = A.shape[0]
    place = jnp.arange(n)

    def cell(k, A):
        i, j = k // n, k % n
        value = A[i, j] - jnp.sum(jnp.where(place < j, A[i] * A[j], 0.0))
        root = jnp.sqrt(jnp.where(i == j, value, 1.0))
        found = jnp.where(j < i, value / A[j, j], root)
        return A.at[i, j].set(jnp.where(j <= i, found, A[i, j]))

    return _cholesky_loss(lax.fori_loop(0, n * n, cell, A))


def gram_schmidt_stores(A):
    n = A.shape[1]

    def column(k, state):
        A, Q, R = state
        norm = jnp.sqrt(jnp.sum(A[:, k] ** 2))
        R = R.at[k, k].set(norm)
        Q = Q.at[:, k].set(A[:, k] / norm)

        def later(j, both):
            A, R = both
            product = Q[:, k] @ A[:, j]
            R = R.at[k, j].set(jnp.where(j > k, product, R[k, j]))
            return A.at[:, j].add(jnp.where(j > k, -product, 0.0) * Q[:, k]), R

        A, R = lax.fori_loop(0, n, later, (A, R))
        return A, Q, R

    start = A, jnp.zeros(A.shape), jnp.zeros((n, n))
    _, Q, R = lax.fori_loop(0, n, column, start)
    return jnp.sum(Q * Q * Q) + jnp.sum(R * R)


def shortest_paths_stores(path):
    n = path.shape[0]

    def row(s, path):
        k, i = s // n, s % n
        return path.at[i].set(jnp.minimum(path[i], path[i, k] + path[k]))

    path = lax.fori_loop(0, n * n, row, path)
    return jnp.sum(path * path)
