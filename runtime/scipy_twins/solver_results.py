"""Results of SciPy's solvers, and the arguments that they hand on.

What has not converged is an error, so that a result holds what SciPy's has of success alone.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir.builder import current


class OptimizeResult:
    """The result of a solver of ``scipy.optimize``."""

    def __init__(self, **fields: Any):
        self.success = True
        for name, value in fields.items():
            setattr(self, name, value)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class OdeResult(OptimizeResult):
    """The result of ``scipy.integrate.solve_ivp``."""


class RootResults(OptimizeResult):
    """The result of a search for the root of a function of one number."""


def arguments(args: Any) -> tuple[Any, ...]:
    """SciPy's ``args`` as a tuple: one argument may stand alone."""
    return args if isinstance(args, tuple) else (args,)


def refuse_options(function: str, instead: str, **options: Any) -> None:
    """Raise where an option is given that the twin of a function does not pass on."""
    given = [name for name, value in options.items() if value is not None and value is not False]
    if given:
        message = f"{function} takes no {given[0]} here."
        raise UnsupportedFunction(message, current().origin, instead)


@builtin(refuse_options)
def _refuse_options(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
    with machine.at(node):
        refuse_options(*args, **kwargs)
