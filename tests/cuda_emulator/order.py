"""The order of operations on streams: two that touch the same memory must be ordered.

Each stream counts what it does, and knows how far others were when it waited for them: for an event,
or because the host has waited, and asks for more since. The null stream waits for all, and they for
it, but for those that are non-blocking.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

Seen = dict[int, int]  # how many operations of a stream are known to be done, by its number
_host: Seen = {}  # those that the host has waited for
_last: dict[int, tuple[Any, tuple[int, int] | None, Seen]] = {}  # by memory: stored, and read


def merge(into: Seen, other: Seen) -> None:
    """Everything that another one knows is known here, too."""
    for stream, done in other.items():
        into[stream] = max(into.get(stream, 0), done)


def begin(stream: Any, streams: Iterable[Any]) -> None:
    """A stream does one more: after what the host has waited for, and what the null stream did."""
    merge(stream.seen, _host)
    for other in streams:
        if other is not stream and (stream.null or other.null):
            if not (stream.non_blocking or other.non_blocking):
                merge(stream.seen, other.seen)
    stream.seen[stream.number] = stream.seen.get(stream.number, 0) + 1


def touch(stream: Any, memory: Any, stores: bool) -> None:
    """A stream reads memory, or stores into it: whoever stored it, or reads it, must be done."""
    key = id(memory)
    if key not in _last:
        _last[key] = (weakref.ref(memory, lambda _: _last.pop(key, None)), None, {})
    reference, stored, read = _last[key]
    others = [stored] if stored else []
    others += read.items() if stores else []
    if any(stream.seen.get(number, 0) < done for number, done in others):
        did = "stores into" if stores else "reads"
        raise RuntimeError(f"a stream {did} memory of another one, and has not waited for it")
    own = stream.seen[stream.number]
    if stores:
        _last[key] = reference, (stream.number, own), {}
    else:
        read[stream.number] = own


def waited(seen: Seen) -> None:
    """The host has waited for all of this."""
    merge(_host, seen)
