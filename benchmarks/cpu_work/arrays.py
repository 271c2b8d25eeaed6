"""Programs on whole arrays; `as_jax` loads this file with JAX in place of NumPy and calque."""

from typing import NamedTuple

import numpy as np

import calque


def selu(x, alpha=1.67, scale=1.05):
    return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)


def tanh_energy(x):
    return np.sum(np.tanh(x) * x)


def powers(x):
    return x + x**2 + x**3


def logistic_loss(w, b, x, y):
    z = x @ w + b
    p = 1.0 / (1.0 + np.exp(-z))
    ll = y * np.log(p) + (1.0 - y) * np.log(1.0 - p)
    return -np.mean(ll)


def mlp_loss(params, x, targets):
    for w, b in params[:-1]:
        x = np.maximum(x @ w + b, 0)
    w, b = params[-1]
    logits = x @ w + b
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=-1))


def mlp_step(params, x, targets):
    slopes = calque.grad(mlp_loss)(params, x, targets)
    return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, slopes)]


def mlp_loss_by_rows(params, x, targets):
    return mlp_loss([(w.T, b) for w, b in params], x, targets)


def mlp_step_by_rows(params, x, targets):
    slopes = calque.grad(mlp_loss_by_rows)(params, x, targets)
    return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, slopes)]


def example_losses(params, x, targets):
    return np.mean(calque.vmap(mlp_loss, in_axes=(None, 0, 0))(params, x, targets))


def mlp_step_by_example(params, x, targets):
    slopes = calque.grad(example_losses)(params, x, targets)
    return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, slopes)]


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def line_of_code(x):
    return x * x + 1.0


def cubes(x):
    return np.sum(x * x * x)


class Peak(NamedTuple):
    height: float
    place: float
    width: float


def peak_misfit(peak, x, y):
    model = peak.height * np.exp(-(((x - peak.place) / peak.width) ** 2))
    return np.sum((model - y) ** 2)


def convolve(x, w):
    out = []
    for i in range(1, len(x) - 1):
        out.append(np.dot(x[i - 1 : i + 2], w))
    return np.array(out)
