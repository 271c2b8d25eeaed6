"""Brent's method and bisection, step by step as SciPy's, in Python that kernels compile."""

from __future__ import annotations

from typing import Any

import numpy as np

_NOT_A_NUMBER = "The function value is NaN; solver cannot continue."
_NO_ROOT = "f(a) and f(b) must have different signs"


def brent(f: Any, a: Any, b: Any, xtol: Any, rtol: Any, maxiter: Any) -> Any:
    """The root between a and b (Brent, Algorithms for Minimization Without Derivatives, 1973)."""
    before, x, opposite = a * 1.0, b * 1.0, 0.0
    f_before, f_x, f_opposite = f(before) * 1.0, f(x) * 1.0, 0.0
    earlier, step = 0.0, 0.0
    if np.isnan(f_before) or np.isnan(f_x):
        raise ValueError(_NOT_A_NUMBER)
    if f_before == 0.0:
        x, f_x = before, 0.0
    if f_x != 0.0 and np.sign(f_before) == np.sign(f_x):
        raise ValueError(_NO_ROOT)
    searching, count = f_x != 0.0, 0
    while searching and count < maxiter:
        count += 1
        if f_before != 0.0 and f_x != 0.0 and np.sign(f_before) != np.sign(f_x):
            opposite, f_opposite = before, f_before
            earlier = step = x - before
        if abs(f_opposite) < abs(f_x):
            before, x, opposite = x, opposite, x
            f_before, f_x, f_opposite = f_x, f_opposite, f_x
        delta = (xtol + rtol * abs(x)) / 2.0
        half = (opposite - x) / 2.0
        if f_x == 0.0 or abs(half) < delta:
            searching = False
            continue
        interpolated = False
        tried = 0.0
        if abs(earlier) > delta and abs(f_x) < abs(f_before):
            if before == opposite:
                tried = -f_x * (x - before) / (f_x - f_before)
            else:
                slope = (f_before - f_x) / (before - x)
                other = (f_opposite - f_x) / (opposite - x)
                tried = -f_x * (f_opposite * other - f_before * slope)
                tried = tried / (other * slope * (f_opposite - f_before))
            if 2.0 * abs(tried) < min(abs(earlier), 3.0 * abs(half) - delta):
                interpolated = True
                earlier, step = step, tried
        if not interpolated:
            earlier, step = half, half
        before, f_before = x, f_x
        if abs(step) > delta:
            x = x + step
        else:
            x = x + (delta if half > 0.0 else -delta)
        f_x = f(x) * 1.0
        if np.isnan(f_x):
            raise ValueError(_NOT_A_NUMBER)
    if searching:
        raise RuntimeError("Failed to converge: Brent's method needs a larger maxiter")
    return x


def bisection(f: Any, a: Any, b: Any, xtol: Any, rtol: Any, maxiter: Any) -> Any:
    """The root between a and b, by halves."""
    low, f_low = a * 1.0, f(a * 1.0) * 1.0
    high, f_high = b * 1.0, f(b * 1.0) * 1.0
    if np.isnan(f_low) or np.isnan(f_high):
        raise ValueError(_NOT_A_NUMBER)
    root, searching, count = low, f_low != 0.0, 0
    if searching and f_high == 0.0:
        root, searching = high, False
    if searching and np.sign(f_low) == np.sign(f_high):
        raise ValueError(_NO_ROOT)
    width = high - low
    while searching and count < maxiter:
        count += 1
        width = 0.5 * width
        root = low + width
        f_middle = f(root) * 1.0
        if np.isnan(f_middle):
            raise ValueError(_NOT_A_NUMBER)
        if np.sign(f_middle) == np.sign(f_low):
            low = root
        searching = f_middle != 0.0 and abs(width) >= xtol + rtol * abs(root)
    if searching:
        raise RuntimeError("Failed to converge: bisection needs a larger maxiter")
    return root
