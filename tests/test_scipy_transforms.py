"""Transforms of ``scipy.fft`` and ``scipy.fftpack``: every name, type and norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check, check_value, data

import calque

fft = pytest.importorskip("scipy.fft")
fftpack = pytest.importorskip("scipy.fftpack")

# the options of each case are captured numbers
pytestmark = pytest.mark.filterwarnings("ignore:.*is generated anew")
X = data(5, 6)
REAL = ("dct", "idct", "dst", "idst")
COMPLEX = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def _real(name: str, kind: int, **options: Any) -> Callable[..., Any]:
    return lambda x: getattr(fft, name)(x, kind, axis=0, **options)


def _packed(name: str, kind: int, **options: Any) -> Callable[..., Any]:
    return lambda x: getattr(fftpack, name)(x, kind, **options)


def _of(module: Any, name: str, **options: Any) -> Callable[..., Any]:
    return lambda x: getattr(module, name)(x, **options)


CHECKED = {
    **{f"{n} {k}": _real(n, k) for n in REAL for k in (1, 2, 3, 4)},
    **{f"{n} {k} ortho": _real(n, k, norm="ortho") for n in ("dct", "idst") for k in (1, 2, 3)},
    **{f"{n}n": _of(fft, f"{n}n", s=(4, 8), norm="forward") for n in REAL},
    **{f"{n}{c}": _of(fft, f"{n}{c}", norm="ortho") for n in COMPLEX for c in ("", "2", "n")},
    "fft of another length": _of(fft, "fft", n=9, axis=0),
}
VALUES = {
    **{
        f"{n} {k} {norm} {ends}": _real(n, k, norm=norm, orthogonalize=ends)
        for n in REAL
        for k in (1, 2, 3)
        for norm in ("backward", "ortho", "forward")
        for ends in (True, False)
    },
    **{f"fftpack.{n} {k}": _packed(n, k, n=4) for n in REAL for k in (1, 2, 3, 4)},
    **{f"fftpack.{n}n": _packed(f"{n}n", 2, norm="ortho") for n in REAL},
    **{f"fftpack.{n}{c}": _of(fftpack, n + c) for n in ("fft", "ifft") for c in ("", "2", "n")},
    **{f"{n} forward": _of(fft, n, norm="forward") for n in COMPLEX},
    "shifted": lambda x: fft.fftshift(x) * fft.fftfreq(6) * fft.rfftfreq(10),
}


@pytest.mark.parametrize("name", CHECKED)
def test_transforms(name: str) -> None:
    check(CHECKED[name], X)


@pytest.mark.parametrize("name", VALUES)
def test_options(name: str) -> None:
    check_value(VALUES[name], X)


@pytest.mark.parametrize("dtype", ["f4", "i8", "f2", "c8", "c16"])
def test_dtypes(dtype: str) -> None:
    x = (10 * X).astype(dtype)
    for f in (fft.dct, fft.idst, fft.fft):
        found, wanted = calque.jit(f)(x), f(x)
        assert found.dtype == wanted.dtype
        scale = np.abs(wanted).max()
        assert np.abs(found - wanted).max() < 4 * np.finfo(found.dtype).eps * scale


def test_wrong_arguments_raise_as_in_scipy() -> None:
    for f, error in (
        (lambda x: fft.dct(x, 5), ValueError),
        (lambda x: fft.dct(x, norm="whole"), ValueError),
        (lambda x: fft.rfft(x * 1j), TypeError),
    ):
        with pytest.raises(error):
            f(X)
        with pytest.raises(error):
            calque.jit(f)(X)
