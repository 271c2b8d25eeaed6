"""lstm: the loss of a recurrent network of diagonal weights on a text."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def objective(main, extra, state, sequence):
    """Return the loss of predicting each character's bits from those before.

    ``main`` holds two rows for each layer, weights and biases, for the gates in the order forget,
    in, out, change. ``state`` holds two rows for each layer: what it shows, and its memory.
    """
    layers, width = main.shape[0] // 2, sequence.shape[1]
    state = state.copy()
    total = 0.0
    for t in range(sequence.shape[0] - 1):
        signal = sequence[t] * extra[0]
        for layer in range(layers):
            weight = main[2 * layer].reshape(4, width)
            bias = main[2 * layer + 1].reshape(4, width)
            shown, memory = state[2 * layer], state[2 * layer + 1]
            forget = sigmoid(signal * weight[0] + bias[0])
            ingate = sigmoid(shown * weight[1] + bias[1])
            outgate = sigmoid(signal * weight[2] + bias[2])
            change = np.tanh(shown * weight[3] + bias[3])
            memory[:] = memory * forget + ingate * change
            shown[:] = outgate * np.tanh(memory)
            signal = shown.copy()
        prediction = signal * extra[1] + extra[2]
        normalized = prediction - np.log(2.0 + np.sum(np.exp(prediction)))
        total += np.sum(sequence[t + 1] * normalized)
    return -total / ((sequence.shape[0] - 1) * width)


def arguments(message: Message) -> tuple[np.ndarray, ...]:
    """Return the weights of the layers, those of input and output, the state and the text."""
    names = ("main_params", "extra_params", "state", "sequence")
    return tuple(np.array(message[name]) for name in names)


def flat(gradients: tuple[np.ndarray, np.ndarray]) -> list[float]:
    """Return the gradients, row by row."""
    return np.concatenate([gradient.ravel() for gradient in gradients]).tolist()


gradient = calque.jit(calque.grad(objective, argnums=(0, 1)))
EVALUATIONS = {
    "objective": EvalFunction(calque.jit(objective), arguments, float),
    "jacobian": EvalFunction(gradient, arguments, flat),
}
