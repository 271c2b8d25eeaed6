"""Integers as NumPy and Python have them, where Numba's are undefined: out of 64 bits."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable


@register_jitable
def wrapped_sum(a, b):
    """``a + b`` modulo 2**64; of signed integers LLVM takes for granted that their sum fits."""
    return np.int64(np.uint64(np.int64(a)) + np.uint64(np.int64(b)))


@register_jitable
def wrapped_difference(a, b):
    """``a - b`` modulo 2**64."""
    return np.int64(np.uint64(np.int64(a)) - np.uint64(np.int64(b)))


@register_jitable
def wrapped_product(a, b):
    """``a * b`` modulo 2**64."""
    return np.int64(np.uint64(np.int64(a)) * np.uint64(np.int64(b)))


@register_jitable
def wrapped_quotient(a, b):
    """``a // b`` modulo 2**64, 0 for zero; plain Numba divides the least integer by -1 to 0."""
    a, b = np.int64(a), np.int64(b)
    return wrapped_difference(0, a) if b == -1 else a // b


@register_jitable
def integer_quotient(a, b):
    """The quotient of Python's integers, wrapped: ZeroDivisionError for zero."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return wrapped_quotient(a, b)


@register_jitable
def integer_power(a, n):
    """``a ** n`` modulo 2**64, for n from 0 on."""
    found, square, rest = np.uint64(1), np.uint64(np.int64(a)), np.uint64(n)
    while rest != 0:
        if rest & np.uint64(1):
            found *= square
        square *= square
        rest >>= np.uint64(1)
    return np.int64(found)


@register_jitable
def whole_exponent(n):
    """The exponent of an integer; ValueError for one below zero."""
    if n < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    return n


@register_jitable
def shift_count(n):
    """The number of bits by which Python shifts; ValueError for a number below zero."""
    if n < 0:
        raise ValueError("negative shift count")
    return n


@register_jitable
def power_base(a, b):
    """The base of ``a ** b`` in Python: ZeroDivisionError for zero to a negative power."""
    if a == 0 and b < 0:
        raise ZeroDivisionError("0.0 cannot be raised to a negative power")
    return a


@register_jitable
def int64_of(x):
    """``np.int64`` of a float: the least integer for NaN, and for what is out of range."""
    if -9223372036854775808.0 <= x < 9223372036854775808.0:
        return np.int64(x)
    return np.int64(-9223372036854775808)


@register_jitable
def int32_of(x):
    """``np.int32`` of a float: the least integer for NaN, and for what is out of range."""
    if -2147483648.0 <= x < 2147483648.0:
        return np.int32(x)
    return np.int32(-2147483648)


@register_jitable
def uint64_of(x):
    """``np.uint64`` of a float, as processors have it."""
    if 9223372036854775808.0 <= x < 18446744073709551616.0:
        return np.uint64(x)
    return np.uint64(int64_of(x))


@register_jitable
def python_int(x):
    """``int`` of a float, which 64 bits hold."""
    if x != x:
        raise ValueError("cannot convert float NaN to integer")
    if abs(x) == np.inf:
        raise OverflowError("cannot convert float infinity to integer")
    if not -9223372036854775808.0 <= x < 9223372036854775808.0:
        raise OverflowError("an integer of 64 bits cannot hold a float as large as this")
    return np.int64(x)


@register_jitable
def python_size(x):
    """``int`` of a float that is only compared with sizes, or an index: what is larger is as good.

    9223372036854774784 is the largest float64 that 64 bits hold.
    """
    limit = 9223372036854774784.0
    if abs(x) > limit and abs(x) != np.inf:
        return np.int64(limit if x > 0.0 else -limit)
    return python_int(x)


@register_jitable
def checked_index(index, size):
    """An index counted from the start; IndexError where an axis of this size has no such place."""
    place = np.int64(index)
    if place < 0:
        place += size
    if place < 0 or place >= size:
        raise IndexError("index is out of bounds")
    return place


@register_jitable
def bounded(number, low, high):
    """An integer; OverflowError where it is not between the bounds."""
    if number < low or number > high:
        raise OverflowError("an integer is out of bounds for those of the array")
    return number


@register_jitable
def bounded_unsigned(number, low, high):
    """An unsigned integer, if in bounds; Numba compares it with signed ones as floats."""
    if number > np.uint64(high):
        raise OverflowError("an integer is out of bounds for those of the array")
    return number


@register_jitable
def quotient(a, b):
    """``a // b`` of Python numbers: ZeroDivisionError for zero."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return a // b


@register_jitable
def remainder(a, b):
    """``a % b`` of Python numbers: ZeroDivisionError for zero."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return a % b


@register_jitable
def lshift(a, b):
    """``a << b`` in 64 bits: zero where none is left."""
    return a << b if 0 <= b < 64 else a ^ a


@register_jitable
def rshift(a, b):
    """``a >> b`` in 64 bits: 0 or -1 where none is left."""
    return a >> b if 0 <= b < 64 else (a >> 63) >> 1


@register_jitable
def integer_fmod(a, b):
    """The remainder with the sign of ``a``; by zero it is zero."""
    if b == 0:
        return b
    found = a % b
    return found - b if found != 0 and (found < 0) != (a < 0) else found
