"""Gaussian-process regression by Cholesky factors; its length scale, height and noise are fitted.

python gaussian_process.py               # the fit
python gaussian_process.py --picture     # ... and gaussian_process.png
"""

import argparse

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

import calque


def covariance(x, y, length, height):
    """The covariance between values at x and values at y."""
    return height**2 * np.exp(-0.5 * ((x[:, None] - y) / length) ** 2)


def loss(logs, x, y):
    """Minus the log of the likelihood of y, given the logarithms of length, height and noise."""
    length, height, noise = np.exp(logs)
    L = cholesky(covariance(x, x, length, height) + noise**2 * np.eye(x.size), lower=True)
    z = solve_triangular(L, y, lower=True)
    return 0.5 * z @ z + np.sum(np.log(np.diag(L))) + 0.5 * x.size * np.log(2.0 * np.pi)


def predict(logs, x, y, at):
    """The means and the standard deviations of the values at other places."""
    length, height, noise = np.exp(logs)
    L = cholesky(covariance(x, x, length, height) + noise**2 * np.eye(x.size), lower=True)
    across = covariance(at, x, length, height)
    mean = across @ cho_solve((L, True), y)
    known = solve_triangular(L, across.T, lower=True)
    return mean, np.sqrt(height**2 - np.sum(known**2, axis=0))


def differences(f, at, step=1e-6):
    """The gradient by differences."""
    return np.array([(f(at + d) - f(at - d)) / (2.0 * step) for d in step * np.eye(at.size)])


def plot(at, mean, deviation, x, y, path):
    """Predictions with two standard deviations, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5))
    axes.fill_between(at, mean - 2.0 * deviation, mean + 2.0 * deviation, alpha=0.3)
    axes.plot(at, mean, label="mean")
    axes.plot(x, y, "k.", label="observed")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", action="store_true", help="save gaussian_process.png")
    picture = parser.parse_args().picture

    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 6.0, 60))
    y = np.sin(2.0 * x) + 0.1 * rng.normal(size=60)
    start = np.log([1.5, 0.5, 0.5])

    objective = calque.value_and_grad(loss)
    _, found = objective(start, x, y)
    expected = differences(lambda logs: loss(logs, x, y), start)
    print(f"gradient {found}, expected {expected}")
    assert np.allclose(found, expected, rtol=1e-6)

    fit = minimize(objective, start, args=(x, y), jac=True, method="BFGS", options={"gtol": 1e-6})
    length, height, noise = np.exp(fit.x)
    print(f"length {length:.3f}, height {height:.3f}; noise {noise:.3f}, expected about 0.1")
    assert 0.07 < noise < 0.13

    at = np.linspace(0.0, 6.0, 200)
    mean, deviation = predict(fit.x, x, y, at)
    error = np.max(np.abs(mean - np.sin(2.0 * at)) / deviation)
    print(f"farthest from the truth: {error:.1f} standard deviations, expected below 4")
    assert error < 4.0
    if picture:
        plot(at, mean, deviation, x, y, "gaussian_process.png")

    print()
    print(calque.source(objective, start, x, y))


if __name__ == "__main__":
    main()
