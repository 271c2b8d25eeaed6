"""Solvers by sweeps, transforms by stages, and derivatives of derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import calque
from programs.family import Row


def adi_loops(u, steps):
    """Alternating directions: a tridiagonal system for each column, then for each row."""
    n = u.shape[0]
    a, b = -0.25, 1.5
    v, p, q = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    u = u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            v[0, i] = 1.0
            p[i, 0] = 0.0
            q[i, 0] = 1.0
            for j in range(1, n - 1):
                p[i, j] = -a / (a * p[i, j - 1] + b)
                known = 0.25 * u[j, i - 1] + 0.5 * u[j, i] + 0.25 * u[j, i + 1]
                q[i, j] = (known - a * q[i, j - 1]) / (a * p[i, j - 1] + b)
            v[n - 1, i] = 1.0
            for j in range(n - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in range(1, n - 1):
            u[i, 0] = 1.0
            p[i, 0] = 0.0
            q[i, 0] = 1.0
            for j in range(1, n - 1):
                p[i, j] = -a / (a * p[i, j - 1] + b)
                known = 0.25 * v[i - 1, j] + 0.5 * v[i, j] + 0.25 * v[i + 1, j]
                q[i, j] = (known - a * q[i, j - 1]) / (a * p[i, j - 1] + b)
            u[i, n - 1] = 1.0
            for j in range(n - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]
    return np.sum(u * u)


def adi_vectors(u, steps):
    """The same, all columns at once, as someone would write it in NumPy."""
    n = u.shape[0]
    a, b = -0.25, 1.5
    v, p, q = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    u = u.copy()
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = 1.0
        for j in range(1, n - 1):
            p[1:-1, j] = -a / (a * p[1:-1, j - 1] + b)
            known = 0.25 * u[j, :-2] + 0.5 * u[j, 1:-1] + 0.25 * u[j, 2:]
            q[1:-1, j] = (known - a * q[1:-1, j - 1]) / (a * p[1:-1, j - 1] + b)
        v[n - 1, 1:-1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 0] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = 1.0
        for j in range(1, n - 1):
            p[1:-1, j] = -a / (a * p[1:-1, j - 1] + b)
            known = 0.25 * v[:-2, j] + 0.5 * v[1:-1, j] + 0.25 * v[2:, j]
            q[1:-1, j] = (known - a * q[1:-1, j - 1]) / (a * p[1:-1, j - 1] + b)
        u[1:-1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1:-1, j] = p[1:-1, j] * u[1:-1, j + 1] + q[1:-1, j]
    return np.sum(u * u)


def adi_jax(u, steps):
    n = u.shape[0]
    a, b = -0.25, 1.5

    def columns(u):
        """The inner values after a sweep along the first axis."""
        known = 0.25 * u[1:-1, :-2] + 0.5 * u[1:-1, 1:-1] + 0.25 * u[1:-1, 2:]

        def forth(carry, known):
            p, q = carry
            under = a * p + b
            p, q = -a / under, (known - a * q) / under
            return (p, q), (p, q)

        def back(v, both):
            v = both[0] * v + both[1]
            return v, v

        _, (p, q) = lax.scan(forth, (jnp.zeros(n - 2), jnp.ones(n - 2)), known)
        return lax.scan(back, jnp.ones(n - 2), (p, q), reverse=True)[1]

    def step(u, _):
        v = jnp.zeros((n, n)).at[0, 1:-1].set(1.0).at[-1, 1:-1].set(1.0)
        v = v.at[1:-1, 1:-1].set(columns(u))
        u = u.at[1:-1, 0].set(1.0).at[1:-1, -1].set(1.0)
        return u.at[1:-1, 1:-1].set(columns(v.T).T), None

    return jnp.sum(lax.scan(step, u, None, length=steps)[0] ** 2)


def fft_stages(x, y):
    """The radix-2 transform of x + i y by stages, each a reshape and a product with roots."""
    return _stages(x, y, np)


def _stages(x, y, np):
    n = x.shape[0]
    re, im = x.reshape(n, 1), y.reshape(n, 1)
    done = 1
    while done < n:
        half = re.shape[0] // 2
        angle = -np.pi * np.arange(done) / done
        c, s = np.cos(angle), np.sin(angle)
        odd_re = re[half:] * c - im[half:] * s
        odd_im = re[half:] * s + im[half:] * c
        re, im = (
            np.concatenate((re[:half] + odd_re, re[:half] - odd_re), axis=1),
            np.concatenate((im[:half] + odd_im, im[:half] - odd_im), axis=1),
        )
        done *= 2
    return np.sum(np.arange(n) / n * (re.reshape(n) ** 2 + im.reshape(n) ** 2))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_jax(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_hand(x):
    """Three diagonals."""
    n = x.size
    k = np.arange(n - 1)
    H = np.zeros((n, n))
    H[k, k] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    H[k + 1, k + 1] += 200.0
    H[k, k + 1] = H[k + 1, k] = -400.0 * x[:-1]
    return H


def tanh(x):
    return np.tanh(x)


def tanh_hand(x):
    t = np.tanh(x)
    s = 1.0 - t * t
    return 8.0 * t * s * (2.0 * s - t * t)


def fourth(grad, vmap, function):
    for _ in range(4):
        function = grad(function)
    return vmap(function)


def unit_each_step(A, x):
    """A matrix that each step makes of the same."""
    n = x.size
    for _ in range(100):
        B = np.eye(n) + 0.01 * A
        x = B @ x
    return np.sum(x * x)


def unit_each_step_jax(A, x):
    def step(x, _):
        return (jnp.eye(x.size) + 0.01 * A) @ x, None

    return jnp.sum(lax.scan(step, x, None, length=100)[0] ** 2)


def of_gradients(name, function, twin, arguments, small, large, wrt=0):
    return Row(
        *(name, calque.grad(function, argnums=wrt), jax.grad(twin, argnums=wrt), arguments),
        *(small, large, function),
    )


def adi_arguments(rng, n):
    return rng.normal(size=(n, n)), 10


ROWS = [
    of_gradients("adi, loops", adi_loops, adi_jax, adi_arguments, 5, 100),
    of_gradients("adi, vectors", adi_vectors, adi_jax, adi_arguments, 5, 100),
    of_gradients(
        *("fft, stages", fft_stages, lambda x, y: _stages(x, y, jnp)),
        *(lambda rng, n: (rng.normal(size=n), rng.normal(size=n)), 8, 4096, (0, 1)),
    ),
    Row(
        *("rosenbrock, hessian", calque.hessian(rosenbrock), jax.hessian(rosenbrock_jax)),
        *(lambda rng, n: (rng.normal(size=n),), 5, 1000, rosenbrock, rosenbrock_hand),
    ),
    Row(
        "tanh, fourth derivative",
        fourth(calque.grad, calque.vmap, tanh),
        fourth(jax.grad, jax.vmap, jnp.tanh),
        *(lambda rng, n: (rng.normal(size=n),), 5, 100_000, tanh, tanh_hand),
    ),
    of_gradients(
        *("unit matrix each step", unit_each_step, unit_each_step_jax),
        *(lambda rng, n: (rng.normal(size=(n, n)) / n, rng.normal(size=n)), 3, 64, (0, 1)),
    ),
]
