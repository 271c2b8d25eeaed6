"""The functions of CuPy, by its reference, and C's types as NumPy, ctypes and CuPy name them."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy

# what CuPy has, and what its functions take
API = {
    name: parameters.split()
    for line in Path(__file__).with_name("cupy_api.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for name, _, parameters in [line.partition(":")]
}


class Complex64(ctypes.Structure):
    """As kernels have it."""

    _fields_ = (("real", ctypes.c_float), ("imag", ctypes.c_float))


class Complex128(ctypes.Structure):
    """As kernels have it."""

    _fields_ = (("real", ctypes.c_double), ("imag", ctypes.c_double))


SCALARS: dict[str, tuple[type, Any]] = {  # C's types, NumPy's, those of ctypes
    "bool": (numpy.bool_, ctypes.c_bool),
    "signed char": (numpy.int8, ctypes.c_int8),
    "unsigned char": (numpy.uint8, ctypes.c_uint8),
    "short": (numpy.int16, ctypes.c_int16),
    "unsigned short": (numpy.uint16, ctypes.c_uint16),
    "int": (numpy.int32, ctypes.c_int),
    "unsigned int": (numpy.uint32, ctypes.c_uint32),
    "long long": (numpy.int64, ctypes.c_longlong),
    "unsigned long long": (numpy.uint64, ctypes.c_uint64),
    "float": (numpy.float32, ctypes.c_float),
    "double": (numpy.float64, ctypes.c_double),
    "complex64": (numpy.complex64, Complex64),
    "complex128": (numpy.complex128, Complex128),
}
PASSED_AS: dict[type, type] = {bool: numpy.bool_, int: numpy.int64, float: numpy.float64}  # by CuPy
