"""Sweeps over grids: diffusion, advection, flow."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from programs.record import Program, compiled


def jacobi_2d(A, B, steps):
    for _ in range(steps):
        B[1:-1, 1:-1] = 0.2 * (
            A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1]
        )
        A[1:-1, 1:-1] = 0.2 * (
            B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1]
        )
    return A


def jacobi_2d_jax(A, B, steps):
    def mean(u, v):
        inner = u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1]
        return v.at[1:-1, 1:-1].set(0.2 * inner)

    def step(_, both):
        A, B = both
        B = mean(A, B)
        return mean(B, A), B

    return lax.fori_loop(0, steps, step, (A, B))[0]


@compiled
def jacobi_2d_numba(A, B, steps):
    n, m = A.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])
    return A


def jacobi_2d_arguments(rng, n):
    return rng.normal(size=(n, n + 1)), rng.normal(size=(n, n + 1)), 20


def heat_3d(u, steps):
    for _ in range(steps):
        u[1:-1, 1:-1, 1:-1] += (
            0.125 * (u[2:, 1:-1, 1:-1] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1])
            + 0.125 * (u[1:-1, 2:, 1:-1] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1])
            + 0.125 * (u[1:-1, 1:-1, 2:] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[1:-1, 1:-1, :-2])
        )
    return u


def heat_3d_jax(u, steps):
    def step(_, u):
        c = u[1:-1, 1:-1, 1:-1]
        change = (
            0.125 * (u[2:, 1:-1, 1:-1] - 2.0 * c + u[:-2, 1:-1, 1:-1])
            + 0.125 * (u[1:-1, 2:, 1:-1] - 2.0 * c + u[1:-1, :-2, 1:-1])
            + 0.125 * (u[1:-1, 1:-1, 2:] - 2.0 * c + u[1:-1, 1:-1, :-2])
        )
        return u.at[1:-1, 1:-1, 1:-1].add(change)

    return lax.fori_loop(0, steps, step, u)


@compiled
def heat_3d_numba(u, steps):
    n, m, l = u.shape
    old = u.copy()
    for _ in range(steps):
        old[:] = u
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, l - 1):
                    c = old[i, j, k]
                    u[i, j, k] = c + (
                        0.125 * (old[i + 1, j, k] - 2.0 * c + old[i - 1, j, k])
                        + 0.125 * (old[i, j + 1, k] - 2.0 * c + old[i, j - 1, k])
                        + 0.125 * (old[i, j, k + 1] - 2.0 * c + old[i, j, k - 1])
                    )
    return u


def heat_3d_arguments(rng, n):
    return rng.normal(size=(n, n + 1, n + 2)), 10


def horizontal_diffusion(field, coefficient):
    lap = 4.0 * field[1:-1, 1:-1, :] - (
        field[2:, 1:-1, :] + field[:-2, 1:-1, :] + field[1:-1, 2:, :] + field[1:-1, :-2, :]
    )
    flux_x = lap[1:, 1:-1, :] - lap[:-1, 1:-1, :]
    slope_x = field[2:-1, 2:-2, :] - field[1:-2, 2:-2, :]
    flux_x = np.where(flux_x * slope_x > 0, 0, flux_x)
    flux_y = lap[1:-1, 1:, :] - lap[1:-1, :-1, :]
    slope_y = field[2:-2, 2:-1, :] - field[2:-2, 1:-2, :]
    flux_y = np.where(flux_y * slope_y > 0, 0, flux_y)
    return field[2:-2, 2:-2, :] - coefficient * (
        flux_x[1:, :, :] - flux_x[:-1, :, :] + flux_y[:, 1:, :] - flux_y[:, :-1, :]
    )


def horizontal_diffusion_jax(field, coefficient):
    lap = 4.0 * field[1:-1, 1:-1] - (
        field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2]
    )
    flux_x = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flux_x = jnp.where(flux_x * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0, flux_x)
    flux_y = lap[1:-1, 1:] - lap[1:-1, :-1]
    flux_y = jnp.where(flux_y * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0, flux_y)
    change = flux_x[1:] - flux_x[:-1] + flux_y[:, 1:] - flux_y[:, :-1]
    return field[2:-2, 2:-2] - coefficient * change


@compiled
def limited(difference, slope):
    return 0.0 if difference * slope > 0 else difference


@compiled
def horizontal_diffusion_numba(field, coefficient):
    n, m, l = field.shape
    lap = np.empty((n, m, l))
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            for k in range(l):
                lap[i, j, k] = 4.0 * field[i, j, k] - (
                    field[i + 1, j, k]
                    + field[i - 1, j, k]
                    + field[i, j + 1, k]
                    + field[i, j - 1, k]
                )
    out = np.empty((n - 4, m - 4, l))
    for i in range(2, n - 2):
        for j in range(2, m - 2):
            for k in range(l):
                c, here = lap[i, j, k], field[i, j, k]
                east = limited(lap[i + 1, j, k] - c, field[i + 1, j, k] - here)
                west = limited(c - lap[i - 1, j, k], here - field[i - 1, j, k])
                north = limited(lap[i, j + 1, k] - c, field[i, j + 1, k] - here)
                south = limited(c - lap[i, j - 1, k], here - field[i, j - 1, k])
                change = east - west + north - south
                out[i - 2, j - 2, k] = here - coefficient[i - 2, j - 2, k] * change
    return out


def horizontal_diffusion_arguments(rng, n):
    return rng.normal(size=(n + 4, n + 5, 16)), rng.normal(size=(n, n + 1, 16))


def vertical_advection(u, wind, dt):
    """Implicit vertical advection: a tridiagonal system in every column."""
    levels = u.shape[2]
    upper = np.zeros_like(u)
    right = np.zeros_like(u)
    for k in range(levels):
        below = -0.25 * wind[:, :, k]
        above = 0.25 * wind[:, :, k + 1]
        if k == 0:
            diagonal = 1.0 / dt - above
            change = above * (u[:, :, k + 1] - u[:, :, k])
            upper[:, :, k] = above / diagonal
            right[:, :, k] = (u[:, :, k] / dt - change) / diagonal
        elif k < levels - 1:
            diagonal = 1.0 / dt - below - above
            change = above * (u[:, :, k + 1] - u[:, :, k]) + below * (u[:, :, k - 1] - u[:, :, k])
            pivot = 1.0 / (diagonal - upper[:, :, k - 1] * below)
            upper[:, :, k] = above * pivot
            right[:, :, k] = (u[:, :, k] / dt - change - right[:, :, k - 1] * below) * pivot
        else:
            diagonal = 1.0 / dt - below
            change = below * (u[:, :, k - 1] - u[:, :, k])
            pivot = 1.0 / (diagonal - upper[:, :, k - 1] * below)
            right[:, :, k] = (u[:, :, k] / dt - change - right[:, :, k - 1] * below) * pivot
    for k in range(levels - 2, -1, -1):
        right[:, :, k] -= upper[:, :, k] * right[:, :, k + 1]
    return (right - u) / dt


def vertical_advection_jax(u, wind, dt):
    u, wind = jnp.moveaxis(u, 2, 0), jnp.moveaxis(wind, 2, 0)
    levels = u.shape[0]
    row = jnp.arange(levels)[:, None, None]
    below = jnp.where(row > 0, -0.25 * wind[:levels], 0.0)
    above = jnp.where(row < levels - 1, 0.25 * wind[1 : levels + 1], 0.0)
    over = jnp.concatenate([u[1:], u[-1:]])
    under = jnp.concatenate([u[:1], u[:-1]])
    diagonal = 1.0 / dt - below - above
    change = above * (over - u) + below * (under - u)
    known = u / dt - change

    def eliminate(carry, rows):
        upper, right = carry
        below, diagonal, above, known = rows
        pivot = 1.0 / (diagonal - upper * below)
        found = above * pivot, (known - right * below) * pivot
        return found, found

    def substitute(after, rows):
        upper, right = rows
        now = right - upper * after
        return now, now

    zero = jnp.zeros(u.shape[1:])
    _, (upper, right) = lax.scan(eliminate, (zero, zero), (below, diagonal, above, known))
    _, solution = lax.scan(substitute, zero, (upper, right), reverse=True)
    return jnp.moveaxis((solution - u) / dt, 0, 2)


@compiled
def vertical_advection_numba(u, wind, dt):
    n, m, levels = u.shape
    out = np.empty((n, m, levels))
    upper = np.empty(levels)
    right = np.empty(levels)
    for i in range(n):
        for j in range(m):
            for k in range(levels):
                below = -0.25 * wind[i, j, k] if k > 0 else 0.0
                above = 0.25 * wind[i, j, k + 1] if k < levels - 1 else 0.0
                change = 0.0
                if k < levels - 1:
                    change += above * (u[i, j, k + 1] - u[i, j, k])
                if k > 0:
                    change += below * (u[i, j, k - 1] - u[i, j, k])
                before = upper[k - 1] if k > 0 else 0.0
                carried = right[k - 1] if k > 0 else 0.0
                pivot = 1.0 / (1.0 / dt - below - above - before * below)
                upper[k] = above * pivot
                right[k] = (u[i, j, k] / dt - change - carried * below) * pivot
            for k in range(levels - 2, -1, -1):
                right[k] -= upper[k] * right[k + 1]
            for k in range(levels):
                out[i, j, k] = (right[k] - u[i, j, k]) / dt
    return out


def vertical_advection_arguments(rng, n):
    return rng.normal(size=(n, n + 1, 40)), rng.normal(size=(n, n + 1, 41)), 0.2


def adi(u, steps):
    """Alternating-direction implicit diffusion."""
    n = u.shape[0]
    v = np.zeros_like(u)
    p = np.zeros_like(u)
    q = np.zeros_like(u)
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        q[1:-1, 0] = 1.0
        for j in range(1, n - 1):
            p[1:-1, j] = 0.4 / (1.9 - 0.4 * p[1:-1, j - 1])
            q[1:-1, j] = (
                0.3 * u[j, :-2] + 0.5 * u[j, 1:-1] + 0.3 * u[j, 2:] + 0.4 * q[1:-1, j - 1]
            ) / (1.9 - 0.4 * p[1:-1, j - 1])
        v[n - 1, 1:-1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 0] = 1.0
        q[1:-1, 0] = 1.0
        for j in range(1, n - 1):
            p[1:-1, j] = 0.3 / (1.7 - 0.3 * p[1:-1, j - 1])
            q[1:-1, j] = (
                0.4 * v[:-2, j] + 0.6 * v[1:-1, j] + 0.4 * v[2:, j] + 0.3 * q[1:-1, j - 1]
            ) / (1.7 - 0.3 * p[1:-1, j - 1])
        u[1:-1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1:-1, j] = p[1:-1, j] * u[1:-1, j + 1] + q[1:-1, j]
    return u


def adi_jax(u, steps):
    n = u.shape[0]

    def sweep(rows, c, diagonal):
        # One implicit sweep: `rows` are the right-hand sides, the ends are one.
        def eliminate(carry, row):
            p, q = carry
            pivot = diagonal - c * p
            found = c / pivot, (row + c * q) / pivot
            return found, found

        def substitute(after, row):
            p, q = row
            now = p * after + q
            return now, now

        one = jnp.ones(n - 2)
        _, (p, q) = lax.scan(eliminate, (jnp.zeros(n - 2), one), rows)
        _, found = lax.scan(substitute, one, (p, q), reverse=True)
        return found

    def step(_, both):
        u, v = both
        rows = 0.3 * u[1:-1, :-2] + 0.5 * u[1:-1, 1:-1] + 0.3 * u[1:-1, 2:]
        v = v.at[1:-1, 1:-1].set(sweep(rows, 0.4, 1.9))
        v = v.at[0, 1:-1].set(1.0).at[n - 1, 1:-1].set(1.0)
        columns = 0.4 * v[:-2, 1:-1] + 0.6 * v[1:-1, 1:-1] + 0.4 * v[2:, 1:-1]
        u = u.at[1:-1, 1:-1].set(sweep(columns.T, 0.3, 1.7).T)
        return u.at[1:-1, 0].set(1.0).at[1:-1, n - 1].set(1.0), v

    return lax.fori_loop(0, steps, step, (u, jnp.zeros_like(u)))[0]


@compiled
def adi_numba(u, steps):
    n = u.shape[0]
    v = np.zeros_like(u)
    p = np.zeros_like(u)
    q = np.zeros_like(u)
    for _ in range(steps):
        for i in range(1, n - 1):
            v[0, i] = 1.0
            q[i, 0] = 1.0
            for j in range(1, n - 1):
                pivot = 1.9 - 0.4 * p[i, j - 1]
                p[i, j] = 0.4 / pivot
                known = 0.3 * u[j, i - 1] + 0.5 * u[j, i] + 0.3 * u[j, i + 1]
                q[i, j] = (known + 0.4 * q[i, j - 1]) / pivot
            v[n - 1, i] = 1.0
            for j in range(n - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in range(1, n - 1):
            u[i, 0] = 1.0
            q[i, 0] = 1.0
            for j in range(1, n - 1):
                pivot = 1.7 - 0.3 * p[i, j - 1]
                p[i, j] = 0.3 / pivot
                known = 0.4 * v[i - 1, j] + 0.6 * v[i, j] + 0.4 * v[i + 1, j]
                q[i, j] = (known + 0.3 * q[i, j - 1]) / pivot
            u[i, n - 1] = 1.0
            for j in range(n - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]
    return u


def adi_arguments(rng, n):
    return rng.normal(size=(n, n)), 5


PROGRAMS = [
    Program(jacobi_2d, jacobi_2d_jax, jacobi_2d_numba, jacobi_2d_arguments, 6, 200, (0, 1)),
    Program(heat_3d, heat_3d_jax, heat_3d_numba, heat_3d_arguments, 4, 40),
    Program(
        *(horizontal_diffusion, horizontal_diffusion_jax, horizontal_diffusion_numba),
        *(horizontal_diffusion_arguments, 4, 64, (0, 1)),
    ),
    Program(
        *(vertical_advection, vertical_advection_jax, vertical_advection_numba),
        *(vertical_advection_arguments, 3, 48, (0, 1)),
    ),
    Program(adi, adi_jax, adi_numba, adi_arguments, 6, 100),
]
