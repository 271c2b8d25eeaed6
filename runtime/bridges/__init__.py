"""``calque.bridges``: one NumPy function, with its derivatives, inside another framework.

Each bridge is a module named after its framework, imported when it is first used, and has one
public function, ``wrap``. In comes a plain function, out comes what that framework calls an
operation: ``calque.bridges.torch.wrap(f)``, ``calque.bridges.jax.wrap(f)``,
``calque.bridges.pytensor.wrap(f)``, ``calque.bridges.casadi.wrap(f, *examples)``. The framework
itself is an extra: ``pip install "calque[torch]"``. Read ``jax``, which is the simplest.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["casadi", "jax", "pytensor", "torch"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
