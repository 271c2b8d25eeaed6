"""Programs of the tests of ``calque.bridges.torch``, each with PyTorch's own of the same formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import calque  # noqa: E402

wrap = calque.bridges.torch.wrap
F64 = torch.float64
FUNC = torch.func


def horner(x: Any, y: Any) -> Any:
    s = np.tanh(x) * y
    for _ in range(3):
        s = s * x + y
    return s


def horner_of_torch(x: Any, y: Any) -> Any:
    s = torch.tanh(x) * y
    for _ in range(3):
        s = s * x + y
    return s


WRAPPED = wrap(horner)
FORMS = {
    "grad": lambda f: FUNC.grad(lambda *a: f(*a).sum(), argnums=(0, 1)),
    "vjp": lambda f: lambda x, y: FUNC.vjp(f, x, y)[1](y),
    "jvp": lambda f: lambda x, y: FUNC.jvp(f, (x, y), (y, x)),
    "jacrev": lambda f: FUNC.jacrev(f, argnums=(0, 1)),
    "jacfwd": lambda f: FUNC.jacfwd(f),
    "hessian": lambda f: FUNC.hessian(lambda *a: f(*a).sum()),
    "jacrev of jacrev": lambda f: FUNC.jacrev(FUNC.jacrev(f)),
    "linearize": lambda f: lambda x, y: FUNC.linearize(f, x, y)[1](y, x),
    "third": lambda f: FUNC.grad(
        lambda x, y: FUNC.grad(lambda x: FUNC.grad(lambda x: f(x, y).sum())(x).sum())(x).sum()
    ),
    "vmap": lambda f: (
        lambda x, y: FUNC.vmap(f, in_dims=(1, None), out_dims=1)(torch.stack([x, y], 1), y)
    ),
    "vmap of grad": lambda f: (
        lambda x, y: FUNC.vmap(FUNC.grad(lambda *a: f(*a).sum()), in_dims=(0, None))(
            torch.stack([x, y]), y
        )
    ),
    "grad of vmap": lambda f: FUNC.grad(
        lambda x, y: FUNC.vmap(f, in_dims=(None, 0))(x, torch.stack([y, 2.0 * y])).sum()
    ),
    "vmap of vmap": lambda f: (
        lambda x, y: FUNC.vmap(FUNC.vmap(f, in_dims=(0, None)), in_dims=(None, 0))(
            torch.stack([x, y]), torch.stack([x, y])
        )
    ),
}


def points(**wanted: Any) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 4, dtype=F64, generator=generator)
    return x.clone().requires_grad_(**wanted), y.clone().requires_grad_(**wanted)


def assert_same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def growing(x: Any, p: Any, k: int, *, scale: float = 1.0, mode: str = "sin") -> Any:
    y = np.sin(x) if mode == "sin" else np.cos(x)
    for _ in range(k):
        y = y * p["w"] + p["b"][0]
    return {"y": scale * y, "ends": (y[:1], np.concatenate([x, y])), "count": np.sum(y > 0.0)}


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((4,), 0.5))
        self.f = wrap(horner)

    def forward(self, x: Any) -> Any:
        return self.f(x, self.w)
