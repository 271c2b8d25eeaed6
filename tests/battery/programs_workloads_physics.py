"""Physics, chemistry, biology, images: programs of the length that users write."""

from __future__ import annotations

import itertools
import math
from collections import deque

import numpy as np

from battery.registry import matrix, program, vector


@program(matrix(4, 4), 0.7, 0.1, diff=(0, 1, 2))
def ising_mean_field(h, beta, J):
    m = np.tanh(h)
    for sweep in range(10):
        for i in range(m.shape[0]):
            for j in range(m.shape[1]):
                s = 0.0
                for di, dj in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                    s += m[(i + di) % m.shape[0], (j + dj) % m.shape[1]]
                m[i, j] = np.tanh(beta * (J * s + h[i, j]))
    return m.mean()


@program(vector(12, low=1, high=2), 3, 20)
def fdtd_1d_with_source(eps, source_at, steps):
    n = len(eps)
    ez, hy = (np.zeros(n), np.zeros(n - 1))
    probe = []
    for t in range(steps):
        hy += 0.5 * np.diff(ez)
        ez[1:-1] += 0.5 / eps[1:-1] * (hy[1:] - hy[:-1])
        ez[source_at] += math.exp(-(((t - 6) / 3) ** 2))
        ez[0] = ez[1]
        ez[-1] = ez[-2]
        probe.append(ez[-3])
    return np.array(probe)


@program(vector(7))
def poisson_multigrid(f):

    def smooth(u, f, h, n):
        for _ in range(n):
            up = np.pad(u, 1)
            u = u + 2 / 3 * (0.5 * (up[:-2] + up[2:] + h * h * f) - u)
        return u

    def residual(u, f, h):
        up = np.pad(u, 1)
        return f - (2 * u - up[:-2] - up[2:]) / h**2

    def vcycle(u, f, h):
        if len(f) == 1:
            return f * h**2 / 2
        u = smooth(u, f, h, 2)
        r = residual(u, f, h)
        rc = 0.25 * (r[:-2:2] + 2 * r[1:-1:2] + r[2::2])
        ec = vcycle(np.zeros_like(rc), rc, 2 * h)
        e = np.zeros_like(u)
        e[1::2] = ec
        ep = np.pad(ec, 1)
        e[::2] = 0.5 * (ep[:-1] + ep[1:])
        return smooth(u + e, f, h, 2)

    h = 1.0 / (len(f) + 1)
    u = np.zeros_like(f)
    for _ in range(3):
        u = vcycle(u, f, h)
    return u @ f


@program(
    matrix(5, 2),
    [(0, 1, 0.5), (1, 2, 0.5), (2, 3, 0.6), (3, 4, 0.4), (0, 4, 1.0)],
    10.0,
    diff=(0, 2),
)
def spring_network(pos, springs, k):
    vel = np.zeros_like(pos)
    for step in range(6):
        force = np.zeros_like(pos)
        force[:, 1] -= 9.81
        for i, j, rest in springs:
            d = pos[j] - pos[i]
            L = np.linalg.norm(d)
            f = k * (L - rest) * d / L
            force[i] += f
            force[j] -= f
        vel += 0.01 * force
        vel *= 0.99
        vel[0] = 0
        pos = pos + 0.01 * vel
    return 0.5 * (vel**2).sum() + sum(
        (0.5 * k * (np.linalg.norm(pos[j] - pos[i]) - r) ** 2 for i, j, r in springs)
    )


@program(np.array([0.1, -0.1, -3.0]), np.array([0.05, 0.1, 1.0]), 1.0, diff=(0, 1, 2))
def ray_march_sphere(origin, direction, radius):
    d = direction / np.linalg.norm(direction)
    t = 0.0
    hit = False
    for i in range(100):
        p = origin + t * d
        dist = np.linalg.norm(p) - radius
        if dist < 1e-10:
            hit = True
            break
        t += dist
        if t > 20:
            break
    if not hit:
        return 0.0 * radius
    n = (origin + t * d) / radius
    light = np.array([0.5, 1.0, -0.8]) / np.sqrt(0.25 + 1 + 0.64)
    return max(0.0, n @ light) + 0.1 * t


@program(matrix(6, 2))
def path_length_and_curvature(pts):
    seg = np.diff(pts, axis=0)
    length = np.sqrt((seg**2).sum(axis=1)).sum()
    turning = 0.0
    for a, b in zip(seg[:-1], seg[1:]):
        c = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
        turning += np.arccos(np.clip(c, -1, 1))
    return length + 0.1 * turning


@program(np.array([1.0, 0.0, 0.0]), np.array([0.04, 30.0, 10.0]), 0.3, diff=(0, 1, 2))
def robertson_implicit_euler(y0, k, h):
    k1, k2, k3 = k

    def f(y):
        a, b, c = y
        return np.array([-k1 * a + k3 * b * c, k1 * a - k3 * b * c - k2 * b * b, k2 * b * b])

    def jac(y):
        a, b, c = y
        return np.array(
            [[-k1, k3 * c, k3 * b], [k1, -k3 * c - 2 * k2 * b, -k3 * b], [0, 2 * k2 * b, 0]]
        )

    y = y0
    for _ in range(4):
        y_new = y.copy()
        for it in range(20):
            F = y_new - y - h * f(y_new)
            dy = np.linalg.solve(np.eye(3) - h * jac(y_new), -F)
            y_new = y_new + dy
            if np.linalg.norm(dy) < 1e-12:
                break
        y = y_new
    return y


@program(2.0, 0.3, diff=(0, 1))
def kepler_equation(M, e0):
    e = np.tanh(e0) ** 2
    E = M if e < 0.8 else np.pi
    while True:
        dE = (E - e * np.sin(E) - M) / (1 - e * np.cos(E))
        E -= dE
        if abs(dE) < 1e-12:
            break
    nu = 2 * np.arctan2(np.sqrt(1 + e) * np.sin(E / 2), np.sqrt(1 - e) * np.cos(E / 2))
    return (nu, 1 - e * np.cos(E))


@program(vector(8, low=0.1, high=1))
def minmod_muscl(q):

    def minmod(a, b):
        return np.where(a * b > 0, np.where(np.abs(a) < np.abs(b), a, b), 0.0)

    def vanleer(a, b):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(a * b > 0, 2 * a * b / (a + b), 0)

    qp = np.pad(q, 2, mode="wrap")
    d = np.diff(qp)
    s = minmod(d[:-1], d[1:]) + 0.1 * vanleer(d[:-1], d[1:])
    qR = qp[1:-1] + 0.5 * s
    flux = qR[:-1]
    return q - 0.3 * (flux[1:] - flux[:-1])


@program(np.array([0.9, 0.1]), 0.05, 30, diff=(0, 1))
def brusselator_rk4(y, h, n):
    A, B = (1.0, 3.0)
    f = lambda y: np.array([A + y[0] ** 2 * y[1] - (B + 1) * y[0], B * y[0] - y[0] ** 2 * y[1]])
    out = np.empty((n + 1, 2))
    out[0] = y
    for i in range(n):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out[i + 1] = y
    return (out[-1], out[::10].mean(axis=0))


@program(vector(6, low=1, high=2), vector(5), diff=(0, 1))
def transfer_matrix_optics(n, d):
    """thin film stack: characteristic matrices multiplied, complex"""
    lam = 0.55
    M = np.eye(2, dtype=complex)
    for ni, di in zip(n[1:], d):
        delta = 2 * np.pi * ni * (0.1 + 0.02 * di) / lam
        M = M @ np.array(
            [[np.cos(delta), 1j * np.sin(delta) / ni], [1j * ni * np.sin(delta), np.cos(delta)]]
        )
    n0, ns = (n[0], 1.52)
    B, C = M @ np.array([1, ns])
    r = (n0 * B - C) / (n0 * B + C)
    return np.abs(r) ** 2


@program(matrix(5, 5), matrix(5, 5, seed=1), diff=(0, 1))
def horn_schunck(I1, I2):
    u = np.zeros(I1.shape)
    v = np.zeros(I1.shape)
    fy, fx = np.gradient(I1)
    ft = I2 - I1
    avg = lambda f: (
        (np.roll(f, 1, 0) + np.roll(f, -1, 0) + np.roll(f, 1, 1) + np.roll(f, -1, 1)) / 4
    )
    for _ in range(8):
        ub, vb = (avg(u), avg(v))
        t = (fx * ub + fy * vb + ft) / (0.5 + fx**2 + fy**2)
        u, v = (ub - fx * t, vb - fy * t)
    return np.hypot(u, v).sum()


@program(matrix(4, 5), vector(3), diff=(0, 1))
def smith_waterman_soft(S, gap):
    n, m = S.shape
    tau = 0.1
    H = np.zeros((n + 1, m + 1))
    g = np.exp(gap).sum() * 0.1
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            opts = np.array(
                [0.0, H[i - 1, j - 1] + S[i - 1, j - 1], H[i - 1, j] - g, H[i, j - 1] - g]
            )
            mx = opts.max()
            H[i, j] = mx + tau * np.log(np.exp((opts - mx) / tau).sum())
    return H.max()


@program(-65.0, 10.0, 60, diff=(0, 1))
def hodgkin_huxley(V, I_ext, steps):

    def vtrap(x, y):
        return y * (1 - x / y / 2) if abs(x / y) < 1e-06 else x / (math.exp(x / y) - 1)

    m, h, n = (0.05, 0.6, 0.32)
    dt = 0.02
    peak = V
    for _ in range(steps):
        am, bm = (0.1 * vtrap(-(V + 40), 10), 4 * math.exp(-(V + 65) / 18))
        ah, bh = (0.07 * math.exp(-(V + 65) / 20), 1 / (math.exp(-(V + 35) / 10) + 1))
        an, bn = (0.01 * vtrap(-(V + 55), 10), 0.125 * math.exp(-(V + 65) / 80))
        m += dt * (am * (1 - m) - bm * m)
        h += dt * (ah * (1 - h) - bh * h)
        n += dt * (an * (1 - n) - bn * n)
        ina, ik, il = (120 * m**3 * h * (V - 50), 36 * n**4 * (V + 77), 0.3 * (V + 54.387))
        V += dt * (I_ext - ina - ik - il)
        peak = V if V > peak else peak
    return peak


@program(vector(7))
def generator_pipeline(x):

    def windows(seq, n):
        it = iter(seq)
        buf = deque(itertools.islice(it, n), maxlen=n)
        yield tuple(buf)
        for v in it:
            buf.append(v)
            yield tuple(buf)

    def scaled(ws, k):
        for a, b, c in ws:
            yield (k * (a - 2 * b + c))

    return sum((v * v for v in scaled(windows(list(x), 3), 0.5)))


@program({"a": vector(3), "nested": {"w": matrix(2, 2), "list": [1.5, vector(2)]}})
def params_dict_walk(params):

    def walk(p):
        if isinstance(p, dict):
            yield from itertools.chain.from_iterable((walk(v) for v in p.values()))
        elif isinstance(p, (list, tuple)):
            for v in p:
                yield from walk(v)
        else:
            yield p

    leaves = list(walk(params))
    l2 = sum((np.sum(np.square(l)) for l in leaves))
    return l2 + np.sum(np.sin(params["nested"]["w"] @ params["nested"]["list"][1]))
