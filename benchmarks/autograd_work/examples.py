"""Runs an example of Autograd's as `__main__`, and records the results of its derivatives.

    python -m autograd_work.examples PATH autograd|calque OUT

Pictures are not drawn, MNIST is random numbers, and the example ends after so many derivatives,
so that Autograd's run and calque's can be compared call by call.
"""

from __future__ import annotations

import functools
import os
import pickle
import runpy
import signal
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np

CALLS = 40
SECONDS = 90
OPERATORS = "grad value_and_grad elementwise_grad jacobian hessian hessian_vector_product"


class Enough(BaseException):
    """So many derivatives were recorded, or the time is over."""


def ended(number: int, frame: Any) -> None:
    raise Enough("time")


class Recorder:
    """The results of the derivatives that are called outside others."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.depth = 0

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        self.depth += 1
        try:
            result = function(*args, **kwargs)
        finally:
            self.depth -= 1
        if not self.depth:
            self.found.append((numbers(args), numbers(result)))
            if len(self.found) >= CALLS:
                raise Enough
        return result


def numbers(tree: Any) -> list[np.ndarray]:
    """The numbers of a structure as flat arrays, dicts in the order of their keys."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in numbers(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for one in tree for leaf in numbers(one)]
    try:
        return [np.array(tree, dtype=float).ravel()]
    except (TypeError, ValueError):  # (no number)
        return []


def mnist() -> tuple[Any, ...]:
    """Random pictures with random labels, in place of a download."""
    random = np.random.RandomState(0)
    pictures = [random.randint(0, 256, (n, 28, 28)).astype(np.uint8) for n in (512, 256)]
    labels = [random.randint(0, 10, n).astype(np.uint8) for n in (512, 256)]
    return pictures[0], labels[0], pictures[1], labels[1]


def without_pictures() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name in ("show", "pause", "draw", "savefig"):
        setattr(plt, name, lambda *args, **kwargs: None)
    sys.modules["data_mnist"] = types.ModuleType("data_mnist")
    sys.modules["data_mnist"].mnist = mnist


def of_autograd(recorder: Recorder, checkout: Path) -> None:
    """Autograd's operators record."""
    import autograd
    import autograd.misc.optimizers

    def recording(operator: Any) -> Any:
        @functools.wraps(operator)
        def made(*args: Any, **kwargs: Any) -> Any:
            derivative = operator(*args, **kwargs)
            return lambda *xs, **named: recorder.call(derivative, xs, named)

        return made

    for name in OPERATORS.split():
        setattr(autograd, name, recording(getattr(autograd, name)))


def of_calque(recorder: Recorder, checkout: Path) -> None:
    """Plain NumPy and calque under Autograd's names; calque's derivatives record."""
    import calque

    from . import modules

    modules.install()
    modules.optimizers(checkout)
    kept = type(calque.grad(np.sum)).__call__

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.call(functools.partial(kept, self), args, kwargs)

    type(calque.grad(np.sum)).__call__ = called


def main() -> int:
    path, side, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    warnings.simplefilter("ignore")
    without_pictures()
    recorder = Recorder()
    {"autograd": of_autograd, "calque": of_calque}[side](recorder, path.parent.parent)
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    os.chdir(path.parent)
    np.random.seed(0)
    result: dict[str, Any] = {"error": None, "late": False}
    signal.signal(signal.SIGPROF, ended)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # (of CPU time)
    try:
        runpy.run_path(str(path), run_name="__main__")
    except Enough as error:
        result["late"] = bool(error.args)
    except BaseException as error:
        from autograd_suite import kind_of, reason

        result["error"] = (kind_of(error), reason(error))
    signal.setitimer(signal.ITIMER_PROF, 0)
    out.write_bytes(pickle.dumps(result | {"found": recorder.found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
