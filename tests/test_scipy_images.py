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
    "of one row": (lambda x: ndimage.affine_transform(x, [[0.8], [0.3]], output_shape=(5,)), X),
    "into an array": (lambda x: ndimage.affine_transform(x, np.eye(2), output=np.zeros((3, 4))), X),
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


WIDE, WHOLE = 30 * X, (30 * X).astype("i8")
ASKED: dict[str, dict[str, Any]] = {
    "correlate1d": {"weights": [1.0, 2.0, -0.5]},
    "gaussian_filter": {"sigma": 0.8},
    "uniform_filter": {"size": 3},
    "uniform_filter1d": {"size": 3, "mode": "constant", "cval": 2.0},
    "sobel": {},
    "laplace": {},
    "gaussian_laplace": {"sigma": 0.9},
    "gaussian_gradient_magnitude": {"sigma": 0.9},
    "spline_filter": {},
    "shift": {"shift": 0.7},
}


@pytest.mark.parametrize("name", ASKED)
def test_results_are_cast_after_the_sums(name: str) -> None:
    for output in ("i4", np.int32, np.float32):
        f = _of(name, **ASKED[name], output=output)
        found, wanted = calque.jit(f)(WIDE), f(WIDE)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    check_value(_of(name, **ASKED[name]), WHOLE)

    def stored(x: np.ndarray) -> np.ndarray:
        found = np.zeros((6, 7), "i8")
        getattr(ndimage, name)(x, **ASKED[name], output=found)
        return found

    check_value(stored, WIDE)


@pytest.mark.parametrize("dtype", ["u1", "i1", "?"])
def test_interpolation_stays_within_the_dtype(dtype: str) -> None:
    image = (60 * X).astype(dtype)
    check_value(_of("shift", 0.4), image)
    check_value(_of("zoom", 1.6, mode="reflect"), image)


CHOSEN = {
    "no width": _of("gaussian_filter", (0, 1.0)),
    "no width, and a slope": _of("gaussian_filter", (0, 1.0), order=1, output="i4"),
    "widths in an array": lambda x: ndimage.gaussian_filter(x, np.array([0.5, 1.0]), radius=2),
    "no axis": _of("gaussian_filter", 1.0, axes=()),
    "axes": _of("gaussian_filter", (0.5, 1.0), axes=(1, -2), mode=["wrap", "nearest"]),
    "one neighbour": _of("uniform_filter", (1, 3)),
    "neighbours before": _of("uniform_filter1d", 4, origin=-2),
    "neighbours after": _of("uniform_filter", (3, 4), origin=(-1, 1), mode="wrap"),
    "laplace along one axis": _of("gaussian_laplace", 1.2, axes=1),
    "slope along one axis": _of("gaussian_gradient_magnitude", 1.2, axes=0),
    "no slope": _of("gaussian_gradient_magnitude", 1.2, axes=()),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_axes(name: str) -> None:
    check_value(CHOSEN[name], WIDE, atol=1e-11)


def test_wrong_arguments_raise_as_in_scipy() -> None:
    for f, error in (
        (_of("sobel", 4), ValueError),
        (_of("gaussian_filter", 1.0, axes=5), ValueError),
        (_of("gaussian_filter", 1.0, axes=(0, -2)), ValueError),
        (_of("gaussian_filter1d", 1.0, radius=1.5), ValueError),
        (_of("gaussian_filter1d", 1.0, radius=-1), ValueError),
        (_of("shift", [1.0, 2.0, 3.0]), RuntimeError),
        (_of("affine_transform", np.eye(2), output_shape=(3,)), RuntimeError),
        (lambda x: ndimage.sobel(x, output=np.zeros((2, 6, 7))), RuntimeError),
        (lambda x: ndimage.correlate1d(x, [1.0], output=np.zeros(6)), RuntimeError),
        (lambda x: ndimage.shift(x, 1.0, output=np.zeros((2, 6, 7))), RuntimeError),
    ):
        with pytest.raises(error):
            f(X)
        with pytest.raises(error):
            calque.jit(f)(X)
