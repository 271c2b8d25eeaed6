"""Spectra, smoothing polynomials and systems of ``scipy.signal``, with their options."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from signal_checks import check_batch, check_derivatives, check_value, data

import calque

signal = pytest.importorskip("scipy.signal")

# the options of each case are captured numbers
pytestmark = pytest.mark.filterwarnings("ignore:.*is generated anew")
ONE, TWO, ROWS = data(40), data(33), data(3, 24)
WINDOW = np.hanning(8) + 0.1


def _of(name: str, place: int | None, *given: Any, **options: Any) -> Callable[..., Any]:
    """A function of SciPy with options; one of its results."""

    def f(*args: Any) -> Any:
        found = getattr(signal, name)(*args, *given, **options)
        return found if place is None else found[place]

    return f


def _size(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: np.abs(f(*args))


PARTS = {"nperseg": 8, "fs": 2.0}
SPECTRA: dict[str, tuple[Any, ...]] = {
    "welch": (_of("welch", 1, **PARTS), ONE),
    "its frequencies": (_of("welch", 0, **PARTS), ONE),
    "welch of rows": (_of("welch", 1, nperseg=9, noverlap=2), ROWS),
    "welch along an axis": (_of("welch", 1, nperseg=8, axis=0), data(24, 2)),
    "welch by medians": (_of("welch", 1, average="median", **PARTS), ONE),
    "welch of both sides": (_of("welch", 1, return_onesided=False, **PARTS), ONE),
    "welch as amplitudes": (_of("welch", 1, scaling="spectrum", detrend=False, **PARTS), ONE),
    "welch less lines": (_of("welch", 1, detrend="linear", **PARTS), ONE),
    "welch by a window": (_of("welch", 1, window=WINDOW), ONE),
    "welch by a named window": (_of("welch", 1, window=("kaiser", 4.0), **PARTS), ONE),
    "welch of more places": (_of("welch", 1, nfft=11, **PARTS), ONE),
    "welch of all": (_of("welch", 1), ONE),
    "periodogram": (_of("periodogram", 1), ONE),
    "periodogram of more places": (_of("periodogram", 1, nfft=50, window="hamming"), ONE),
    "periodogram of fewer": (_of("periodogram", 1, nfft=21), ROWS),
    "csd": (_size(_of("csd", 1, **PARTS)), ONE, data(40)[::-1].copy()),
    "csd of two lengths": (_size(_of("csd", 1, **PARTS)), ONE, TWO),
    "csd by medians": (_size(_of("csd", 1, average="median", **PARTS)), ONE, TWO),
    "csd of rows": (_size(_of("csd", 1, nperseg=8)), ROWS, ROWS[:1] ** 2),
    "coherence": (_of("coherence", 1, **PARTS), ONE, TWO),
    "spectrogram": (_of("spectrogram", 2, **PARTS), ONE),
    "its times": (_of("spectrogram", 1, **PARTS), ONE),
    "its sizes": (_of("spectrogram", 2, mode="magnitude", **PARTS), ONE),
    "its phases": (_of("spectrogram", 2, mode="phase", **PARTS), ONE),
    "stft": (_size(_of("stft", 2, **PARTS)), ONE),
    "stft of rows": (_size(_of("stft", 2, nperseg=9, axis=0)), data(20, 2)),
    "stft within": (_size(_of("stft", 2, boundary=None, padded=False, **PARTS)), ONE),
    "stft beyond": (_size(_of("stft", 2, boundary="odd", scaling="psd", **PARTS)), ONE),
    "istft": (
        lambda x: signal.istft(signal.stft(x, nperseg=8)[2] ** 2, nperseg=8)[1],
        ONE,
    ),
    "istft of both sides": (
        lambda x: np.abs(signal.istft(x * (1.0 + 1.0j), input_onesided=False)[1]),
        data(8, 6),
    ),
}
SMOOTHED: dict[str, tuple[Any, ...]] = {
    f"savgol_filter {mode}": (_of("savgol_filter", None, 7, 3, mode=mode, cval=0.5), ONE)
    for mode in ("interp", "mirror", "nearest", "wrap", "constant")
} | {
    "slopes": (_of("savgol_filter", None, 5, 2, deriv=1, delta=0.3, axis=0), data(9, 2)),
    "even": (_of("savgol_filter", None, 6, 2, mode="nearest"), ROWS),
    "hilbert2": (_size(_of("hilbert2", None)), data(4, 5)),
    "deconvolve": (_of("deconvolve", 0), data(9), np.array([2.0, 0.5, 0.3])),
    "the rest": (_of("deconvolve", 1), data(9), np.array([2.0, 0.5, 0.3])),
    "lsim": (lambda u: signal.lsim(([1.0], [1.0, 0.5, 2.0]), u, np.arange(9) * 0.1)[1], data(9)),
    "dlsim": (lambda u: signal.dlsim(([1.0], [1.0, 0.5], 0.1), u)[1], data(9)),
    "freqs": (lambda x: np.abs(signal.freqs(x[:3], x[3:], [0.5, 2.0])[1]), data(6)),
    "lfiltic": (lambda y: signal.lfiltic([1.0, 0.5], [1.0, -0.5, 0.2], y), data(2)),
    "gauss_spline": (_of("gauss_spline", None, 3), data(9)),
}
# not there, or not in Python, in older versions of SciPy
if hasattr(signal, "envelope"):
    SMOOTHED["lombscargle"] = (
        lambda t, y: signal.lombscargle(np.sort(t), y, [0.5, 1.3]),
        *(data(9), data(9) ** 2),
    )
    SMOOTHED["envelope"] = (_of("envelope", None), data(12))


@pytest.mark.filterwarnings("ignore:.*nperseg")
@pytest.mark.parametrize("name", [*SPECTRA, *SMOOTHED])
def test_signals(name: str) -> None:
    f, *args = {**SPECTRA, **SMOOTHED}[name]
    check_value(f, *args, atol=1e-12)
    if name.startswith("its ") and name != "its sizes":
        return
    check_batch(f, *args, atol=1e-11)
    check_derivatives(f, *args, second=name in ("welch", "coherence", "slopes"))


@pytest.mark.parametrize("name", ["welch", "csd", "savgol_filter", "stft"])
def test_dtypes(name: str) -> None:
    options = {"savgol_filter": {"window_length": 5, "polyorder": 2}}.get(name, {"nperseg": 8})
    for x in (ONE.astype("f4"), (9 * ONE).astype(int), ONE * (1.0 + 0.5j)):
        if name == "savgol_filter" and x.dtype.kind == "c":
            continue
        given = (x, x[::-1].copy()) if name == "csd" else (x,)
        place = {"welch": 1, "csd": 1, "stft": 2}.get(name)
        f = _of(name, place, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, wanted = calque.jit(f)(*given), f(*given)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_wrong_options_raise_as_in_scipy() -> None:
    for f in (
        _of("welch", 1, nperseg=8, noverlap=8),
        _of("welch", 1, average="mode", nperseg=8),
        _of("welch", 1, nperseg=8, nfft=4),
        _of("spectrogram", 2, mode="all"),
        _of("stft", 2, boundary="none", nperseg=8),
        _of("savgol_filter", None, 3, 3),
        _of("savgol_filter", None, 41, 3),
        _of("savgol_filter", None, 3, 1, mode="even"),
    ):
        with pytest.raises(ValueError):
            f(ONE)
        with pytest.raises(ValueError):
            calque.jit(f)(ONE)


def test_twins_are_known_through_a_link_to_the_checkout(tmp_path):
    checkout = Path(calque.__file__).parent
    (tmp_path / "calque").symlink_to(checkout, target_is_directory=True)
    (tmp_path / "program.py").write_text(
        "import numpy as np, calque\nfrom scipy import signal\n"
        "def power(x):\n    return np.sum(signal.welch(x, nperseg=8)[1])\n"
        "print(calque.__file__)\nprint(calque.grad(power)(np.arange(16.0)).shape)\n"
    )
    told = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    assert told[0].startswith(str(tmp_path)) and told[1] == "(16,)"
