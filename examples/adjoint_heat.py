"""An inverse problem: fit an initial temperature to what was measured later.

    python adjoint_heat.py               # the fit
    python adjoint_heat.py --picture     # ... and adjoint_heat.png

The gradient goes back through the time steps. With ``checkpoint`` it keeps the field at every 8th
step only, and computes those between again.
"""

import argparse

import numpy as np
from scipy.optimize import minimize

import calque
from calque import checkpoint, grad, value_and_grad


def later(u, steps):
    """The temperature of a rod after some steps; its ends are held at 0.

    It conducts the better the hotter it is, so that the derivative of a step needs its field.
    """
    for _ in range(steps):
        middle = 0.5 * (u[1:] + u[:-1])
        flow = 0.2 * (1.0 + middle * middle) * (u[1:] - u[:-1])
        u[1:-1] += flow[1:] - flow[:-1]
        u[0] = 0.0
        u[-1] = 0.0
    return u


def misfit(u, measured, steps):
    """The squared difference from what was measured, and a little of the field's roughness."""
    rough = np.sum((u[1:] - u[:-1]) ** 2)
    end = checkpoint(later, every=8)(u, steps)
    return np.sum((end - measured) ** 2) + 1e-6 * rough


def plain_misfit(u, measured, steps):
    """The same, with all steps kept."""
    rough = np.sum((u[1:] - u[:-1]) ** 2)
    return np.sum((later(u, steps) - measured) ** 2) + 1e-6 * rough


def plot(fields, path):
    """The temperatures along the rod, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5))
    for name, field in fields.items():
        axes.plot(field, label=name)
    axes.set(xlabel="along the rod", ylabel="temperature")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", action="store_true", help="save adjoint_heat.png")
    picture = parser.parse_args().picture

    x, steps = np.linspace(0.0, 1.0, 50), 64
    true = np.exp(-(((x - 0.3) / 0.1) ** 2)) + 0.6 * np.exp(-(((x - 0.7) / 0.12) ** 2))
    true[[0, -1]] = 0.0
    measured = later(true.copy(), steps)
    start = measured.copy()

    found = grad(misfit)(start, measured, steps)
    expected = grad(plain_misfit)(start, measured, steps)
    print(f"gradient {found[10:13]}, expected {expected[10:13]}")
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-14)

    objective = value_and_grad(misfit)
    fit = minimize(
        objective,
        start,
        args=(measured, steps),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 300, "ftol": 1e-13, "gtol": 1e-9},
    )
    error, before = np.max(np.abs(fit.x - true)), np.max(np.abs(start - true))
    print(f"largest error {error:.3f}, before the fit {before:.3f}, expected below 0.05")
    assert error < 0.05
    if picture:
        plot({"at first": true, "fitted": fit.x, "measured": measured}, "adjoint_heat.png")

    print()
    print(calque.source(objective, start, measured, steps))


if __name__ == "__main__":
    main()
