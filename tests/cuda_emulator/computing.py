"""The stand-in's computations with NumPy: at once, or when a graph that holds them is launched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy

from cuda_emulator import capturing, validity


def computed(
    name: str,
    compute: Callable[[], Any],
    given: Sequence[Any],
    outs: Sequence[Any] = (),
    again: Callable[..., Any] | None = None,
) -> Any:
    """Compute something of arrays; or, while the stream captures, when its graph is launched.

    ``again(held)`` computes of what ``held`` makes of each operand.
    """
    arrays = [v for v in flat(given) if isinstance(v, numpy.ndarray)]
    moved = again or (lambda _: True)
    if outs:
        found: list[Any] = []

        def store() -> None:
            found.append(compute())
            validity.note(name, moved, arrays, None, outs)

        capturing.did(store, outs, arrays)
        return found[0] if found else None
    return capturing.made(compute, arrays, lambda made: validity.note(name, moved, arrays, made))


def as_held(memory: Any, held: Callable[[Any], Any]) -> Any:
    """The elements of a copy."""
    return held(memory)


def flat(values: Iterable[Any]) -> Iterator[Any]:
    for v in values:
        if type(v) in (tuple, list):
            yield from flat(v)
        else:
            yield v
