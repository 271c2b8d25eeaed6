"""The bytes of the stand-in's memory that a program has stored; others must not be read.

New memory holds nothing. A copy of it holds nothing where that does, for arrays that grow are
copied with the room behind them; what computes with it, or takes it to the host, is an error.

>>> import numpy
>>> made = numpy.empty(3)
>>> new(made)
>>> store(made[:2])
>>> require(made[:2], "a sum"), elements(made).tolist()
(None, [True, True, False])
>>> require(made, "a sum")
Traceback (most recent call last):
    ...
RuntimeError: a sum reads memory in which nothing is stored
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from cuda_emulator import capturing
from cuda_emulator.capturing import _owner

_stored: dict[int, tuple[weakref.ref[Any], numpy.ndarray]] = {}  # by id: bytes of memory that is new
# what moves elements and computes nothing: it moves as well whether something is stored there
MOVES = frozenset(
    "copy ascontiguousarray concatenate append stack hstack vstack ravel flatten reshape repeat tile"
    " take flip roll broadcast_to".split()
)
LOOKS = frozenset("zeros_like ones_like full_like empty_like shape size ndim".split())  # at shapes alone


def new(memory: numpy.ndarray) -> None:
    """Memory was made in which nothing is stored."""
    owner = _owner(memory)
    key = id(owner)
    gone = weakref.ref(owner, lambda _: _stored.pop(key, None))
    _stored[key] = gone, numpy.zeros(owner.nbytes, bool)


def _bytes(array: numpy.ndarray) -> numpy.ndarray | None:
    """For each byte of each element whether it is stored; None where all memory is."""
    owner = _owner(array)
    found = _stored.get(id(owner))
    if found is None or not array.size:
        return None
    start = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    shape = (*array.shape, array.itemsize)
    return numpy.ndarray(shape, bool, found[1], start, (*array.strides, 1))


def elements(array: numpy.ndarray) -> numpy.ndarray | None:
    """For each element whether it is stored, in memory of its own; None where all are."""
    found = _bytes(array)
    return None if found is None or found.all() else numpy.ascontiguousarray(found.all(axis=-1))


def store(array: numpy.ndarray, held: Any = True) -> None:
    """Something is stored in an array; ``held`` says of what for each element."""
    found = _bytes(array)
    if found is None:
        if held is True or numpy.all(held):
            return
        new(array)
        _stored[id(_owner(array))][1][:] = True
        found = _bytes(array)
        assert found is not None
    found[...] = held if held is True else numpy.asarray(held)[..., None]
    owner = _owner(array)
    if _stored[id(owner)][1].all():
        del _stored[id(owner)]


def set_items(array: numpy.ndarray, index: Any, value: Any) -> None:
    """``array[index] = value`` has been done."""
    found = _bytes(array)
    held = elements(value) if isinstance(value, numpy.ndarray) else None
    if found is None and held is None:
        return
    own = numpy.ones(array.shape, bool) if found is None else found.all(axis=-1)
    own[index] = True if held is None else held
    store(array, own)


def require(array: numpy.ndarray, who: str) -> None:
    """Raise where an array is read in which nothing is stored."""
    if elements(array) is not None:
        raise RuntimeError(f"{who} reads memory in which nothing is stored")


def note(
    name: str,
    compute: Callable[..., Any],
    given: Iterable[Any],
    result: Any,
    outs: Iterable[Any] = (),
) -> None:
    """A function was called with these; views read nothing, and copies hand on what is held."""
    made = _arrays([result])
    operands = _arrays(given)
    if made and not any(numpy.may_share_memory(a, b) for a in operands for b in made):
        for v in made:
            store(v)
    looked_at = name.rpartition(".")[2] in LOOKS
    read = [] if looked_at else [v for v in operands if elements(v) is not None]
    if read and not any(numpy.may_share_memory(a, b) for a in read for b in made):
        if name.rpartition(".")[2] not in MOVES or len(made) != 1:
            require(read[0], name)
        store(made[0], compute(_held))
    for out in outs:
        store(out)


def _held(value: Any) -> Any:
    """An operand of what moves elements: whether each is stored."""
    if isinstance(value, numpy.ndarray):
        found = elements(value)
        return numpy.ones(value.shape, bool) if found is None else found
    return type(value)(map(_held, value)) if type(value) in (tuple, list) else value


def _arrays(values: Iterable[Any]) -> list[numpy.ndarray]:
    found: list[numpy.ndarray] = []
    for v in values:
        if isinstance(v, numpy.ndarray):
            found.append(v)
        elif type(v) in (tuple, list):
            found += _arrays(v)
    return found


def copied(source: Any, there: Any, size: int) -> None:
    """So many bytes were copied from the beginning of one memory to that of another."""
    held = _bytes(numpy.asarray(source))
    if held is None and _bytes(numpy.asarray(there)) is None:
        return
    ends = [numpy.ascontiguousarray(x).nbytes == size for x in (source, there)]
    assert all(ends), "a part of an array is copied by its address"
    store(there, True if held is None else held.all(axis=-1).reshape(there.shape))


def store_at(address: int, size: int) -> None:
    """A library has stored so many bytes at an address."""
    for reference, held in list(_stored.values()):
        owner = reference()
        if owner is None:
            continue
        start = address - owner.ctypes.data
        if 0 <= start < max(owner.nbytes, 1):
            held[start : start + size] = True


capturing.new_memory = new
