"""Transforms, dynamic programs, fractals and checksums."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from programs.record import Program, compiled


def stockham_fft(x, stages):
    """The self-sorting radix-2 Fourier transform of 2**stages numbers."""
    y = x
    for stage in range(stages):
        half = 2 ** (stages - 1 - stage)
        a, b = y.reshape(2, half, 2**stage)
        twiddle = np.exp(-1j * np.pi / half * np.arange(half))[:, None]
        y = np.stack([a + b, (a - b) * twiddle], axis=1)
    return y.reshape(-1)


def stockham_fft_jax(x, stages):
    y = x
    for stage in range(stages):
        half = 2 ** (stages - 1 - stage)
        a, b = y.reshape(2, half, 2**stage)
        twiddle = jnp.exp(-1j * np.pi / half * jnp.arange(half))[:, None]
        y = jnp.stack([a + b, (a - b) * twiddle], axis=1)
    return y.reshape(-1)


@compiled
def stockham_fft_numba(x, stages):
    y = x.copy()
    out = np.empty_like(y)
    for stage in range(stages):
        half, stride = 2 ** (stages - 1 - stage), 2**stage
        for j in range(half):
            twiddle = np.exp(-1j * np.pi / half * j)
            for k in range(stride):
                a, b = y[j * stride + k], y[(j + half) * stride + k]
                out[2 * j * stride + k] = a + b
                out[(2 * j + 1) * stride + k] = (a - b) * twiddle
        y, out = out, y
    return y


def stockham_fft_arguments(rng, stages):
    return rng.normal(size=2**stages) + 1j * rng.normal(size=2**stages), stages


def nussinov(score):
    """The best nested pairing of a sequence: maxima over splits."""
    n = score.shape[0]
    table = np.zeros((n, n))
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            best = max(table[i, j - 1], table[i + 1, j])
            if j - i > 1:
                best = max(best, table[i + 1, j - 1] + score[i, j])
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table


def nussinov_jax(score):
    n = score.shape[0]
    column = jnp.arange(n)

    def row(step, table):
        i = n - 2 - step

        def cell(j, table):
            best = jnp.maximum(table[i, j - 1], table[i + 1, j])
            paired = jnp.maximum(best, table[i + 1, j - 1] + score[i, j])
            best = jnp.where(j - i > 1, paired, best)
            below = jnp.concatenate([table[1:, j], jnp.zeros(1)])
            splits = jnp.where((column > i) & (column < j), table[i] + below, -jnp.inf)
            best = jnp.maximum(best, jnp.max(splits))
            return table.at[i, j].set(jnp.where(j > i, best, table[i, j]))

        return lax.fori_loop(1, n, cell, table)

    return lax.fori_loop(0, n - 1, row, jnp.zeros((n, n)))


@compiled
def nussinov_numba(score):
    n = score.shape[0]
    table = np.zeros((n, n))
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            best = max(table[i, j - 1], table[i + 1, j])
            if j - i > 1:
                best = max(best, table[i + 1, j - 1] + score[i, j])
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table


def nussinov_arguments(rng, n):
    return (rng.random((n, n)),)


def mandelbrot(x, y, rounds, horizon):
    """Escape times on a grid."""
    C = x + y[:, None] * 1j
    N = np.zeros(C.shape, dtype=np.int64)
    Z = np.zeros(C.shape, dtype=np.complex128)
    for n in range(rounds):
        inside = np.less(abs(Z), horizon)
        N[inside] = n
        Z[inside] = Z[inside] ** 2 + C[inside]
    N[rounds - 1 == N] = 0
    return N


def mandelbrot_jax(x, y, rounds, horizon):
    C = x + y[:, None] * 1j

    def step(n, both):
        N, Z = both
        inside = jnp.abs(Z) < horizon
        return jnp.where(inside, n, N), jnp.where(inside, Z**2 + C, Z)

    N = jnp.zeros(C.shape, dtype=jnp.int64)
    N, _ = lax.fori_loop(0, rounds, step, (N, jnp.zeros(C.shape, dtype=jnp.complex128)))
    return jnp.where(rounds - 1 == N, 0, N)


@compiled
def mandelbrot_numba(x, y, rounds, horizon):
    N = np.zeros((y.size, x.size), dtype=np.int64)
    for i in range(y.size):
        for j in range(x.size):
            c = complex(x[j], y[i])
            z = 0.0j
            for n in range(rounds):
                if abs(z) >= horizon:
                    break
                N[i, j] = n
                z = z * z + c
            if N[i, j] == rounds - 1:
                N[i, j] = 0
    return N


def mandelbrot_arguments(rng, n):
    return np.linspace(-2.25, 0.75, n), np.linspace(-1.25, 1.25, n + 1), 30, 2.0


def crc16(data, poly):
    """The checksum of a sequence of bytes, bit by bit."""
    crc = 0xFFFF
    for byte in data:
        current = 0xFF & byte
        for _ in range(8):
            if (crc & 1) ^ (current & 1):
                crc = (crc >> 1) ^ poly
            else:
                crc >>= 1
            current >>= 1
    crc = ~crc & 0xFFFF
    crc = (crc << 8) | ((crc >> 8) & 0xFF)
    return crc & 0xFFFF


def crc16_jax(data, poly):
    def take(crc, byte):
        def bit(_, both):
            crc, current = both
            shifted = crc >> 1
            return jnp.where((crc ^ current) & 1, shifted ^ poly, shifted), current >> 1

        return lax.fori_loop(0, 8, bit, (crc, byte & 0xFF), unroll=8)[0], None

    crc = lax.scan(take, jnp.int64(0xFFFF), data)[0]
    crc = ~crc & 0xFFFF
    return ((crc << 8) | ((crc >> 8) & 0xFF)) & 0xFFFF


@compiled
def crc16_numba(data, poly):
    crc = 0xFFFF
    for byte in data:
        current = 0xFF & byte
        for _ in range(8):
            if (crc ^ current) & 1:
                crc = (crc >> 1) ^ poly
            else:
                crc >>= 1
            current >>= 1
    crc = ~crc & 0xFFFF
    crc = (crc << 8) | ((crc >> 8) & 0xFF)
    return crc & 0xFFFF


def crc16_arguments(rng, n):
    return rng.integers(0, 256, n), 0x8408


PROGRAMS = [
    Program(stockham_fft, stockham_fft_jax, stockham_fft_numba, stockham_fft_arguments, 4, 16),
    Program(nussinov, nussinov_jax, nussinov_numba, nussinov_arguments, 7, 60),
    Program(mandelbrot, mandelbrot_jax, mandelbrot_numba, mandelbrot_arguments, 9, 250, ()),
    Program(crc16, crc16_jax, crc16_numba, crc16_arguments, 11, 10_000, ()),
]
