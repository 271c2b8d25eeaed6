"""A reaction with diffusion on a square: BDF, and Newton's method, with sparse Jacobians."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.sparse.linalg import splu

import calque
from calque import sparse

SIDE = 24


def spread(z):
    """The flow into each cell from its four neighbours; nothing leaves the square."""
    flow = np.zeros_like(z)
    flow[1:, :] += z[:-1, :] - z[1:, :]
    flow[:-1, :] += z[1:, :] - z[:-1, :]
    flow[:, 1:] += z[:, :-1] - z[:, 1:]
    flow[:, :-1] += z[:, 1:] - z[:, :-1]
    return flow


def brusselator(t, y):
    """Two chemicals that make each other: their rates of change."""
    a, b = y[: SIDE * SIDE].reshape(SIDE, SIDE), y[SIDE * SIDE :].reshape(SIDE, SIDE)
    made = a**2 * b
    rates = (1.0 + made - 4.4 * a + 2.0 * spread(a), 3.4 * a - made + 2.0 * spread(b))
    return np.concatenate([rates[0].ravel(), rates[1].ravel()])


rng = np.random.default_rng(0)
start = np.concatenate([rng.uniform(0.5, 1.5, SIDE**2), rng.uniform(2.0, 3.0, SIDE**2)])
jac = sparse.jacobian(brusselator, 0.0, start, argnums=1, format="csc")
print(jac.sparsity)
print(f"{len(start)} unknowns, {jac.sparsity.nnz} entries, {jac.coloring.num_colors} colors")
print(calque.source(jac, 0.0, start, stage="numpy"))

# a stiff solver takes it as it is
slope = calque.jit(brusselator)
with np.errstate(invalid="ignore", over="ignore"):  # BDF subtracts memory before it is filled
    found = solve_ivp(slope, (0.0, 2.0), start, method="BDF", jac=jac, rtol=1e-6, atol=1e-8)
print(f"BDF: {found.nfev} slopes, {found.njev} Jacobians, {found.nlu} factorizations")
other = solve_ivp(slope, (0.0, 2.0), start, method="RK45", rtol=1e-8, atol=1e-10)
np.testing.assert_allclose(found.y[:, -1], other.y[:, -1], rtol=1e-3, atol=1e-4)

# Newton's method for the steady state: errors are squared from step to step
y = np.concatenate([np.full(SIDE**2, 1.1), np.full(SIDE**2, 3.0)]) + 0.1 * rng.normal(
    size=len(start)
)
for step in range(8):
    rates = slope(0.0, y)
    print(f"step {step}: {np.max(np.abs(rates)):.1e}")
    y = y - splu(jac(0.0, y)).solve(rates)
print(f"steady at {y[0]:.12f} and {y[-1]:.12f}, expected 1 and 3.4")
np.testing.assert_allclose(y[: SIDE**2], 1.0, atol=1e-9)
np.testing.assert_allclose(y[SIDE**2 :], 3.4, atol=1e-9)
