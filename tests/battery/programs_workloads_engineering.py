"""Control, finance, robotics, structures, geodesy: programs of the length that users write."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from functools import reduce

import numpy as np

from battery.registry import definite, matrix, program, vector


@program(matrix(2, 2), matrix(2, 1), definite(2), definite(1), diff=(0, 1, 2, 3))
def riccati_iteration(A, B, Q, R_):
    P = Q
    for it in range(200):
        K = np.linalg.solve(R_ + B.T @ P @ B, B.T @ P @ A)
        Pn = Q + A.T @ P @ (A - B @ K)
        if np.max(np.abs(Pn - P)) < 1e-10:
            break
        P = Pn
    else:
        raise RuntimeError("no convergence")
    return np.trace(P)


@program(matrix(6, 1), vector(2), diff=(0, 1))
def mpc_rollout_cost(U, x0):
    dt = 0.1
    A = np.array([[1.0, dt], [0.0, 1.0]])
    B = np.array([[0.5 * dt**2], [dt]])
    Q, Rw = (np.diag([10.0, 1.0]), 0.1)
    x, J = (x0, 0.0)
    for u in U:
        u = np.clip(u, -0.8, 0.8)
        J += x @ Q @ x + Rw * u @ u
        x = A @ x + B @ u
    J += 100 * x @ Q @ x
    return J


@dataclass
class PID:
    kp: float
    ki: float
    kd: float
    integral: float = 0.0
    last: float = None

    def step(self, err, dt):
        self.integral += err * dt
        if self.integral > 2.0:
            self.integral = 2.0
        d = 0.0 if self.last is None else (err - self.last) / dt
        self.last = err
        return self.kp * err + self.ki * self.integral + self.kd * d


@program(np.array([2.0, 0.5, 0.1]), 1.0, 30, diff=(0, 1))
def pid_tuning(gains, setpoint, n):
    pid = PID(*gains)
    y, v, dt = (0.0, 0.0, 0.05)
    itae = 0.0
    for k in range(n):
        e = setpoint - y
        u = max(-5.0, min(5.0, pid.step(e, dt)))
        v += dt * (u - 0.8 * v - 0.3 * y)
        y += dt * v
        itae += k * dt * abs(e) * dt
    return itae


@program(vector(8), np.array([0.5, -0.2]), np.array([0.3]), diff=(0, 1, 2))
def arma_css(y, phi, theta):
    p, q = (len(phi), len(theta))
    e = np.zeros(len(y))
    for t in range(len(y)):
        pred = 0.0
        for i in range(p):
            if t - 1 - i >= 0:
                pred += phi[i] * y[t - 1 - i]
        for j in range(q):
            if t - 1 - j >= 0:
                pred += theta[j] * e[t - 1 - j]
        e[t] = y[t] - pred
    return np.sum(e**2)


@program(np.array([100.0, 100.0, 100.0, 1100.0]), 1050.0, diff=(0, 1))
def irr_by_bisection_then_newton(cashflows, price):
    npv = lambda r: sum((c / (1 + r) ** (t + 1) for t, c in enumerate(cashflows))) - price
    lo, hi = (0.0, 1.0)
    while hi - lo > 0.001:
        mid = (lo + hi) / 2
        if npv(mid) > 0:
            lo = mid
        else:
            hi = mid
    r = 0.5 * (lo + hi)
    for _ in range(6):
        d = sum((-(t + 1) * c / (1 + r) ** (t + 2) for t, c in enumerate(cashflows)))
        r = r - npv(r) / d
    return r


@program(vector(5, low=0.01, high=0.1), definite(5), 3.0, diff=(0, 1))
def markowitz_frontier(mu, C, gamma):
    ones = np.ones(len(mu))
    Ci = np.linalg.inv(C)
    a, b = (ones @ Ci @ ones, ones @ Ci @ mu)
    w = Ci @ (mu + ones * (gamma - b) / a) / gamma
    return {"w": w, "ret": w @ mu, "vol": np.sqrt(w @ C @ w), "sharpe": w @ mu / np.sqrt(w @ C @ w)}


@program(vector(20, low=90, high=110), 5, 100.0, diff=(0,))
def trading_strategy(price, window, cash):
    position = 0.0
    equity = []
    for t in range(window, len(price)):
        ma = price[t - window : t].mean()
        if price[t] > 1.01 * ma and position == 0:
            position = cash / price[t]
            cash = 0.0
        elif price[t] < 0.99 * ma and position > 0:
            cash += position * price[t]
            position = 0.0
        equity.append(cash + position * price[t])
    return equity[-1] + np.std(equity)


def dh(a, alpha, d, theta):
    ct, st, ca, sa = (np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha))
    return np.array(
        [
            [ct, -st * ca, st * sa, a * ct],
            [st, ct * ca, -ct * sa, a * st],
            [0, sa, ca, d],
            [0, 0, 0, 1],
        ]
    )


@program(vector(3))
def forward_kinematics(q):
    table = [(0.4, np.pi / 2, 0.1, q[0]), (0.3, 0.0, 0.0, q[1]), (0.2, -np.pi / 2, 0.05, q[2])]
    Ts = [dh(*row) for row in table]
    T = reduce(np.matmul, Ts)
    pos = T[:3, 3]
    return np.linalg.norm(pos - np.array([0.5, 0.1, 0.2]))


def quat_mul(a, b):
    w1, x1, y1, z1 = a
    w2, x2, y2, z2 = b
    return np.array(
        [
            w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        ]
    )


@program(np.array([1.0, 0.1, -0.2, 0.3]), matrix(6, 3), diff=(0, 1))
def quaternion_integration(q, gyro):
    for omega in gyro:
        angle = np.linalg.norm(omega) * 0.1
        if angle > 1e-08:
            axis = omega / np.linalg.norm(omega)
            dq = np.hstack([np.cos(angle / 2), axis * np.sin(angle / 2)])
        else:
            dq = np.array([1.0, *0.05 * omega])
        q = quat_mul(q, dq)
        q /= np.sqrt(q @ q)
    w, x, y, z = q
    return (
        np.arcsin(np.clip(2 * (w * y - z * x), -1, 1)),
        np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )


@program(5, vector(5, low=1, high=2), diff=(1,))
def beam_fem(ne, EI):
    L = 1.0 / ne
    n = 2 * (ne + 1)
    K, F = (np.zeros((n, n)), np.zeros(n))
    for e in range(ne):
        ke = (
            EI[e]
            / L**3
            * np.array(
                [
                    [12, 6 * L, -12, 6 * L],
                    [6 * L, 4 * L**2, -6 * L, 2 * L**2],
                    [-12, -6 * L, 12, -6 * L],
                    [6 * L, 2 * L**2, -6 * L, 4 * L**2],
                ]
            )
        )
        i = 2 * e
        K[i : i + 4, i : i + 4] += ke
        F[[i, i + 2]] += L / 2
    K, F = (K[2:, 2:], F[2:])
    u = np.linalg.solve(K, F)
    return u[-2] * 100


@program(np.array([0.0, 1.0, 2.5, 4.0]), vector(4), vector(6, low=-0.5, high=4.5), diff=(1, 2))
def table_interpolation(xp, fp, x):
    out = np.empty_like(x)
    for k, v in enumerate(x):
        i = np.searchsorted(xp, v, side="right")
        if i == 0:
            out[k] = fp[0]
        elif i == len(xp):
            out[k] = fp[-1]
        else:
            w = (v - xp[i - 1]) / (xp[i] - xp[i - 1])
            out[k] = fp[i - 1] + w * (fp[i] - fp[i - 1])
    return out


@program(matrix(4, 5), 0.3, 2.6, diff=(0, 1, 2))
def bicubic_table(tab, x, y):

    def cubic(p, t):
        return p[1] + 0.5 * t * (
            p[2]
            - p[0]
            + t * (2 * p[0] - 5 * p[1] + 4 * p[2] - p[3] + t * (3 * (p[1] - p[2]) + p[3] - p[0]))
        )

    ix, iy = (int(np.floor(x)), int(np.floor(y)))
    cols = []
    for di in range(-1, 3):
        i = np.clip(ix + di, 0, tab.shape[0] - 1)
        row = [tab[i, min(max(iy + dj, 0), tab.shape[1] - 1)] for dj in range(-1, 3)]
        cols.append(cubic(row, y - iy))
    return cubic(cols, x - ix)


@program(0.8, 0.1, 0.5, 0.9, diff=(0, 1, 2, 3))
def vincenty_inverse(lat1, lon1, lat2, lon2):
    a, f = (6.378137, 1 / 298.257223563)
    b = (1 - f) * a
    U1, U2 = (np.arctan((1 - f) * np.tan(lat1)), np.arctan((1 - f) * np.tan(lat2)))
    L = lam = lon2 - lon1
    su1, cu1, su2, cu2 = (np.sin(U1), np.cos(U1), np.sin(U2), np.cos(U2))
    for _ in range(200):
        sl, cl = (np.sin(lam), np.cos(lam))
        ss = np.sqrt((cu2 * sl) ** 2 + (cu1 * su2 - su1 * cu2 * cl) ** 2)
        if ss == 0:
            return 0.0
        cs = su1 * su2 + cu1 * cu2 * cl
        sig = np.arctan2(ss, cs)
        sa = cu1 * cu2 * sl / ss
        c2a = 1 - sa**2
        c2sm = cs - 2 * su1 * su2 / c2a if c2a != 0 else 0.0
        C = f / 16 * c2a * (4 + f * (4 - 3 * c2a))
        prev, lam = (
            lam,
            L + (1 - C) * f * sa * (sig + C * ss * (c2sm + C * cs * (2 * c2sm**2 - 1))),
        )
        if abs(lam - prev) < 1e-13:
            break
    u2 = c2a * (a**2 - b**2) / b**2
    A = 1 + u2 / 16384 * (4096 + u2 * (-768 + u2 * (320 - 175 * u2)))
    return b * A * (sig - ss * 0.001 * u2)


@program(definite(3))
def determinant_by_leibniz(A):

    def sgn(p):
        return (-1) ** sum((1 for i, j in itertools.combinations(range(len(p)), 2) if p[i] > p[j]))

    return sum(
        (
            sgn(p) * np.prod([A[i, p[i]] for i in range(len(p))])
            for p in itertools.permutations(range(len(A)))
        )
    )


@program(vector(6, low=0.1, high=2), second=False)
def huffman_cost(p):
    heap = list(p)
    heapq.heapify(heap)
    cost = 0.0
    while len(heap) > 1:
        a, b = (heapq.heappop(heap), heapq.heappop(heap))
        cost += a + b
        heapq.heappush(heap, a + b)
    return cost * cost
