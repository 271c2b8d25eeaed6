"""Products: of many small matrices, within loops, over triangles; products of axes; Hessians."""

import jax
import jax.numpy as jnp
import numpy as np

import calque
from programs.family import Row
from programs.recurrences import gradient


def product_axis(x):
    return np.sum(np.prod(x, axis=1) ** 2)


def product_axis_jax(x):
    return jnp.sum(jnp.prod(x, axis=1) ** 2)


def product_axis_arguments(rng, n):
    return (rng.uniform(0.5, 1.5, size=(n, 20)),)


def skinning_matrices(bones, weights, points):
    """Points moved by weighted bones, all in one product."""
    moved = points @ np.swapaxes(bones, 1, 2)  # (22, n, 3)
    return np.sum(np.einsum("bnk,nb->nk", moved, weights) ** 2)


def skinning_loop(bones, weights, points):
    """The same, a product for each bone."""
    total = np.zeros((points.shape[0], 3))
    for b in range(bones.shape[0]):
        total += weights[:, b : b + 1] * (points @ bones[b].T)
    return np.sum(total**2)


def skinning_jax(bones, weights, points):
    moved = points @ jnp.swapaxes(bones, 1, 2)
    return jnp.sum(jnp.einsum("bnk,nb->nk", moved, weights) ** 2)


def skinning_arguments(rng, n):
    return rng.normal(size=(22, 3, 4)), rng.random((n, 22)), rng.normal(size=(n, 4))


def correlation_loops(data):
    """PolyBench's: dot products of columns, over a triangle."""
    n, m = data.shape
    mean = np.mean(data, axis=0)
    scale = np.std(data, axis=0)
    scaled = (data - mean) / (np.sqrt(n) * scale)
    corr = np.eye(m)
    for i in range(m - 1):
        corr[i + 1 : m, i] = corr[i, i + 1 : m] = scaled[:, i] @ scaled[:, i + 1 : m]
    return np.sum(corr**2)


def correlation_loops_jax(data):
    n, m = data.shape
    scaled = (data - jnp.mean(data, axis=0)) / (jnp.sqrt(n) * jnp.std(data, axis=0))
    corr = scaled.T @ scaled
    corr = corr - jnp.diag(jnp.diag(corr)) + jnp.eye(m)
    return jnp.sum(corr**2)


def covariance_loops(data):
    n, m = data.shape
    centred = data - np.mean(data, axis=0)
    cov = np.zeros((m, m))
    for i in range(m):
        cov[i:m, i] = cov[i, i:m] = centred[:, i] @ centred[:, i:m] / (n - 1.0)
    return np.sum(cov**2)


def covariance_loops_jax(data):
    n = data.shape[0]
    centred = data - jnp.mean(data, axis=0)
    return jnp.sum((centred.T @ centred / (n - 1.0)) ** 2)


def columns(rng, m):
    return (rng.normal(size=(m + m // 5, m)),)


def doitgen(A, C4):
    A = A.copy()
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q, :] = A[r, q, :] @ C4
    return np.sum(A**2)


def doitgen_jax(A, C4):
    return jnp.sum((A @ C4) ** 2)


def doitgen_arguments(rng, n):
    return rng.normal(size=(n, n, 2 * n + 8)), rng.normal(size=(2 * n + 8, 2 * n + 8))


def normal_equations(A, x):
    return np.sum((A.T @ (A @ x)) ** 2)


def normal_equations_jax(A, x):
    return jnp.sum((A.T @ (A @ x)) ** 2)


def normal_arguments(rng, n):
    return rng.normal(size=(n, n + n // 4)) / n, rng.normal(size=n + n // 4)


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def rosenbrock_hessian(x):
    """By hand: three diagonals."""
    n = x.size
    H = np.zeros((n, n))
    i = np.arange(n - 1)
    H[i, i] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    H[i + 1, i + 1] += 200.0
    H[i, i + 1] = H[i + 1, i] = -400.0 * x[:-1]
    return H


def vector(rng, n):
    return (rng.normal(size=n),)


def fourth(grad, tanh):
    """The fourth derivative of tanh."""

    def f(x):
        return tanh(x)

    return grad(grad(grad(grad(f))))


def fourth_by_hand(x):
    t = np.tanh(x)
    s = 1.0 - t * t
    return 8.0 * t * s * (2.0 * s - t * t)


def assembly(K, nodes, stiffness):
    """A sum of small matrices at the places of their nodes, as finite elements have it."""
    K = K.copy()
    for e in range(nodes.shape[0]):
        K[np.ix_(nodes[e], nodes[e])] += stiffness[e]
    return np.sum(K * K)


def assembly_jax(K, nodes, stiffness):
    def add(K, element):
        i, k = element
        return K.at[i[:, None], i].add(k), None

    K, _ = jax.lax.scan(add, K, (nodes, stiffness))
    return jnp.sum(K * K)


def assembly_arguments(rng, n):
    nodes = np.stack([rng.permutation(n)[:4] for _ in range(n)])
    return rng.normal(size=(n, n)), nodes, rng.normal(size=(n, 4, 4))


def number(rng, n):
    return (0.3,)


ROWS = [
    gradient(
        *("product of an axis", product_axis, product_axis_jax),
        *(product_axis_arguments, 3, 20_000),
    ),
    *(
        gradient(
            f.__name__.replace("_", ", "), f, skinning_jax, skinning_arguments, 4, 10_000, (0, 1, 2)
        )
        for f in (skinning_matrices, skinning_loop)
    ),
    gradient("correlation", correlation_loops, correlation_loops_jax, columns, 5, 500),
    gradient("covariance", covariance_loops, covariance_loops_jax, columns, 5, 500),
    gradient("doitgen", doitgen, doitgen_jax, doitgen_arguments, 3, 60, (0, 1)),
    gradient(
        "A.T @ (A @ x)", normal_equations, normal_equations_jax, normal_arguments, 8, 4000, (0, 1)
    ),
    gradient("assembly", assembly, assembly_jax, assembly_arguments, 6, 200, (0, 2)),
    Row(
        "Hessian of Rosenbrock",
        calque.hessian(rosenbrock),
        jax.hessian(rosenbrock),
        *(vector, 5, 1000),
        rosenbrock,
        rosenbrock_hessian,
    ),
    Row(
        "fourth derivative of tanh",
        fourth(calque.grad, np.tanh),
        fourth(jax.grad, jnp.tanh),
        *(number, 1, 1),
        None,
        fourth_by_hand,
    ),
]
