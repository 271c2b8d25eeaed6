"""Jitted functions of complex numbers against NumPy to the ends of their range, and against mpmath."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import calque

LENGTHS = {
    np.complex128: (
        [0.0, 1e-320, 1e-300, 1e-160, 1e-40, 1e-9, 1e-3, 0.3, 0.5, 0.9, 1.0, 1.0 + 1e-9, 1.5, 2.0]
        + [np.pi / 2, 3.0, 7.0, 20.0, 25.0, 300.0, 355.0, 400.0, 709.5, 710.5, 720.0, 745.0, 1000.0]
        + [1450.0, 2200.0, 1e9, 1e20, 1e38, 1e154, 1e160, 1e300, 1.7e308, np.inf]
    ),
    np.complex64: (
        [0.0, 1e-44, 1e-30, 1e-4, 0.3, 0.9, 1.0, 1.5, 3.0, 7.0, 9.0, 20.0, 44.0, 60.0, 79.0, 81.0]
        + [88.0, 89.0, 91.0, 104.0, 120.0, 200.0, 1e4, 1e9, 1e19, 1e30, 3e38, np.inf]
    ),
}
ROUNDING = {np.complex128: 1e-14, np.complex64: 2e-6}
both = pytest.mark.parametrize("dtype", LENGTHS, ids=lambda dtype: dtype.__name__)


def grid(dtype: Any) -> np.ndarray:
    """Numbers of all pairs of parts."""
    parts = [*LENGTHS[dtype], *(-x for x in LENGTHS[dtype]), np.nan]
    return np.array([complex(x, y) for x in parts for y in parts]).astype(dtype)


def assert_numpys(found: np.ndarray, wanted: np.ndarray, z: np.ndarray, rounding: float) -> None:
    """To rounding each part; zeros by their signs, what is infinite or no number, exactly."""
    assert found.dtype == wanted.dtype
    for part in ("real", "imag"):
        a, b = getattr(found, part), getattr(wanted, part)
        same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
        tiny = 4 * np.finfo(a.dtype).smallest_subnormal
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= rounding * np.abs(b) + tiny
        signs = (np.signbit(a) == np.signbit(b)) & np.isfinite(a) & np.isfinite(b)
        wrong = ~(same | (near & signs))
        assert not wrong.any(), (part, z[wrong][:5], found[wrong][:5], wanted[wrong][:5])


def exponentials(z):
    return np.exp(z), np.exp2(z), np.expm1(z)


def logarithms(z):
    return np.log(z), np.log2(z), np.log10(z), np.log1p(z), np.sqrt(z)


def circular(z):
    return np.sin(z), np.cos(z), np.tan(z)


def hyperbolic(z):
    return np.sinh(z), np.cosh(z), np.tanh(z)


def inverse_circular(z):
    return np.arcsin(z), np.arccos(z), np.arctan(z)


def inverse_hyperbolic(z):
    return np.arcsinh(z), np.arccosh(z), np.arctanh(z)


def products(z):
    return z**0, z**1, z**3, z**4, z**-1, z**-3, np.reciprocal(z), np.abs(z)


def roots(z):
    return z**0.5, z**2.5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "family",
    [
        *(exponentials, logarithms, circular, hyperbolic, inverse_circular, inverse_hyperbolic),
        *(products, roots),
    ],
)
@both
def test_a_jitted_function_is_numpys_at_every_number(family, dtype):
    z = grid(dtype)
    if family is roots:
        # how much the argument's rounding turns the result grows with the exponent's logarithm
        z = z[(np.abs(z) > 1e-30) | (z == 0) | ~np.isfinite(z)]
    assert calque.source(family, z, stage="kernels").count("@kernel") == 1
    rounding = ROUNDING[dtype] * (20 if family is roots else 1)
    for found, wanted in zip(calque.jit(family)(z), family(z), strict=True):
        assert_numpys(found, wanted, z, rounding)


def powers(z, w):
    return z**w


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_by_powers_that_are_not_known():
    lengths = [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.5, 1e3, -1e200, np.inf, -np.inf, np.nan, -0.0]
    numbers = np.array([complex(x, y) for x in lengths for y in lengths])
    z, w = (x.ravel() for x in np.meshgrid(numbers, numbers))
    found, wanted = calque.jit(powers)(z, w), z**w
    moderate = (np.abs(w) < 1e2) & (np.abs(z) < 1e4)
    assert_numpys(found[moderate], wanted[moderate], z[moderate], 1e-13)
    assert_numpys(1.0 / found, 1.0 / wanted, z, 1e-9)


def test_logarithms_near_one_are_exact():
    rng = np.random.default_rng(0)
    angle, away = rng.uniform(-np.pi, np.pi, 200), 10.0 ** rng.uniform(-17, -1, 200)
    z = (1.0 + away * rng.choice([-1, 1], 200)) * np.exp(1j * angle)
    found = calque.jit(logarithms)(z)[0]
    with mp.workdps(60):
        wanted = np.array([complex(mp.log(mp.mpc(x.real, x.imag))) for x in z])
    assert_numpys(found, wanted, z, 1e-15)


def wave(z):
    return np.tanh(z) + np.log(z) * z**2.5 + np.exp(z) ** 3


def test_a_saved_module_carries_what_its_kernels_call(tmp_path: Path):
    z = np.array([400.0, 1e308j, 1.0 + 2.0j, -0.5])
    file = tmp_path / "saved_wave.py"
    calque.save(calque.jit(wave), file, z)
    assert "calque.runtime" not in file.read_text()
    spec = importlib.util.spec_from_file_location("saved_wave", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with np.errstate(all="ignore"):
        assert_numpys(module.wave_jit(z), wave(z), z, 1e-13)
