"""``with calque.debug_nans():`` find the line that first made a NaN or an infinity."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from calque.runtime.options import checked
from calque.runtime.outside import outside
from calque.transpiler.errors import NonFiniteError
from calque.transpiler.forking import free_in_children
from calque.transpiler.ir.core import Check

threads = 0  # contexts open in any thread: when there are none, a call looks at this alone
_lock = free_in_children("debugging", threading.RLock())
_local = threading.local()


def watched() -> frozenset[str]:
    """The kinds of faults that this thread looks for: "nans", "keys"."""
    states: list[frozenset[str]] = getattr(_local, "states", [])
    return states[-1] if states else frozenset()


def checking() -> bool:
    """True if this thread runs checked variants, in which no kernel computes."""
    return bool(watched())


def watch(what: str, enabled: bool) -> None:
    """Look for it, or do not, until ``unwatch``."""
    global threads
    with _lock:
        threads += 1
    now = watched() | {what} if enabled else watched() - {what}
    _local.__dict__.setdefault("states", []).append(now)


def unwatch() -> None:
    """Restore the kinds of faults that were looked for before."""
    global threads
    _local.states.pop()
    with _lock:
        threads -= 1


@outside
class debug_nans(ContextDecorator):
    """Within it, a transformed function that makes a NaN or an infinity says on which line.

    Functions that are called inside run a checked variant of their generated code: the statement of
    yours that first makes a NaN of operands without one, or an infinity of finite operands, in the
    forward or in the reverse phase, raises ``NonFiniteError`` (a FloatingPointError). An infinity
    that would vanish again, as in ``1 / inf``, counts. ``debug_nans(False)`` is an exception
    inside; other threads are not affected. ``source`` and ``save`` give the checked variant, too.
    What a derivative does not need is not computed, and not checked: ``value_and_grad`` has it all.
    NumPy's own warnings are silent: what they would say, the error says with the line.

    After ``jax.debug_nans`` and ``jax.debug_infs``.

    ``enabled`` says whether it is on inside.

    >>> import calque
    >>> try:
    ...     with debug_nans():
    ...         calque.grad(lambda x: np.sqrt(x))(0.0)
    ... except NonFiniteError as error:
    ...     print(error.message)
    The reverse phase made an infinity: the adjoint of x is inf.
    """

    def __init__(self, enabled: bool = True):
        self.enabled = checked("debug_nans", enabled=enabled)["enabled"]

    def __enter__(self) -> debug_nans:
        watch("nans", self.enabled)
        return self

    def __exit__(self, *error: object) -> None:
        unwatch()


def finite_checker(checks: dict[str, Check]) -> Callable[..., None]:
    """Return the function that checked code calls: ``check(label, value, *operands)``."""

    def check(label: str, value: Any, *operands: Any) -> None:
        if np.all(np.isfinite(value)) or "nans" not in watched():
            return
        made_nan = np.any(np.isnan(value)) and not any(np.any(np.isnan(x)) for x in operands)
        if made_nan or all(np.all(np.isfinite(x)) for x in operands):
            raise _error(checks[label], value, np.isnan if made_nan else np.isinf)

    return check


def _error(check: Check, value: Any, wrong: Callable[[Any], Any]) -> NonFiniteError:
    made = "a NaN" if wrong is np.isnan else "an infinity"
    name = (
        check.what
        or {"forward": "this value", "reverse": "a value for the reverse of this"}[check.phase]
    )
    found = np.asarray(value)
    places = np.argwhere(wrong(found))
    text = f"The {check.phase} phase made {made}: {name} is {found[tuple(places[0])]}"
    if found.ndim:
        text += f" at [{', '.join(map(str, places[0]))}]"
        text += f", {len(places)} of {found.size} elements" if len(places) > 1 else ""
    return NonFiniteError(f"{text}.", check.origin)
