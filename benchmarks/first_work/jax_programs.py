"""The same programs for JAX: loops over run-time sizes as `lax` has them, branches as choices."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
from jax import lax

from cpu_work.peers import as_jax

jax.config.update("jax_enable_x64", True)
SAME = as_jax(Path(__file__).with_name("programs.py"))
PARENTS = SAME.PARENTS


def brusselator(y, k):
    u, v = y[0], y[1]
    spread = jnp.zeros_like(y).at[:, 1:-1].set(y[:, 2:] - 2.0 * y[:, 1:-1] + y[:, :-2])
    made = jnp.stack([k[0] + u * u * v - (k[1] + 1.0) * u, k[1] * u - u * u * v])
    return made + k[2] * spread


def rk45(state, k, dt, steps):
    stages = (
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    )
    errors = 71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40

    def moved(slopes, factors):
        return dt * sum(a * s for a, s in zip(factors, slopes, strict=True) if a)

    def step(carry, _):
        y, error = carry
        slopes = [brusselator(y, k)]
        for stage in stages:
            there = y + moved(slopes, stage)
            slopes.append(brusselator(there, k))
        off = moved(slopes, errors)
        return (there, error + jnp.sum(off * off)), None

    return lax.scan(step, state, None, length=steps)[0]


def kalman(state, F, H, Q, R, seen):
    def step(carry, now):
        x, P, likelihood = carry
        x, P = F @ x, F @ P @ F.T + Q
        off, S = now - H @ x, H @ P @ H.T + R
        gain = P @ H.T @ jnp.linalg.inv(S)
        more = jnp.log(jnp.linalg.det(S)) + off @ jnp.linalg.solve(S, off)
        return (x + gain @ off, P - gain @ H @ P, likelihood + more), None

    return lax.scan(step, state, seen)[0]


def vertical_advection(state, wind, dt):
    (u,) = state
    u, wind = jnp.moveaxis(u, 2, 0), jnp.moveaxis(wind, 2, 0)
    levels = u.shape[0]
    row = jnp.arange(levels)[:, None, None]
    below = jnp.where(row > 0, -0.25 * wind[:levels], 0.0)
    above = jnp.where(row < levels - 1, 0.25 * wind[1 : levels + 1], 0.0)
    over, under = jnp.concatenate([u[1:], u[-1:]]), jnp.concatenate([u[:1], u[:-1]])
    change = above * (over - u) + below * (under - u)

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
    rows = below, 1.0 / dt - below - above, above, u / dt - change
    _, found = lax.scan(eliminate, (zero, zero), rows)
    _, solution = lax.scan(substitute, zero, found, reverse=True)
    return (jnp.moveaxis((solution - u) / dt, 0, 2),)


def rotation(angles):
    s, c = jnp.sin(angles), jnp.cos(angles)

    def about(i, j, k):
        turned = jnp.eye(4).at[i, i].set(c[k]).at[j, j].set(c[k])
        return turned.at[i, j].set(-s[k]).at[j, i].set(s[k])

    return about(0, 1, 2) @ about(2, 0, 1) @ about(1, 2, 0)


def skinning(state, bones, weights, points):
    (angles,) = state
    placed = []
    for k, (base, _) in enumerate(bones):
        own = base @ rotation(angles[k])
        placed.append(placed[PARENTS[k]] @ own if k else own)
    total = jnp.zeros_like(points)
    for k, (_, inverse) in enumerate(bones):
        total = total + (placed[k] @ inverse @ points) * weights[k]
    return (total,)


def _lapse(s, t, p):
    rate = 3.6e-5 + t * (8.5e-6 + t * (-6.8e-8 + 5.4e-10 * t))
    salty = rate + (1.9e-6 - 4.2e-8 * t) * (s - 35.0)
    fresh = jnp.where(jnp.min(s) < 5.0, rate - 1.1e-7 * (5.0 - s) * t, rate)
    rate = jnp.where(jnp.max(s) > 30.0, salty, fresh)
    deep = 1.9e-8 - 6.8e-10 * t + 8.7e-12 * t * t
    below = rate + p * (deep + (-1.1e-10 + 2.8e-12 * t) * (s - 35.0))
    return jnp.where(jnp.max(p) > 100.0, below, rate)


def potential_temperature(s, t, p, reference):
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


def _density(s, t, p):
    surface = 999.8 + t * (6.79e-2 + t * (-9.1e-3 + t * (1.0e-4 - 1.1e-6 * t)))
    salt = 0.8245 + t * (-4.09e-3 + t * (7.6e-5 - 8.2e-7 * t))
    root = -5.7e-3 + t * (1.02e-4 - 1.65e-6 * t)
    salted = surface + s * salt + s * jnp.sqrt(s) * root + 4.8e-4 * s * s
    surface = jnp.where(jnp.max(s) > 0.0, salted, surface)
    modulus = 19652.2 + t * (148.4 + t * (-2.327 + t * (1.36e-2 - 5.2e-5 * t)))
    salted = modulus + s * (54.67 + t * (-0.6 + t * (1.1e-2 - 6.2e-5 * t)))
    modulus = jnp.where(jnp.max(s) > 0.0, salted, modulus)
    a = 3.24 + t * (1.44e-3 + t * (1.16e-4 - 5.78e-7 * t))
    b = 8.5e-5 + t * (-6.1e-6 + 5.3e-8 * t)
    pressed = modulus + p * (a + s * (2.28e-3 + 1.91e-4 * jnp.sqrt(s)) + p * b)
    modulus = jnp.where(jnp.max(p) > 0.0, pressed, modulus)
    return jnp.where(jnp.max(p) > 0.0, surface / (1.0 - p / modulus), surface)


def _heat(s, t, p):
    heat = 4217.4 + t * (-3.72 + t * (0.1412 + t * (-2.65e-3 + 2.09e-5 * t)))
    salted = heat + s * (-7.64 + t * (0.107 - 1.38e-3 * t)) + 0.177 * s * jnp.sqrt(s)
    heat = jnp.where(jnp.max(s) > 0.0, salted, heat)
    pressed = heat + p * (-0.49 + t * (1.45e-2 - 3.1e-4 * t))
    return jnp.where(jnp.max(p) > 0.0, pressed, heat)


def thermodynamics(state, level):
    s, t, p, depth = state
    theta = potential_temperature(s, t, p, level)
    density, shifted = _density(s, t, p), _density(s, theta, level)
    lifted = density + 1e-3 * (potential_temperature(s, theta, level, p) - t) * depth
    density = jnp.where(jnp.max(depth) > 0.0, lifted, density)
    expansion = (_density(s, t + 0.01, p) - density) / 0.01
    contraction = (_density(s + 0.01, t, p) - density) / 0.01
    heat = _heat(s, theta, p) * density
    stability = (shifted - density) * (expansion * depth - contraction)
    return s + 1e-9 * heat, theta, p, depth + 1e-6 * stability


OWN = {
    "rk45": rk45,
    "kalman": kalman,
    "vertical_advection": vertical_advection,
    "skinning": skinning,
    "thermodynamics": thermodynamics,
}


def body(name: str):
    """A body for JAX: its own form, or the same text."""
    return OWN.get(name) or getattr(SAME, name)
