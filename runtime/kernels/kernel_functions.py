"""The functions that kernels call on numbers: NumPy's meaning, for Numba and as Python."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core.types import Float, Integer, float64, int64, uint64, unsigned_domain
from numba.extending import intrinsic, overload, register_jitable


def maximum(a, b):
    """The larger number; NaN if one is NaN."""
    return np.maximum(a, b)


def minimum(a, b):
    """The smaller number; NaN if one is NaN."""
    return np.minimum(a, b)


def clipped(x, low, high):
    """A float between known bounds; what is equal to one stays, with its sign of zero."""
    return low if x < low else high if x > high else x


@overload(clipped)
def _clipped(x, low, high):
    kind = x
    return lambda x, low, high: kind(low) if x < low else kind(high) if x > high else x


def heaviside(x, middle):
    """1 right of zero, 0 left of it, ``middle`` at it."""
    return np.heaviside(x, middle)


@overload(heaviside)
def _heaviside(x, middle):
    kind = x if isinstance(x, Float) else float64
    return lambda x, middle: (
        kind(0) if x < 0 else kind(1) if x > 0 else kind(middle) if x == 0 else kind(x)
    )


def sign(x):
    """-1, 0 or 1; NaN for NaN."""
    return np.sign(x)


@overload(sign)
def _sign(x):
    kind = x
    if x in unsigned_domain:
        return lambda x: kind(1) if x else kind(0)
    if isinstance(x, Float):
        return lambda x: kind(1) if x > 0 else kind(-1) if x < 0 else kind(0) if x == 0 else x
    return lambda x: np.sign(x)


def _extremum(name):
    @intrinsic
    def found(typingctx, a, b):
        def code(context, builder, signature, args):
            kind = args[0].type
            two = ir.FunctionType(kind, [kind, kind])
            function = builder.module.declare_intrinsic(f"llvm.{name}", [kind], two)
            return builder.call(function, args)

        return a(a, b), code

    return found


_largest, _smallest = _extremum("maximum"), _extremum("minimum")


@overload(maximum)
def _maximum(a, b):
    if isinstance(a, Float) and a == b:
        return lambda a, b: _largest(a, b)
    if isinstance(a, Integer) and isinstance(b, Integer):
        return lambda a, b: a if a > b else b
    return lambda a, b: np.maximum(a, b)


@overload(minimum)
def _minimum(a, b):
    if isinstance(a, Float) and a == b:
        return lambda a, b: _smallest(a, b)
    if isinstance(a, Integer) and isinstance(b, Integer):
        return lambda a, b: a if a < b else b
    return lambda a, b: np.minimum(a, b)


def checked_index(index, size):
    """An index counted from the start; IndexError where an axis of this size has no such place."""
    place = int(index)  # of a narrow dtype the sum may be out of range
    if not -size <= place < size:
        raise IndexError("index is out of bounds")
    return place + size if place < 0 else place


@overload(checked_index)
def _checked_index(index, size):
    def counted(index, size):
        place = np.int64(index)
        if place < 0:
            place += size
        if place < 0 or place >= size:
            raise IndexError("index is out of bounds")
        return place

    return counted


def bounded(number, low, high):
    """An integer; OverflowError where it is not between the bounds."""
    if number < low or number > high:
        raise OverflowError("an integer is out of bounds for those of the array")
    return number


@overload(bounded)
def _bounded(number, low, high):
    if number in unsigned_domain:
        # Numba compares what has no sign with what has one as floats

        def below(number, low, high):
            if number > np.uint64(high):
                raise OverflowError("an integer is out of bounds for those of the array")
            return number

        return below
    return bounded


def running_sum(x):
    """``np.cumsum`` of a vector; the first is its first element, whatever its sign."""
    return np.cumsum(x)


@overload(running_sum)
def _running_sum(x):
    def sums(x):
        found = x.copy()
        for k in range(1, x.size):
            found[k] += found[k - 1]
        return found

    return sums


def running_max(x):
    """``np.maximum.accumulate`` of a vector: NaN from the first one on."""
    return np.maximum.accumulate(x)


@overload(running_max)
def _running_max(x):
    def largest(x):
        found = x.copy()
        for k in range(1, x.size):
            found[k] = maximum(found[k - 1], found[k])
        return found

    return largest


def running_min(x):
    """``np.minimum.accumulate`` of a vector: NaN from the first one on."""
    return np.minimum.accumulate(x)


@overload(running_min)
def _running_min(x):
    def smallest(x):
        found = x.copy()
        for k in range(1, x.size):
            found[k] = minimum(found[k - 1], found[k])
        return found

    return smallest


def array_median(x):
    """The median of a vector; NaN if one is NaN, or there is none."""
    return np.median(x)


@overload(array_median)
def _array_median(x):
    def middle(x):
        found = np.sort(x)
        half = x.size // 2
        if x.size == 0 or np.isnan(found[-1]):
            return np.nan
        return found[half] * 1.0 if x.size % 2 else (found[half - 1] + found[half]) * 0.5

    return middle


def array_quantile(x, q):
    """The number of which a part ``q`` of a vector's are smaller; NaN if one is NaN."""
    return np.quantile(x, q)


@overload(array_quantile)
def _array_quantile(x, q):
    def between(x, q):
        if not 0.0 <= q <= 1.0:
            raise ValueError("Quantiles must be in the range [0, 1]")
        if x.size == 0:
            raise IndexError("index -1 is out of bounds for axis 0 with size 0")
        found = np.sort(x)
        if np.isnan(found[-1]):
            return np.nan
        place = q * (x.size - 1)
        below = int(place)
        above = min(below + 1, x.size - 1)
        part, step = place - below, found[above] - found[below]
        return found[below] + step * part if part < 0.5 else found[above] - step * (1.0 - part)

    return between


def array_max(x):
    """The largest number of a vector; NaN if one is NaN."""
    return np.max(x)


@overload(array_max)
def _array_max(x):
    def largest(x):
        if x.size == 0:
            raise ValueError("zero-size array to reduction operation maximum")
        found = x[0]
        for k in range(1, x.size):
            found = maximum(found, x[k])
        return found

    return largest


def array_min(x):
    """The smallest number of a vector; NaN if one is NaN."""
    return np.min(x)


@overload(array_min)
def _array_min(x):
    def smallest(x):
        if x.size == 0:
            raise ValueError("zero-size array to reduction operation minimum")
        found = x[0]
        for k in range(1, x.size):
            found = minimum(found, x[k])
        return found

    return smallest


def searchsorted_left(a, v):
    """The number of elements of a sorted array less than ``v``; NaN is the largest number."""
    return np.searchsorted(a, v)


@overload(searchsorted_left)
def _searchsorted_left(a, v):
    return lambda a, v: _place(a, v, False)


def searchsorted_right(a, v):
    """The number of elements of a sorted array at most ``v``; NaN is the largest number."""
    return np.searchsorted(a, v, side="right")


@overload(searchsorted_right)
def _searchsorted_right(a, v):
    return lambda a, v: _place(a, v, True)


@register_jitable
def _place(a, v, right):
    """First where ``v`` is if elements are evenly spaced; else by halving what is left."""
    last = a.size - 1
    if last > 0:
        start = np.float64(a[0])
        even = (v - start) / (a[last] - start) * last
        if 0.0 <= even < last:
            k = int(even)
            if (a[k] <= v < a[k + 1]) if right else (a[k] < v <= a[k + 1]):
                return k + 1
    first, size = 0, a.size
    while size > 0:
        half = size // 2
        x = a[first + half]
        if (v != v and (right or x == x)) or (x <= v if right else x < v):
            first += half + 1
            size -= half + 1
        else:
            size = half
    return first


def divide(a, b):
    """``a / b`` of Python numbers: ZeroDivisionError for zero."""
    return _checked(a, b) / b


def _checked(a, b):
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return a


@overload(divide)
def _divide(a, b):
    def divided(a, b):
        if b == 0:
            raise ZeroDivisionError("division by zero")
        return a / b

    return divided


def quotient(a, b):
    """``a // b`` of Python numbers: ZeroDivisionError for zero."""
    return _checked(a, b) // b


@overload(quotient)
def _quotient(a, b):
    def divided(a, b):
        if b == 0:
            raise ZeroDivisionError("division by zero")
        return a // b

    return divided


def remainder(a, b):
    """``a % b`` of Python numbers: ZeroDivisionError for zero."""
    return _checked(a, b) % b


@overload(remainder)
def _remainder(a, b):
    def divided(a, b):
        if b == 0:
            raise ZeroDivisionError("division by zero")
        return a % b

    return divided


def whole_exponent(n):
    """The exponent of an integer; ValueError for one below zero."""
    if n < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    return n


@overload(whole_exponent)
def _whole_exponent(n):
    return whole_exponent


def shift_count(n):
    """The number of bits by which Python shifts; ValueError for a number below zero."""
    if n < 0:
        raise ValueError("negative shift count")
    return n


@overload(shift_count)
def _shift_count(n):
    return shift_count


def power_base(a, b):
    """The base of ``a ** b`` in Python: ZeroDivisionError for zero to a negative power."""
    if a == 0 and b < 0:
        raise ZeroDivisionError("0.0 cannot be raised to a negative power")
    return a


@overload(power_base)
def _power_base(a, b):
    return power_base


def integer_power(a, n):
    """``a ** n`` of integers, for n from 0 on, modulo 2 to the number of bits."""
    return np.power(a, n)


@overload(integer_power)
def _integer_power(a, n):
    kind = uint64 if uint64 in (a, n) else int64

    def by_squares(a, n):
        found, square, rest = kind(1), kind(a), uint64(n)
        while rest != 0:
            if rest & uint64(1):
                found *= square
            square *= square
            rest >>= uint64(1)
        return found

    return by_squares


def lshift(a, b):
    """``a << b``: zero where no bit is left."""
    return np.left_shift(a, b)


@overload(lshift)
def _lshift(a, b):
    width = a.bitwidth
    return lambda a, b: a << b if 0 <= b < width else a ^ a


def rshift(a, b):
    """``a >> b``: 0 or -1 where no bit is left."""
    return np.right_shift(a, b)


@overload(rshift)
def _rshift(a, b):
    width = a.bitwidth
    if a in unsigned_domain:
        return lambda a, b: a >> b if 0 <= b < width else a ^ a
    return lambda a, b: a >> (b if 0 <= b < width else width - 1)


def fmod(a, b):
    """The remainder with the sign of ``a``; of integers by zero it is zero."""
    return np.fmod(a, b)


@overload(fmod)
def _fmod(a, b):
    if not isinstance(a, Integer):
        return lambda a, b: np.fmod(a, b)

    def remaining(a, b):
        if b == 0:
            return b
        found = a % b
        return found - b if found != 0 and (found < 0) != (a < 0) else found

    return remaining
