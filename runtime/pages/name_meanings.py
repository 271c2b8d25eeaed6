"""The meanings of names in generated texts, in words: ``cotangent of h, float64 (n, m)``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from calque.runtime.pages.line_notes import type_text
from calque.transpiler.codegen.text.recording import WrittenText
from calque.transpiler.ir.types import ArrayType

_MOST_TYPES = 3
_ROLES = (
    (re.compile(r"(?:(.+)_)?bar(?:_\d+)?$"), "cotangent"),
    (re.compile(r"(?:(.+)_)?dot(?:_\d+)?$"), "tangent"),
    (re.compile(r"(.+)_saved$"), "values"),
)


def meanings(written: WrittenText) -> dict[str, dict[str, str]]:
    """The meanings of names, by the functions that they stand in."""
    return {
        function: {name: meaning(name, kinds) for name, kinds in names.items()}
        for function, names in written.names.items()
    }


def meaning(name: str, kinds: Sequence[ArrayType]) -> str:
    """The meaning of one name, with the types that it has.

    >>> import numpy as np
    >>> meaning("h_bar", [ArrayType(np.dtype(float), (3, 2))])
    'cotangent of h, float64 (3, 2)'
    >>> meaning("h_saved", [])
    'values of h, saved for the reverse phase'
    """
    said = list(dict.fromkeys(map(type_text, kinds)))
    types = " or ".join(said[:_MOST_TYPES]) + (" or others" if len(said) > _MOST_TYPES else "")
    return ", ".join(filter(None, [_role(name), types]))


def _role(name: str) -> str:
    for pattern, role in _ROLES:
        found = pattern.match(name)
        if found is None:
            continue
        of = found[1]
        if role == "values":
            return f"values of {of}, saved for the reverse phase"
        if of is None:
            return f"the {role} that is given"
        return f"{role} of {_role(of) or of}"
    return ""
