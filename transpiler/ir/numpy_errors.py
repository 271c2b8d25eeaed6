"""NumPy's own errors for calls that calque knows, before they run, to fail.

A branch may hold such a call in an arm that no run takes; if it is taken, it raises NumPy's error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, IndexOutOfRange, ShapeError
from calque.transpiler.ir.builder import Array, current

_LARGEST = 1 << 20  # elements of an array that is made to be asked about
_TRIED = (2, 5)
_PLAIN = (bool, int, float, complex, str, type(None), type(Ellipsis), range, np.dtype, np.generic)


def asked(
    function: Callable[..., Any], handler: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Call the handler of a NumPy function; its error carries the one that NumPy itself raises."""
    try:
        return handler(*args, **kwargs)
    except (ShapeError, IndexOutOfRange, DtypeError) as error:
        if error.theirs is None:
            error.theirs = _numpys_error(function, args, kwargs)
        raise


def _numpys_error(function: Callable[..., Any], args: Any, kwargs: Any) -> Exception | None:
    """NumPy's error for a call with arrays of these shapes; None if it succeeds or is unknown.

    Several values are tried for unknown sizes: the error must be the same for all of them.
    """
    first, second = (_error_of(function, args, kwargs, size) for size in _TRIED)
    same = type(first) is type(second) and str(first) == str(second)
    return first if same else None


def _error_of(function: Any, args: Any, kwargs: Any, size: int) -> Exception | None:
    try:
        given = _sample(list(args), size), {k: _sample(v, size) for k, v in kwargs.items()}
    except _NoSample:
        return None
    try:
        with np.errstate(all="ignore"):
            function(*given[0], **given[1])
    except (TypeError, ValueError, IndexError) as error:
        return error
    return None


class _NoSample(Exception):
    """Raised for a value of which no sample can be made."""


def _sample(value: Any, size: int) -> Any:
    """A sample value of the same type and sizes, with ``size`` for every unknown size."""
    if isinstance(value, Array):
        dims = [current().dims.resolve(d) for d in value.type.dims]
        sizes = [d if isinstance(d, int) else size for d in dims]
        if math.prod(sizes) > _LARGEST:
            raise _NoSample
        made = np.zeros(sizes, value.dtype)
        if value.ndim or value.is_buffer:
            return made
        return made.item() if value.type.weak else made[()]
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(_sample(v, size) for v in value)
    if isinstance(value, slice):
        return slice(*(_sample(v, size) for v in (value.start, value.stop, value.step)))
    if not isinstance(value, (*_PLAIN, type)):
        raise _NoSample
    return value
