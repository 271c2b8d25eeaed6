"""Incompressible flow in a driven cavity."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from programs.record import Program, compiled


def pressure(p, b, dx, dy, rounds):
    for _ in range(rounds):
        pn = p.copy()
        p[1:-1, 1:-1] = (
            (pn[1:-1, 2:] + pn[1:-1, :-2]) * dy**2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx**2
        ) / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def momentum(own, un, vn, along, dt, dx, dy, nu):
    """The next value of one component; `along` is the pressure's difference."""
    return (
        own[1:-1, 1:-1]
        - un[1:-1, 1:-1] * dt / dx * (own[1:-1, 1:-1] - own[1:-1, :-2])
        - vn[1:-1, 1:-1] * dt / dy * (own[1:-1, 1:-1] - own[:-2, 1:-1])
        - along
        + nu * dt / dx**2 * (own[1:-1, 2:] - 2 * own[1:-1, 1:-1] + own[1:-1, :-2])
        + nu * dt / dy**2 * (own[2:, 1:-1] - 2 * own[1:-1, 1:-1] + own[:-2, 1:-1])
    )


def source_term(u, v, rho, dt, dx, dy):
    ux = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
    uy = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy)
    vx = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx)
    vy = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
    return rho * ((ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2)


def cavity_flow(u, v, p, steps, rounds, dt, rho, nu):
    """The lid-driven cavity: velocities and pressure on a square."""
    dx = 2.0 / (u.shape[1] - 1)
    dy = 2.0 / (u.shape[0] - 1)
    b = np.zeros_like(p)
    for _ in range(steps):
        un = u.copy()
        vn = v.copy()
        b[1:-1, 1:-1] = source_term(u, v, rho, dt, dx, dy)
        pressure(p, b, dx, dy, rounds)
        px = dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
        py = dt / (2 * rho * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])
        u[1:-1, 1:-1] = momentum(un, un, vn, px, dt, dx, dy, nu)
        v[1:-1, 1:-1] = momentum(vn, un, vn, py, dt, dx, dy, nu)
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = 0
        v[-1, :] = 0
        v[:, 0] = 0
        v[:, -1] = 0
    return u, v, p


def cavity_flow_jax(u, v, p, steps, rounds, dt, rho, nu):
    dx = 2.0 / (u.shape[1] - 1)
    dy = 2.0 / (u.shape[0] - 1)

    def relax(b):
        def once(_, p):
            inner = (
                (p[1:-1, 2:] + p[1:-1, :-2]) * dy**2 + (p[2:, 1:-1] + p[:-2, 1:-1]) * dx**2
            ) / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b
            # Boundaries by padding, cheaper for XLA than five scatters.
            p = jnp.concatenate([inner[:, :1], inner, inner[:, -1:]], axis=1)
            return jnp.concatenate([p[:1], p, jnp.zeros_like(p[:1])], axis=0)

        return once

    def step(_, state):
        u, v, p = state
        b = source_term(u, v, rho, dt, dx, dy)
        p = lax.fori_loop(0, rounds, relax(b), p)
        px = dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
        py = dt / (2 * rho * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])
        new_u = jnp.pad(momentum(u, u, v, px, dt, dx, dy, nu), 1).at[-1, :].set(1.0)
        return new_u, jnp.pad(momentum(v, u, v, py, dt, dx, dy, nu), 1), p

    return lax.fori_loop(0, steps, step, (u, v, p))


@compiled
def momentum_numba(own, un, vn, i, j, dt, dx, dy, nu):
    c = own[i, j]
    return (
        c
        - un[i, j] * dt / dx * (c - own[i, j - 1])
        - vn[i, j] * dt / dy * (c - own[i - 1, j])
        + nu * dt / dx**2 * (own[i, j + 1] - 2 * c + own[i, j - 1])
        + nu * dt / dy**2 * (own[i + 1, j] - 2 * c + own[i - 1, j])
    )


@compiled
def cavity_flow_numba(u, v, p, steps, rounds, dt, rho, nu):
    n, m = u.shape
    dx, dy = 2.0 / (m - 1), 2.0 / (n - 1)
    b = np.zeros((n, m))
    un, vn, pn = u.copy(), v.copy(), p.copy()
    for _ in range(steps):
        un[:] = u
        vn[:] = v
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                ux = (u[i, j + 1] - u[i, j - 1]) / (2 * dx)
                uy = (u[i + 1, j] - u[i - 1, j]) / (2 * dy)
                vx = (v[i, j + 1] - v[i, j - 1]) / (2 * dx)
                vy = (v[i + 1, j] - v[i - 1, j]) / (2 * dy)
                b[i, j] = rho * ((ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2)
        scale = 1.0 / (2 * (dx**2 + dy**2))
        for _ in range(rounds):
            pn[:] = p
            for i in range(1, n - 1):
                for j in range(1, m - 1):
                    around = (pn[i, j + 1] + pn[i, j - 1]) * dy**2
                    around += (pn[i + 1, j] + pn[i - 1, j]) * dx**2
                    p[i, j] = around * scale - dx**2 * dy**2 * scale * b[i, j]
            for i in range(n):
                p[i, m - 1] = p[i, m - 2]
            for j in range(m):
                p[0, j] = p[1, j]
            for i in range(n):
                p[i, 0] = p[i, 1]
            for j in range(m):
                p[n - 1, j] = 0.0
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                px = dt / (2 * rho * dx) * (p[i, j + 1] - p[i, j - 1])
                py = dt / (2 * rho * dy) * (p[i + 1, j] - p[i - 1, j])
                u[i, j] = momentum_numba(un, un, vn, i, j, dt, dx, dy, nu) - px
                v[i, j] = momentum_numba(vn, un, vn, i, j, dt, dx, dy, nu) - py
        u[0, :] = 0
        u[:, 0] = 0
        u[:, m - 1] = 0
        u[n - 1, :] = 1
        v[0, :] = 0
        v[n - 1, :] = 0
        v[:, 0] = 0
        v[:, m - 1] = 0
    return u, v, p


def cavity_flow_arguments(rng, n):
    u, v, p = (0.1 * rng.normal(size=(n, n)) for _ in range(3))
    return u, v, p, (2 if n < 20 else 10), (3 if n < 20 else 20), 0.001, 1.0, 0.1


PROGRAMS = [
    Program(
        *(cavity_flow, cavity_flow_jax, cavity_flow_numba, cavity_flow_arguments, 7, 64),
        (0, 1, 2),
    ),
]
