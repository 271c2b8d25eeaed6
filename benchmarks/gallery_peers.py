"""Measure a gradient of the gallery by one peer: `benchmarks/gallery_peers.py orbit_fit jax`.

The program runs as it stands; then the call that its comment names is taken to the peer: the same
functions, with the peer's NumPy and special functions in place of NumPy's and SciPy's. The last
line printed is JSON: the processor time of a call, the least of some, and the gradient along a
fixed direction; or the error by which the peer refuses the program, and the line at which it does.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from measuring import least_processor_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs" / "extensions"))

import gallery_pages

import calque

SPECIAL = {"jax": "jax.scipy.special", "autograd": "autograd.scipy.special"}
NUMPY = {"jax": "jax.numpy", "autograd": "autograd.numpy"}


def names_after(name: str) -> dict[str, Any]:
    """Run a program, and return its names."""
    path = gallery_pages.PROGRAMS / f"{name}.py"
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    plt.show = lambda: plt.close("all")
    exec(compile(gallery_pages.text_of(name), str(path), "exec"), names)
    return names


def for_peer(names: dict[str, Any], peer: str) -> dict[str, Any]:
    """Return the names of a program with the peer's NumPy and special functions."""
    special = importlib.import_module(SPECIAL[peer])
    own: dict[str, Any] = {**names, "np": importlib.import_module(NUMPY[peer])}
    for key, value in names.items():
        if isinstance(value, np.ufunc):
            own[key] = getattr(special, value.__name__, value)
        elif isinstance(value, FunctionType) and value.__globals__ is names:
            own[key] = FunctionType(value.__code__, own, key, value.__defaults__, value.__closure__)
    return own


def compiled(peer: str, f: Callable[..., Any], args: list[Any]) -> Callable[[], Any]:
    """Return a call of the value and the gradient of ``f``; ints and flags are fixed for JAX."""
    if peer == "calque":
        quick = calque.jit(calque.value_and_grad(f))
        return lambda: quick(*args)
    if peer == "autograd":
        import autograd

        slow = autograd.value_and_grad(f)
        return lambda: slow(*args)
    import jax

    jax.config.update("jax_enable_x64", True)
    fixed = tuple(k for k, value in enumerate(args) if isinstance(value, (bool, int, str)))
    fast = jax.jit(jax.value_and_grad(f), static_argnums=fixed)
    return lambda: jax.block_until_ready(fast(*args))


def along(gradient: Any) -> float:
    """Return a gradient's component along a fixed direction."""
    leaves = [np.asarray(leaf).ravel() for leaf in calque.tree.leaves(gradient)]
    flat = np.concatenate(leaves)
    return float(flat @ np.cos(np.arange(flat.size)))


def line_at_fault(name: str, error: Exception) -> str:
    """Return the line of a program at which a peer raised an error."""
    file = str(gallery_pages.PROGRAMS / f"{name}.py")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return (frames[-1].line or "").strip()


def main(name: str, peer: str) -> dict[str, Any]:
    """Measure one program by one peer."""
    names = names_after(name)
    timed = gallery_pages.TIMED.search(gallery_pages.text_of(name))
    assert timed is not None, f"{name} names no call that is timed"
    call = ast.parse(timed[1], mode="eval").body
    assert isinstance(call, ast.Call)
    args = [eval(ast.unparse(argument), names) for argument in call.args]
    if peer != "calque":
        names = for_peer(names, peer)
    run = compiled(peer, names[ast.unparse(call.func)], args)
    try:
        _, gradient = run()
    except Exception as error:
        if peer == "calque":
            raise
        return {"refused": f"{type(error).__name__} at `{line_at_fault(name, error)}`"}
    return {"seconds": least_processor_time(run), "gradient": along(gradient)}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
