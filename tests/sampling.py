"""How much of a long battery one run of the tests takes: a sample, or everything on demand.

``CALQUE_TESTS=all pytest`` runs all of each battery; what a release, or a change deep inside, wants.
``CALQUE_TESTS=few`` runs a quarter of the sample: for one more Python, after a whole run on another.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
EVERYTHING = os.environ.get("CALQUE_TESTS") == "all"
FEW = os.environ.get("CALQUE_TESTS") == "few"


def sampled(battery: Sequence[T], step: int, start: int = 0) -> Sequence[T]:
    """Every ``step``-th of a battery from ``start`` on, or all of it."""
    return battery if EVERYTHING else battery[start :: 4 * step if FEW else step]
