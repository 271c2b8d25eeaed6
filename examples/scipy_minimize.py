"""SciPy's optimizers take value and gradient from one function: `jac=True` and `value_and_grad`."""

import numpy as np
from scipy.optimize import minimize

import calque


def rosenbrock(x: "f8[n]"):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def main():
    start = np.array([-1.2, 1.0, -0.5, 0.8])
    objective = calque.value_and_grad(rosenbrock)

    result = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-8})
    print(f"minimum at {result.x}, expected {np.ones(4)}")
    print(f"value {result.fun:.3e}, expected 0")
    assert np.allclose(result.x, 1.0, atol=1e-6)

    plain = minimize(rosenbrock, start, method="BFGS", options={"gtol": 1e-5})
    print(f"evaluations: {result.nfev} with the gradient, {plain.nfev} by differences")
    assert result.nfev < plain.nfev

    print()
    print(calque.source(objective, start))


if __name__ == "__main__":
    main()
