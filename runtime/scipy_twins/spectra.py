"""Spectra of signals by Fourier transforms of their parts, as ``scipy.signal`` has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import read_source, twin

read_source(
    "scipy.signal",
    *("periodogram", "welch", "coherence", "spectrogram", "stft", "istft"),
    sized=True,
)


@twin("scipy.signal._spectral_py", "_fft_helper")
def transforms_of_parts(
    x: Any,
    win: Any,
    detrend_func: Callable[[Any], Any],
    nperseg: int,
    noverlap: int,
    nfft: int,
    sides: str,
) -> Any:
    """The Fourier transforms of parts of signals, less their trends and times a window."""
    from scipy import fft

    parts = np.lib.stride_tricks.sliding_window_view(x, nperseg, axis=-1)
    found = win * detrend_func(parts[..., :: nperseg - noverlap, :])
    return fft.fft(found, nfft) if sides == "twosided" else fft.rfft(np.real(found), nfft)


@twin("scipy.signal", "csd", sized=True)
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The cross spectral density: the mean, or the median, of products of transforms of parts.

    P. D. Welch, "The use of the fast Fourier transform for the estimation of power spectra", IEEE
    Trans. Audio Electroacoust. 15 (1967) 70-73.
    """
    from scipy.signal import _spectral_py

    if average not in ("mean", "median"):
        raise ValueError(f"average must be 'median' or 'mean', got {average}")
    freqs, _, found = _spectral_py._spectral_helper(
        *(x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis),
        mode="psd",
    )
    if found.size == 0:
        return freqs, found
    if average == "mean" or found.shape[-1] == 1:
        return freqs, np.mean(found, axis=-1)
    bias = _spectral_py._median_bias(found.shape[-1])
    middle = np.median(np.real(found), axis=-1)
    if np.iscomplexobj(found):
        middle = middle + 1j * np.median(np.imag(found), axis=-1)
    return freqs, (middle / bias).astype(found.dtype)
