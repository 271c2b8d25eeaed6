"""Arrays seen through windows: periodic neighbours, shifted images, grids of coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import calque
from programs.family import Row


def diffusion(u, rate, steps):
    for _ in range(steps):
        u = u + rate * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))
    return np.sum(u * u)


def diffusion_jax(u, rate, steps):
    def step(_, u):
        return u + rate * (jnp.roll(u, 1) - 2.0 * u + jnp.roll(u, -1))

    return jnp.sum(lax.fori_loop(0, steps, step, u) ** 2)


def around(u, roll):
    return roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4.0 * u


def reaction(u, v, steps):
    for _ in range(steps):
        eaten = u * v * v
        u, v = (
            u + 0.16 * around(u, np.roll) - eaten + 0.035 * (1.0 - u),
            v + 0.08 * around(v, np.roll) + eaten - 0.1 * v,
        )
    return np.sum(u * v)


def reaction_jax(u, v, steps):
    def step(_, both):
        u, v = both
        eaten = u * v * v
        return (
            u + 0.16 * around(u, jnp.roll) - eaten + 0.035 * (1.0 - u),
            v + 0.08 * around(v, jnp.roll) + eaten - 0.1 * v,
        )

    u, v = lax.fori_loop(0, steps, step, (u, v))
    return jnp.sum(u * v)


def photometry(star, image):
    """A Gaussian star on a flat sky: brightness, place and width."""
    flux, x0, y0, width, sky = star
    y, x = np.mgrid[0 : image.shape[0], 0 : image.shape[1]]
    away = ((x - x0) ** 2 + (y - y0) ** 2) / width**2
    model = flux * np.exp(-0.5 * away) / (2.0 * np.pi * width**2) + sky
    return np.sum((image - model) ** 2)


def photometry_jax(star, image):
    flux, x0, y0, width, sky = star
    y, x = jnp.mgrid[0 : image.shape[0], 0 : image.shape[1]]
    away = ((x - x0) ** 2 + (y - y0) ** 2) / width**2
    model = flux * jnp.exp(-0.5 * away) / (2.0 * jnp.pi * width**2) + sky
    return jnp.sum((image - model) ** 2)


def convolution(x, w):
    """An image by channels, a shift at a time."""
    count, channels, rows, columns = w.shape
    high, wide = x.shape[1] - rows + 1, x.shape[2] - columns + 1
    out = np.zeros((count, high, wide))
    for o in range(count):
        for c in range(channels):
            for i in range(rows):
                for j in range(columns):
                    out[o] += w[o, c, i, j] * x[c, i : i + high, j : j + wide]
    return np.sum(out**2)


def convolution_jax(x, w):
    return jnp.sum(lax.conv(x[None], w, (1, 1), "VALID") ** 2)


def row(name, function, twin, arguments, small, large, wrt=0):
    return Row(
        *(name, calque.grad(function, argnums=wrt), jax.grad(twin, argnums=wrt), arguments),
        *(small, large, function),
    )


ROWS = [
    row(
        *("diffusion, roll", diffusion, diffusion_jax),
        *(lambda rng, n: (rng.normal(size=n), 0.2, 100), 5, 1000, (0, 1)),
    ),
    row(
        *("reaction, roll", reaction, reaction_jax),
        *(lambda rng, n: (rng.random((n, n)), rng.random((n, n)), 30), 4, 128, (0, 1)),
    ),
    row(
        *("convolution, by channel", convolution, convolution_jax),
        lambda rng, n: (rng.normal(size=(n, 4 * n, 4 * n)), rng.normal(size=(n, n, 3, 3))),
        *(2, 8, (0, 1)),
    ),
    row(
        *("photometry, grid", photometry, photometry_jax),
        lambda rng, n: (np.array([900.0, n / 2, n / 2, 2.1, 50.0]), rng.normal(size=(n, n)) + 50.0),
        *(5, 21),
    ),
]
