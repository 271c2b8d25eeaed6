"""Convolutions and filters of ``scipy.signal``: value, dtype, derivatives, batches, options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check, check_value, data

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


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    check(*CONVOLUTIONS[name], second=False)


@pytest.mark.parametrize("name", BOUNDARIES)
def test_boundaries(name: str) -> None:
    check_value(*BOUNDARIES[name])


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name: str) -> None:
    check(*FILTERS[name], atol=1e-12)
