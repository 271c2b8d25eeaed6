"""Generators of random numbers with a known seed: all that they draw is constant.

``rng = np.random.default_rng(0)`` in a function starts the same sequence in each call, so its draws
are made while the function is translated. The state is an attribute, which branches and loops see.
"""

from __future__ import annotations

import pickle
import random
import sys
from typing import Any

import numpy as np

from calque.transpiler.errors import SpecializationNeeded
from calque.transpiler.frontend.callables import is_in
from calque.transpiler.frontend.machine import NEXT, Args, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known

_IN_PLACE = frozenset(("shuffle", "permuted", "seed", "set_state", "setstate", "spawn"))


class SeededGenerator:
    """A generator that the program has made of a known seed."""

    def __init__(self, made: Any):
        self.kind, self.state = type(made), pickle.dumps(made)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the generator, for ``isinstance``."""
        return self.__dict__["kind"]

    def __getattr__(self, name: str) -> Any:
        kind = self.__dict__["kind"]
        if name.startswith("_") or name in _IN_PLACE or not callable(getattr(kind, name, None)):
            raise AttributeError(f"{kind.__name__} of a known seed has no {name} here")
        return SeededDraw(self, name)


class SeededDraw:
    """A method of such a generator, to be called."""

    def __init__(self, generator: SeededGenerator, name: str):
        self.generator, self.name = generator, name

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """Draw now, of known arguments; others are refused as of any generator."""
        held = self.generator.__dict__
        made = pickle.loads(machine.checked(held["state"], "the state of a generator", node))
        method = getattr(made, self.name)
        _require_known([*args, *kwargs.values()])
        if not known((args, list(kwargs.values()))):
            return machine.call_value(method, args, kwargs, node)  # refused, with a key
        found = method(*args, **kwargs)
        held["state"] = pickle.dumps(made)
        if isinstance(found, np.ndarray):
            return FUNCTIONS[np.asarray](found)
        return machine.own(RecordedList(found)) if type(found) is list else found


def _require_known(values: Any) -> None:
    """Ask for the sizes among the arguments of a draw to be known."""
    for value in values:
        if isinstance(value, (tuple, list)):
            _require_known(value)
        elif isinstance(value, Array):
            wanted = current().needs_known(value, "The size of what is drawn")
            if isinstance(wanted, SpecializationNeeded):
                raise wanted


def _is_maker(function: Any) -> bool:
    """True for what makes a generator; of NumPy's module only where the program has imported it."""
    if function is random.Random:
        return True
    return draws_loaded() and is_in(function, {np.random.default_rng, np.random.RandomState})


def draws_loaded() -> bool:
    """True if ``numpy.random``, which NumPy imports when it is first used, has been."""
    return "numpy.random" in sys.modules


def seeded(machine: Machine, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """The generator that a call makes of a known seed; NEXT for every other call."""
    given = [*args, *kwargs.values()]
    if not _is_maker(function) or len(given) != 1:
        return NEXT
    (seed,) = given
    if type(seed) is SeededGenerator:
        return seed
    whole = isinstance(seed, (int, str, np.integer)) and not isinstance(seed, bool)
    if isinstance(seed, Array) or not (whole or (isinstance(seed, (tuple, list)) and known(seed))):
        return NEXT
    return machine.own(SeededGenerator(function(seed)))
