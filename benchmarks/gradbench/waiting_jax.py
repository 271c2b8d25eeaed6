"""GradBench's tool for JAX, whose calls wait for their results: python waiting_jax.py RUN_SCRIPT

The tool itself takes the time of a call that hands its work to another thread, and returns.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from gradbench import wrap


def waiting(decorator: Callable[..., Any]) -> Callable[..., Any]:
    """Return GradBench's decorator, for functions that return when their results are there."""

    def with_options(**options: Any) -> Callable[..., Any]:
        timed = decorator(**options)

        def decorated(function: Callable[..., Any]) -> Any:
            return timed(lambda given: jax.block_until_ready(function(given)))

        return decorated

    return with_options


if __name__ == "__main__":
    wrap.multiple_runs = waiting(wrap.multiple_runs)
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
