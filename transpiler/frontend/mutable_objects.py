"""Objects of libraries that change between calls: a program holds while what they hold is the same.

A ``deque``, a ``bytearray`` or a ``SimpleNamespace`` that lives outside the function is read by
Python itself while the function is interpreted. What it held then is in the generated code, so a
copy is kept, which each call compares. (Instances of the user's classes are read attribute by
attribute, lists and dicts item by item: these are guarded one by one.)
"""

from __future__ import annotations

import copy
import sys
from types import ModuleType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type, range, slice, frozenset)
_LIBRARY = sys.stdlib_module_names | {"builtins"}
_OTHERS = (np.ndarray, np.generic, ModuleType, BaseException)
_READ_ITEM_BY_ITEM = (list, tuple, dict, set, *_OTHERS)


def state(value: Any, whole: bool = False) -> Any:
    """A copy of a library's object that equals it as long as it does not change; None of others.

    ``whole``: of containers too, as of a ``Counter`` that is an argument, hence no container here.

    >>> from collections import deque
    >>> state(deque([1, 2])), state([1, 2]), state(1.5)
    (deque([1, 2]), None, None)
    """
    guarded_elsewhere = _PLAIN + (_OTHERS if whole else _READ_ITEM_BY_ITEM)
    if isinstance(value, guarded_elsewhere) or type(value).__eq__ is object.__eq__:
        return None
    top = (type(value).__module__ or "").split(".")[0]
    if type(value).__hash__ is not None or top not in _LIBRARY:
        return None  # what has a hash does not change
    try:
        found = copy.copy(value)
        return found if found is not value and bool(found == value) else None
    except Exception:  # what cannot be copied or compared has no state that can be guarded
        return None
