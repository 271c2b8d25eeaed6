"""Stencils, integrators, particles, quadrature, root finding."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, tensor, vector


@program(matrix(4, 4), matrix(4, 4, 1), diff=(0, 1))
def gauss_seidel(u, f):
    n = u.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return np.sum(u * u)


@program(matrix(4, 4))
def gauss_seidel_nonlinear(u):
    n = u.shape[0]
    for _ in range(2):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] = np.sin(u[i - 1, j] * u[i + 1, j]) + u[i, j - 1] * u[i, j + 1] * u[i, j]
    return np.sum(u * u)


@program(matrix(4, 4), 2)
def seidel_2d(a, steps):
    n = a.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            a[i, 1:-1] += (
                a[i - 1, :-2] + a[i - 1, 1:-1] + a[i - 1, 2:] + a[i, 2:]
                + a[i + 1, :-2] + a[i + 1, 1:-1] + a[i + 1, 2:]
            )
            for j in range(1, n - 1):
                a[i, j] += a[i, j - 1]
                a[i, j] /= 9.0
    return np.sum(a * a)


@program(vector(6), vector(6, 1), diff=(0, 1))
def jacobi_1d(a, b):
    for _ in range(3):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])
    return np.sum(a * b)


@program(matrix(4, 5))
def heat_2d_copy(u):
    for _ in range(3):
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        v = u.copy()
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * lap * u[1:-1, 1:-1]
        u = v
    return np.sum(u**2)


@program(vector(6), 0.3, diff=(0, 1))
def upwind_burgers(u, dt):
    for _ in range(3):
        flux = 0.5 * u * u
        u = u - dt * (flux - np.roll(flux, 1))
    return np.sum(u * u)


@program(vector(6))
def periodic_wave_with_roll(u):
    v = np.zeros_like(u)
    for _ in range(4):
        v += 0.1 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))
        u = u + 0.5 * v
    return np.sum(u * u) + np.sum(v * v)


@program(matrix(3, 4), matrix(3, 4, 1), matrix(3, 4, 2), diff=(0, 1, 2))
def fdtd_2d(ex, ey, hz):
    for t in range(2):
        ey[0, :] = np.sin(0.3 * t)
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return np.sum(hz**2) + np.sum(ex * ey)


@program(vector(2), 0.8, diff=(0, 1))
def euler_pendulum(state, stiffness):
    angle, speed = state
    dt = 0.1
    for _ in range(8):
        angle, speed = angle + dt * speed, speed - dt * stiffness * np.sin(angle)
    return 0.5 * speed**2 - stiffness * np.cos(angle)


@program(vector(3), np.array([0.6, 0.4, 0.2]), diff=(0, 1))
def rk4_lorenz(state, params):
    def f(y):
        sigma, rho, beta = params
        return np.array([
            sigma * (y[1] - y[0]),
            y[0] * (rho - y[2]) - y[1],
            y[0] * y[1] - beta * y[2],
        ])

    h = 0.1
    for _ in range(4):
        k1 = f(state)
        k2 = f(state + 0.5 * h * k1)
        k3 = f(state + 0.5 * h * k2)
        k4 = f(state + h * k3)
        state = state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return np.sum(state**2)


@program(0.3, 0.9, diff=(0, 1))
def rk4_generic_integrator(y0, rate):
    def step(f, t, y, h):
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h * k1 / 2)
        k3 = f(t + h / 2, y + h * k2 / 2)
        k4 = f(t + h, y + h * k3)
        return y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6

    t, y, h = 0.0, y0, 0.2
    while t < 0.99:
        y = step(lambda s, z: rate * z * (1.0 - z) + 0.1 * np.sin(s), t, y, h)
        t += h
    return y * y


@program(vector(2), vector(2, 1), diff=(0, 1))
def leapfrog(q, p):
    def force(x):
        return -x - 0.5 * x**3

    h = 0.1
    p = p + 0.5 * h * force(q)
    for i in range(5):
        q = q + h * p
        if i != 4:
            p = p + h * force(q)
    p = p + 0.5 * h * force(q)
    return np.sum(p * p) / 2 + np.sum(q * q) / 2


@program(matrix(3, 2), matrix(3, 2, 1), vector(3, 2, 0.5, 1.5), diff=(0, 1, 2))
def n_body(position, velocity, mass):
    position = position.copy()
    velocity = velocity.copy()
    n = mass.shape[0]
    for _ in range(2):
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                delta = position[j] - position[i]
                r2 = delta @ delta + 0.1
                velocity[i] += 0.05 * mass[j] * delta / (r2 * np.sqrt(r2))
        position += 0.05 * velocity
    return np.sum(velocity**2) + np.sum(position)


@program(matrix(4, 3))
def pairwise_energy_broadcast(position):
    delta = position[:, None, :] - position[None, :, :]
    r2 = np.sum(delta**2, axis=-1) + np.eye(position.shape[0])
    energy = 1.0 / r2**3 - 1.0 / r2
    return np.sum(np.triu(energy, 1))


@program(vector(4, low=0.5, high=2.0))
def lennard_jones_pairs(x):
    n = x.shape[0]
    energy = 0.0
    for i in range(n):
        for j in range(i):
            r = 1.0 + abs(x[i] - x[j])
            if r < 5.0:
                s6 = 1.0 / r**6
                energy += 4.0 * (s6 * s6 - s6)
    return energy


@program(0.31, 0.87, diff=(0, 1))
def particle_in_box(x, v):
    for _ in range(12):
        x = x + 0.23 * v
        if x > 1.0:
            x = 2.0 - x
            v = -0.9 * v
        elif x < 0.0:
            x = -x
            v = -0.9 * v
    return x * x + v


@program(vector(2), vector(2, 1), diff=(0, 1))
def particles_in_box_masked(x, v):
    for _ in range(6):
        x = x + 0.4 * v
        outside = np.abs(x) > 1.0
        v = np.where(outside, -v, v)
        x = np.clip(x, -1.0, 1.0) * 0.99 + 0.01 * x
    return np.sum(x * v)


@program(0.46, vector(6), diff=(0, 1))
def random_walk_given_noise(start, noise):
    x = start
    highest = start
    for step in noise:
        drift = -0.2 if x > 0.5 else 0.1
        x = x + drift + 0.3 * step * x
        if x > highest:
            highest = x
    return x + 2.0 * highest


@program(np.array([0.1, 0.4]), vector(5), diff=(0, 1))
def black_scholes_paths(params, noise):
    rate, volatility = params
    price = 1.0
    payoff = 0.0
    for z in noise:
        price = price * np.exp((rate - 0.5 * volatility**2) * 0.2 + volatility * 0.4 * z)
        payoff += np.maximum(price - 0.9, 0.0)
    return payoff / noise.shape[0]


@program(0.7, 1.9, diff=(0, 1))
def simpson_quadrature(a, b):
    def f(t):
        return np.exp(-t) * np.sin(3.0 * t * a)

    n = 8
    h = (b - a) / n
    total = f(a) + f(b)
    for i in range(1, n):
        total += (4.0 if i % 2 else 2.0) * f(a + i * h)
    return total * h / 3.0


@program(0.7, 1.9, diff=(0, 1))
def trapezoid_on_linspace(a, b):
    t = np.linspace(a, b, 9)
    return np.trapezoid(np.exp(-t * a), t)


@program(0.2, 1.1, diff=(0, 1))
def gauss_legendre(a, b):
    nodes = np.array([-0.7745966692414834, 0.0, 0.7745966692414834])
    weights = np.array([5.0, 8.0, 5.0]) / 9.0
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    return half * np.sum(weights * np.cos((middle + half * nodes) ** 2))


@program(1.7, 0.4, diff=(0, 1))
def newton_implicit(a, x):
    for _ in range(40):
        value = x**3 + a * x - 1.0
        if abs(value) < 1e-14:
            break
        x = x - value / (3.0 * x**2 + a)
    return x * a


@program(0.1, 2.3, diff=(0, 1))
def bisection_then_secant(low, high):
    def f(t):
        return t**3 - 2.0

    for _ in range(5):
        middle = 0.5 * (low + high)
        if f(low) * f(middle) <= 0.0:
            high = middle
        else:
            low = middle
    return low - f(low) * (high - low) / (f(high) - f(low))


@program(2.0)
def fixed_point_while(a):
    x, old = 0.5, 2.0
    steps = 0
    while abs(x - old) > 1e-13 and steps < 100:
        old = x
        x = np.cos(a * x) * 0.4
        steps += 1
    return x**2


@program(vector(5), 0.6, diff=(0, 1))
def horner(coefficients, x):
    value = 0.0
    for c in coefficients[::-1]:
        value = value * x + c
    return value


@program(vector(5), 0.6, diff=(0, 1))
def clenshaw(c, x):
    b1, b2 = 0.0, 0.0
    for k in range(len(c) - 1, 0, -1):
        b1, b2 = c[k] + 2.0 * x * b1 - b2, b1
    return c[0] + x * b1 - b2


@program(vector(4), np.array([0.0, 1.0, 2.5, 4.0]), 1.7, diff=(0, 1, 2))
def natural_cubic_spline(y, t, at):
    n = y.shape[0]
    h = t[1:] - t[:-1]
    slope = (y[1:] - y[:-1]) / h
    u, z = np.zeros(n), np.zeros(n)
    for i in range(1, n - 1):
        w = 2.0 * (t[i + 1] - t[i - 1]) - h[i - 1] * u[i - 1]
        u[i] = h[i] / w
        z[i] = (6.0 * (slope[i] - slope[i - 1]) - h[i - 1] * z[i - 1]) / w
    m = np.zeros(n)
    for i in range(n - 2, 0, -1):
        m[i] = z[i] - u[i] * m[i + 1]
    k = 0
    while k < n - 2 and at > t[k + 1]:
        k += 1
    a, b = (t[k + 1] - at) / h[k], (at - t[k]) / h[k]
    bend = ((a**3 - a) * m[k] + (b**3 - b) * m[k + 1]) * h[k] ** 2 / 6.0
    return a * y[k] + b * y[k + 1] + bend


@program(matrix(4, 4), vector(2, 1, 0.3, 2.6), diff=(0, 1))
def bilinear_interpolation(grid, at):
    i, j = int(np.floor(at[0])), int(np.floor(at[1]))
    s, t = at[0] - i, at[1] - j
    return (
        (1 - s) * (1 - t) * grid[i, j]
        + s * (1 - t) * grid[i + 1, j]
        + (1 - s) * t * grid[i, j + 1]
        + s * t * grid[i + 1, j + 1]
    )


@program(vector(5, low=0.2, high=3.7), vector(5, 1), diff=(0, 1))
def cloud_in_cell_deposit(x, charge):
    density = np.zeros(6)
    for p in range(x.shape[0]):
        i = int(x[p])
        w = x[p] - i
        density[i] += charge[p] * (1.0 - w)
        density[i + 1] += charge[p] * w
    return np.sum(density**2)


@program(vector(6), np.array([0, 2, 1, 2, 0, 2]))
def histogram_with_integer_indices(values, bins):
    table = np.zeros(3)
    counts = np.zeros(3, dtype=int)
    for k in range(values.shape[0]):
        table[bins[k]] += values[k] ** 2
        counts[bins[k]] += 1
    return np.sum(table / counts) + np.prod(table)


@program(tensor(3, 3, 3))
def stencil_3d_copy_back(a):
    b = np.zeros_like(a)
    b[1:-1, 1:-1, 1:-1] = (
        a[2:, 1:-1, 1:-1] * a[:-2, 1:-1, 1:-1] + a[1:-1, 2:, 1:-1] - a[1:-1, 1:-1, :-2] ** 2
    )
    a[1:-1, 1:-1, 1:-1] = b[1:-1, 1:-1, 1:-1]
    return np.sum(a**2)


@program(vector(5), 4)
def verlet_rope_constraints(x, rounds):
    x = x + np.arange(5.0)
    for _ in range(rounds):
        for i in range(x.shape[0] - 1):
            gap = x[i + 1] - x[i]
            shift = 0.5 * (gap - 1.0) / gap
            x[i] += shift
            x[i + 1] -= shift
    return np.sum(x * np.arange(5.0))
