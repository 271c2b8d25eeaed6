"""Loops with dependent iterations: networks, integrators, triangles, chains of frames."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import calque
from programs.family import Row


def _cell(x, h, c, W, U, b):
    gates = W @ x + U @ h + b
    n = h.shape[0]
    forget = 1.0 / (1.0 + np.exp(-gates[:n]))
    take = 1.0 / (1.0 + np.exp(-gates[n : 2 * n]))
    give = 1.0 / (1.0 + np.exp(-gates[2 * n : 3 * n]))
    c = forget * c + take * np.tanh(gates[3 * n :])
    return give * np.tanh(c), c


def lstm_stores(W, U, b, xs):
    steps, n = xs.shape[0], U.shape[1]
    states = np.zeros((steps + 1, n))
    c = np.zeros(n)
    for t in range(steps):
        states[t + 1], c = _cell(xs[t], states[t], c, W, U, b)
    return np.sum(states**2)


def lstm_list(W, U, b, xs):
    n = U.shape[1]
    h, c = np.zeros(n), np.zeros(n)
    states = []
    for t in range(xs.shape[0]):
        h, c = _cell(xs[t], h, c, W, U, b)
        states.append(h)
    return np.sum(np.array(states) ** 2)


def lstm_list_over(W, U, b, xs):
    n = U.shape[1]
    h, c = np.zeros(n), np.zeros(n)
    states = []
    for x in xs:
        h, c = _cell(x, h, c, W, U, b)
        states.append(h)
    loss = 0.0
    for h in states:
        loss += np.sum(h**2)
    return loss


def lstm_jax(W, U, b, xs):
    n = U.shape[1]

    def step(both, x):
        h, c = both
        gates = W @ x + U @ h + b
        forget, take, give = jax.nn.sigmoid(gates[: 3 * n].reshape(3, n))
        c = forget * c + take * jnp.tanh(gates[3 * n :])
        h = give * jnp.tanh(c)
        return (h, c), h

    _, states = lax.scan(step, (jnp.zeros(n), jnp.zeros(n)), xs)
    return jnp.sum(states**2)


def _rows(x, h, c, W, U, b, xp):
    gates = x @ W + h @ U + b
    n = h.shape[1]
    forget, take, give = (1.0 / (1.0 + xp.exp(-gates[:, k * n : (k + 1) * n])) for k in range(3))
    c = forget * c + take * xp.tanh(gates[:, 3 * n :])
    return give * xp.tanh(c), c


def lstm_batch(W, U, b, xs):
    """Four sequences at a time."""
    h, c = np.zeros((xs.shape[1], U.shape[0])), np.zeros((xs.shape[1], U.shape[0]))
    states = []
    for x in xs:
        h, c = _rows(x, h, c, W, U, b, np)
        states.append(h)
    return np.sum(np.stack(states) ** 2)


def lstm_batch_jax(W, U, b, xs):
    def step(both, x):
        both = _rows(x, *both, W, U, b, jnp)
        return both, both[0]

    zeros = jnp.zeros((xs.shape[1], U.shape[0]))
    return jnp.sum(lax.scan(step, (zeros, zeros), xs)[1] ** 2)


def batch_arguments(rng, n):
    W, U, b, _ = lstm_arguments(rng, n)
    return W.T.copy(), U.T.copy(), b, rng.normal(size=(50, 4, n))


def lstm_arguments(rng, n):
    return (
        rng.normal(size=(4 * n, n)) / np.sqrt(n),
        rng.normal(size=(4 * n, n)) / np.sqrt(n),
        rng.normal(size=4 * n),
        rng.normal(size=(100, n)),
    )


def ode_list(y, k, steps):
    h = 0.01
    states = [y]
    for _ in range(steps):
        k1 = np.sin(k * y)
        k2 = np.sin(k * (y + h * k1))
        y = y + 0.5 * h * (k1 + k2)
        states.append(y)
    return np.sum(np.array(states) ** 2)


def ode_stores(y, k, steps):
    h = 0.01
    states = np.empty((steps + 1, y.size))
    states[0] = y
    for t in range(steps):
        k1 = np.sin(k * y)
        k2 = np.sin(k * (y + h * k1))
        y = y + 0.5 * h * (k1 + k2)
        states[t + 1] = y
    return np.sum(states**2)


def ode_jax(y, k, steps):
    h = 0.01

    def step(y, _):
        k1 = jnp.sin(k * y)
        k2 = jnp.sin(k * (y + h * k1))
        new = y + 0.5 * h * (k1 + k2)
        return new, new

    _, states = lax.scan(step, y, None, length=steps)
    return jnp.sum(states**2) + jnp.sum(y**2)


def ode_arguments(rng, n):
    return rng.uniform(0.0, 0.3, n), rng.uniform(0.0, 0.3, n), 200


def ode_empty(y, k, steps):
    """A step's slopes in memory that each step makes anew, element by element."""
    h, n = 0.01, y.size
    y = y.copy()
    for _ in range(steps):
        k1 = np.empty(n)
        k2 = np.empty(n)
        for i in range(n):
            k1[i] = k[i] * y[i] - y[i - 1] * y[i]
        for i in range(n):
            k2[i] = k[i] * (y[i] + h * k1[i]) - (y[i - 1] + h * k1[i - 1]) * (y[i] + h * k1[i])
        for i in range(n):
            y[i] += 0.5 * h * (k1[i] + k2[i])
    return np.sum(y**2)


def ode_empty_jax(y, k, steps):
    h = 0.01

    def slope(y):
        return k * y - jnp.roll(y, 1) * y

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + h * k1)
        return y + 0.5 * h * (k1 + k2), None

    return jnp.sum(lax.scan(step, y, None, length=steps)[0] ** 2)


def while_eight(p, rate, limit):
    """A double pendulum's like: eight numbers that each iteration changes, until a time."""
    a, b, c, d = p[0], p[1], p[2], p[3]
    e, f, g, h = p[4], p[5], p[6], p[7]
    t = 0.0
    while t < limit:
        s = 0.001 + 1e-5 * abs(a)
        a, b, c, d = (
            a + s * np.sin(b) * rate,
            b + s * c * d,
            c - s * a * e,
            d + s * np.cos(f) * a,
        )
        e, f, g, h = e + s * g * h, f - s * a * b, g + s * np.sin(h), h - s * e * g * 0.5
        t = t + s
    return a * a + b * b + c * c + d * d + e * e + f * f + g * g + h * h


def while_arguments(rng, n):
    return rng.normal(size=8) * 0.3, 1.1, n * 0.001


def while_hand(p, rate, limit):
    """JAX has no reverse mode for a ``while``: its forward mode serves as the reference."""

    def body(state):
        a, b, c, d, e, f, g, h, t = state
        s = 0.001 + 1e-5 * abs(a)
        a, b, c, d = (
            a + s * jnp.sin(b) * rate,
            b + s * c * d,
            c - s * a * e,
            d + s * jnp.cos(f) * a,
        )
        e, f, g, h = e + s * g * h, f - s * a * b, g + s * jnp.sin(h), h - s * e * g * 0.5
        return a, b, c, d, e, f, g, h, t + s

    end = lax.while_loop(lambda s: s[-1] < limit, body, (*p, 0.0))
    return sum(x * x for x in end[:-1])


def triangle_scalars(alphas, means, icf, x):
    """A mixture of Gaussians in scalar loops, as a program for C would have it."""
    n, d = x.shape
    k = alphas.shape[0]
    total = 0.0
    main = np.empty(k)
    diff = np.empty(d)
    y = np.empty(d)
    for i in range(n):
        for c in range(k):
            for j in range(d):
                diff[j] = x[i, j] - means[c, j]
            for r in range(d):
                y[r] = np.exp(icf[c, r]) * diff[r]
            place = d
            for q in range(d):
                for r in range(q + 1, d):
                    y[r] += icf[c, place] * diff[q]
                    place += 1
            norm = 0.0
            logs = 0.0
            for r in range(d):
                norm += y[r] * y[r]
                logs += icf[c, r]
            main[c] = alphas[c] + logs - 0.5 * norm
        top = main[0]
        for c in range(1, k):
            if main[c] > top:
                top = main[c]
        s = 0.0
        for c in range(k):
            s += np.exp(main[c] - top)
        total += np.log(s) + top
    return total


def triangle_matrices(alphas, means, icf, x):
    """The same by products of matrices."""
    d = x.shape[1]
    k = alphas.shape[0]
    columns, lines = np.triu_indices(d, 1)
    L = np.zeros((k, d, d))
    L[:, lines, columns] = icf[:, d:]
    L[:, np.arange(d), np.arange(d)] = np.exp(icf[:, :d])
    diff = x[:, None] - means
    y = np.einsum("cij,ncj->nci", L, diff)
    main = alphas + np.sum(icf[:, :d], axis=1) - 0.5 * np.sum(y * y, axis=2)
    top = np.max(main, axis=1)
    return np.sum(np.log(np.sum(np.exp(main - top[:, None]), axis=1)) + top)


def triangle_products(alphas, means, icf, x):
    """The same, one product for each component."""
    d = x.shape[1]
    k = alphas.shape[0]
    columns, lines = np.triu_indices(d, 1)
    main = np.empty((k, x.shape[0]))
    for c in range(k):
        L = np.zeros((d, d))
        L[lines, columns] = icf[c, d:]
        L = L + np.diag(np.exp(icf[c, :d]))
        y = (x - means[c]) @ L.T
        main[c] = alphas[c] + np.sum(icf[c, :d]) - 0.5 * np.sum(y * y, axis=1)
    top = np.max(main, axis=0)
    return np.sum(np.log(np.sum(np.exp(main - top), axis=0)) + top)


def triangle_jax(alphas, means, icf, x):
    d = x.shape[1]
    k = alphas.shape[0]
    columns, lines = np.triu_indices(d, 1)
    L = jnp.zeros((k, d, d)).at[:, lines, columns].set(icf[:, d:])
    L = L.at[:, jnp.arange(d), jnp.arange(d)].set(jnp.exp(icf[:, :d]))
    diff = x[:, None] - means
    y = jnp.einsum("cij,ncj->nci", L, diff)
    main = alphas + jnp.sum(icf[:, :d], axis=1) - 0.5 * jnp.sum(y * y, axis=2)
    return jnp.sum(jax.nn.logsumexp(main, axis=1))


def triangle_arguments(rng, d):
    k, n = 10, 500
    return (
        rng.normal(size=k),
        rng.normal(size=(k, d)),
        rng.normal(size=(k, d * (d + 1) // 2)) * 0.1,
        rng.normal(size=(n, d)),
    )


def frames_eye(angles, offsets):
    """A chain of joints: each a matrix made of the unit matrix and four stores."""
    T = np.eye(4)
    total = 0.0
    for i in range(angles.shape[0]):
        step = np.eye(4)
        c, s = np.cos(angles[i]), np.sin(angles[i])
        step[0, 0] = c
        step[0, 1] = -s
        step[1, 0] = s
        step[1, 1] = c
        step[0, 3] = offsets[i]
        T = T @ step
        total += T[0, 3] * T[0, 3] + T[1, 3] * T[1, 3]
    return total


def frames_jax(angles, offsets):
    def body(T, both):
        a, o = both
        c, s = jnp.cos(a), jnp.sin(a)
        step = jnp.eye(4).at[0, 0].set(c).at[0, 1].set(-s).at[1, 0].set(s).at[1, 1].set(c)
        T = T @ step.at[0, 3].set(o)
        return T, T[0, 3] ** 2 + T[1, 3] ** 2

    return jnp.sum(lax.scan(body, jnp.eye(4), (angles, offsets))[1])


def frames_arguments(rng, n):
    return rng.normal(size=n), rng.normal(size=n)


def gradient(name, function, twin, arguments, small, large, wrt=0):
    """A row of a gradient."""
    return Row(
        name,
        calque.grad(function, argnums=wrt),
        jax.grad(twin, argnums=wrt),
        arguments,
        small,
        large,
        function,
    )


ROWS = [
    *(
        gradient(f.__name__.replace("_", ", "), f, lstm_jax, lstm_arguments, 3, n, (0, 1, 2))
        for f, n in ((lstm_stores, 14), (lstm_list, 14), (lstm_list_over, 14))
    ),
    gradient("lstm, batch", lstm_batch, lstm_batch_jax, batch_arguments, 3, 64, (0, 1, 2)),
    *(
        gradient(f.__name__.replace("_", ", "), f, ode_jax, ode_arguments, 3, 100, (0, 1))
        for f in (ode_stores, ode_list)
    ),
    gradient("ode, memory each step", ode_empty, ode_empty_jax, ode_arguments, 3, 10_000, (0, 1)),
    Row(
        "while, eight numbers",
        calque.grad(while_eight),
        jax.jacfwd(while_hand),
        while_arguments,
        10,
        20_000,
        while_eight,
    ),
    *(
        gradient(
            f"gmm, {f.__name__.partition('_')[2]}",
            *(f, triangle_jax, triangle_arguments, 3, 20, (0, 1, 2)),
        )
        for f in (triangle_scalars, triangle_matrices, triangle_products)
    ),
    gradient("frames, eye", frames_eye, frames_jax, frames_arguments, 3, 1000, (0, 1)),
]
