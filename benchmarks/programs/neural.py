"""Layers of neural networks, float32."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from programs.record import Program, compiled


def normal(rng, *shape, scale=1.0):
    return (scale * rng.normal(size=shape)).astype(np.float32)


def softmax(x):
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


@compiled
def softmax_rows(x):
    for i in range(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0.0)
        for j in range(x.shape[1]):
            x[i, j] = np.exp(x[i, j] - top)
            total += x[i, j]
        for j in range(x.shape[1]):
            x[i, j] /= total


@compiled
def softmax_numba(x):
    out = x.copy()
    softmax_rows(out.reshape(-1, x.shape[-1]))
    return out


def softmax_arguments(rng, n):
    return (normal(rng, n, 4, n, n),)


def relu(x):
    return np.maximum(x, 0)


def mlp(x, w1, b1, w2, b2, w3, b3):
    x = relu(x @ w1 + b1)
    x = relu(x @ w2 + b2)
    return softmax(x @ w3 + b3)


def mlp_jax(x, w1, b1, w2, b2, w3, b3):
    x = jnp.maximum(x @ w1 + b1, 0)
    x = jnp.maximum(x @ w2 + b2, 0)
    return jax.nn.softmax(x @ w3 + b3)


@compiled
def bias(x, b, clip):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] += b[j]
            if clip:
                x[i, j] = max(x[i, j], np.float32(0.0))


@compiled
def mlp_numba(x, w1, b1, w2, b2, w3, b3):
    x = x @ w1
    bias(x, b1, True)
    x = x @ w2
    bias(x, b2, True)
    x = x @ w3
    bias(x, b3, False)
    softmax_rows(x)
    return x


def mlp_arguments(rng, n):
    sizes = [3 * n, 2 * n, 2 * n, 10]
    layers = [
        (normal(rng, i, o, scale=i**-0.5), normal(rng, o)) for i, o in itertools.pairwise(sizes)
    ]
    return normal(rng, n, sizes[0]), *(part for layer in layers for part in layer)


def conv2d(x, weights):
    """Sums over a window, one pixel of the result at a time: channels last."""
    size = weights.shape[0]
    rows, columns = x.shape[1] - size + 1, x.shape[2] - size + 1
    out = np.empty((x.shape[0], rows, columns, weights.shape[3]), dtype=np.float32)
    for i in range(rows):
        for j in range(columns):
            window = x[:, i : i + size, j : j + size, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * weights, axis=(1, 2, 3))
    return out


def conv2d_jax(x, weights):
    return lax.conv_general_dilated(
        x, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@compiled
def conv2d_numba(x, weights):
    size, _, inner, outer = weights.shape
    rows, columns = x.shape[1] - size + 1, x.shape[2] - size + 1
    out = np.zeros((x.shape[0], rows, columns, outer), dtype=np.float32)
    for n in range(x.shape[0]):
        for i in range(rows):
            for j in range(columns):
                for p in range(size):
                    for q in range(size):
                        for c in range(inner):
                            value = x[n, i + p, j + q, c]
                            for o in range(outer):
                                out[n, i, j, o] += value * weights[p, q, c, o]
    return out


def conv2d_bias(x, weights, bias):
    return conv2d(x, weights) + bias


def conv2d_bias_jax(x, weights, bias):
    return conv2d_jax(x, weights) + bias


@compiled
def conv2d_bias_numba(x, weights, bias):
    out = conv2d_numba(x, weights)
    for n in range(out.shape[0]):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                for c in range(out.shape[3]):
                    out[n, i, j, c] += bias[c]
    return out


def conv2d_bias_arguments(rng, n):
    return normal(rng, 4, n, n, 3), normal(rng, 3, 3, 3, 8), normal(rng, 8)


def maxpool(x):
    rows, columns = x.shape[1] // 2, x.shape[2] // 2
    out = np.empty((x.shape[0], rows, columns, x.shape[3]), dtype=np.float32)
    for i in range(rows):
        for j in range(columns):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def lenet(x, conv1, bias1, conv2, bias2, dense, bias3):
    x = maxpool(relu(conv2d(x, conv1) + bias1))
    x = maxpool(relu(conv2d(x, conv2) + bias2))
    x = np.reshape(x, (x.shape[0], dense.shape[0]))
    return x @ dense + bias3


def maxpool_jax(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def lenet_jax(x, conv1, bias1, conv2, bias2, dense, bias3):
    x = maxpool_jax(jnp.maximum(conv2d_jax(x, conv1) + bias1, 0))
    x = maxpool_jax(jnp.maximum(conv2d_jax(x, conv2) + bias2, 0))
    return x.reshape(x.shape[0], -1) @ dense + bias3


@compiled
def pooled(x, bias):
    rows, columns = x.shape[1] // 2, x.shape[2] // 2
    out = np.empty((x.shape[0], rows, columns, x.shape[3]), dtype=np.float32)
    for n in range(x.shape[0]):
        for i in range(rows):
            for j in range(columns):
                for c in range(x.shape[3]):
                    upper = max(x[n, 2 * i, 2 * j, c], x[n, 2 * i, 2 * j + 1, c])
                    lower = max(x[n, 2 * i + 1, 2 * j, c], x[n, 2 * i + 1, 2 * j + 1, c])
                    out[n, i, j, c] = max(max(upper, lower) + bias[c], np.float32(0.0))
    return out


@compiled
def lenet_numba(x, conv1, bias1, conv2, bias2, dense, bias3):
    x = pooled(conv2d_numba(x, conv1), bias1)
    x = pooled(conv2d_numba(x, conv2), bias2)
    out = x.reshape(x.shape[0], dense.shape[0]) @ dense
    bias(out, bias3, False)
    return out


def lenet_arguments(rng, n):
    inner = ((n - 2) // 2 - 2) // 2
    size = inner * inner * 8
    return (
        normal(rng, 4, n, n, 1),
        *(normal(rng, 3, 3, 1, 4), normal(rng, 4)),
        *(normal(rng, 3, 3, 4, 8), normal(rng, 8)),
        *(normal(rng, size, 10), normal(rng, 10)),
    )


def batchnorm(x):
    mean = np.mean(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(np.var(x, axis=0, keepdims=True) + np.float32(1e-5))


def resnet_block(x, conv1, conv2, conv3):
    """A bottleneck: 1 x 1, 3 x 3 over a padded image, 1 x 1, and the input added."""
    size = conv2.shape[0]
    padded = np.zeros((x.shape[0], x.shape[1] + 2, x.shape[2] + 2, conv1.shape[3]), np.float32)
    padded[:, 1:-1, 1:-1, :] = conv2d(x, conv1)
    y = relu(batchnorm(padded))
    y = relu(batchnorm(conv2d(y, conv2)))
    y = batchnorm(conv2d(y, conv3))
    return relu(y + x) * np.float32(size)


def batchnorm_jax(x):
    mean = jnp.mean(x, axis=0, keepdims=True)
    return (x - mean) / jnp.sqrt(jnp.var(x, axis=0, keepdims=True) + 1e-5)


def resnet_block_jax(x, conv1, conv2, conv3):
    padded = jnp.pad(conv2d_jax(x, conv1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = jnp.maximum(batchnorm_jax(padded), 0)
    y = jnp.maximum(batchnorm_jax(conv2d_jax(y, conv2)), 0)
    y = batchnorm_jax(conv2d_jax(y, conv3))
    return jnp.maximum(y + x, 0) * conv2.shape[0]


@compiled
def normalise(x, clip):
    count = x.shape[0]
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            for c in range(x.shape[3]):
                mean = np.float32(0.0)
                for n in range(count):
                    mean += x[n, i, j, c]
                mean /= np.float32(count)
                square = np.float32(0.0)
                for n in range(count):
                    square += (x[n, i, j, c] - mean) ** 2
                deviation = np.sqrt(square / np.float32(count) + np.float32(1e-5))
                for n in range(count):
                    value = (x[n, i, j, c] - mean) / deviation
                    x[n, i, j, c] = max(value, np.float32(0.0)) if clip else value


@compiled
def resnet_block_numba(x, conv1, conv2, conv3):
    inner = conv2d_numba(x, conv1)
    padded = np.zeros((x.shape[0], x.shape[1] + 2, x.shape[2] + 2, conv1.shape[3]), np.float32)
    padded[:, 1:-1, 1:-1, :] = inner
    normalise(padded, True)
    y = conv2d_numba(padded, conv2)
    normalise(y, True)
    y = conv2d_numba(y, conv3)
    normalise(y, False)
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                for c in range(y.shape[3]):
                    value = max(y[n, i, j, c] + x[n, i, j, c], np.float32(0.0))
                    y[n, i, j, c] = value * np.float32(conv2.shape[0])
    return y


def resnet_block_arguments(rng, n):
    return (
        normal(rng, 8, n, n, 8),
        normal(rng, 1, 1, 8, 4),
        normal(rng, 3, 3, 4, 4),
        normal(rng, 1, 1, 4, 8),
    )


PROGRAMS = [
    Program(softmax, jax.nn.softmax, softmax_numba, softmax_arguments, 3, 64),
    Program(mlp, mlp_jax, mlp_numba, mlp_arguments, 4, 128, (1, 2, 3, 4, 5, 6)),
    Program(
        *(conv2d_bias, conv2d_bias_jax, conv2d_bias_numba, conv2d_bias_arguments, 5, 32),
        (0, 1, 2),
    ),
    Program(lenet, lenet_jax, lenet_numba, lenet_arguments, 12, 28, (1, 2, 3, 4, 5, 6)),
    Program(
        *(resnet_block, resnet_block_jax, resnet_block_numba, resnet_block_arguments),
        *(4, 14, (1, 2, 3)),
    ),
]
