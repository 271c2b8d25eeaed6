"""Logistic regression on four points: parameters as arguments or in a dict, data as globals."""

import numpy as np

import calque

inputs = np.array(
    [[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]]
)
targets = np.array([True, True, False, True])


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def loss(w: "f8[3]", b: float):
    p = sigmoid(inputs @ w + b)
    likelihood = p * targets + (1.0 - p) * (1.0 - targets)
    return -np.sum(np.log(likelihood))


def loss_of(parameters: "{'W': f8[3], 'b': float}"):
    return loss(parameters["W"], parameters["b"])


def by_hand(w, b):
    """The textbook's gradient: the inputs weighted by prediction minus target."""
    error = sigmoid(inputs @ w + b) - targets
    return error @ inputs, np.sum(error)


def by_differences(w, b, step=1e-6):
    steps = step * np.eye(3)
    w_bar = [(loss(w + e, b) - loss(w - e, b)) / (2 * step) for e in steps]
    return np.array(w_bar), (loss(w, b + step) - loss(w, b - step)) / (2 * step)


def main():
    w, b = np.array([0.3, -0.4, 0.5]), 0.2
    expected_w, expected_b = by_hand(w, b)

    w_bar, b_bar = calque.grad(loss, argnums=(0, 1))(w, b)
    print(f"w_bar: {w_bar}, expected {expected_w}")
    print(f"b_bar: {b_bar:.10f}, expected {expected_b:.10f}")
    assert np.allclose(w_bar, expected_w, rtol=1e-12) and np.isclose(b_bar, expected_b, rtol=1e-12)

    difference_w, difference_b = by_differences(w, b)
    print(f"by differences: {difference_w}, {difference_b:.10f}")
    assert np.allclose(w_bar, difference_w, atol=1e-7)
    assert np.isclose(b_bar, difference_b, atol=1e-7)

    value, bars = calque.value_and_grad(loss_of)({"W": w, "b": b})
    print(f"loss: {value:.10f}, expected {loss(w, b):.10f}")
    print(f"gradient in a dict: {bars}")
    assert value == loss(w, b)
    assert np.allclose(bars["W"], expected_w) and np.isclose(bars["b"], expected_b)

    for _ in range(20):
        w_bar, b_bar = calque.grad(loss, argnums=(0, 1))(w, b)
        w, b = w - 0.1 * w_bar, b - 0.1 * b_bar
    print(f"loss after 20 steps of descent: {loss(w, b):.4f}, before: {value:.4f}")
    assert loss(w, b) < value

    print()
    print(calque.source(calque.grad(loss, argnums=(0, 1)), w, b))


if __name__ == "__main__":
    main()
