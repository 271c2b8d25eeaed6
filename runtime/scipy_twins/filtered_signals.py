"""Signals of ``scipy.signal``: its own Python is read; these are what has no plain Python."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import read_source, twin
from calque.transpiler.frontend.library.twin_questions import (
    known_count,
    known_numbers,
    read_by_python,
)

read_source(
    "scipy.signal",
    *("filtfilt", "hilbert", "resample", "resample_poly", "decimate"),
    *("freqz", "sosfreqz", "freqz_sos", "firwin"),
    *("chirp", "gausspulse", "cheby1", "gauss_spline", "sweep_poly"),
    *("lombscargle", "freqs", "lfiltic"),
)
# what SciPy writes in loops over the data, and cuts where sizes tell
read_source(
    "scipy.signal",
    *("savgol_filter", "savgol_coeffs", "hilbert2", "envelope", "deconvolve", "dlsim", "lsim"),
    sized=True,
)


@twin("scipy.signal", "medfilt")
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    """The median of each element's neighbours, zeros beyond the ends."""
    volume = np.atleast_1d(np.asarray(volume))
    if volume.dtype.kind in "bc":
        raise ValueError(f"dtype={volume.dtype} is not supported by medfilt")
    sizes = _sizes(kernel_size, volume.ndim)
    for size in sizes:
        if size % 2 != 1:
            raise ValueError("Each element of kernel_size should be odd.")
    padded = np.pad(volume, [(size // 2, size // 2) for size in sizes])
    windows = np.lib.stride_tricks.sliding_window_view(padded, sizes)
    flat = np.reshape(windows, (*volume.shape, -1))
    return np.sort(flat, axis=-1)[..., flat.shape[-1] // 2]


def _sizes(kernel_size: Any, count: int) -> tuple[int, ...]:
    if kernel_size is None:
        return (3,) * count
    if isinstance(kernel_size, int):
        return (kernel_size,) * count
    return tuple(int(size) for size in kernel_size) * (count if len(kernel_size) == 1 else 1)


@twin("scipy.signal", "wiener")
def wiener(im: Any, mysize: Any = None, noise: Any = None) -> Any:
    """The local mean, and of what is beyond it the part that the noise's power leaves."""
    from scipy import signal

    im = np.asarray(im)
    near = np.ones(_sizes(mysize, im.ndim))
    mean = signal.correlate(im, near, "same") / near.size
    power = signal.correlate(im**2, near, "same") / near.size - mean**2
    if noise is None:
        noise = np.mean(power)
    return np.where(power < noise, mean, (im - mean) * (1 - noise / power) + mean)


@twin("scipy.signal", "medfilt2d")
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    """The median of each element's neighbours in a plane, zeros beyond the ends."""
    x = np.asarray(input)
    if x.dtype not in (np.uint8, np.float32, np.float64):
        raise TypeError("medfilt2d takes arrays of uint8, float32 or float64")
    if x.ndim != 2:
        raise ValueError("object too deep for desired array")
    return medfilt(x, kernel_size)


@twin("scipy.signal", "order_filter")
def order_filter(a: Any, domain: Any, rank: int) -> Any:
    """The neighbour of a rank, zeros beyond the ends."""
    from scipy import ndimage

    a, domain = np.asarray(a), np.asarray(domain)
    for size in domain.shape:
        if size % 2 != 1:
            raise ValueError(
                "Each dimension of domain argument should have an odd number of elements."
            )
    if a.dtype.kind not in "iuf":
        raise ValueError(f"dtype={a.dtype} is not supported by order_filter")
    return ndimage.rank_filter(a, rank, footprint=domain, mode="constant")


@twin("scipy.signal", "sawtooth")
def sawtooth(t: Any, width: Any = 1) -> Any:
    """A wave that rises from -1 to 1 in the part ``width`` of a period, and falls in the rest."""
    t, width = _wave(t, width)
    place = np.mod(t, 2 * np.pi)
    rises = place < width * 2 * np.pi
    up = place / np.where(rises, np.pi * width, 1.0) - 1
    down = (np.pi * (width + 1) - place) / np.where(rises, 1.0, np.pi * (1 - width))
    return np.where((width > 1) | (width < 0), np.nan, np.where(rises, up, down))


@twin("scipy.signal", "square")
def square(t: Any, duty: Any = 0.5) -> Any:
    """A wave that is 1 in the part ``duty`` of a period, and -1 in the rest."""
    t, width = _wave(t, duty)
    high = np.mod(t, 2 * np.pi) < width * 2 * np.pi
    return np.where((width > 1) | (width < 0), np.nan, np.where(high, 1.0, -1.0))


def _wave(t: Any, width: Any) -> tuple[Any, Any]:
    """The places and the width, of float64 where the places are no smaller floats."""
    t, width = np.asarray(t), np.asarray(width)
    dtype = t.dtype if t.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    return t.astype(dtype), width.astype(dtype)


@twin("scipy.signal", "upfirdn")
def upfirdn(
    h: Any,
    x: Any,
    up: int = 1,
    down: int = 1,
    axis: int = -1,
    mode: str = "constant",
    cval: Any = 0,
) -> Any:
    """Zeros between the elements, a filter, and one of ``down`` elements."""
    import scipy.signal

    h, x = np.asarray(h), np.asarray(x)
    if h.ndim != 1 or h.size == 0:
        raise ValueError("h must be 1-D with non-zero length")
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    if mode not in (None, "constant") or cval != 0:
        raise ValueError(
            "upfirdn of a run-time value continues it with zeros only: mode='constant'"
        )
    x = np.moveaxis(x, axis, -1)
    n = x.shape[-1]
    spread = np.concatenate([x[..., None], np.zeros((*x.shape, up - 1), x.dtype)], axis=-1)
    spread = np.reshape(spread, (*x.shape[:-1], n * up))[..., : (n - 1) * up + 1]
    after = np.zeros((*x.shape[:-1], h.shape[0] - 1), x.dtype)
    found = scipy.signal.lfilter(h, np.ones(1), np.concatenate([spread, after], axis=-1))
    return np.moveaxis(found[..., ::down], -1, axis)


@twin("scipy.signal", "detrend")
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """The data less their mean, or less the line of least squares in each part."""
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    data = np.asarray(data)
    if data.dtype.kind not in "fc":
        data = data.astype(np.float64)
    if type in ("constant", "c"):
        return data - np.mean(data, axis=axis, keepdims=True)
    data = np.moveaxis(data, axis, -1)
    count = data.shape[-1]
    breaks = sorted({bp} - {0}) if isinstance(bp, int) else sorted({int(k) for k in bp} - {0})
    if breaks and breaks[-1] > count:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = [_less_line(data[..., i:j]) for i, j in pairwise([0, *breaks, count])]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, axis)


def _less_line(part: Any) -> Any:
    """The part less its line of least squares."""
    count = part.shape[-1]
    place = np.arange(count) - (count - 1.0) / 2.0
    size = np.sum(place * place)
    slope = np.sum(part * place, axis=-1, keepdims=True) / np.where(size > 0, size, 1.0)
    return (part - np.mean(part, axis=-1, keepdims=True) - slope * place).astype(part.dtype)


@twin("scipy.signal", "sosfilt")
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """One recurrence of two steps after the other."""
    from scipy import signal

    x, sos = np.asarray(x), np.atleast_2d(np.asarray(sos))
    if x.ndim == 0:
        raise ValueError("x must be at least 1-D")
    if sos.ndim != 2:
        raise ValueError("sos array must be 2D")
    sections = known_count(sos.shape[0], "The number of sections of a filter")
    if sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if not np.all(sos[:, 3] == 1):
        raise ValueError("sos[:, 3] should be all ones")
    if zi is None:
        for k in range(sections):
            x = signal.lfilter(sos[k, :3], sos[k, 3:], x, axis)
        return x
    zi, ends = np.asarray(zi), []
    if zi.ndim != x.ndim + 1 or zi.shape[0] != sections:
        raise ValueError("Invalid zi shape: a stack of the states of each section is wanted")
    for k in range(sections):
        x, end = signal.lfilter(sos[k, :3], sos[k, 3:], x, axis, zi[k])
        ends.append(end)
    return x, np.stack(ends)


def _zeros_of(sos: Any) -> Any:
    """The number of coefficients that sections lack on both sides."""
    return np.minimum(np.sum(sos[:, 2] == 0), np.sum(sos[:, 5] == 0))


@read_by_python
def _shared_zeros(sos: Any) -> int:
    return int(_zeros_of(np.asarray(sos)))


@twin("scipy.signal", "sosfiltfilt")
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    """The sections forth and back, over a signal that is continued at both ends."""
    from scipy.signal import _signaltools

    x, sos = np.asarray(x), np.atleast_2d(np.asarray(sos))
    sections = known_count(sos.shape[0], "The number of sections of a filter")
    given = known_numbers(sos)
    none = _shared_zeros(given) if given is not None else _zeros_of(sos)
    taps = 2 * sections + 1 - none
    edge, whole = _signaltools._validate_pad(padtype, padlen, x, axis, ntaps=taps)
    shape = [1] * x.ndim
    shape[axis] = 2
    states = np.reshape(sosfilt_zi(sos), (sections, *shape))
    for _ in range(2):
        first = _signaltools.axis_slice(whole, stop=1, axis=axis)
        whole = np.flip(sosfilt(sos, whole, axis, states * first)[0], axis)
    if edge > 0:
        return _signaltools.axis_slice(whole, start=edge, stop=-edge, axis=axis)
    return whole


@twin("scipy.signal", "lfilter_zi")
def lfilter_zi(b: Any, a: Any) -> Any:
    """The state of ``lfilter`` after a constant input of one, when nothing changes any more.

    SciPy solves the system of the companion matrix, whose solution is a running sum.
    """
    b, a = np.atleast_1d(np.asarray(b)), np.atleast_1d(np.asarray(a))
    if b.ndim != 1:
        raise ValueError("Numerator b must be 1-D.")
    if a.ndim != 1:
        raise ValueError("Denominator a must be 1-D.")
    if a[0] == 0:
        raise ValueError("lfilter_zi: leave out the zeros that the denominator begins with")
    count = max(a.shape[0], b.shape[0])
    if count > 1 and np.sum(a) == 0:
        raise np.linalg.LinAlgError("Singular matrix")
    b, a = b / a[0], a / a[0]
    b = np.concatenate([b, np.zeros(count - b.shape[0], b.dtype)])
    a = np.concatenate([a, np.zeros(count - a.shape[0], a.dtype)])
    level = np.sum(b) / np.sum(a)
    return np.cumsum((b - a * level)[::-1])[::-1][1:]


@twin("scipy.signal", "sosfilt_zi")
def sosfilt_zi(sos: Any) -> Any:
    """The states of ``sosfilt`` after a constant input of one, when nothing changes any more."""
    sos = np.asarray(sos)
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError("sos must be shape (n_sections, 6)")
    states, level = [], 1.0
    for section in range(sos.shape[0]):
        b, a = sos[section, :3], sos[section, 3:]
        states.append(level * lfilter_zi(b, a))
        level = level * (np.sum(b) / np.sum(a))
    return np.stack(states)
