"""An array on a GPU as the lookup of its program needs it: all but its elements."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from calque.transpiler.ir.device_arrays import is_device_array

_ASKED = (np.shares_memory, np.may_share_memory)  # of addresses alone


class Addressed(np.ndarray):
    """Dtype, shape, strides and address of an array whose memory the host cannot read."""

    of: Any  # the array itself

    @property
    def base(self) -> Any:
        """The array that this one is a view of."""
        return self.of.base

    @property
    def flags(self) -> Any:
        """Those that CuPy has; its arrays are always aligned, and may be stored into."""
        own = self.of.flags
        return SimpleNamespace(
            c_contiguous=own.c_contiguous,
            f_contiguous=own.f_contiguous,
            owndata=own.owndata,
            writeable=True,
            aligned=True,
        )

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("this array lies on a GPU")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in _ASKED:
            raise TypeError("this array lies on a GPU")
        return super().__array_function__(function, types, args, kwargs)

    def item(self, *args: Any) -> Any:
        """Never asked: who needs a value says that it is not at hand (``dispatch``)."""
        raise TypeError("this array lies on a GPU")


def addresses(leaves: list[Any]) -> list[Any]:
    """The leaves of a call; arrays on a GPU by what has their addresses."""
    return [addressed(x) for x in leaves] if "cupy" in sys.modules else leaves


def addressed(value: Any) -> Any:
    """An array on a GPU as what has its address; anything else as it is."""
    if not is_device_array(value):
        return value
    interface = {
        "version": 3,
        "typestr": value.dtype.str,
        "shape": value.shape,
        "strides": value.strides,
        "data": (value.data.ptr, False),
    }
    made = np.asarray(SimpleNamespace(__array_interface__=interface)).view(Addressed)
    made.of = value
    return made
