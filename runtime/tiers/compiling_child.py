"""The main function of the process that compiles: texts and types in, machine code out.

It is given no function and no data of the user's. It ends when its input ends, whatever it does at
that moment: the process that started it is gone, or wants nothing more.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import threading
from dataclasses import dataclass
from typing import IO, Any

from calque.runtime.call import machine_code
from calque.runtime.call.loading import compiled_module

_HEAD = struct.Struct("<Q")


@dataclass(frozen=True)
class Order:
    """A module's text, and the versions of its kernels with the types to compile them for."""

    text: str
    name: str
    wanted: tuple[tuple[str, str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Delivery:
    """Machine code by names and keys; or what the compiler said."""

    made: tuple[tuple[tuple[str, str], bytes], ...] = ()
    refused: str = ""


def write_message(stream: IO[bytes], message: Any) -> None:
    """Write an object with its length ahead, to a stream without a buffer."""
    payload = pickle.dumps(message)
    left = memoryview(_HEAD.pack(len(payload)) + payload)
    while left:
        left = left[stream.write(left) :]


def read_message(stream: IO[bytes]) -> Any:
    """The next object; EOFError at the end."""
    (length,) = _HEAD.unpack(_read(stream, _HEAD.size))
    return pickle.loads(_read(stream, length))


def _read(stream: IO[bytes], length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = stream.read(length - len(found))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def compiled(order: Order) -> Delivery:
    """Compile the kernels of an order; one that Numba refuses ends it."""
    machine_code.sent = []
    _, kernels = compiled_module(order.text, order.name, shared=True)
    versions = {(k.kernel, k.version): k.dispatcher for k in kernels}
    try:
        for kernel, version, types in order.wanted:
            versions[kernel, version].compile(types)
    except Exception as error:
        return Delivery(refused=f"{type(error).__name__}: {error}")
    return Delivery(tuple(machine_code.sent))


def main() -> None:
    """Take orders one after the other until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that waits
    orders = os.fdopen(os.dup(0), "rb", buffering=0)
    deliveries = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print is no delivery
    waiting: queue.SimpleQueue[Order] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                waiting.put(read_message(orders))
        except EOFError:
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        write_message(deliveries, compiled(waiting.get()))
