"""Debug output on stderr, chosen by environment variables.

``CALQUE_DEBUG=1`` prints the generated text, ``CALQUE_DEBUG=2`` also the change that each pass
makes, as a diff; ``CALQUE_PRINT_AFTER=reverse`` prints the program after one pass;
``CALQUE_REMARKS=1`` prints what passes did with each loop, and why they left it as it is.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from calque.transpiler.ir.core import Function
from calque.transpiler.ir.old_pass_names import OLD_NAMES
from calque.transpiler.ir.stages import stage
from calque.transpiler.ir.text import show

Result = TypeVar("Result")
verifying = False  # the tests switch it on


def level() -> int:
    """The number in ``CALQUE_DEBUG``, else 0."""
    text = os.environ.get("CALQUE_DEBUG", "")
    return int(text) if text.isdigit() else 0


def verifies() -> bool:
    """True if the program is verified after each pass: under ``CALQUE_DEBUG``, and in tests."""
    return verifying or level() >= 1


def watched(
    name: str, function: Function, run: Callable[[], Result], builder: Any = None
) -> Result:
    """Run a pass over a function, and print what it changed if the environment asks for it.

    ``builder`` knows the line of the user's code, for a pass that goes through the statements.
    """
    wanted = os.environ.get("CALQUE_PRINT_AFTER", "")
    only = OLD_NAMES.get(wanted, wanted) == name
    with stage(f"in the pass {name}", builder):
        if level() < 2 and not only:
            return run()
        before = show(function)
        result = run()
    after = show(function)
    if only:
        print(f"# after {name}\n{after}", file=sys.stderr)
    elif before != after:
        lines = (before.splitlines(), after.splitlines())
        names = (f"{function.name} before {name}", f"{function.name} after {name}")
        print("\n".join(difflib.unified_diff(*lines, *names, lineterm="")), file=sys.stderr)
    return result


def shows_remarks() -> bool:
    """True if passes say what they do with each loop, and why: under ``CALQUE_REMARKS=1``."""
    return os.environ.get("CALQUE_REMARKS", "0") not in ("", "0")


def show_text(text: str, always: bool = False) -> None:
    """Print generated text under ``CALQUE_DEBUG=1`` and above, other text ``always``."""
    if always or level() >= 1:
        print(text, file=sys.stderr)
