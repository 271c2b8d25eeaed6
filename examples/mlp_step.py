"""A training step of a small network, in float32: BLAS for the products, kernels between them."""

import itertools

import numpy as np

import calque


def loss(params, x, targets):
    for w, b in params[:-1]:
        x = np.maximum(x @ w + b, 0)
    w, b = params[-1]
    logits = x @ w + b
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=-1))


@calque.jit
def step(params, x, targets):
    value, slopes = calque.value_and_grad(loss)(params, x, targets)
    moved = [
        (w - 0.1 * w_bar, b - 0.1 * b_bar)
        for (w, b), (w_bar, b_bar) in zip(params, slopes, strict=True)
    ]
    return value, moved


def main():
    rng = np.random.default_rng(0)
    sizes = [20, 32, 5]
    params = [
        ((rng.normal(size=(i, o)) / i**0.5).astype(np.float32), np.zeros(o, np.float32))
        for i, o in itertools.pairwise(sizes)
    ]
    x = rng.normal(size=(64, 20)).astype(np.float32)
    classes = np.argmax(x @ rng.normal(size=(20, 5)), axis=1)
    targets = np.eye(5, dtype=np.float32)[classes]

    value, moved = step(params, x, targets)
    expected = calque.grad(loss)(params, x, targets)
    difference = max(
        np.abs(w - 0.1 * w_bar - new).max()
        for (w, _), (w_bar, _), (new, _) in zip(params, expected, moved, strict=True)
    )
    print(f"largest difference from plain NumPy: {difference:.1e}, expected below 1e-6")
    assert difference < 1e-6
    first = value
    for _ in range(100):
        value, params = step(params, x, targets)
    print(f"loss {first:.3f} before, {value:.3f} after 100 steps, expected to be less than half")
    assert value < first / 2
    assert params[0][0].dtype == np.float32

    print()
    print(calque.source(step, params, x, targets))


if __name__ == "__main__":
    main()
