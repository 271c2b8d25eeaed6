"""Integrators with adaptive steps: a ``while`` whose iterations are accepted or not.

JAX has no reverse mode for a ``while``: its forward mode serves as the reference.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import calque
from programs.family import Row

SMALLEST = 1e-300


def rk23_scalars(start, end, tolerance):
    """A pendulum, by Bogacki's and Shampine's pair, in numbers."""
    y, v = start[0], start[1]
    t, h = 0.0, 0.01
    while t < end:
        h = min(h, end - t)
        k1y, k1v = v, -np.sin(y)
        k2y, k2v = v + 0.5 * h * k1v, -np.sin(y + 0.5 * h * k1y)
        k3y, k3v = v + 0.75 * h * k2v, -np.sin(y + 0.75 * h * k2y)
        new_y = y + h * (2.0 / 9.0 * k1y + 1.0 / 3.0 * k2y + 4.0 / 9.0 * k3y)
        new_v = v + h * (2.0 / 9.0 * k1v + 1.0 / 3.0 * k2v + 4.0 / 9.0 * k3v)
        k4y, k4v = new_v, -np.sin(new_y)
        error_y = h * (-5.0 / 72.0 * k1y + k2y / 12.0 + k3y / 9.0 - 0.125 * k4y)
        error_v = h * (-5.0 / 72.0 * k1v + k2v / 12.0 + k3v / 9.0 - 0.125 * k4v)
        error = np.sqrt(error_y * error_y + error_v * error_v)
        if error <= tolerance:
            t = t + h
            y, v = new_y, new_v
        h = h * min(5.0, max(0.2, 0.9 * (tolerance / (error + SMALLEST)) ** (1.0 / 3.0)))
    return y * y + v


def slope(y, np=np):
    """Prey and predators."""
    return np.array([1.1 * y[0] - 0.4 * y[0] * y[1], 0.1 * y[0] * y[1] - 0.4 * y[1]])


def rk45_vectors(start, end, tolerance):
    """The same kind of loop with vectors, by Dormand's and Prince's pair."""
    y = start
    t, h = 0.0, 0.01
    while t < end:
        h = min(h, end - t)
        k1 = slope(y)
        k2 = slope(y + h * (1 / 5) * k1)
        k3 = slope(y + h * (3 / 40 * k1 + 9 / 40 * k2))
        k4 = slope(y + h * (44 / 45 * k1 - 56 / 15 * k2 + 32 / 9 * k3))
        k5 = slope(
            y + h * (19372 / 6561 * k1 - 25360 / 2187 * k2 + 64448 / 6561 * k3 - 212 / 729 * k4)
        )
        k6 = slope(
            y
            + h * (9017 / 3168 * k1 - 355 / 33 * k2 + 46732 / 5247 * k3)
            + h * (49 / 176 * k4 - 5103 / 18656 * k5)
        )
        new = y + h * (
            35 / 384 * k1 + 500 / 1113 * k3 + 125 / 192 * k4 - 2187 / 6784 * k5 + 11 / 84 * k6
        )
        k7 = slope(new)
        difference = h * (71 / 57600 * k1 - 71 / 16695 * k3 + 71 / 1920 * k4) + h * (
            -17253 / 339200 * k5 + 22 / 525 * k6 - 1 / 40 * k7
        )
        error = np.sqrt(np.sum(difference * difference))
        if error <= tolerance:
            t = t + h
            y = new
        h = h * min(5.0, max(0.2, 0.9 * (tolerance / (error + SMALLEST)) ** 0.2))
    return np.sum(y * y)


def _chosen(new, h, t, y, error, tolerance, order):
    """Return the values that an iteration passes on, for JAX."""
    taken = error <= tolerance
    factor = 0.9 * (tolerance / (error + SMALLEST)) ** (1.0 / order)
    return (
        jnp.where(taken, new, y),
        jnp.where(taken, t + h, t),
        h * jnp.minimum(5.0, jnp.maximum(0.2, factor)),
    )


def rk23_jax(start, end, tolerance):
    def slope(y):
        return jnp.stack([y[1], -jnp.sin(y[0])])

    def body(state):
        y, t, h = state
        h = jnp.minimum(h, end - t)
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.75 * h * k2)
        new = y + h * (2.0 / 9.0 * k1 + 1.0 / 3.0 * k2 + 4.0 / 9.0 * k3)
        k4 = slope(new)
        difference = h * (-5.0 / 72.0 * k1 + k2 / 12.0 + k3 / 9.0 - 0.125 * k4)
        error = jnp.sqrt(jnp.sum(difference * difference))
        return _chosen(new, h, t, y, error, tolerance, 3)

    y, _, _ = lax.while_loop(lambda s: s[1] < end, body, (start, 0.0, 0.01))
    return y[0] * y[0] + y[1]


def rk45_jax(start, end, tolerance):
    def body(state):
        y, t, h = state
        h = jnp.minimum(h, end - t)
        k1 = slope(y, jnp)
        k2 = slope(y + h * (1 / 5) * k1, jnp)
        k3 = slope(y + h * (3 / 40 * k1 + 9 / 40 * k2), jnp)
        k4 = slope(y + h * (44 / 45 * k1 - 56 / 15 * k2 + 32 / 9 * k3), jnp)
        k5 = slope(
            y + h * (19372 / 6561 * k1 - 25360 / 2187 * k2 + 64448 / 6561 * k3 - 212 / 729 * k4),
            jnp,
        )
        k6 = slope(
            y
            + h * (9017 / 3168 * k1 - 355 / 33 * k2 + 46732 / 5247 * k3)
            + h * (49 / 176 * k4 - 5103 / 18656 * k5),
            jnp,
        )
        new = y + h * (
            35 / 384 * k1 + 500 / 1113 * k3 + 125 / 192 * k4 - 2187 / 6784 * k5 + 11 / 84 * k6
        )
        k7 = slope(new, jnp)
        difference = h * (71 / 57600 * k1 - 71 / 16695 * k3 + 71 / 1920 * k4) + h * (
            -17253 / 339200 * k5 + 22 / 525 * k6 - 1 / 40 * k7
        )
        error = jnp.sqrt(jnp.sum(difference * difference))
        return _chosen(new, h, t, y, error, tolerance, 5)

    y, _, _ = lax.while_loop(lambda s: s[1] < end, body, (start, 0.0, 0.01))
    return jnp.sum(y * y)


ROWS = [
    Row(
        name,
        calque.grad(function),
        jax.jacfwd(twin),
        lambda rng, end: (rng.uniform(0.6, 1.0, 2), float(end), 1e-8),
        1,
        end,
        function,
    )
    for name, function, twin, end in (
        ("adaptive, scalars", rk23_scalars, rk23_jax, 200),
        ("adaptive, vectors", rk45_vectors, rk45_jax, 500),
    )
]
