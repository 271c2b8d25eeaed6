"""A function of an eval: how it reads a message, what it runs, and what it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True)
class EvalFunction:
    """A function of an eval.

    ``arguments`` reads the input of a message, and ``written`` turns the result of ``call`` into
    what JSON can hold. One call comes before those that are timed as "evaluate": it compiles the
    function, and is reported as "prepare". With ``prepares``, ``call`` returns the function to
    time, so that it can find the pattern of a sparse matrix first.
    """

    call: Callable[..., Any]
    arguments: Callable[[Any], tuple[Any, ...]]
    written: Callable[[Any], Any]
    prepares: bool = False

    def answer(self, message: Any) -> Message:
        """Return the fields of the response to an evaluate message, timings included."""
        limits = message if isinstance(message, dict) else {}  # hello sends a number
        arguments = self.arguments(message)
        start = time.perf_counter_ns()
        call = self.call(*arguments) if self.prepares else self.call
        found = call(*arguments)
        timings = [timing("prepare", time.perf_counter_ns() - start)]
        runs, elapsed = 0, 0
        while runs < limits.get("min_runs", 1) or elapsed < limits.get("min_seconds", 0.0) * 1e9:
            start = time.perf_counter_ns()
            found = call(*arguments)
            taken = time.perf_counter_ns() - start
            timings.append(timing("evaluate", taken))
            runs, elapsed = runs + 1, elapsed + taken
        return {"success": True, "output": self.written(found), "timings": timings}


def timing(name: str, nanoseconds: int) -> Message:
    """Return an entry of a response's timings."""
    return {"name": name, "nanoseconds": nanoseconds}
