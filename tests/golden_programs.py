"""The functions whose generated source tests/golden pins: showpieces, and one a feature."""

import numpy as np


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def logistic_loss(w: "f8[d]", b: float, x: "f8[n, d]", y: "f8[n]"):
    z = x @ w + b
    p = sigmoid(z)
    ll = y * np.log(p) + (1.0 - y) * np.log(1.0 - p)
    return -np.mean(ll)


def gauss_seidel(u: "f8[n, m]", f: "f8[n, m]"):
    n = u.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return np.sum(u * u)


def nonlinear_stencil(u: "f8[n]"):
    for i in range(1, u.shape[0]):
        u[i] = np.sin(u[i]) * u[i - 1]
    return np.sum(u)


def hinge(w: "f8[d]", x: "f8[d]", y: float):
    margin = y * (x @ w)
    if margin > 1.0:
        return 0.0
    return (1.0 - margin) ** 2


def newton(a: float):
    x = a
    while np.abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def entropy_term(p: float, scale: float):
    if p > 0.0:
        h = -p * np.log(p)
    else:
        h = 0.0
    return scale * h


def tanh(x: float):
    y = np.exp(-2.0 * x)
    return (1.0 - y) / (1.0 + y)


def cross_entropy(logits: "f8[n, k]", targets: "f8[n, k]"):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))


def mlp(params: "[{'W': f8[d, h], 'b': f8[h]}, {'W': f8[h, 1], 'b': f8[1]}]", x: "f8[n, d]"):
    for layer in params:
        x = np.tanh(x @ layer["W"] + layer["b"])
    return np.sum(x * x)


def growing(x: float, n: int):
    path = []
    for _ in range(n):
        x = x * (1.0 - x)
        path.append(x)
    return np.sum(np.array(path))


def decay(x: "f8[n]", rate: float):
    s = 0.0
    for i in range(x.shape[0]):
        s = s * rate + x[i] * s * s
        s = s + x[i]
    return s


def cell(params, h, x):
    z = np.concatenate([h, x]) @ params["W"] + params["b"]
    return np.tanh(z)


def recurrent(params: "{'W': f8[7, 4], 'b': f8[4]}", xs: "f8[n, 3]"):
    h = np.zeros(4)
    for x in xs:
        h = cell(params, h, x)
    return np.sum(h * h)


def block(x, s, w):
    z = x - np.mean(x, axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + 1e-5)
    h = np.tanh((z / spread * s) @ w)
    return x + h * h


def residual(
    params: "[(f8[d], f8[d, d]), (f8[d], f8[d, d]), (f8[d], f8[d, d]), (f8[d], f8[d, d]), (f8[d], f8[d, d])]",
    x: "f8[n, d]",
):
    for s, w in params:
        x = block(x, s, w)
    return np.sum(x * x)
