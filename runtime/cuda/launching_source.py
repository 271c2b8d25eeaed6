"""What launchers of CUDA C call, as text: for saved modules, which import no calque."""

from __future__ import annotations

import inspect

from calque.runtime.cuda import faults, launching


def embedded(names: frozenset[str]) -> tuple[list[str], str, str]:
    """The import lines, and the definitions of the functions of these names; nothing behind them.

    >>> lines, text, _ = embedded(frozenset(["blocks"]))
    >>> lines, text.splitlines()[0]
    ([], 'def blocks(size: int) -> tuple[int, ...]:')
    """
    checks = names & {"checked_index", "outside", "raise_if_outside"}
    plain = sorted(names - checks)
    found = [inspect.getsource(getattr(launching, name)).rstrip() for name in plain]
    lines = []
    if "kernel" in names:
        lines = ["import functools", "import re", "import numpy as np"]
        lines += ["from collections.abc import Callable", "from typing import Any"]
        found.insert(0, _assignment("_TYPES"))
        found.append(inspect.getsource(launching._parameter).rstrip())
    elif names & {"accumulated", "parts_of"}:
        lines = ["from typing import Any"]
    if "parts_of" in names:
        lines.insert(0, "import math")
    if checks:
        lines += ["import functools", "import operator", "import numpy as np"]
        lines.append("from typing import Any")
        found.append(inspect.getsource(faults).partition("import numpy as np\n\n")[2].rstrip())
    return lines, "\n\n\n".join(found), ""


def _assignment(name: str) -> str:
    """The text of a table of the module."""
    text = inspect.getsource(launching)
    start = text.index(f"{name} = ")
    return text[start : text.index("\n\n", start)].rstrip()
