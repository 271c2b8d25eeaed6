"""Declared passes: the facts that each needs, makes and keeps, its order, and a runner for lists.

A *fact* is a property of a program that one pass establishes and others rely on, such as that loops
carry only values that they change. Two neighbours in a list may be swapped if no declaration is
violated: their order affects speed and text, never numbers. An optional pass may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.errors import CoreError
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Atom, Function, Var, free_vars
from calque.transpiler.ir.debug import verifies, watched
from calque.transpiler.ir.target import Target
from calque.transpiler.ir.verify import verify

ALL = frozenset({"*"})  # every fact


@dataclass(eq=False)
class Work:
    """A program that passes rewrite in place, and what they tell each other about it."""

    function: Function
    builder: Builder
    target: Target
    comparing: bool = True  # sizes that only a run knows may be compared
    compares: bool = False
    edges: frozenset[int] = frozenset()  # ids of loops that gather has made of scatters
    # of a derivative: values by which it is taken; those read when the program has ended; stores
    # that only put old elements back, and what they undo; those of them that nothing needed
    inputs: Sequence[Var] = ()
    kept: list[Atom] = field(default_factory=list)
    restores: Mapping[Var, Var] = field(default_factory=dict)
    needless: set[Var] = field(default_factory=set)

    def option(self, name: str) -> Any:
        """The value of an option that the user set for kernels, else None."""
        return self.function.kernel_options.get(name)


@dataclass(frozen=True)
class Pass:
    """One step from Core to Core, in place.

    ``needs`` and ``makes``: facts; earlier facts that are not in ``keeps`` no longer hold after it.
    ``after``: the names of passes that come before. ``optional``: numbers are right without it.
    ``reorders``: it changes the order in which floats are added or multiplied, so that it is left
    out under ``jit(f, reassociate=False)``. ``explains``: it notes a remark for each loop that it
    considers, for ``calque explain --why``.

    >>> tidy = Pass("tidy", lambda work: None, makes=("tidy",))
    >>> walk = Pass("walk", lambda work: None, needs=("tidy",), after=("tidy",))
    >>> list(violations([tidy, walk])), list(violations([walk, tidy]))
    ([], ['walk needs tidy', 'walk comes after tidy'])
    """

    name: str
    run: Callable[[Work], Any]
    needs: Sequence[str] = ()
    keeps: frozenset[str] = ALL
    after: Sequence[str] = ()
    makes: Sequence[str] = ()
    optional: bool = False
    reorders: bool = False
    explains: bool = False
    when: Callable[[Work], bool] = field(default=lambda work: True)


def violations(passes: Sequence[Pass]) -> Iterator[str]:
    """The needs and orders of passes that a list of them violates, as texts."""
    facts: frozenset[str] = frozenset()
    names: set[str] = set()
    for each in passes:
        yield from (f"{each.name} needs {fact}" for fact in each.needs if fact not in facts)
        yield from (f"{each.name} comes after {name}" for name in each.after if name not in names)
        facts = (facts if each.keeps is ALL else facts & each.keeps).union(each.makes)
        names.add(each.name)


def run_passes(passes: Sequence[Pass], work: Work) -> None:
    """Run the passes that apply; debugging prints and verifies the program after each."""
    outside = _read_from_outside(work.function) if verifies() else set()
    for each in passes:
        if not each.when(work) or (each.reorders and work.option("reassociate") is False):
            continue
        watched(each.name, work.function, lambda run=each.run: run(work))  # type: ignore[misc]
        if verifies():
            try:
                verify(work.function, outside)
            except CoreError as error:
                raise CoreError(f"after {each.name}: {error.message}") from error


def _read_from_outside(function: Function) -> set[Var]:
    """The values that a program reads and does not define: of the program that is traced around."""
    return {*free_vars(function.body)}.difference(function.params)
