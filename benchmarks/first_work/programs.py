"""Programs whose first calls are timed: each maps a state and parameters to the next state.

The text is JAX's too, under another import; what has a loop over run-time sizes has a form of its
own in `jax_programs`. A body is used once, twice and three times in a function: `loss_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def loss_of(body: Callable[..., Any], times: int) -> Callable[..., Any]:
    """The sum of squares of the state after so many copies of a body, one after the other."""
    again = [None] * times

    def loss(state, *parameters):
        for _ in again:
            state = body(state, *parameters)
        total = 0.0
        for part in state:
            total = total + np.sum(part * part)
        return total

    return loss


def forty_statements(state, y):
    """Forty elementwise statements, each value used several times."""
    (x,) = state
    a, b, c = x, y, x * y
    for _ in [None] * 8:
        d = np.sin(c)
        e = d * b
        a, b = e + a, np.tanh(e)
        c = b - 0.5 * d
    return (a + b + c,)


def brusselator(y, k):
    """A chemical reaction with diffusion along a line."""
    u, v = y[0], y[1]
    spread = np.zeros_like(y)
    spread[:, 1:-1] = y[:, 2:] - 2.0 * y[:, 1:-1] + y[:, :-2]
    made = np.zeros_like(y)
    made[0] = k[0] + u * u * v - (k[1] + 1.0) * u
    made[1] = k[1] * u - u * u * v
    return made + k[2] * spread


def rk45(state, k, dt, steps):
    """Dormand and Prince's method: six stages a step, and an estimate of the error."""
    y, error = state
    for _ in range(steps):
        k1 = brusselator(y, k)
        k2 = brusselator(y + dt * (k1 / 5), k)
        k3 = brusselator(y + dt * (3 / 40 * k1 + 9 / 40 * k2), k)
        k4 = brusselator(y + dt * (44 / 45 * k1 - 56 / 15 * k2 + 32 / 9 * k3), k)
        k5 = brusselator(
            y
            + dt * (19372 / 6561 * k1 - 25360 / 2187 * k2 + 64448 / 6561 * k3 - 212 / 729 * k4),
            k,
        )
        k6 = brusselator(
            y
            + dt
            * (
                9017 / 3168 * k1
                - 355 / 33 * k2
                + 46732 / 5247 * k3
                + 49 / 176 * k4
                - 5103 / 18656 * k5
            ),
            k,
        )
        y = y + dt * (
            35 / 384 * k1 + 500 / 1113 * k3 + 125 / 192 * k4 - 2187 / 6784 * k5 + 11 / 84 * k6
        )
        k7 = brusselator(y, k)
        off = dt * (
            71 / 57600 * k1
            - 71 / 16695 * k3
            + 71 / 1920 * k4
            - 17253 / 339200 * k5
            + 22 / 525 * k6
            - 1 / 40 * k7
        )
        error = error + np.sum(off * off)
    return y, error


def kalman(state, F, H, Q, R, seen):
    """A Kalman filter over all that was seen, and the likelihood of it."""
    x, P, likelihood = state
    for t in range(seen.shape[0]):
        x = F @ x
        P = F @ P @ F.T + Q
        off = seen[t] - H @ x
        S = H @ P @ H.T + R
        gain = P @ H.T @ np.linalg.inv(S)
        likelihood = likelihood + np.log(np.linalg.det(S)) + off @ np.linalg.solve(S, off)
        x = x + gain @ off
        P = P - gain @ H @ P
    return x, P, likelihood


def vertical_advection(state, wind, dt):
    """Implicit vertical advection: a tridiagonal system in every column."""
    (u,) = state
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
    return ((right - u) / dt,)


def dense_blocks(state, blocks):
    """Ten equal blocks: normalised, two dense layers, and what came in."""
    (x,) = state
    for w, b, v, c in blocks:
        y = x - np.mean(x, axis=1, keepdims=True)
        y = y / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + 1e-5)
        x = x + np.tanh(y @ w + b) @ v + c
    return (x,)


def _faces(q, axis):
    return 0.5 * (q + np.roll(q, -1, axis))


def _difference(q, axis):
    return q - np.roll(q, 1, axis)


def shallow_water(state, dt, g, f, drag):
    """One step of the shallow-water equations on a periodic staggered grid."""
    u, v, h = state
    mass_x, mass_y = _faces(h, 0) * u, _faces(h, 1) * v
    h_next = h - dt * (_difference(mass_x, 0) + _difference(mass_y, 1))
    kinetic = 0.25 * (u * u + np.roll(u, 1, 0) ** 2 + v * v + np.roll(v, 1, 1) ** 2)
    head = g * h_next + kinetic
    spin = f + np.roll(v, -1, 0) - v - np.roll(u, -1, 1) + u
    turn_u = 0.25 * spin * (mass_y + np.roll(mass_y, -1, 0) + np.roll(mass_y, 1, 1))
    turn_v = 0.25 * spin * (mass_x + np.roll(mass_x, -1, 1) + np.roll(mass_x, 1, 0))
    speed = np.sqrt(u * u + v * v + 1e-6)
    u_next = u + dt * (turn_u - np.roll(head, -1, 0) + head - drag * speed * u)
    v_next = v - dt * (turn_v + np.roll(head, -1, 1) - head + drag * speed * v)
    return u_next, v_next, h_next


PARENTS = (0, 0, 0, 2, 3, 3, 5, 6, 6, 8, 9, 9, 11, 12, 12, 14, 15, 15, 17, 18, 18, 20)


def rotation(angles):
    """A matrix of four by four that turns about three axes."""
    s, c = np.sin(angles), np.cos(angles)
    about_x = np.eye(4)
    about_x[1, 1], about_x[1, 2], about_x[2, 1], about_x[2, 2] = c[0], -s[0], s[0], c[0]
    about_y = np.eye(4)
    about_y[0, 0], about_y[0, 2], about_y[2, 0], about_y[2, 2] = c[1], s[1], -s[1], c[1]
    about_z = np.eye(4)
    about_z[0, 0], about_z[0, 1], about_z[1, 0], about_z[1, 1] = c[2], -s[2], s[2], c[2]
    return about_z @ about_y @ about_x


def skinning(state, bones, weights, points):
    """Points of a skin that follow a chain of bones, each a rotation after the one before."""
    (angles,) = state
    placed = []
    for k, (base, _) in enumerate(bones):
        own = base @ rotation(angles[k])
        placed.append(placed[PARENTS[k]] @ own if k else own)
    total = np.zeros_like(points)
    for k, (_, inverse) in enumerate(bones):
        total = total + (placed[k] @ inverse @ points) * weights[k]
    return (total,)


def _density_at_surface(s, t):
    fresh = 999.8 + t * (6.79e-2 + t * (-9.1e-3 + t * (1.0e-4 - 1.1e-6 * t)))
    if np.max(s) > 0.0:
        salt = 0.8245 + t * (-4.09e-3 + t * (7.6e-5 - 8.2e-7 * t))
        root = -5.7e-3 + t * (1.02e-4 - 1.65e-6 * t)
        return fresh + s * salt + s * np.sqrt(s) * root + 4.8e-4 * s * s
    return fresh


def _bulk_modulus(s, t, p):
    fresh = 19652.2 + t * (148.4 + t * (-2.327 + t * (1.36e-2 - 5.2e-5 * t)))
    if np.max(s) > 0.0:
        fresh = fresh + s * (54.67 + t * (-0.6 + t * (1.1e-2 - 6.2e-5 * t)))
    if np.max(p) > 0.0:
        a = 3.24 + t * (1.44e-3 + t * (1.16e-4 - 5.78e-7 * t))
        b = 8.5e-5 + t * (-6.1e-6 + 5.3e-8 * t)
        return fresh + p * (a + s * (2.28e-3 + 1.91e-4 * np.sqrt(s)) + p * b)
    return fresh


def _density(s, t, p):
    surface = _density_at_surface(s, t)
    if np.max(p) > 0.0:
        return surface / (1.0 - p / _bulk_modulus(s, t, p))
    return surface


def _lapse(s, t, p):
    """The warming of water that sinks."""
    rate = 3.6e-5 + t * (8.5e-6 + t * (-6.8e-8 + 5.4e-10 * t))
    if np.max(s) > 30.0:
        rate = rate + (1.9e-6 - 4.2e-8 * t) * (s - 35.0)
    elif np.min(s) < 5.0:
        rate = rate - 1.1e-7 * (5.0 - s) * t
    if np.max(p) > 100.0:
        deep = 1.9e-8 - 6.8e-10 * t + 8.7e-12 * t * t
        rate = rate + p * (deep + (-1.1e-10 + 2.8e-12 * t) * (s - 35.0))
    return rate


def _potential_temperature(s, t, p, reference):
    """The temperature at another pressure, by four stages of Runge and Kutta."""
    h = reference - p
    d1 = h * _lapse(s, t, p)
    t = t + 0.5 * d1
    d2 = h * _lapse(s, t, p + 0.5 * h)
    t = t + 0.29289322 * (d2 - d1)
    q = 0.58578644 * d2 + 0.121320344 * d1
    d3 = h * _lapse(s, t, p + 0.5 * h)
    t = t + 1.707106781 * (d3 - q)
    q = 3.414213562 * d3 - 4.121320344 * q
    return t + (h * _lapse(s, t, p + h) - 2.0 * q) / 6.0


def _heat(s, t, p):
    heat = 4217.4 + t * (-3.72 + t * (0.1412 + t * (-2.65e-3 + 2.09e-5 * t)))
    if np.max(s) > 0.0:
        heat = heat + s * (-7.64 + t * (0.107 - 1.38e-3 * t)) + 0.177 * s * np.sqrt(s)
    if np.max(p) > 0.0:
        heat = heat + p * (-0.49 + t * (1.45e-2 - 3.1e-4 * t))
    return heat


def thermodynamics(state, level):
    """Density, stability and heat of sea water: nested calls of functions with branches."""
    s, t, p, depth = state
    theta = _potential_temperature(s, t, p, level)
    density, shifted = _density(s, t, p), _density(s, theta, level)
    if np.max(depth) > 0.0:
        lifted = _potential_temperature(s, theta, level, p)
        density = density + 1e-3 * (lifted - t) * depth
    expansion = (_density(s, t + 0.01, p) - density) / 0.01
    contraction = (_density(s + 0.01, t, p) - density) / 0.01
    heat = _heat(s, theta, p) * density
    stability = (shifted - density) * (expansion * depth - contraction)
    return s + 1e-9 * heat, theta, p, depth + 1e-6 * stability


def _arguments(name: str, rng: np.random.Generator) -> tuple[Any, ...]:
    if name == "forty_statements":
        return (rng.normal(size=1000),), rng.normal(size=1000)
    if name == "rk45":
        return (1.0 + 0.1 * rng.random((2, 64)), 0.0), np.array([1.0, 3.0, 0.02]), 0.01, 50
    if name == "kalman":
        F = np.eye(4) + 0.1 * np.eye(4, k=2)
        state = (np.zeros(4), np.eye(4), 0.0)
        return state, F, np.eye(2, 4), 0.01 * np.eye(4), np.eye(2), rng.normal(size=(100, 2))
    if name == "vertical_advection":
        return (rng.normal(size=(16, 17, 40)),), rng.normal(size=(16, 17, 41)), 0.2
    if name == "dense_blocks":
        block = [(0.2 * rng.normal(size=(32, 32)), np.zeros(32)) * 2 for _ in range(10)]
        return (rng.normal(size=(64, 32)),), block
    if name == "shallow_water":
        state = tuple(0.1 * rng.normal(size=(48, 50)) + k for k in (0.0, 0.0, 1.0))
        return state, 0.01, 9.81, 0.1, 1e-3
    if name == "skinning":
        base = [np.eye(4) + 0.1 * rng.normal(size=(4, 4)) for _ in range(22)]
        bones = [(b, np.linalg.inv(b)) for b in base]
        weights = rng.random((22, 500)) / 22
        return (rng.normal(size=(22, 3)),), bones, weights, rng.normal(size=(4, 500))
    shape = (30, 40)
    state = tuple(a + b * rng.random(shape) for a, b in ((30, 8), (1, 20), (10, 50), (1, 5)))
    return state, 5.0


BODIES = (
    *("forty_statements", "rk45", "kalman", "vertical_advection", "dense_blocks"),
    *("shallow_water", "skinning", "thermodynamics"),
)
REPEATED = BODIES[:6]


def arguments(name: str) -> tuple[Any, ...]:
    """Inputs of a body: its state, and its parameters."""
    return _arguments(name, np.random.default_rng(7))
