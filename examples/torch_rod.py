"""A rod's conductivity learnt by PyTorch, through a NumPy program whose loops PyTorch never sees.

Each time step solves a tridiagonal system by two loops over the cells, one number at a time.
"""

import time

import numpy as np
import torch

import calque


def cooled(u, k, rate, steps):
    """Temperatures after implicit steps of heat conduction; the ends are held."""
    n = u.shape[0]
    for _ in range(steps):
        upper, right = np.zeros(n), u.copy()
        for i in range(1, n - 1):  # forward elimination
            below = -rate * k[i - 1]
            pivot = 1.0 + rate * (k[i - 1] + k[i]) - below * upper[i - 1]
            upper[i] = -rate * k[i] / pivot
            right[i] = (right[i] - below * right[i - 1]) / pivot
        for i in range(n - 2, 0, -1):  # backward substitution
            right[i] -= upper[i] * right[i + 1]
        u = right
    return u


class Rod(torch.nn.Module):
    """A rod of unknown conductivity between its cells."""

    def __init__(self, cells, steps):
        super().__init__()
        self.log_k = torch.nn.Parameter(torch.zeros(cells - 1, dtype=torch.float64))
        self.steps = steps
        self.cooled = calque.bridges.torch.wrap(cooled)

    def forward(self, u):
        return self.cooled(u, torch.exp(self.log_k), 0.5, self.steps)


def by_torch(u, k, rate, steps):
    """The same, with an operation of PyTorch's for each number."""
    n = u.shape[0]
    for _ in range(steps):
        upper, right = [torch.zeros(())] * n, list(u.unbind())
        for i in range(1, n - 1):
            below = -rate * k[i - 1]
            pivot = 1.0 + rate * (k[i - 1] + k[i]) - below * upper[i - 1]
            upper[i] = -rate * k[i] / pivot
            right[i] = (right[i] - below * right[i - 1]) / pivot
        for i in range(n - 2, 0, -1):
            right[i] = right[i] - upper[i] * right[i + 1]
        u = torch.stack(right)
    return u


def gradient(model, u, seen, log_k, times=1):
    """The gradient of the misfit, and the seconds that it took, the least of some times."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        misfit = torch.sum((model(u) - seen) ** 2)
        (found,) = torch.autograd.grad(misfit, log_k)
        seconds.append(time.perf_counter() - began)
    return found, min(seconds)


def main():
    cells, steps = 40, 20
    u = torch.sin(torch.linspace(0.0, 9.0, cells, dtype=torch.float64))
    true = torch.linspace(0.5, 2.0, cells - 1, dtype=torch.float64)
    seen = by_torch(u, true, 0.5, steps)

    model = Rod(cells, steps)
    log_k = model.log_k
    gradient(model, u, seen, log_k)  # translates and compiles
    ours, seconds = gradient(model, u, seen, log_k, times=20)
    plain = lambda u: by_torch(u, torch.exp(log_k), 0.5, steps)
    expected, slow = gradient(plain, u, seen, log_k)
    assert torch.allclose(ours, expected, rtol=1e-9, atol=1e-12)
    print(
        f"largest part of the gradient {ours.abs().max():.9f}, expected {expected.abs().max():.9f}"
    )
    print(f"value and gradient: {1e3 * seconds:.2f} ms, PyTorch's operations {1e3 * slow:.0f} ms")

    short = u[:3]
    model.cooled(short, short[:2], 0.5, 1)
    began = time.perf_counter()
    for _ in range(1000):
        model.cooled(short, short[:2], 0.5, 1)
    print(f"a call of three cells: {1e3 * (time.perf_counter() - began):.1f} us")

    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(201):
        optimizer.zero_grad()
        misfit = torch.sum((model(u) - seen) ** 2)
        misfit.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: misfit {misfit.item():.3e}")
    assert misfit.item() < 1e-4

    print()
    specs = [calque.spec(text) for text in ("f8[n]", "f8[m]", "float", "int", "f8[n]")]
    print(calque.source(calque.vjp(cooled), *specs))


if __name__ == "__main__":
    main()
