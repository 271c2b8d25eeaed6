"""Jacobians per observation: the reprojection error of bundle adjustment, written four ways.

A camera (rotation vector, centre, focal length, principal point, two distortions), a point and a
weight: 15 numbers to 2.
"""

import jax
import jax.numpy as jnp
import numpy as np

import calque
from programs.family import Row
from programs.record import compiled


def distorted(x, y, p):
    r2 = x * x + y * y
    factor = p[14] * (1.0 + p[9] * r2 + p[10] * r2 * r2)
    return x * factor * p[6] + p[7], y * factor * p[6] + p[8]


def scalars(p):
    """Rodrigues' formula in scalars, for angles that are not zero."""
    r0, r1, r2 = p[0], p[1], p[2]
    x0, x1, x2 = p[11] - p[3], p[12] - p[4], p[13] - p[5]
    theta = np.sqrt(r0 * r0 + r1 * r1 + r2 * r2)
    c, s = np.cos(theta), np.sin(theta)
    w0, w1, w2 = r0 / theta, r1 / theta, r2 / theta
    c0, c1, c2 = w1 * x2 - w2 * x1, w2 * x0 - w0 * x2, w0 * x1 - w1 * x0
    d = (w0 * x0 + w1 * x1 + w2 * x2) * (1.0 - c)
    y0, y1, y2 = x0 * c + c0 * s + w0 * d, x1 * c + c1 * s + w1 * d, x2 * c + c2 * s + w2 * d
    u, v = distorted(y0 / y2, y1 / y2, p)
    return np.array([u, v])


def branched(p):
    """The same with the limit of small angles."""
    r0, r1, r2 = p[0], p[1], p[2]
    x0, x1, x2 = p[11] - p[3], p[12] - p[4], p[13] - p[5]
    square = r0 * r0 + r1 * r1 + r2 * r2
    if square > 1e-12:
        theta = np.sqrt(square)
        c, s = np.cos(theta), np.sin(theta)
        w0, w1, w2 = r0 / theta, r1 / theta, r2 / theta
        c0, c1, c2 = w1 * x2 - w2 * x1, w2 * x0 - w0 * x2, w0 * x1 - w1 * x0
        d = (w0 * x0 + w1 * x1 + w2 * x2) * (1.0 - c)
        y0, y1, y2 = x0 * c + c0 * s + w0 * d, x1 * c + c1 * s + w1 * d, x2 * c + c2 * s + w2 * d
    else:
        y0, y1, y2 = x0 + r1 * x2 - r2 * x1, x1 + r2 * x0 - r0 * x2, x2 + r0 * x1 - r1 * x0
    u, v = distorted(y0 / y2, y1 / y2, p)
    return np.array([u, v])


def vectors(p):
    """The same in vectors of three numbers."""
    r, x = p[:3], p[11:14] - p[3:6]
    square = np.dot(r, r)
    if square > 1e-12:
        theta = np.sqrt(square)
        w = r / theta
        c, s = np.cos(theta), np.sin(theta)
        y = x * c + np.cross(w, x) * s + w * (np.dot(w, x) * (1.0 - c))
    else:
        y = x + np.cross(r, x)
    u, v = distorted(y[0] / y[2], y[1] / y[2], p)
    return np.array([u, v])


def matrix(p):
    """The same with the matrix of the rotation."""
    r, x = p[:3], p[11:14] - p[3:6]
    theta = np.sqrt(np.sum(r * r))
    w = r / theta
    c, s = np.cos(theta), np.sin(theta)
    K = np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
    R = c * np.eye(3) + s * K + (1.0 - c) * np.outer(w, w)
    y = R @ x
    u, v = distorted(y[0] / y[2], y[1] / y[2], p)
    return np.array([u, v])


def scalars_jax(p):
    r0, r1, r2 = p[0], p[1], p[2]
    x0, x1, x2 = p[11] - p[3], p[12] - p[4], p[13] - p[5]
    theta = jnp.sqrt(r0 * r0 + r1 * r1 + r2 * r2)
    c, s = jnp.cos(theta), jnp.sin(theta)
    w0, w1, w2 = r0 / theta, r1 / theta, r2 / theta
    c0, c1, c2 = w1 * x2 - w2 * x1, w2 * x0 - w0 * x2, w0 * x1 - w1 * x0
    d = (w0 * x0 + w1 * x1 + w2 * x2) * (1.0 - c)
    y0, y1, y2 = x0 * c + c0 * s + w0 * d, x1 * c + c1 * s + w1 * d, x2 * c + c2 * s + w2 * d
    u, v = distorted(y0 / y2, y1 / y2, p)
    return jnp.array([u, v])


def branched_jax(p):
    r, x = p[:3], p[11:14] - p[3:6]
    square = jnp.dot(r, r)
    large = square > 1e-12
    theta = jnp.sqrt(jnp.where(large, square, 1.0))
    w = r / theta
    c, s = jnp.cos(theta), jnp.sin(theta)
    turned = x * c + jnp.cross(w, x) * s + w * (jnp.dot(w, x) * (1.0 - c))
    y = jnp.where(large, turned, x + jnp.cross(r, x))
    u, v = distorted(y[0] / y[2], y[1] / y[2], p)
    return jnp.array([u, v])


def matrix_jax(p):
    r, x = p[:3], p[11:14] - p[3:6]
    theta = jnp.sqrt(jnp.sum(r * r))
    w = r / theta
    c, s = jnp.cos(theta), jnp.sin(theta)
    K = jnp.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
    R = c * jnp.eye(3) + s * K + (1.0 - c) * jnp.outer(w, w)
    y = R @ x
    u, v = distorted(y[0] / y[2], y[1] / y[2], p)
    return jnp.array([u, v])


@compiled
def on(k, j):
    return 1.0 if k == j else 0.0


@compiled
def jacobian_by_hand(P):
    """One loop over the rows, forward mode with fifteen tangents in small arrays."""
    n = P.shape[0]
    J = np.empty((n, 2, 15))
    for i in range(n):
        p = P[i]
        r0, r1, r2 = p[0], p[1], p[2]
        x0, x1, x2 = p[11] - p[3], p[12] - p[4], p[13] - p[5]
        theta = np.sqrt(r0 * r0 + r1 * r1 + r2 * r2)
        c, s = np.cos(theta), np.sin(theta)
        w0, w1, w2 = r0 / theta, r1 / theta, r2 / theta
        c0, c1, c2 = w1 * x2 - w2 * x1, w2 * x0 - w0 * x2, w0 * x1 - w1 * x0
        dot = w0 * x0 + w1 * x1 + w2 * x2
        d = dot * (1.0 - c)
        y0, y1, y2 = x0 * c + c0 * s + w0 * d, x1 * c + c1 * s + w1 * d, x2 * c + c2 * s + w2 * d
        u, v = y0 / y2, y1 / y2
        q = u * u + v * v
        radial = 1.0 + p[9] * q + p[10] * q * q
        for k in range(15):
            t0, t1, t2 = on(k, 0), on(k, 1), on(k, 2)
            e0 = on(k, 11) - on(k, 3)
            e1 = on(k, 12) - on(k, 4)
            e2 = on(k, 13) - on(k, 5)
            td = (r0 * t0 + r1 * t1 + r2 * t2) / theta
            v0, v1, v2 = (t0 - w0 * td) / theta, (t1 - w1 * td) / theta, (t2 - w2 * td) / theta
            f0 = v1 * x2 + w1 * e2 - v2 * x1 - w2 * e1
            f1 = v2 * x0 + w2 * e0 - v0 * x2 - w0 * e2
            f2 = v0 * x1 + w0 * e1 - v1 * x0 - w1 * e0
            dd = v0 * x0 + v1 * x1 + v2 * x2 + w0 * e0 + w1 * e1 + w2 * e2
            dd = dd * (1.0 - c) + dot * s * td
            g0 = e0 * c - x0 * s * td + f0 * s + c0 * c * td + v0 * d + w0 * dd
            g1 = e1 * c - x1 * s * td + f1 * s + c1 * c * td + v1 * d + w1 * dd
            g2 = e2 * c - x2 * s * td + f2 * s + c2 * c * td + v2 * d + w2 * dd
            du, dv = (g0 - u * g2) / y2, (g1 - v * g2) / y2
            dq = 2.0 * (u * du + v * dv)
            dradial = p[9] * dq + on(k, 9) * q + 2.0 * p[10] * q * dq + on(k, 10) * q * q
            factor = p[14] * radial
            dfactor = p[14] * dradial + on(k, 14) * radial
            J[i, 0, k] = (du * factor + u * dfactor) * p[6] + u * factor * on(k, 6)
            J[i, 1, k] = (dv * factor + v * dfactor) * p[6] + v * factor * on(k, 6)
            J[i, 0, k] += on(k, 7)
            J[i, 1, k] += on(k, 8)
    return J


def observations(rng, n):
    P = rng.normal(size=(n, 15)) * 0.3
    P[:, 13] += 4.0
    P[:, 6] += 2.0
    return (P,)


def rows():
    for function, twin in (
        (scalars, scalars_jax),
        (branched, branched_jax),
        (vectors, branched_jax),
        (matrix, matrix_jax),
    ):
        for mode in ("jacfwd", "jacrev"):
            yield Row(
                f"reprojection, {function.__name__}, {mode}",
                calque.vmap(getattr(calque, mode)(function)),
                jax.vmap(getattr(jax, mode)(twin)),
                observations,
                4,
                32_000,
                calque.vmap(function),
                jacobian_by_hand,
            )


def turned(r, x):
    square = np.dot(r, r)
    if square > 0.0:
        theta = np.sqrt(square)
        w = r / theta
        turned = x * np.cos(theta) + np.cross(w, x) * np.sin(theta)
        return turned + w * (np.dot(w, x) * (1.0 - np.cos(theta)))
    return x + np.cross(r, x)


def of_three(camera, point, weight):
    """A camera, a point and a weight as three arguments, in vectors."""
    y = turned(camera[:3], point - camera[3:6])
    p = y[:2] / y[2]
    r2 = np.dot(p, p)
    factor = camera[6] * (1.0 + camera[9] * r2 + camera[10] * r2 * r2)
    return weight * (p * factor + camera[7:9])


def of_three_jax(camera, point, weight):
    r, x = camera[:3], point - camera[3:6]
    square = jnp.dot(r, r)
    large = square > 0.0
    theta = jnp.sqrt(jnp.where(large, square, 1.0))
    w = r / theta
    y = x * jnp.cos(theta) + jnp.cross(w, x) * jnp.sin(theta)
    y = y + w * (jnp.dot(w, x) * (1.0 - jnp.cos(theta)))
    y = jnp.where(large, y, x + jnp.cross(r, x))
    p = y[:2] / y[2]
    r2 = jnp.dot(p, p)
    factor = camera[6] * (1.0 + camera[9] * r2 + camera[10] * r2 * r2)
    return weight * (p * factor + camera[7:9])


def three_observations(rng, n):
    (P,) = observations(rng, n)
    return P[:, :11].copy(), P[:, 11:14].copy(), P[:, 14].copy()


def rows_of_three():
    for mode in ("jacfwd", "jacrev"):
        yield Row(
            f"reprojection, three arguments, {mode}",
            calque.vmap(getattr(calque, mode)(of_three, argnums=(0, 1, 2))),
            jax.vmap(getattr(jax, mode)(of_three_jax, argnums=(0, 1, 2))),
            *(three_observations, 4, 32_000, calque.vmap(of_three)),
        )


ROWS = [*rows(), *rows_of_three()]
