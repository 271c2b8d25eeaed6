"""Parameters, shapes and dtypes of distributions: the code that these share."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.random.keys import Shape

FLOATS = (2, 4, 8)  # bytes


def float_dtype(dtype: Any, name: str) -> np.dtype:
    """The dtype of floats that a call asks for, float64 if it asks for none."""
    found = np.dtype(float if dtype is None else dtype)
    if found.kind != "f" or found.itemsize not in FLOATS:
        raise ValueError(f"{name} gives floats of 16, 32 or 64 bits, not {found}")
    return found


def normal_dtype(dtype: Any) -> np.dtype:
    """The dtype of normal numbers that a call asks for: complex, or one of floats."""
    found = np.dtype(float if dtype is None else dtype)
    return found if found.kind == "c" else float_dtype(found, "random.normal")


def broadcast_shape(name: str, shape: Shape | None, *parameters: Any) -> tuple[int, ...]:
    """The shape of a result: that of the parameters, or one to which they broadcast."""
    together = np.broadcast_shapes(*[np.shape(p) for p in parameters])
    if shape is None:
        return together
    if np.broadcast_shapes(tuple(shape), together) != tuple(shape):
        raise ValueError(
            f"the parameters of random.{name} have shape {together}, and do not broadcast to "
            f"{tuple(shape)}"
        )
    return tuple(shape)


def parameter(value: Any, dtype: np.dtype) -> Any:
    """A parameter in the dtype of the result; Python's numbers take part as they are."""
    return value if isinstance(value, float) else np.asarray(value, dtype)


def inexact(*values: Any) -> np.dtype:
    """The dtype of floats in which these numbers are computed with."""
    found = np.result_type(*[np.asarray(v).dtype for v in values])
    return found if found.kind in "fc" else np.dtype(float)
