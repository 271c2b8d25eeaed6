"""The digits' network on the GPU: cuBLAS for products, kernels between them; weights stay there.

It needs scikit-learn, for the images: pip install scikit-learn
"""

import numpy as np
from sklearn.datasets import load_digits

import calque

RATE = 0.1


def loss(params, images, targets):
    (w_0, b_0), (w_1, b_1) = params
    hidden = np.tanh(images @ w_0 + b_0)
    logits = hidden @ w_1 + b_1
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))


def step(params, images, targets):
    value, slopes = calque.value_and_grad(loss)(params, images, targets)
    (w_0, b_0), (w_1, b_1) = params
    (w_0_bar, b_0_bar), (w_1_bar, b_1_bar) = slopes
    first = w_0 - RATE * w_0_bar, b_0 - RATE * b_0_bar
    return value, (first, (w_1 - RATE * w_1_bar, b_1 - RATE * b_1_bar))


def accuracy(params, images, digits):
    (w_0, b_0), (w_1, b_1) = params
    found = np.argmax(np.tanh(images @ w_0 + b_0) @ w_1 + b_1, axis=1)
    return np.mean(found == digits)


def gpu():
    """The first GPU; None, with a word, where there is none."""
    try:
        return calque.devices("gpu")[0]
    except ValueError as error:
        print(f"On the CPU: {str(error).partition('.')[0]}.")
        return None


def main():
    device = gpu()
    data = load_digits()
    images = (data.data / 16.0).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[data.target]
    rng = np.random.default_rng(0)
    sizes = (64, 48), (48, 10)
    params = tuple(
        ((rng.standard_normal(s) / s[0] ** 0.5).astype(np.float32), np.zeros(s[1], np.float32))
        for s in sizes
    )
    train = calque.jit(step)
    first, moved = step(params, images[:128], targets[:128])  # NumPy's own

    given = (params, images, targets)
    if device is not None:
        given = calque.device_put(given, device)
    params, images_there, targets_there = given
    value, once = train(params, images_there[:128], targets_there[:128])
    expected = np.concatenate([x.ravel() for layer in moved for x in layer])
    found = np.concatenate([x.ravel() for layer in calque.device_get(once) for x in layer])
    print(f"loss of the first step {float(value):.6f}, expected {float(first):.6f}")
    assert np.isclose(float(value), float(first), rtol=1e-5)
    assert np.abs(found - expected).max() < 1e-5

    for _ in range(20):
        for start in range(0, 1408, 128):
            rows = slice(start, start + 128)
            _, params = train(params, images_there[rows], targets_there[rows])
    right = accuracy(calque.device_get(params), images[1408:], data.target[1408:])
    print(f"right of images not trained with: {right:.1%}, expected above 80%")
    assert right > 0.8

    print()
    types = tuple((calque.spec(f"f4[{i},{o}]"), calque.spec(f"f4[{o}]")) for i, o in ("dh", "hc"))
    print(calque.source(train, types, calque.spec("f4[n,d]"), calque.spec("f4[n,c]"), stage="cuda"))


if __name__ == "__main__":
    main()
