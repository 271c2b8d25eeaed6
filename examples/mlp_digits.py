"""A multilayer perceptron from scratch: handwritten digits, in NumPy and calque.

    python mlp_digits.py                         # scikit-learn's digits: 1,797 real images
    python mlp_digits.py --data mnist.npz        # x_train, y_train, x_test, y_test
    python mlp_digits.py --devices 4             # each batch shared by four threads
    mpiexec -n 2 python mlp_digits.py            # ... by two processes
    python mlp_digits.py --compare               # an epoch's time: plain, jit, JAX

Needs the extra "examples": pip install "calque[examples]".
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from calque import (
    device_count,
    grad,
    jit,
    pmap,
    pmean,
    process_count,
    process_index,
    random,
    shard,
    source,
    tree_map,
    vmap,
)

RATE = 0.1


def init_params(key, sizes):
    """A list of (w, b), one for each layer."""
    keys = random.split(key, len(sizes) - 1)
    return [
        (random.normal(k, (m, n)) * np.sqrt(2.0 / m), np.zeros(n))
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params, image):
    """The log probabilities of the ten digits, of one image."""
    activations = image
    for w, b in params[:-1]:
        activations = np.maximum(0, np.dot(w.T, activations) + b)
    w, b = params[-1]
    logits = np.dot(w.T, activations) + b
    return logits - logsumexp(logits)


batched_predict = vmap(predict, in_axes=(None, 0))


def one_hot(digits, count=10):
    return (digits[:, None] == np.arange(count)).astype(np.float64)


def loss(params, images, targets):
    return -np.mean(np.sum(batched_predict(params, images) * targets, axis=1))


def moved(params, slopes):
    return tree_map(lambda p, g: p - RATE * g, params, slopes)


@jit
def update(params, images, targets):
    """One step of gradient descent."""
    return moved(params, grad(loss)(params, images, targets))


def shared_update(params, images, targets):
    """The same, by a device that has a part of the batch."""
    return moved(params, pmean(grad(loss)(params, images, targets), "devices"))


def accuracy(params, images, digits):
    return float(np.mean(np.argmax(batched_predict(params, images), axis=1) == digits))


def digits_data():
    """Images of 8 x 8 pixels from 0 to 1, a fifth of them for the test."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images, digits = found.data / 16.0, found.target
    order = np.asarray(random.permutation(random.key(1), len(digits)))
    images, digits = images[order], digits[order]
    split = len(digits) * 4 // 5
    return images[:split], digits[:split], images[split:], digits[split:]


def load_data(path):
    """The data of an .npz file as MNIST's, or scikit-learn's digits."""
    if path is None:
        return digits_data()
    with np.load(path) as found:
        images, test_images = (x.reshape(len(x), -1) for x in (found["x_train"], found["x_test"]))
        scale = 255.0 if images.max() > 1.0 else 1.0
        return images / scale, found["y_train"], test_images / scale, found["y_test"]


def batches(key, images, targets, size):
    """All images once, in random order; what is over after whole batches is left out."""
    order = np.asarray(random.permutation(key, len(images)))
    for start in range(0, len(images) - size + 1, size):
        chosen = order[start : start + size]
        yield images[chosen], targets[chosen]


def parallel_step(devices):
    """``step(params, images, targets)``, of batches that several devices share."""
    mapped = pmap(jit(shared_update), axis_name="devices", in_axes=(None, 0, 0), out_axes=None)

    def step(params, images, targets):
        x = images.reshape(devices, -1, images.shape[1])
        y = targets.reshape(devices, -1, targets.shape[1])
        return mapped(params, *shard((x, y)))

    return step


def train(step, params, data, epochs, size, report=None):
    """The trained parameters, and (loss, accuracy) of training and test images by epoch."""
    images, digits, test_images, test_digits = data
    targets, test_targets = one_hot(digits), one_hot(test_digits)
    history = []
    for epoch in range(epochs):
        key = random.fold_in(random.key(2), epoch)
        for x, y in batches(key, images, targets, size):
            params = step(params, x, y)
        training = loss(params, images, targets), accuracy(params, images, digits)
        test = loss(params, test_images, test_targets), accuracy(params, test_images, test_digits)
        history.append((*training, *test))
        if report is not None:
            report(history[-1])
    return params, np.array(history)


def save_params(path, params):
    """Write the layers' weights."""
    arrays = {f"{kind}_{k}": x for k, layer in enumerate(params) for kind, x in zip("wb", layer)}
    np.savez(path, **arrays)


def load_params(path):
    """Read what ``save_params`` wrote."""
    with np.load(path) as found:
        return [(found[f"w_{k}"], found[f"b_{k}"]) for k in range(len(found.files) // 2)]


def plot(history, path):
    """Loss and accuracy by epoch, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
    for axes, first, title in ((left, 0, "loss"), (right, 1, "accuracy")):
        axes.plot(history[:, first], label="training")
        axes.plot(history[:, first + 2], label="test")
        axes.set(xlabel="epoch", title=title)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def jax_step():
    """The same step in JAX."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp as jax_logsumexp

    jax.config.update("jax_enable_x64", True)

    def predict(params, image):
        activations = image
        for w, b in params[:-1]:
            activations = jnp.maximum(0, jnp.dot(w.T, activations) + b)
        w, b = params[-1]
        logits = jnp.dot(w.T, activations) + b
        return logits - jax_logsumexp(logits)

    def loss(params, images, targets):
        return -jnp.mean(jnp.sum(jax.vmap(predict, (None, 0))(params, images) * targets, axis=1))

    @jax.jit
    def step(params, images, targets):
        slopes = jax.grad(loss)(params, images, targets)
        return jax.tree.map(lambda p, g: p - RATE * g, params, slopes)

    return step


def compare(params, data, size):
    """An epoch's time for each kind of step, the peers taking turns; medians of five."""
    images, digits = data[:2]
    targets = one_hot(digits)
    steps = {"plain": update.function, "jit": update}
    steps["plain"] = lambda p, x, y: moved(p, plain_grad(p, x, y))
    plain_grad = grad(loss)
    try:
        steps["JAX"] = jax_step()
    except ImportError:
        print("JAX is not installed")
    times = {name: [] for name in steps}
    for _ in range(6):
        for name, step in steps.items():
            now, began = params, time.perf_counter()
            for x, y in batches(random.key(3), images, targets, size):
                now = step(now, x, y)
            np.asarray(now[0][0])
            times[name].append(time.perf_counter() - began)
    for name, found in times.items():
        usual, first = 1e3 * np.median(found[1:]), 1e3 * found[0]
        print(f"an epoch, {name}: {usual:.1f} ms (first {first:.0f} ms)")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="an .npz file with x_train, y_train, x_test, y_test")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, nargs="*", default=[256, 128])
    parser.add_argument("--devices", type=int, default=process_count())
    parser.add_argument("--weights", default="mlp_digits.npz", help="where they are saved")
    parser.add_argument("--picture", default="mlp_digits.png")
    parser.add_argument("--compare", action="store_true", help="print an epoch's time, and JAX's")
    return parser.parse_args()


def main():
    given = options()
    data = load_data(given.data)
    params = init_params(random.key(0), [data[0].shape[1], *given.hidden, 10])
    if given.compare:
        compare(params, data, given.batch)
        return
    first = process_index() == 0
    step = update
    if given.devices > 1:
        assert device_count() >= given.devices, f"start with CALQUE_CPU_DEVICES={given.devices}"
        step = parallel_step(given.devices)

    from tqdm import tqdm

    with tqdm(total=given.epochs, disable=None if first else True, unit="epoch") as bar:

        def report(row):
            bar.set_postfix(loss=f"{row[0]:.4f}", test=f"{row[3]:.1%}")
            bar.update()

        began = time.perf_counter()
        params, history = train(step, params, data, given.epochs, given.batch, report)
    if not first:
        return
    seconds = (time.perf_counter() - began) / given.epochs
    print(f"{seconds:.3f} s an epoch, on {given.devices} devices")
    print(f"test accuracy {history[-1, 3]:.2%}, expected at least 97%")
    save_params(given.weights, params)
    again = load_params(given.weights)
    assert accuracy(again, data[2], data[3]) == history[-1, 3]
    plot(history, given.picture)
    print(f"weights in {Path(given.weights).name}, loss and accuracy in {Path(given.picture).name}")
    print()
    print(source(grad(loss), params, data[0][: given.batch], one_hot(data[1][: given.batch])))


if __name__ == "__main__":
    main()
