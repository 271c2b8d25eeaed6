"""The folder of generated modules and their machine code, shared by all processes of a user.

``CALQUE_CACHE`` names the folder; empty or ``0``, nothing is kept on disk. ``CALQUE_CACHE_SIZE`` is
the limit in bytes (``500M``, ``2G``; 1G without it): beyond it, the files not used for longest go.

Every file stands alone, so that processes need no lock: it is written beside its place and moved
there, and read whole or not at all. An entry says what it is the entry of and carries a checksum:
one that is damaged, or that somebody else owns or may write, counts as missing and is made again.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calque.transpiler.forking import free_in_children
from calque.transpiler.late import Late

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")

MAGIC = b"calque kernel 1\n"
ENDINGS = (".py", ".code", ".text", ".cubin")
_PARTIAL = ".partial"
_ABANDONED_AFTER = 3600.0  # seconds after which a file half written is nobody's work any more
_FRESH_FOR = 60.0  # seconds for which a file's last use need not be written down again
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DEFAULT_LIMIT = 1 << 30
_SCANS = 20  # the folder is looked through once for this part of the limit
_lock = free_in_children("cache", threading.RLock())
_written: dict[Path, int] = {}  # bytes since the folder was looked through
_refused: set[str] = set()


@dataclass(frozen=True)
class Entry:
    """A file of the cache."""

    path: Path
    size: int
    used: float  # when it was last used


def folder() -> Path | None:
    """The cache's folder, made if there is none; None where it is off or cannot be trusted."""
    named = os.environ.get("CALQUE_CACHE")
    if named is not None and named.strip() in ("", "0"):
        return None
    try:
        limit()
        path = _place(named)
        why = _unusable(path)
        if why is None:
            return path
        _warn_once(f"the cache folder {path} {why}")
    except ValueError as error:
        _warn_once(str(error))
    except (RuntimeError, OSError, LookupError) as error:  # no home, no passwd entry, no folder
        what = f"cache folder {named}" if named else "cache folder of this user"
        _warn_once(f"the {what} cannot be found ({error})")
    return None


def _place(named: str | None) -> Path:
    """The absolute path of the folder that ``CALQUE_CACHE`` names, or of the user's own."""
    if named is None:
        import platformdirs

        named = platformdirs.user_cache_dir("calque", appauthor=False)
        if named.startswith("~"):
            raise RuntimeError("there is no home directory")
    return Path(named).expanduser().absolute()


def _warn_once(why: str) -> None:
    """Say once for each reason that nothing is kept on disk."""
    if why not in _refused:
        _refused.add(why)
        warnings.warn(
            f"{why}: kernels are compiled anew in every process", RuntimeWarning, stacklevel=3
        )


def _unusable(path: Path) -> str | None:
    """The reason why a folder cannot hold code that will be run; None where it can."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.stat()
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if not _mine(found):
        return "belongs to somebody else, or others may write into it"
    return None if os.access(path, os.W_OK | os.X_OK) else "cannot be written"


def _mine(found: os.stat_result) -> bool:
    """True if a file is this user's, and nobody else may write it."""
    if not hasattr(os, "getuid"):
        return True  # a system where the user's folders are closed to others by other means
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read_entry(name: str, key: str) -> bytes | None:
    """The data kept under a name for a key; None where they are missing, damaged or foreign."""
    place = folder()
    data = _read(place / name) if place is not None else None
    if place is None or data is None:
        return None
    payload = _unpacked(data, key)
    if payload is None:
        with contextlib.suppress(OSError):
            (place / name).unlink()
    return payload


def write_entry(name: str, key: str, payload: bytes) -> bool:
    """Keep a payload under a name for a key; False where that cannot be done."""
    return write_file(name, _packed(payload, key))


def _packed(payload: bytes, key: str) -> bytes:
    head = key.encode()
    content = len(head).to_bytes(8, "little") + head + payload
    return MAGIC + hashlib.sha256(content).digest() + content


def _unpacked(data: bytes, key: str) -> bytes | None:
    start = len(MAGIC) + hashlib.sha256().digest_size
    digest, content = data[len(MAGIC) : start], data[start:]
    if not data.startswith(MAGIC) or hashlib.sha256(content).digest() != digest:
        return None
    head = key.encode()
    expected = len(head).to_bytes(8, "little") + head
    return content[len(expected) :] if content.startswith(expected) else None


def _read(path: Path) -> bytes | None:
    """A file of this user's, whole; its use is noted."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _mine(found):
                return None
            if time.time() - found.st_mtime > _FRESH_FOR:
                with contextlib.suppress(OSError):
                    os.utime(path)
            return file.read()
    except OSError:
        return None


def write_file(name: str, data: bytes) -> bool:
    """Write a file in one step; then see to the limit."""
    place = folder()
    if place is None:
        return False
    try:
        handle, partial = tempfile.mkstemp(_PARTIAL, f"{name[:40]}.", place)
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(partial, place / name)
        except BaseException:
            os.unlink(partial)
            raise
    except OSError:
        return False
    most = limit()
    with _lock:
        due = place not in _written or _written[place] + len(data) > most // _SCANS
        _written[place] = 0 if due else _written[place] + len(data)
    if due:
        evict(place)
    return True


def keep_text(name: str, text: str) -> Path | None:
    """The file that holds a module's text, for tracebacks and readers; it is never executed."""
    place = folder()
    if place is None:
        return None
    data = text.encode()
    if _read(place / name) != data and not write_file(name, data):
        return None
    return place / name


def entries(place: Path) -> list[Entry]:
    """The files of a cache folder that are the cache's; those used last come last."""
    found = []
    try:
        names = os.listdir(place)
    except OSError:
        return []
    for name in names:
        if name.endswith((*ENDINGS, _PARTIAL)):
            with contextlib.suppress(OSError):
                kind = (place / name).lstat()
                if stat.S_ISREG(kind.st_mode) and _mine(kind):
                    found.append(Entry(place / name, kind.st_size, kind.st_mtime))
    return sorted(found, key=lambda entry: (entry.used, entry.path))


def limit() -> int:
    """The most bytes that the folder may hold.

    >>> import os
    >>> os.environ["CALQUE_CACHE_SIZE"] = "2M"
    >>> limit()
    2097152
    >>> del os.environ["CALQUE_CACHE_SIZE"]
    """
    text = os.environ.get("CALQUE_CACHE_SIZE", "").strip().upper().removesuffix("B")
    if not text:
        return _DEFAULT_LIMIT
    number, unit = (text[:-1], text[-1]) if text[-1] in "KMGT" else (text, "")
    try:
        size = int(float(number) * _UNITS[unit])
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise ValueError(f"CALQUE_CACHE_SIZE is {text!r}; write 500M, or 2G")
    return size


def evict(place: Path) -> None:
    """Remove what was not used for longest, until the limit holds; others may do so meanwhile."""
    most, now = limit(), time.time()
    found = entries(place)
    total = sum(entry.size for entry in found)
    for entry in found:
        half_written = entry.path.suffix == _PARTIAL
        if half_written and now - entry.used < _ABANDONED_AFTER:
            continue
        if half_written or total > most:
            with contextlib.suppress(OSError):
                entry.path.unlink()
            total -= entry.size


def clear() -> int:
    """Empty the cache folder, and say how many files went."""
    place = folder()
    removed = 0
    for entry in entries(place) if place is not None else []:
        with contextlib.suppress(OSError):
            entry.path.unlink()
            removed += 1
    return removed
