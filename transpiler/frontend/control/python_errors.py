"""Texts of errors that plain Python raises, too, for arms of branches that raise at run time."""

from __future__ import annotations

import builtins
import re
from typing import Any

import numpy as np

from calque.transpiler.errors import (
    CalqueError,
    DtypeError,
    IndexOutOfRange,
    Origin,
    ShapeError,
    UndefinedVariable,
)

_KINDS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
_MEANT = {  # the nearest of Python's classes
    UndefinedVariable: NameError,
    IndexOutOfRange: IndexError,
    ShapeError: ValueError,
    DtypeError: TypeError,
}
_NUMPYS: dict[type, str] = {
    np.exceptions.AxisError: "np.exceptions.AxisError",
    np.linalg.LinAlgError: "np.linalg.LinAlgError",
}
_OURS = re.compile(r"\b(Array|RuntimeText|Closure|Mismatch|Maybe|Deque|Unread|Frame)\b|'_")
_PLAIN = (str, bytes, bool, int, float, complex, type(None))
UNDEFINED = "is not defined."
UNASSIGNED = "where it is not associated with a value"


def raised(error: Exception) -> str | None:
    """The ``raise`` statement for an error of Python's; None for calque's refusals and defects.

    >>> raised(KeyError("k"))
    "raise KeyError('k')"
    >>> raised(ShapeError("sizes 2 and 5 do not fit together."))
    "raise ValueError('sizes 2 and 5 do not fit together')"
    >>> raised(TypeError("float() argument must be a string or a real number, not 'Array'"))
    """
    kind: Any = type(error)
    if isinstance(error, CalqueError):
        if error.theirs is not None:
            return _text(error.theirs)
        own = error.message.endswith(UNDEFINED) or UNASSIGNED in error.message
        if kind not in _MEANT or (kind is UndefinedVariable and not own):
            return None  # some path does define it
        meant = UnboundLocalError if " local variable " in error.message else _MEANT[kind]
        return f"raise {meant.__name__}({error.message.rstrip('.')!r})"
    if not isinstance(error, _KINDS) or _is_ours(error):
        return None
    return _text(error)


def _is_ours(error: Exception) -> bool:
    """True if the text of an error tells of the interpreter's own classes and names."""
    if isinstance(error, KeyError):
        return False
    owner = type(getattr(error, "obj", None))
    if isinstance(error, AttributeError) and (owner.__module__ or "").split(".")[0] != "calque":
        return owner is type(None) and bool(_OURS.search(str(error)))
    return bool(_OURS.search(str(error)))


def as_python_raises(error: Exception) -> Exception | None:
    """The error of Python's that plain Python would raise; None for calque's refusals and defects.

    >>> as_python_raises(IndexOutOfRange("index 3 is out of bounds."))
    IndexError('index 3 is out of bounds')
    """
    if not isinstance(error, CalqueError):
        own = (type(error).__module__ or "").split(".")[0] == "calque"
        return None if own or _is_ours(error) else error
    if error.theirs is not None:
        return error.theirs
    kind: Any = type(error)
    own = error.message.endswith(UNDEFINED) or UNASSIGNED in error.message
    if kind not in _MEANT or (kind is UndefinedVariable and not own):
        return None
    meant = UnboundLocalError if " local variable " in error.message else _MEANT[kind]
    return meant(error.message.rstrip("."))


def _text(error: Exception) -> str:
    """The statement that raises an error as a class of Python's, or a public one of NumPy's."""
    kind = next((k for k in _NUMPYS if type(error) is k), None)
    if kind is not None:
        return f"raise {_NUMPYS[kind]}({str(error)!r})"
    kind = next(k for k in type(error).__mro__ if getattr(builtins, k.__name__, None) is k)
    simple = kind is type(error) and all(isinstance(a, _PLAIN) for a in error.args)
    args = error.args if simple else (str(error),)
    return f"raise {kind.__name__}({', '.join(repr(_as_list(a)) for a in args)})"


def _as_list(part: Any) -> Any:
    return part.replace("RecordedList", "list") if isinstance(part, str) else part


def origin_of(error: Exception) -> Origin | None:
    """The origin of an error, if it is known."""
    return error.origin if isinstance(error, CalqueError) else getattr(error, "calque_origin", None)


def missing_arguments(name: str, missing: list[str], keyword_only: bool = False) -> str:
    """Python's message for a call that leaves parameters without a value.

    >>> missing_arguments("f", ["a", "b"])
    "f() missing 2 required positional arguments: 'a' and 'b'"
    """
    quoted = [repr(n) for n in missing]
    last = quoted[-1] if len(quoted) < 3 else f"and {quoted[-1]}"
    listed = (" and " if len(quoted) == 2 else ", ").join([*quoted[:-1], last])
    kind = "keyword-only" if keyword_only else "positional"
    plural = "s" if len(missing) > 1 else ""
    return f"{name}() missing {len(missing)} required {kind} argument{plural}: {listed}"


def too_many_arguments(name: str, least: int, most: int, given: int) -> str:
    """Python's message for a call with more arguments than there are parameters.

    >>> too_many_arguments("f", 1, 1, 2)
    'f() takes 1 positional argument but 2 were given'
    """
    takes = str(most) if least == most else f"from {least} to {most}"
    plural = "" if most == 1 else "s"
    were = "was" if given == 1 else "were"
    return f"{name}() takes {takes} positional argument{plural} but {given} {were} given"
