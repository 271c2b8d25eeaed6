"""Particles, scattering, and elementwise formulas."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from programs.record import Program, compiled


def acceleration(mass, position, softening):
    x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inverse = dx**2 + dy**2 + dz**2 + softening**2
    inverse[inverse > 0] = inverse[inverse > 0] ** (-1.5)
    return np.hstack(((dx * inverse) @ mass, (dy * inverse) @ mass, (dz * inverse) @ mass))


def nbody(mass, position, velocity, steps, dt, softening):
    velocity = velocity - np.mean(mass * velocity, axis=0) / np.mean(mass)
    pull = acceleration(mass, position, softening)
    kinetic = np.zeros(steps)
    for t in range(steps):
        velocity = velocity + pull * dt / 2.0
        position = position + velocity * dt
        pull = acceleration(mass, position, softening)
        velocity = velocity + pull * dt / 2.0
        kinetic[t] = 0.5 * np.sum(mass * velocity**2)
    return position, kinetic


def nbody_jax(mass, position, velocity, steps, dt, softening):
    def acceleration(position):
        offset = position[None, :, :] - position[:, None, :]
        inverse = (jnp.sum(offset**2, axis=2) + softening**2) ** (-1.5)
        return jnp.einsum("ijk,ij,j->ik", offset, inverse, mass[:, 0])

    def step(carry, _):
        position, velocity, pull = carry
        velocity = velocity + pull * dt / 2.0
        position = position + velocity * dt
        pull = acceleration(position)
        velocity = velocity + pull * dt / 2.0
        return (position, velocity, pull), 0.5 * jnp.sum(mass * velocity**2)

    velocity = velocity - jnp.mean(mass * velocity, axis=0) / jnp.mean(mass)
    start = position, velocity, acceleration(position)
    (position, _, _), kinetic = lax.scan(step, start, None, length=steps)
    return position, kinetic


@compiled
def acceleration_numba(mass, position, softening, pull):
    n = position.shape[0]
    for i in range(n):
        ax = ay = az = 0.0
        for j in range(n):
            dx = position[j, 0] - position[i, 0]
            dy = position[j, 1] - position[i, 1]
            dz = position[j, 2] - position[i, 2]
            square = dx * dx + dy * dy + dz * dz + softening * softening
            inverse = mass[j, 0] / (square * np.sqrt(square))
            ax += dx * inverse
            ay += dy * inverse
            az += dz * inverse
        pull[i, 0], pull[i, 1], pull[i, 2] = ax, ay, az


@compiled
def nbody_numba(mass, position, velocity, steps, dt, softening):
    n = position.shape[0]
    position, velocity = position.copy(), velocity.copy()
    total = 0.0
    drift = np.zeros(3)
    for i in range(n):
        total += mass[i, 0]
        for k in range(3):
            drift[k] += mass[i, 0] * velocity[i, k]
    for i in range(n):
        for k in range(3):
            velocity[i, k] -= drift[k] / total
    pull = np.empty((n, 3))
    acceleration_numba(mass, position, softening, pull)
    kinetic = np.zeros(steps)
    for t in range(steps):
        for i in range(n):
            for k in range(3):
                velocity[i, k] += pull[i, k] * dt / 2.0
                position[i, k] += velocity[i, k] * dt
        acceleration_numba(mass, position, softening, pull)
        energy = 0.0
        for i in range(n):
            for k in range(3):
                velocity[i, k] += pull[i, k] * dt / 2.0
                energy += mass[i, 0] * velocity[i, k] ** 2
        kinetic[t] = 0.5 * energy
    return position, kinetic


def nbody_arguments(rng, n):
    return 1.0 + rng.random((n, 1)), rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), 10, 0.01, 0.1


def azimint_naive(data, radius, rmax, bins):
    out = np.zeros(bins)
    for i in range(bins):
        inner, outer = rmax * i / bins, rmax * (i + 1) / bins
        ring = np.logical_and(inner <= radius, radius < outer)
        out[i] = data[ring].mean()
    return out


def azimint_naive_jax(data, radius, rmax, bins):
    def ring(i):
        inside = (rmax * i / bins <= radius) & (radius < rmax * (i + 1) / bins)
        return jnp.sum(jnp.where(inside, data, 0.0)) / jnp.sum(inside)

    return lax.map(ring, jnp.arange(bins))


@compiled
def azimint_naive_numba(data, radius, rmax, bins):
    out = np.zeros(bins)
    for i in range(bins):
        inner, outer = rmax * i / bins, rmax * (i + 1) / bins
        total, count = 0.0, 0
        for j in range(radius.size):
            if inner <= radius[j] < outer:
                total += data[j]
                count += 1
        out[i] = total / count
    return out


def azimint_naive_arguments(rng, n):
    return rng.random(n), rng.random(n), 1.0, (5 if n < 1000 else 50)


def azimint_hist(data, radius, bins):
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.searchsorted(edges, radius, side="right") - 1
    total = np.zeros(bins)
    count = np.zeros(bins)
    np.add.at(total, place, data)
    np.add.at(count, place, 1.0)
    return total / np.maximum(count, 1.0)


def azimint_hist_arguments(rng, n):
    return rng.random(n), rng.random(n), (5 if n < 1000 else 50)


def azimint_hist_jax(data, radius, bins):
    place = jnp.searchsorted(jnp.linspace(0.0, 1.0, bins + 1), radius, side="right") - 1
    total = jnp.zeros(bins).at[place].add(data)
    return total / jnp.maximum(jnp.zeros(bins).at[place].add(1.0), 1.0)


@compiled
def azimint_hist_numba(data, radius, bins):
    edges = np.linspace(0.0, 1.0, bins + 1)
    total = np.zeros(bins)
    count = np.zeros(bins)
    for j in range(radius.size):
        place = np.searchsorted(edges, radius[j], side="right") - 1
        total[place] += data[j]
        count[place] += 1.0
    for i in range(bins):
        total[i] /= max(count[i], 1.0)
    return total


def contour_integral(hamiltonian, points, right):
    """Moments of a rational filter: a complex linear solve at every point of a contour."""
    moment0 = np.zeros(right.shape, dtype=np.complex128)
    moment1 = np.zeros(right.shape, dtype=np.complex128)
    for z in points:
        T = np.zeros(hamiltonian.shape[1:], dtype=np.complex128)
        for k in range(3):
            T += z ** (1 - k) * hamiltonian[k]
        X = np.linalg.solve(T, right)
        if abs(z) < 1.0:
            X = -X
        moment0 += X
        moment1 += z * X
    return moment0, moment1


def contour_integral_jax(hamiltonian, points, right):
    powers = points[:, None] ** (1 - jnp.arange(3))
    T = jnp.einsum("pk,kij->pij", powers, hamiltonian)
    X = jnp.linalg.solve(T, right[None])
    X = jnp.where(jnp.abs(points)[:, None, None] < 1.0, -X, X)
    return X.sum(axis=0), jnp.einsum("p,pij->ij", points, X)


@compiled
def contour_integral_numba(hamiltonian, points, right):
    moment0 = np.zeros(right.shape, dtype=np.complex128)
    moment1 = np.zeros(right.shape, dtype=np.complex128)
    n = hamiltonian.shape[1]
    T = np.empty((n, n), dtype=np.complex128)
    for z in points:
        for i in range(n):
            for j in range(n):
                T[i, j] = z * hamiltonian[0, i, j] + hamiltonian[1, i, j] + hamiltonian[2, i, j] / z
        X = np.linalg.solve(T, right)
        sign = -1.0 if abs(z) < 1.0 else 1.0
        for i in range(X.shape[0]):
            for j in range(X.shape[1]):
                moment0[i, j] += sign * X[i, j]
                moment1[i, j] += sign * z * X[i, j]
    return moment0, moment1


def complex_normal(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def contour_integral_arguments(rng, n):
    angle = np.linspace(0.1, 6.0, 4 if n < 20 else 16)
    points = np.concatenate([2.0 * np.exp(1j * angle), 0.5 * np.exp(1j * angle)])
    hamiltonian = complex_normal(rng, 3, n, n)
    hamiltonian[1] += 10.0 * n * np.eye(n)
    return hamiltonian, points, complex_normal(rng, n, 4)


def scattering_self_energies(neighbours, derivative, G, D):
    """Electron self energies from phonons: products of small blocks over momenta and energies."""
    sigma = np.zeros_like(G)
    momenta, energies, atoms = G.shape[0], G.shape[1], G.shape[2]
    for k in range(momenta):
        for E in range(energies):
            for q in range(D.shape[0]):
                for w in range(D.shape[1]):
                    for a in range(atoms):
                        for b in range(neighbours.shape[1]):
                            if E - w >= 0:
                                block = G[k - q, E - w, neighbours[a, b]] @ derivative[a, b]
                                sigma[k, E, a] += block @ (D[q, w, a, b] * derivative[a, b])
    return sigma


def scattering_self_energies_jax(neighbours, derivative, G, D):
    energies = G.shape[1]
    sigma = jnp.zeros_like(G)
    for q in range(D.shape[0]):
        for w in range(D.shape[1]):
            shifted = jnp.roll(G, q, axis=0)[:, : energies - w]
            near = shifted[:, :, neighbours]
            change = jnp.einsum("keabij,abjl,ab,ablm->keaim", near, derivative, D[q, w], derivative)
            sigma = sigma.at[:, w:].add(change)
    return sigma


@compiled
def scattering_self_energies_numba(neighbours, derivative, G, D):
    sigma = np.zeros_like(G)
    momenta, energies, atoms, n, _ = G.shape
    block = np.empty((n, n))
    for k in range(momenta):
        for E in range(energies):
            for q in range(D.shape[0]):
                for w in range(min(D.shape[1], E + 1)):
                    for a in range(atoms):
                        for b in range(neighbours.shape[1]):
                            g = G[k - q, E - w, neighbours[a, b]]
                            d = derivative[a, b]
                            for i in range(n):
                                for j in range(n):
                                    s = 0.0
                                    for l in range(n):
                                        s += g[i, l] * d[l, j]
                                    block[i, j] = s * D[q, w, a, b]
                            for i in range(n):
                                for j in range(n):
                                    s = 0.0
                                    for l in range(n):
                                        s += block[i, l] * d[l, j]
                                    sigma[k, E, a, i, j] += s
    return sigma


def scattering_self_energies_arguments(rng, n):
    atoms, near, block = n, 3, 3
    return (
        rng.integers(0, atoms, (atoms, near)),
        rng.normal(size=(atoms, near, block, block)),
        rng.normal(size=(2, 4, atoms, block, block)),
        rng.normal(size=(2, 2, atoms, near)),
    )


def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def go_fast_jax(a):
    return a + jnp.sum(jnp.tanh(jnp.diagonal(a)))


@compiled
def go_fast_numba(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    out = np.empty_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + trace
    return out


def go_fast_arguments(rng, n):
    return (rng.normal(size=(n, n)),)


def arc_distance(theta1, phi1, theta2, phi2):
    half = np.sin((theta2 - theta1) / 2) ** 2
    half = half + np.cos(theta1) * np.cos(theta2) * np.sin((phi2 - phi1) / 2) ** 2
    return 2 * np.arctan2(np.sqrt(half), np.sqrt(1 - half))


def arc_distance_jax(theta1, phi1, theta2, phi2):
    half = jnp.sin((theta2 - theta1) / 2) ** 2
    half = half + jnp.cos(theta1) * jnp.cos(theta2) * jnp.sin((phi2 - phi1) / 2) ** 2
    return 2 * jnp.arctan2(jnp.sqrt(half), jnp.sqrt(1 - half))


@compiled
def arc_distance_numba(theta1, phi1, theta2, phi2):
    out = np.empty_like(theta1)
    for i in range(theta1.size):
        half = np.sin((theta2[i] - theta1[i]) / 2) ** 2
        around = np.sin((phi2[i] - phi1[i]) / 2) ** 2
        half += np.cos(theta1[i]) * np.cos(theta2[i]) * around
        out[i] = 2 * np.arctan2(np.sqrt(half), np.sqrt(1 - half))
    return out


def arc_distance_arguments(rng, n):
    return tuple(rng.random(n) for _ in range(4))


def clipped_combination(x, y, a, b, c):
    return np.clip(x, 2.0, 10.0) * a + y * b + c


def clipped_combination_jax(x, y, a, b, c):
    return jnp.clip(x, 2.0, 10.0) * a + y * b + c


@compiled
def clipped_combination_numba(x, y, a, b, c):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = min(max(x[i, j], 2.0), 10.0) * a + y[i, j] * b + c
    return out


def clipped_combination_arguments(rng, n):
    return 12.0 * rng.random((n, n)), rng.normal(size=(n, n)), 4.0, 3.0, 9.0


PROGRAMS = [
    Program(nbody, nbody_jax, nbody_numba, nbody_arguments, 5, 100, (0, 1, 2)),
    Program(
        *(azimint_naive, azimint_naive_jax, azimint_naive_numba, azimint_naive_arguments),
        *(60, 100_000),
    ),
    Program(
        *(azimint_hist, azimint_hist_jax, azimint_hist_numba, azimint_hist_arguments),
        *(60, 1_000_000),
    ),
    Program(
        *(contour_integral, contour_integral_jax, contour_integral_numba),
        *(contour_integral_arguments, 4, 40, (0, 2)),
    ),
    Program(
        *(scattering_self_energies, scattering_self_energies_jax),
        *(scattering_self_energies_numba, scattering_self_energies_arguments, 3, 20, (1, 2, 3)),
    ),
    Program(go_fast, go_fast_jax, go_fast_numba, go_fast_arguments, 5, 2000),
    Program(
        *(arc_distance, arc_distance_jax, arc_distance_numba, arc_distance_arguments),
        *(6, 1_000_000, (0, 1, 2, 3)),
    ),
    Program(
        *(clipped_combination, clipped_combination_jax, clipped_combination_numba),
        *(clipped_combination_arguments, 5, 2000, (0, 1, 2)),
    ),
]
