"""The meanings of names in generated texts, in words: ``cotangent of h, float64 (n, m)``."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from calque.runtime.pages.line_notes import type_text
from calque.transpiler.codegen.text.recording import WrittenText
from calque.transpiler.ir.naming import ORDINALS
from calque.transpiler.ir.types import ArrayType

_MOST_TYPES = 3
_NUMBERED = re.compile(rf"((?:{'|'.join(ORDINALS)})_(.+))_saved")
_ROLES = (
    (re.compile(r"(?:(.+)_)?bar(?:_\d+)?$"), "cotangent"),
    (re.compile(r"(?:(.+)_)?dot(?:_\d+)?$"), "tangent"),
    (re.compile(r"(.+)_saved$"), "values"),
)


def meanings(written: WrittenText) -> dict[str, dict[str, str]]:
    """The meanings of names, by the functions that they stand in."""
    return {
        function: {name: meaning(_with_known(name, names), kinds) for name, kinds in names.items()}
        for function, names in written.names.items()
    }


def _with_known(name: str, names: Container[str]) -> str:
    """A name without the number that tells it from an equal one, if what is left is a name's."""
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None or numbered[1] in names or numbered[2] not in names:
        return name
    return f"{numbered[2]}_saved"


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
