"""Learning, statistics, signals: programs of the length that users write."""

from __future__ import annotations

import math

import numpy as np

from battery.registry import matrix, program, vector


class GRUCell:
    def __init__(self, p):
        self.p = p

    @staticmethod
    def sig(x):
        return 1.0 / (1.0 + np.exp(-x))

    def __call__(self, h, x):
        hx = np.concatenate((h, x))
        z = self.sig(self.p["Wz"] @ hx + self.p["bz"])
        r = self.sig(self.p["Wr"] @ hx + self.p["br"])
        n = np.tanh(self.p["Wn"] @ np.concatenate((r * h, x)))
        return (1 - z) * h + z * n


@program(
    {
        "Wz": matrix(3, 5),
        "bz": vector(3),
        "Wr": matrix(3, 5, seed=1),
        "br": vector(3, seed=4),
        "Wn": matrix(3, 5, seed=2),
    },
    matrix(4, 2),
)
def gru_sequence_loss(params, xs):
    cell = GRUCell(params)
    h = np.zeros(len(params["bz"]))
    hs = []
    for x in xs:
        h = cell(h, x)
        hs.append(h)
    return sum(((h**2).sum() for h in hs)) / len(hs)


@program(matrix(4, 3), 2)
def beam_search_score(logits, width):
    logp = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    beams = [((), 0.0)]
    for t in range(logp.shape[0]):
        candidates = []
        for seq, score in beams:
            for k in range(logp.shape[1]):
                candidates.append((seq + (k,), score + logp[t, k] * (1.0 + 0.1 * len(seq))))
        candidates.sort(key=lambda c: c[1], reverse=True)
        beams = candidates[:width]
    return beams[0][1]


@program(matrix(8, 2), matrix(3, 2, seed=1), 5.0, diff=(0, 1, 2))
def soft_kmeans(X, centers, beta):
    for _ in range(4):
        d = np.sum((X[:, np.newaxis] - centers) ** 2, axis=2)
        r = np.exp(-beta * d)
        r /= r.sum(axis=1)[:, None]
        centers = r.T @ X / r.sum(axis=0)[:, None]
    return np.einsum("nk,nk->", r, d)


@program(matrix(4, 3), matrix(4, 3, seed=1), matrix(4, 3, seed=2), diff=(0, 1, 2))
def masked_attention(Q, K, V):
    n, d = Q.shape
    m = K.shape[0]
    mask = np.tril(np.ones((n, m), dtype=bool), k=m - n)
    scores = Q @ K.T / np.sqrt(d)
    scores = np.where(mask, scores, -np.inf)
    scores -= scores.max(axis=-1, keepdims=True)
    e = np.exp(scores)
    return e / e.sum(-1, keepdims=True) @ V


@program(
    matrix(5, 3),
    np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [1, 3]]),
    matrix(3, 3, seed=1),
    vector(6, seed=2),
    diff=(0, 2, 3),
)
def graph_attention(H, edges, W, bias):
    Z = H @ W
    src, dst = edges.T
    e = np.sum(Z[src] * Z[dst], axis=1) + bias
    e = np.where(e > 0, e, 0.2 * e)
    w = np.exp(e)
    norm = np.zeros(len(H))
    np.add.at(norm, dst, w)
    out = np.zeros_like(Z)
    np.add.at(out, dst, (w / norm[dst])[:, None] * Z[src])
    return out


@program(matrix(10, 4), matrix(4, 4, seed=1), 0.99, diff=(0, 1, 2))
def policy_gradient_returns(rewards, W, gamma):
    T = len(rewards)
    returns = np.zeros(T)
    running = 0
    for t in reversed(range(T)):
        running = np.tanh(rewards[t] @ W).mean() + gamma * running
        returns[t] = running
    adv = (returns - returns.mean()) / (returns.std() + 1e-08)
    return np.sum(adv * np.arange(T)) + returns[0]


@program(matrix(3, 4), matrix(4, 3, seed=1), vector(6), diff=(0, 1, 2))
def adam_on_two_layer(W1, W2, x):
    params = {"W1": W1, "W2": W2}
    m = {k: np.zeros_like(v) for k, v in params.items()}
    v = {k: np.zeros_like(p) for k, p in params.items()}
    X = x.reshape(2, 3)
    for t in range(1, 4):
        h = np.tanh(X @ params["W1"])
        out = h @ params["W2"]
        err = out - X
        grads = {"W2": h.T @ err, "W1": X.T @ (err @ params["W2"].T * (1 - h**2))}
        for k in params:
            m[k] = 0.9 * m[k] + 0.1 * grads[k]
            v[k] = 0.999 * v[k] + 0.001 * grads[k] ** 2
            params[k] = params[k] - 0.01 * (m[k] / (1 - 0.9**t)) / (
                np.sqrt(v[k] / (1 - 0.999**t)) + 1e-08
            )
    return np.sum((np.tanh(X @ params["W1"]) @ params["W2"] - X) ** 2)


@program(matrix(8, 3), vector(8), diff=(0, 1), second=False)
def decision_stump(X, y):
    best_err, best = (np.inf, None)
    n, d = X.shape
    for j in range(d):
        order = np.argsort(X[:, j])
        xs, ys = (X[order, j], y[order])
        for i in range(1, n):
            left, right = (ys[:i], ys[i:])
            err = ((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()
            if err < best_err:
                best_err = err
                best = (j, (xs[i - 1] + xs[i]) / 2, left.mean(), right.mean())
    j, thr, l, r = best
    return best_err + thr * l - r


@program(
    vector(12), np.array([-0.5, 0.5]), np.array([0.3, 0.4]), np.array([0.5, 0.5]), diff=(0, 1, 2, 3)
)
def em_gaussian_mixture(x, mu, sd, w):
    ll_old = -np.inf
    for it in range(25):
        dens = w * np.exp(-0.5 * ((x[:, None] - mu) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
        tot = dens.sum(axis=1)
        ll = np.log(tot).sum()
        if ll - ll_old < 0.001:
            break
        ll_old = ll
        r = dens / tot[:, None]
        nk = r.sum(0)
        w = nk / len(x)
        mu = (r * x[:, None]).sum(0) / nk
        sd = np.sqrt((r * (x[:, None] - mu) ** 2).sum(0) / nk) + 0.05
    return (ll, mu)


@program(np.sort(vector(7)), vector(7, seed=1), np.array([-0.2, 0.1, 0.3]), diff=(0, 1))
def cubic_spline_tridiagonal(x, y, xq):
    n = len(x) - 1
    h = np.diff(x)
    alpha = np.zeros(n + 1)
    for i in range(1, n):
        alpha[i] = 3 / h[i] * (y[i + 1] - y[i]) - 3 / h[i - 1] * (y[i] - y[i - 1])
    l = np.ones(n + 1)
    mu = np.zeros(n + 1)
    z = np.zeros(n + 1)
    for i in range(1, n):
        l[i] = 2 * (x[i + 1] - x[i - 1]) - h[i - 1] * mu[i - 1]
        mu[i] = h[i] / l[i]
        z[i] = (alpha[i] - h[i - 1] * z[i - 1]) / l[i]
    c = np.zeros(n + 1)
    b = np.zeros(n)
    d = np.zeros(n)
    for j in range(n - 1, -1, -1):
        c[j] = z[j] - mu[j] * c[j + 1]
        b[j] = (y[j + 1] - y[j]) / h[j] - h[j] * (c[j + 1] + 2 * c[j]) / 3
        d[j] = (c[j + 1] - c[j]) / 3 / h[j]
    out = []
    for q in xq:
        k = min(max(np.searchsorted(x, q) - 1, 0), n - 1)
        t = q - x[k]
        out.append(y[k] + t * (b[k] + t * (c[k] + t * d[k])))
    return np.array(out)


@program(vector(10), 0.3, diff=(0, 1))
def kde_leave_one_out(x, h):
    n = len(x)
    ll = 0
    for i in range(n):
        others = np.delete(x, i)
        k = np.exp(-0.5 * ((x[i] - others) / h) ** 2) / (h * math.sqrt(2 * math.pi))
        ll += np.log(k.mean())
    return ll / n


@program(vector(8))
def isotonic_pav(y):
    """pool adjacent violators with stacks of (sum, count)"""
    sums, counts = ([], [])
    for v in y:
        sums.append(v)
        counts.append(1)
        while len(sums) > 1 and sums[-2] / counts[-2] > sums[-1] / counts[-1]:
            s, c = (sums.pop(), counts.pop())
            sums[-1] += s
            counts[-1] += c
    total = 0.0
    for s, c in zip(sums, counts):
        total += c * (s / c) ** 2
    return total


@program(vector(15), np.array([0.2, 0.3, 0.2]), np.array([1.0, -0.4, 0.1]), diff=(0, 1, 2))
def iir_direct_form_two(x, b, a):
    b, a = (b / a[0], a / a[0])
    z = np.zeros(len(b))
    y = np.empty_like(x)
    for n, xn in enumerate(x):
        y[n] = b[0] * xn + z[0]
        for k in range(1, len(b) - 1):
            z[k - 1] = b[k] * xn + z[k] - a[k] * y[n]
        z[-2] = b[-1] * xn - a[-1] * y[n]
    return y


@program(vector(20), 0.13, diff=(0, 1))
def goertzel_power(x, f):
    w = 2 * np.pi * f
    coeff = 2 * np.cos(w)
    s1 = s2 = 0.0
    for sample in x:
        s0 = sample + coeff * s1 - s2
        s2, s1 = (s1, s0)
    return s1**2 + s2**2 - coeff * s1 * s2


@program(vector(16))
def wavelet_lifting(x):
    """multi-level CDF 5/3 lifting, thresholded"""
    coeffs = []
    a = x.copy()
    while len(a) > 2:
        even, odd = (a[::2].copy(), a[1::2].copy())
        odd -= 0.5 * (even + np.roll(even, -1))
        even += 0.25 * (odd + np.roll(odd, 1))
        coeffs.append(np.sign(odd) * np.maximum(np.abs(odd) - 0.1, 0))
        a = even
    for d in reversed(coeffs):
        even = a - 0.25 * (d + np.roll(d, 1))
        odd = d + 0.5 * (even + np.roll(even, -1))
        a = np.empty(2 * len(even))
        a[::2], a[1::2] = (even, odd)
    return a


@program(np.array([2.0, 0.8, 0.4, 0.1, 0.2]))
def levinson_durbin(r):
    p = len(r) - 1
    a = np.zeros(p + 1)
    a[0] = 1.0
    E = r[0]
    refl = []
    for k in range(1, p + 1):
        lam = -sum((a[j] * r[k - j] for j in range(k))) / E
        refl.append(lam)
        a_prev = a.copy()
        for j in range(1, k):
            a[j] = a_prev[j] + lam * a_prev[k - j]
        a[k] = lam
        E *= 1 - lam**2
    return {"a": a, "E": E, "k": np.array(refl)}


@program(vector(24), 4)
def holt_winters(y, m):
    alpha, beta, gamma = (0.4, 0.1, 0.2)
    level = y[:m].mean()
    trend = (y[m : 2 * m].mean() - y[:m].mean()) / m
    season = [y[i] - level for i in range(m)]
    sse = 0.0
    for t in range(m, len(y)):
        s = season[t % m]
        err = y[t] - (level + trend + s)
        sse += err**2
        last = level
        level = alpha * (y[t] - s) + (1 - alpha) * (level + trend)
        trend = beta * (level - last) + (1 - beta) * trend
        season[t % m] = gamma * (y[t] - level) + (1 - gamma) * s
    return sse


@program(vector(18), vector(4, seed=2), 0.1, diff=(0, 1, 2))
def lms_and_nlms(d, w, mu):
    L = len(w)
    w = w.copy()
    e = np.zeros(len(d))
    for n in range(L, len(d)):
        u = d[n - L : n][::-1]
        e[n] = d[n] - w @ u
        w += mu * e[n] * u / (u @ u + 0.001)
    return np.mean(e[L:] ** 2)
