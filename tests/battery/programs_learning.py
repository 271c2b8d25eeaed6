"""Machine learning written in plain NumPy: losses, layers, filters, recurrent cells, attention."""

from __future__ import annotations

from functools import partial

import numpy as np

from battery.registry import definite, matrix, program, tensor, vector


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def softmax(z, axis=-1):
    shifted = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return shifted / np.sum(shifted, axis=axis, keepdims=True)


def layer_norm(x, gain, bias):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.var(x, axis=-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + 1e-3) + bias


@program(vector(3), 0.2, matrix(4, 3), np.array([1.0, 0.0, 1.0, 1.0]), diff=(0, 1))
def logistic_loss(w, b, x, y):
    z = x @ w + b
    p = sigmoid(z)
    ll = y * np.log(p) + (1.0 - y) * np.log(1.0 - p)
    return -np.mean(ll)


INPUTS = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
TARGETS = np.array([True, True, False, True])


@program({"W": vector(3), "b": 0.1})
def logistic_regression_on_globals(params):
    p = sigmoid(INPUTS @ params["W"] + params["b"])
    return -np.sum(np.log(p * TARGETS + (1 - p) * ~TARGETS))


@program([(matrix(3, 4), vector(4)), (matrix(4, 2, 1), vector(2, 3))], matrix(3, 3, 5),
         np.array([0, 1, 1]))
def mlp_cross_entropy(params, x, labels):
    for weight, bias in params[:-1]:
        x = np.tanh(x @ weight + bias)
    weight, bias = params[-1]
    logits = x @ weight + bias
    top = np.max(logits, axis=1, keepdims=True)
    log_p = logits - top - np.log(np.sum(np.exp(logits - top), axis=1, keepdims=True))
    return -np.mean(log_p[np.arange(labels.shape[0]), labels])


@program(matrix(3, 4), np.eye(4)[[1, 3, 0]])
def softmax_cross_entropy_one_hot(logits, one_hot):
    return -np.sum(one_hot * np.log(softmax(logits))) / logits.shape[0]


@program(matrix(3, 4), np.array([1, 3, 0]))
def cross_entropy_by_rows(logits, labels):
    loss = 0.0
    for row, label in zip(logits, labels):
        top = np.max(row)
        loss += top + np.log(np.sum(np.exp(row - top))) - row[label]
    return loss / len(labels)


@program(matrix(3, 2), matrix(3, 2, 1), matrix(3, 2, 2), diff=(0, 1, 2))
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[1])
    return np.sum(softmax(scores) @ v * q)


@program(matrix(3, 4), [matrix(4, 4, seed) for seed in range(4)], diff=(0, 1))
def multi_head_causal_attention(x, weights):
    n, d = x.shape
    heads = 2
    q, k, v = (np.reshape(x @ w, (n, heads, d // heads)) for w in weights[:3])
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d // heads)
    mask = np.tril(np.ones((n, n))) == 1
    scores = np.where(mask, scores, -1e9)
    mixed = np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(n, d)
    return np.sum((mixed @ weights[3]) ** 2)


@program(matrix(4, 2), matrix(3, 3), matrix(2, 3, 1), vector(3), diff=(0, 1, 2, 3))
def rnn(inputs, recurrent, entry, bias):
    state = np.zeros(3)
    loss = 0.0
    for x in inputs:
        state = np.tanh(state @ recurrent + x @ entry + bias)
        loss += np.sum(state**2)
    return loss


@program(matrix(3, 2), matrix(4, 8, 1), vector(8), diff=(0, 1, 2))
def lstm(inputs, weight, bias):
    h, c = np.zeros(2), np.zeros(2)
    outputs = []
    for t in range(inputs.shape[0]):
        gates = np.concatenate([inputs[t], h]) @ weight + bias
        i, f, o, g = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.sum(np.stack(outputs) ** 2)


@program(matrix(3, 2), {"z": matrix(4, 2, 1), "r": matrix(4, 2, 2), "h": matrix(4, 2, 3)},
         diff=(0, 1))
def gru(inputs, params):
    h = np.zeros(2)
    for x in inputs:
        joined = np.hstack([x, h])
        z = sigmoid(joined @ params["z"])
        r = sigmoid(joined @ params["r"])
        candidate = np.tanh(np.hstack([x, r * h]) @ params["h"])
        h = (1 - z) * h + z * candidate
    return h @ h


@program(matrix(5, 5), matrix(2, 2, 1), diff=(0, 1))
def convolution_2d_loops(image, kernel):
    height, width = kernel.shape
    out = np.zeros((image.shape[0] - height + 1, image.shape[1] - width + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(image[i : i + height, j : j + width] * kernel)
    return np.sum(np.maximum(out, 0.0))


@program(matrix(4, 4), matrix(3, 3, 1), diff=(0, 1))
def convolution_by_shifts(image, kernel):
    out = np.zeros((2, 2))
    for a in range(3):
        for b in range(3):
            out += kernel[a, b] * image[a : a + 2, b : b + 2]
    return np.sum(np.tanh(out))


@program(vector(6), vector(3, 1), diff=(0, 1))
def convolve_same_and_full(signal, kernel):
    full = np.convolve(signal, kernel)
    same = np.convolve(signal, kernel, mode="same")
    return np.sum(full**2) + np.sum(same * signal)


@program(matrix(4, 4))
def max_pool_loops(image):
    out = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            out[i, j] = np.max(image[2 * i : 2 * i + 2, 2 * j : 2 * j + 2])
    return np.sum(out * out)


@program(matrix(3, 4), vector(4), vector(4, 1), diff=(0, 1, 2))
def layer_norm_loss(x, gain, bias):
    return np.sum(layer_norm(x, gain, bias) * np.arange(12.0).reshape(3, 4))


@program(matrix(5, 3), vector(3), diff=(0, 1))
def batch_norm_train(x, gain):
    mean, std = x.mean(axis=0), x.std(axis=0)
    return np.sum(np.exp(gain * (x - mean) / (std + 0.1)))


@program(vector(2), definite(2), matrix(3, 2), diff=(0, 1, 2))
def kalman_filter(mean, cov, observations):
    transition = np.array([[1.0, 0.1], [0.0, 1.0]])
    noise = 0.1 * np.eye(2)
    loss = 0.0
    for z in observations:
        mean = transition @ mean
        cov = transition @ cov @ transition.T + noise
        s = cov[0, 0] + 0.2
        innovation = z[0] - mean[0]
        gain = cov[:, 0] / s
        mean = mean + gain * innovation
        cov = cov - np.outer(gain, cov[0])
        loss += 0.5 * (innovation**2 / s + np.log(s))
    return loss


@program(vector(4), 0.1, 3, diff=(0, 1))
def unrolled_gradient_descent(x, rate, steps):
    def descent(y):
        return 4.0 * y**3 - 2.0 * y + 0.3

    for _ in range(steps):
        x = x - rate * descent(x)
    return np.sum(x**4 - x**2)


@program(vector(3), matrix(3, 3), diff=(0, 1))
def adam_steps(w, a):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(1, 4):
        slope = a @ w + np.sin(w)
        m = 0.9 * m + 0.1 * slope
        v = 0.99 * v + 0.01 * slope**2
        w = w - 0.1 * (m / (1.0 - 0.9**t)) / (np.sqrt(v / (1.0 - 0.99**t)) + 1e-3)
    return np.sum(w * w)


@program(matrix(4, 2), vector(4), np.array([0.3, 1.2, 0.1]), diff=(0, 1, 2))
def gaussian_process_quadratic(x, y, params):
    scale, length, noise = params
    d2 = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)
    k = scale * np.exp(-0.5 * d2 / length**2) + (noise + 0.5) * np.eye(4)
    return y @ k @ y


@program(vector(3), matrix(3, 2), np.array([1.0, 2.0]), diff=(0, 1, 2))
def gaussian_mixture_log_likelihood(weights, means, x):
    terms = []
    for k in range(weights.shape[0]):
        terms.append(weights[k] - 0.5 * np.sum((x - means[k]) ** 2))
    terms = np.array(terms)
    top = np.max(terms)
    return top + np.log(np.sum(np.exp(terms - top))) - np.log(np.sum(np.exp(weights)))


@program(matrix(3, 5), np.array([0, 2, 2, 4]))
def embedding_lookup(table, tokens):
    vectors = table[:, tokens]
    return np.sum(np.mean(vectors, axis=1) ** 2) + np.sum(vectors[:, 1] * vectors[:, 2])


@program(vector(4), vector(4, 1), diff=(0, 1))
def elementwise_losses(prediction, target):
    error = prediction - target
    huber = np.where(np.abs(error) < 0.5, 0.5 * error**2, 0.5 * (np.abs(error) - 0.25))
    quantile = np.maximum(0.3 * error, -0.7 * error)
    return np.sum(huber) + np.mean(quantile) + np.sum(np.logaddexp(0.0, error))


@program(matrix(3, 3), vector(3), diff=(0, 1))
def residual_blocks_by_partial(weight, x):
    def block(w, scale, value):
        return value + scale * np.maximum(w @ value, 0.0)

    for scale in (0.5, 0.25):
        x = partial(block, weight, scale)(x)
    return np.sum(x)


@program(tensor(2, 3, 2), tensor(2, 2, 3, seed=1), diff=(0, 1))
def batched_matrix_products(a, b):
    c = a @ b
    d = np.einsum("bij,bjk->bik", a, b)
    return np.sum(c * d) + np.sum(np.tensordot(a, b, axes=([1], [2])))


@program(matrix(4, 3), vector(3), matrix(1, 3, 2), diff=(0, 1, 2))
def broadcasting_of_every_kind(a, row, other):
    column = a[:, :1]
    return np.sum(a * row + column / (2.0 + other**2) - row[0] * a[0, 0] * np.ones((2, 1, 3)))


@program({"encoder": matrix(2, 4), "decoder": matrix(4, 2, 1)}, matrix(3, 4, 2), diff=(0, 1))
def autoencoder(params, data):
    code = np.tanh(data @ params["encoder"].T)
    return np.mean((code @ params["decoder"].T - data) ** 2)


@program(matrix(2, 3), matrix(2, 3, 1), 0.3, diff=(0, 1, 2))
def contrastive_similarity(a, b, temperature):
    def normalized(z):
        return z / np.linalg.norm(z, axis=1, keepdims=True)

    logits = normalized(a) @ normalized(b).T / (temperature + 0.5)
    return np.sum(np.log(np.sum(np.exp(logits), axis=1)) - np.diag(logits))
