"""The share of a long battery that one run of the tests takes: a sample, or everything on demand.

``CALQUE_TESTS=all pytest`` runs all of each battery: before a release, or after a deep change.
``CALQUE_TESTS=more`` runs three times the sample, ``CALQUE_TESTS=few`` a third of it, for another
version of Python after a whole run on the first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
EVERYTHING = os.environ.get("CALQUE_TESTS") == "all"
FEW = os.environ.get("CALQUE_TESTS") == "few"
_STEPS = {"more": 1, "few": 9}


def sampled(battery: Sequence[T], step: int, start: int = 0) -> Sequence[T]:
    """A sample of a battery from ``start`` on, or all of it: of ``more``, every ``step``-th."""
    if EVERYTHING:
        return battery
    return battery[start :: step * _STEPS.get(os.environ.get("CALQUE_TESTS", ""), 3)]
