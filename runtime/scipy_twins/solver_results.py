"""Results of SciPy's solvers, and the arguments that they hand on."""

from __future__ import annotations

from typing import Any


class Solved:
    """The result of a solver of SciPy: it has converged, or there is an error instead."""

    def __init__(self, **fields: Any):
        self.success = True
        for name, value in fields.items():
            setattr(self, name, value)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def arguments(args: Any) -> tuple[Any, ...]:
    """SciPy's ``args`` as a tuple: one argument may stand alone."""
    return args if isinstance(args, tuple) else (args,)
