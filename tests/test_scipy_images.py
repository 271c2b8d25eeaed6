"""Filters and interpolation of ``scipy.ndimage``: value, dtype, derivatives, batches, options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check, check_value, data

import calque

ndimage = pytest.importorskip("scipy.ndimage")

# the options of each case are captured numbers
pytestmark = pytest.mark.filterwarnings("ignore:.*is generated anew")
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
X = data(6, 7)


def _of(name: str, *given: Any, **options: Any) -> Callable[..., Any]:
    return lambda *args: getattr(ndimage, name)(*args, *given, **options)


WEIGHED = {
    f"{name} {mode} {size}": (
        _of(name, mode=mode, cval=0.5, axis=size % 2, origin=1 - size % 2),
        X,
        data(size),
    )
    for name in ("correlate1d", "convolve1d")
    for mode in MODES
    for size in (3, 4)
} | {"wide": (_of("correlate1d", mode="mirror"), X, data(21))}
SPLINES = {
    f"spline {mode} {order}": (_of("spline_filter1d", order, mode=mode), X)
    for mode in MODES
    for order in (1, 2, 3, 4, 5)
}


@pytest.mark.parametrize("name", WEIGHED)
def test_weights_along_an_axis(name: str) -> None:
    check(*WEIGHED[name], second=False)


@pytest.mark.parametrize("name", SPLINES)
def test_spline_filters(name: str) -> None:
    check(*SPLINES[name], second=False)


FILTERS = {
    "gaussian_filter": (_of("gaussian_filter", 0.8), X),
    "gaussian_filter by its width": (lambda x, s: ndimage.gaussian_filter(x, s[0]), X, np.ones(1)),
    "gaussian_filter of orders": (_of("gaussian_filter", (0.7, 1.2), (1, 2), mode="wrap"), X),
    "gaussian_filter1d": (_of("gaussian_filter1d", 1.5, axis=0, order=3, radius=2), X),
    "uniform_filter": (_of("uniform_filter", (2, 3), mode="constant", cval=0.5), X),
    "uniform_filter1d": (_of("uniform_filter1d", 4, mode="mirror"), X),
    "sobel": (_of("sobel", axis=0), X),
    "prewitt": (_of("prewitt", mode="nearest"), X),
    "laplace": (_of("laplace"), X),
    "gaussian_laplace": (_of("gaussian_laplace", 0.9), X),
    "gaussian_gradient_magnitude": (_of("gaussian_gradient_magnitude", 0.9), X),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name: str) -> None:
    check(*FILTERS[name], second=False, atol=1e-12)


def test_dtypes() -> None:
    image = (10 * X).astype("f4")
    check_value(_of("gaussian_filter", 1.0, output=np.float64), (10 * X).astype("i8"))
    found = calque.jit(_of("gaussian_filter", 1.0))(image)
    wanted = ndimage.gaussian_filter(image, 1.0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


IMAGE_MODES = (*MODES, "grid-constant", "grid-wrap")
PLACES = np.random.default_rng(3).uniform(-4.0, 9.0, (2, 11))
PLACED = {
    f"map_coordinates {mode} {order}": (
        _of("map_coordinates", order=order, mode=mode, cval=0.5),
        X,
        PLACES,
    )
    for mode in IMAGE_MODES
    for order in (1, 3)
} | {
    f"map_coordinates of order {order}": (_of("map_coordinates", order=order), X, PLACES)
    for order in (0, 2, 5)
}
MOVED = {
    "map_coordinates": (_of("map_coordinates", mode="nearest"), X, PLACES),
    "of order 1": (_of("map_coordinates", order=1), X, PLACES),
    "shift": (lambda x, s: ndimage.shift(x, s, mode="mirror"), X, np.array([0.3, -1.2])),
    "affine_transform": (
        lambda x, m: ndimage.affine_transform(x, m, [0.2, 0.1], mode="reflect"),
        X,
        np.array([[0.9, 0.2], [-0.1, 1.1]]),
    ),
    "homogeneous": (
        lambda x, m: ndimage.affine_transform(x, m, mode="mirror"),
        X,
        np.array([[0.9, 0.2, 0.3], [-0.1, 1.1, 0.2]]),
    ),
    "diagonal": (lambda x: ndimage.affine_transform(x, [0.8, 1.1], output_shape=(4, 5)), X),
    "zoom": (lambda x: ndimage.zoom(x, (2, 1.5), order=3, mode="nearest"), X),
}


@pytest.mark.parametrize("name", PLACED)
def test_places(name: str) -> None:
    f, x, places = PLACED[name]
    wanted = f(x, places)
    np.testing.assert_allclose(calque.jit(f)(x, places), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MOVED)
def test_moved_images(name: str) -> None:
    check(*MOVED[name], second=False, atol=1e-10)
