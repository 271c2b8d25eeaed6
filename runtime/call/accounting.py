"""Accounts of the programs that a function has generated and compiled, with the reasons."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from calque.runtime.call.machine_code import Compilation, KernelCache
from calque.runtime.spec import Spec
from calque.transpiler.diagnostics.placements import Fallback
from calque.transpiler.ir import pytrees


@dataclass(frozen=True)
class CacheInfo:
    """The result of ``fn.cache_info()``.

    ``programs`` counts the programs generated, each for a reason in ``reasons``. ``kernels`` lists
    the kernels that are ready to run; ``compiled`` counts those compiled here, ``loaded`` those
    read from disk or received from the process that compiles for ``jit(f, first="numpy")``.
    ``answered`` says what answered the last call that no table knew: "numpy" or "kernels", or ""
    before any.
    """

    programs: int
    reasons: tuple[str, ...]
    kernels: tuple[Compilation, ...]
    answered: str = ""

    @property
    def compiled(self) -> int:
        """Kernels that were compiled in this process."""
        return sum(not k.from_disk for k in self.kernels)

    @property
    def loaded(self) -> int:
        """Kernels whose machine code came from the cache on disk."""
        return sum(k.from_disk for k in self.kernels)

    def __str__(self) -> str:
        head = f"{self.programs} generated; kernels: {self.compiled} compiled, {self.loaded} loaded"
        head += "; NumPy answered" * (self.answered == "numpy")
        return "\n".join([head, *(f"- {reason}" for reason in self.reasons)])


class Account:
    """The programs of a function, by what of a call each was made for."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all programs."""
        self.descriptions: list[dict[str, str]] = []
        self.reasons: list[str] = []
        self.kernels: list[KernelCache] = []
        self.answered = ""  # which text: NumPy's, or the one with kernels
        self.warned = ""  # of what runs as NumPy source
        self.unsaid: tuple[Fallback, ...] = ()  # why NumPy goes on, until a call warns

    def note(
        self, description: dict[str, str], kernels: tuple[KernelCache, ...], why: str = ""
    ) -> str:
        """Enter a program, and say why it was made: how its call differs from the nearest one."""
        reason = why or self._reason(description)
        self.descriptions.append(description)
        self.reasons.append(reason)
        self.kernels += [k for k in kernels if k not in self.kernels]
        return reason

    def _reason(self, description: dict[str, str]) -> str:
        if not self.descriptions:
            return "first call"
        nearest = min(reversed(self.descriptions), key=lambda d: _distance(d, description))
        return "; ".join(_changes(nearest, description)) or "other containers, or a captured size"


def info(*accounts: Account) -> CacheInfo:
    """The sum of several accounts."""
    reasons = tuple(reason for account in accounts for reason in account.reasons)
    made = tuple(c for account in accounts for kernel in account.kernels for c in kernel.made)
    answered = next((account.answered for account in accounts if account.answered), "")
    return CacheInfo(len(reasons), reasons, made, answered)


def _distance(before: dict[str, str], now: dict[str, str]) -> float:
    """The number of arguments that differ, plus a fraction: less the more alike these are."""
    texts = [(before.get(n, ""), now.get(n, "")) for n in {**before, **now}]
    differing = [(a, b) for a, b in texts if a != b]
    return len(differing) + sum(1 - SequenceMatcher(None, a, b).ratio() for a, b in differing) / (
        1 + len(differing)
    )


def _changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    found = []
    for name in {**before, **now}:
        old, new = before.get(name, "absent"), now.get(name, "absent")
        if old != new:
            found.append(f"{name}: {new}, and before: {old}")
    return found


def described(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    known: frozenset[int],
    pinned: dict[str, int],
    layout: bool,
) -> dict[str, str]:
    """The parts of each argument that generated code depends on, in words.

    >>> described(lambda x, n: 0, (np.ones((3, 1)), 2), {}, frozenset([1]), {}, True)
    {'x': 'float64[:, 1], contiguous', 'n': 'the value 2'}
    """
    leaves, _ = pytrees.flatten((args, kwargs))
    found = {}
    for k, (path, leaf) in enumerate(zip(pytrees.paths((args, kwargs)), leaves, strict=True)):
        found[_named(function, path)] = _described(leaf, k, k in known, pinned, layout)
    for name, size in pinned.items():
        if "." in name:
            label, _, axis = name.rpartition(".")
            found[f"axis {axis} of {label}"] = f"size {size}"
    return found


def _described(leaf: Any, k: int, known: bool, pinned: dict[str, int], layout: bool) -> str:
    if known:
        return f"the value {leaf!r}"
    if isinstance(leaf, np.ndarray):
        sizes = [
            str(s) if s == 1 or f"d{k}_{axis}" in pinned else ":"
            for axis, s in enumerate(leaf.shape)
        ]
        text = f"{leaf.dtype}[{', '.join(sizes)}]"
        if layout:
            text += ", contiguous" if leaf.flags.c_contiguous else ", strided"
        return text
    if isinstance(leaf, np.generic):
        return str(leaf.dtype)
    if isinstance(leaf, (Spec, str, bytes, bool)) or leaf is None:
        return repr(leaf)
    return type(leaf).__name__


def _named(function: Any, path: str) -> str:
    """``[0][1]['W']`` as ``params['W']``: the path of a leaf by the parameter's name."""
    which, _, rest = path[1:].partition("]")
    head, _, inner = rest.removeprefix("[").partition("]")
    if which == "1":
        return head.strip("'\"") + inner
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    k = int(head)
    plain = k < len(parameters) and parameters[k].kind is not inspect.Parameter.VAR_POSITIONAL
    return (parameters[k].name if plain else f"argument {k}") + inner


