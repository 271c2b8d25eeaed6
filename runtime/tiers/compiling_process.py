"""The process that compiles kernels while NumPy answers, as seen by the one that started it.

There is one for each process that wants kernels, started when they are first wanted. It ends with
that process, however it ends: its input ends then, too. A forked child of that process has none.
"""

from __future__ import annotations

import atexit
import subprocess
import sys

from calque.runtime.call import machine_code
from calque.runtime.call.dispatch import making
from calque.runtime.tiers.compiling_child import Delivery, Order, read_message, write_message
from calque.transpiler.forking import run_in_children

_START = (
    "import ast, sys; sys.path[:] = ast.literal_eval(sys.argv[1]); "
    "from calque.runtime.tiers.compiling_child import main; main()"
)
_process: subprocess.Popen[bytes] | None = None
_kept = False  # whether it lives as long as this process


class CompilerLost(Exception):
    """The process that compiles cannot be started, or has died."""


NO_PROCESS = "no other process can be started"


def start(to_stay: bool = False) -> bool:
    """Start the process, if there is none yet: it imports what it needs in the meantime.

    With ``to_stay`` it lives as long as this process does.
    """
    global _process, _kept
    with making:
        _kept = _kept or to_stay
        if _process is not None and _process.poll() is None:
            return True
        if getattr(sys, "frozen", False):
            return False  # the executable is the user's program, and no Python
        try:
            _process = subprocess.Popen(
                [sys.executable, "-c", _START, repr(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # a buffer has a lock, which a fork may find taken
                start_new_session=True,  # no Ctrl-C of a terminal reaches it
            )
        except (OSError, ValueError, TypeError):
            return False
        return True


def compile_elsewhere(order: Order) -> str:
    """Have kernels compiled, and wait; what the compiler refused says why, else an empty text.

    One thread alone gives orders.
    """
    process = _process if start() else None
    if process is None or process.stdin is None or process.stdout is None:
        raise CompilerLost(NO_PROCESS)
    try:
        write_message(process.stdin, order)
        delivery: Delivery = read_message(process.stdout)
    except (OSError, EOFError, ValueError) as error:
        stop()
        raise CompilerLost(f"the process that compiles has ended {error}".rstrip()) from None
    machine_code.received.update(delivery.made)
    return delivery.refused


def stop_if_unwanted() -> None:
    """End the process, which takes memory, unless it is to stay."""
    if not _kept:
        stop()


def stop() -> None:
    """End the process, whatever it does."""
    global _process
    process, _process = _process, None
    if process is not None:
        process.kill()
        _close(process)
        process.wait()


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        try:
            if stream is not None:
                stream.close()
        except OSError:
            pass  # what was not yet written has no reader


def _forget() -> None:
    """Forget the process in a forked child: it belongs to the parent, whose end ends its input."""
    global _process
    process, _process = _process, None
    if process is not None:
        _close(process)
        process.returncode = 0  # which no one else may wait for


run_in_children(_forget)
atexit.register(stop)
