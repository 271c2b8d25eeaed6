"""The text with kernels of a program, kept on disk beside the machine code.

Reading a function is quick; writing its kernels is not. What was written is found by all that it
depends on: the program as it was read, to its last statement and comment, the wishes of ``jit``,
calque's own files, and the versions of Python and NumPy. What had to be assumed of sizes is kept
with it, and asked again.
"""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calque.runtime.call import disk_cache
from calque.runtime.call.fingerprints import NoFingerprint, fingerprint
from calque.runtime.call.machine_code import scipy_version, versions_used
from calque.transpiler.diagnostics.placements import Fallback, fallbacks
from calque.transpiler.errors import Origin
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir import debug
from calque.transpiler.ir.core import Launch
from calque.transpiler.ir.dims import Bound, InnerSizes, is_small_product
from calque.transpiler.ir.target import Target
from calque.transpiler.ir.types import Dim
from calque.transpiler.late import Late

if TYPE_CHECKING:
    import hashlib

    from calque.transpiler.loops import size_specialization
else:
    size_specialization = Late("calque.transpiler.loops.size_specialization")
    hashlib = Late("hashlib")

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("transpiler", "runtime")
_DEBUGGING = ("CALQUE_DEBUG", "CALQUE_PRINT_AFTER", "CALQUE_JIT")


@dataclass(frozen=True)
class KeptText:
    """A module's text, and what else is known once it is written.

    There is none where a call of small sizes asked, which gets a text with these written into it.
    """

    text: str
    assumptions: tuple[Dim, ...]  # each is >= 0
    compares: bool
    choices: Mapping[Bound, bool]
    inner: InnerSizes
    launches: tuple[Launch, ...]
    origins: Mapping[str, tuple[Origin | None, ...]]  # of the text's statements
    fallbacks: tuple[Fallback, ...]

    @classmethod
    def of(cls, traced: Traced, text: str) -> KeptText:
        """The entry for a program with kernels that has been written as ``text``."""
        return cls(
            *(text, tuple(traced.assumptions), traced.compares),
            *(dict(traced.choices), dict(traced.inner), tuple(traced.function.launches)),
            {name: tuple(found) for name, found in traced.function.origins.items()},
            fallbacks(traced.function, traced.target),
        )

    def told(self, before: Traced, target: Target) -> Traced:
        """The program as it was read, with the facts that are known once its text is written."""
        return replace(
            before,
            function=replace(
                before.function,
                launches=list(self.launches),
                origins={name: list(found) for name, found in self.origins.items()},
            ),
            assumptions=list(self.assumptions),
            compares=self.compares,
            choices=dict(self.choices),
            inner=self.inner,
            target=target,
        )

    def holds(self, sizes: dict[str, int], may_have_few: bool = False) -> bool:
        """True if a call of these sizes would make the same choices: also to write sizes in."""
        if not self.text:
            few = may_have_few and size_specialization.few_and_often(self.inner, sizes)
            if not few:
                return False
        return all(is_small_product(c, sizes) == chosen for c, chosen in self.choices.items())


@dataclass(frozen=True)
class Source:
    """A program with kernels: as it was ``before`` them, and its text, if that was on disk."""

    traced: Traced
    before: Traced
    key: str | None
    written: KeptText | None
    few: dict[str, int]  # sizes that are written into it

    def keep(self, text: str = "") -> None:
        """Keep its text, or that a call of these sizes has another one."""
        if self.written is None:
            found = KeptText.of(self.traced, text)
            keep(self.key, self.before, self.few, self.traced, found)


def key_of(traced: Traced, *wishes: Any) -> str | None:
    """The key of a program's text on disk; None where passes are inspected, and so must run."""
    if disk_cache.folder() is None or debug.verifies() or any(map(os.environ.get, _DEBUGGING)):
        return None
    try:
        own = fingerprint(traced, wishes)
        return "\n".join([*versions_used(), *scipy_version(), _own_files(), own])
    except NoFingerprint:
        return None


def find(
    key: str | None, sizes: dict[str, int], may_have_few: bool = False
) -> KeptText | None:
    """The text for a key, if it is for calls of these sizes, which may be written into another."""
    payload = None if key is None else disk_cache.read_entry(_name(key), key)
    if payload is None:
        return None
    try:
        found = pickle.loads(payload)
    except Exception:  # whatever it is, writing anew is right
        return None
    return found if isinstance(found, KeptText) and found.holds(sizes, may_have_few) else None


def keep(
    key: str | None, before: Traced, few: dict[str, int], after: Traced, written: KeptText
) -> None:
    """Keep a text, unless what it assumes cannot be asked of the program as it was read.

    ``few`` are the sizes that were written into the program ``after``.
    """
    dims = before.builder.dims
    before = before.copied(few) if few else before
    asked = {s for d in written.assumptions for s in d.symbols()}
    equal = [[(e.left, e.right) for e in t.function.equal_dims] for t in (before, after)]
    known = dims.arguments | dims.quotients.keys() | dims.floors.keys() | dims.integers.keys()
    askable = asked <= known and equal[0] == equal[1]
    if key is not None and askable:
        disk_cache.write_entry(_name(key), key, pickle.dumps(written))


def _name(key: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.text"


@functools.cache
def _own_files() -> str:
    """calque's own files as they are: each change may change a text."""
    digest = hashlib.sha256()
    for room in _ROOMS:
        for folder, folders, files in os.walk(_ROOT / room):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            for name in sorted(f for f in files if f.endswith(".py")):
                found = os.stat(os.path.join(folder, name))
                place = os.path.relpath(os.path.join(folder, name), _ROOT)
                digest.update(f"{place} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
