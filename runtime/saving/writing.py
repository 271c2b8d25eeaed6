"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one step: beside its place first, then moved there.

    Whatever happens, nothing else is left behind. A link's target is written, not the link; what is
    no file (``/dev/stdout``, a pipe) is written into. Raises OSError that names the file.
    """
    target = os.path.realpath(path)
    data = text.encode()
    try:
        try:
            mode = os.stat(target).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb") as file:
                file.write(data)
            return
        _replace(target, data, _usual_mode() if mode is None else stat.S_IMODE(mode))
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None


def _replace(target: str, data: bytes, mode: int) -> None:
    folder, name = os.path.split(target)
    handle, partial = tempfile.mkstemp(".partial", f".{name[:40]}.", folder)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(partial, mode)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise


def _usual_mode() -> int:
    """The usual permissions of a new file: ``mkstemp`` lets only its owner read and write."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
