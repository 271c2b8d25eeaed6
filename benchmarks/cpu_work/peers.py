"""JAX's side: the same text under other imports, arguments on its device, results awaited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def as_jax(file: str | Path) -> SimpleNamespace:
    """The functions of a file of NumPy programs, with JAX in place of NumPy and calque."""
    text = Path(file).read_text(encoding="utf-8")
    text = text.replace("import numpy as np", "import jax.numpy as np")
    text = text.replace("import calque", "import jax as calque")
    namespace: dict[str, Any] = {}
    exec(compile(text, f"{file} for JAX", "exec"), namespace)
    return SimpleNamespace(**namespace)


def on_device(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays become JAX's; Python numbers stay."""
    return jax.tree_util.tree_map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, args
    )


def waiting(function: Callable[..., Any]) -> Callable[..., Any]:
    """JAX returns before it is done."""

    def call(*args: Any) -> Any:
        return jax.block_until_ready(function(*args))

    return call


def compiled(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """`jax.jit` with Python ints as constants."""
    static = tuple(k for k, value in enumerate(args) if type(value) is int)
    return waiting(jax.jit(function, static_argnums=static))
