"""Convolutions and filters of ``scipy.signal``: value, dtype, derivatives, batches, options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check, check_batch, check_derivatives, check_value, data

import calque

signal = pytest.importorskip("scipy.signal")

# the options of each case are captured numbers
pytestmark = pytest.mark.filterwarnings("ignore:.*is generated anew")
MODES = ("full", "same", "valid")


def _of(name: str, **options: Any) -> Callable[..., Any]:
    return lambda *args: getattr(signal, name)(*args, **options)


CONVOLUTIONS = (
    {
        f"{name} {mode}": (_of(name, mode=mode), data(4, 5), data(2, 3))
        for name in (
            "convolve",
            "fftconvolve",
            "oaconvolve",
            "correlate",
            "convolve2d",
            "correlate2d",
        )
        for mode in MODES
    }
    | {
        f"{name} {mode} of vectors": (_of(name, mode=mode), data(7), data(4))
        for name in ("convolve", "fftconvolve", "correlate")
        for mode in MODES
    }
    | {
        "second is wider": (_of("convolve", mode="valid"), data(3), data(8)),
        "second is wider, same": (_of("correlate", mode="same"), data(3), data(8)),
        "along one axis": (_of("fftconvolve", axes=1), data(4, 6), data(4, 3)),
        "broadcast": (_of("fftconvolve", axes=1), data(4, 6), data(1, 3)),
    }
)
BOUNDARIES = {
    f"{name} {mode} {boundary} {size}": (
        _of(name, mode=mode, boundary=boundary),
        data(4, 5),
        data(size, size + 1),
    )
    for name in ("convolve2d", "correlate2d")
    for mode in MODES
    for boundary in ("fill", "wrap", "symm")
    for size in (2, 3)
} | {"fillvalue": (_of("convolve2d", fillvalue=1.5), data(4, 5), data(2, 2))}
SIGNAL = data(40)
A = np.array([2.0, -0.6, 0.3])
ROWS, STATES = data(3, 8), data(3, 3)
SOS = np.array([[0.2, 0.3, 0.1, 1.0, -0.5, 0.2], [1.0, 0.2, 0.4, 1.0, 0.1, 0.3]])
FILTERS = {
    "lfilter": (lambda b, a, x: signal.lfilter(b, a, x), data(4), A, data(9)),
    "lfilter of rows": (lambda b, a, x: signal.lfilter(b, a, x), data(2), A, ROWS),
    "lfilter along an axis": (lambda b, x: signal.lfilter(b, A, x, axis=0), data(3), data(9, 2)),
    "moving average": (lambda b, x: signal.lfilter(b, [2.0], x), data(3), ROWS),
    "lfilter of constants": (lambda x: signal.lfilter([1.0, 0.5], [1.0, -0.5], x), data(9)),
    "from a state": (
        lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi)[0],
        data(4),
        A,
        ROWS,
        STATES,
    ),
    "its last state": (
        lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi)[1],
        data(4),
        A,
        ROWS,
        STATES,
    ),
    "short, from a state": (lambda x, z: signal.lfilter([1.0], A, x, zi=z)[1], data(1), data(2)),
    "sosfilt": (lambda x: signal.sosfilt(SOS, x), ROWS),
    "sosfilt from a state": (
        lambda x, z: signal.sosfilt(SOS, x, axis=0, zi=z)[0],
        data(5, 2),
        data(2, 2, 2),
    ),
    "sosfilt by its sections": (
        lambda s, x: signal.sosfilt(np.concatenate([s, SOS[:, 3:]], 1), x),
        SOS[:, :3],
        ROWS,
    ),
}
B2, A2 = signal.butter(2, 0.3)
READ = {
    "filtfilt": lambda x: signal.filtfilt(B2, A2, x),
    "sosfiltfilt": lambda x: signal.sosfiltfilt(SOS, x, padlen=5),
    "detrend": lambda x: signal.detrend(x),
    "detrend parts": lambda x: signal.detrend(x, bp=[10]),
    "detrend constant": lambda x: signal.detrend(x, type="constant"),
    "hilbert": lambda x: np.abs(signal.hilbert(x)),
    "resample": lambda x: signal.resample(x, 21),
    "resample_poly": lambda x: signal.resample_poly(x, 3, 2),
    "decimate": lambda x: signal.decimate(x, 2),
    "upfirdn": lambda x: signal.upfirdn([0.5, 1.0, 0.3], x, 3, 2),
    "wiener": lambda x: signal.wiener(x, 5),
    "medfilt": lambda x: signal.medfilt(x, 5),
    "freqz": lambda x: np.abs(signal.freqz(x[:3], x[3:6], 8)[1]),
    "chirp": lambda x: signal.chirp(x, x[0], 2.0, x[1]),
    "gausspulse": lambda x: signal.gausspulse(x, 3.0),
    "sawtooth": lambda x: signal.sawtooth(x, 0.3) * x,
    "square": lambda x: signal.square(3.0 * x) * x,
    "lfilter_zi": lambda x: signal.lfilter_zi(x[:4], np.array([2.0, -0.6, 0.3])),
    "sosfilt_zi": lambda x: x[0] * signal.sosfilt_zi(SOS),
    "window of the data's size": lambda x: x * signal.get_window("hamming", x.size),
}


@pytest.mark.parametrize("name", READ)
def test_functions_that_are_read(name: str) -> None:
    check_value(READ[name], SIGNAL, atol=1e-12)
    check_derivatives(READ[name], SIGNAL, second=False)
    check_batch(READ[name], SIGNAL, atol=1e-12)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    check(*CONVOLUTIONS[name], second=False)


@pytest.mark.parametrize("name", BOUNDARIES)
def test_boundaries(name: str) -> None:
    check_value(*BOUNDARIES[name])


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name: str) -> None:
    check(*FILTERS[name], atol=1e-12)


@pytest.mark.parametrize("name", ["filter", "short filter", "sections", "rows", "columns"])
def test_states_of_other_sizes_raise_as_in_scipy(name: str) -> None:
    f, given = {
        "filter": (lambda x, z: signal.lfilter([1.0, 0.5], A, x, zi=z), data(3)),
        "short filter": (lambda x, z: signal.lfilter([1.0, 0.5], A, x, zi=z), data(1)),
        "sections": (lambda x, z: signal.sosfilt(SOS, x, zi=z), data(3, 2)),
        "rows": (lambda x, z: signal.sosfilt(SOS, x, zi=z), data(2)),
        "columns": (lambda x, z: signal.sosfilt(SOS[:, :5], x, zi=z), data(2, 2)),
    }[name]
    for g in (f, calque.jit(f)):
        with pytest.raises(ValueError, match=r"zi|shape|size|dimension|fit"):
            g(data(6), given)


def test_medians_are_of_real_numbers() -> None:
    for x in (SIGNAL > 0, SIGNAL * 1j):
        for g in (signal.medfilt, calque.jit(lambda x: signal.medfilt(x, 3))):
            with pytest.raises(ValueError, match="not supported"):
                g(x)


def test_malformed_filters_raise_as_in_scipy() -> None:
    sections = SOS.copy()
    sections[1, 3] = 2.0
    for f, given, error in (
        (lambda s: signal.sosfilt(s, ROWS), sections, ValueError),
        (lambda x: signal.sosfilt(sections, x), ROWS, ValueError),
        (lambda a: signal.lfilter_zi([1.0, 2.0], a), np.array([1.0, -0.5, -0.5]), np.linalg.LinAlgError),
    ):
        for g in (f, calque.jit(f)):
            with pytest.raises(error):
                g(given)
