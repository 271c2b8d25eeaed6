"""Filters of ``scipy.ndimage`` in all directions, by ranks, by functions; turned images."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check, check_value, data

import calque
from calque.transpiler.errors import CalqueError

ndimage = pytest.importorskip("scipy.ndimage")

# the options of each case are captured numbers
pytestmark = pytest.mark.filterwarnings("ignore:.*is generated anew")
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
X, SPACE = data(6, 7), data(3, 4, 5)
CROSS = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]


def _of(name: str, *given: Any, **options: Any) -> Callable[..., Any]:
    return lambda *args: getattr(ndimage, name)(*args, *given, **options)


WEIGHED = (
    {
        f"{name} {mode}": (
            _of(name, mode=mode, cval=0.5, origin=(0, -1)),
            X,
            data(2, 3),
        )
        for name in ("correlate", "convolve")
        for mode in MODES
    }
    | {"weights wider than the image": (_of("correlate", mode="mirror"), X, data(9, 15))}
    | {"in space": (_of("convolve", mode="wrap"), SPACE, data(2, 2, 3))}
)
RANKED = {
    f"{name} {mode}": (_of(name, 3, mode=mode, cval=0.1), X)
    for name in ("maximum_filter", "minimum_filter", "median_filter")
    for mode in MODES
} | {
    "maximum_filter of a footprint": (_of("maximum_filter", footprint=CROSS), X),
    "minimum_filter of sizes": (_of("minimum_filter", (2, 3), origin=(0, -1)), X),
    "maximum_filter in space": (_of("maximum_filter", (1, 2, 3)), SPACE),
    "maximum_filter1d": (_of("maximum_filter1d", 4, origin=1), X),
    "minimum_filter1d": (_of("minimum_filter1d", 3, axis=0, mode="wrap"), X),
    "percentile_filter": (_of("percentile_filter", 30, (2, 3)), X),
    "percentile from above": (_of("percentile_filter", -20, footprint=CROSS), X),
    "rank_filter": (_of("rank_filter", -2, footprint=CROSS, mode="nearest"), X),
    "grey_dilation": (_of("grey_dilation", (2, 3)), X),
    "grey_dilation by a structure": (_of("grey_dilation", structure=data(3, 2)), X),
    "grey_erosion": (_of("grey_erosion", footprint=CROSS), X),
    "grey_opening": (_of("grey_opening", (3, 2)), X),
    "grey_closing": (_of("grey_closing", footprint=CROSS), X),
    "morphological_gradient": (_of("morphological_gradient", (3, 3)), X),
    "morphological_laplace": (_of("morphological_laplace", (3, 3)), X),
}
FUNCTIONS = {
    "generic_filter": (lambda x: ndimage.generic_filter(x, np.var, footprint=CROSS), X),
    "generic_filter of more": (
        lambda x, a: ndimage.generic_filter(
            x, lambda near, p: np.sum(np.abs(near) ** p), 2, extra_arguments=(a[0],)
        ),
        X,
        np.array([1.5]),
    ),
    "generic_laplace": (
        lambda x: ndimage.generic_laplace(
            x, lambda y, *how: ndimage.correlate1d(y, [1.0, -2.0, 1.0], *how)
        ),
        X,
    ),
    "generic_gradient_magnitude": (
        lambda x: ndimage.generic_gradient_magnitude(x, ndimage.sobel),
        X,
    ),
    "geometric_transform": (
        lambda x: ndimage.geometric_transform(x, lambda i: (i[0] + 0.3, i[0] - i[1]), (4, 5)),
        X,
    ),
}
TURNED = {
    "rotate": (_of("rotate", 30.0), X),
    "rotate by an angle": (
        lambda x, a: ndimage.rotate(x, a[0], reshape=False, mode="reflect"),
        X,
        np.array([17.0]),
    ),
    "rotate planes": (_of("rotate", 40, axes=(0, 2), order=1, mode="nearest"), SPACE),
}
TRANSFORMED = {
    name: (lambda x, name=name: np.abs(getattr(ndimage, name)(np.fft.fft2(x), 1.3)), X)
    for name in ("fourier_gaussian", "fourier_uniform", "fourier_shift")
} | {
    "of real numbers": (
        lambda x: np.fft.irfft2(ndimage.fourier_shift(np.fft.rfft2(x), (0.3, 1.2), 7), X.shape),
        X,
    ),
}
CASES = {**WEIGHED, **RANKED, **FUNCTIONS, **TURNED, **TRANSFORMED}


@pytest.mark.parametrize("name", CASES)
def test_filters(name: str) -> None:
    check(*CASES[name], second=False, atol=1e-11)


ASKED: dict[str, dict[str, Any]] = {
    "correlate": {"weights": [[1.0, 2.0], [-0.5, 0.3]]},
    "maximum_filter": {"size": 3},
    "minimum_filter": {"footprint": CROSS},
    "median_filter": {"size": 3},
    "grey_erosion": {"structure": [[-0.5, -1.0]]},
}


@pytest.mark.parametrize("name", ASKED)
def test_dtypes(name: str) -> None:
    for image in ((30 * X).astype("i8"), np.abs(30 * X).astype("u1"), X.astype("f4")):
        check_value(_of(name, **ASKED[name]), image, atol=1e-5)
        check_value(_of(name, **ASKED[name], output=np.float32), image, atol=1e-5)

    def stored(x: np.ndarray) -> np.ndarray:
        found = np.zeros((6, 7), "i8")
        getattr(ndimage, name)(x, **ASKED[name], output=found)
        return found

    check_value(stored, 30 * X)


@pytest.mark.parametrize("name", ["maximum_filter", "minimum_filter", "median_filter"])
def test_footprints_of_the_run(name: str) -> None:
    def f(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
        found: np.ndarray = getattr(ndimage, name)(x, footprint=seen > 0.0)
        return found

    seen = data(3, 4)
    for image in (X, (9 * X).astype("i8")):
        check_value(f, image, seen)
    batch = np.stack([X, X**2])
    np.testing.assert_allclose(
        calque.vmap(f, in_axes=(0, None))(batch, seen), [f(x, seen) for x in batch]
    )


def test_axes() -> None:
    if "axes" not in inspect.signature(ndimage.correlate).parameters:
        pytest.skip("this version of SciPy filters along all axes")
    for f in (
        _of("correlate", [[1.0, 2.0, 3.0]], axes=(2, 0)),
        _of("maximum_filter", (2, 3), axes=(0, 2)),
        _of("median_filter", footprint=[[1, 0], [1, 1]], axes=(1, 2)),
    ):
        check_value(f, SPACE)


def test_wrong_arguments_raise_as_in_scipy() -> None:
    for f, error in (
        (_of("correlate", [1.0, 2.0]), RuntimeError),
        (_of("correlate", [[1.0, 2.0]], origin=3), ValueError),
        (_of("correlate", [[1.0, 2.0]], mode="other"), RuntimeError),
        (_of("rank_filter", 9, 3), RuntimeError),
        (_of("percentile_filter", 101, 3), RuntimeError),
        (_of("median_filter"), RuntimeError),
        (_of("maximum_filter", footprint=[[0, 0]]), ValueError),
        (_of("rotate", 3.0, axes=(0, 5)), ValueError),
        (_of("grey_erosion"), ValueError),
    ):
        with pytest.raises(error):
            f(X)
        with pytest.raises(error):
            calque.jit(f)(X)


def test_what_is_not_known_is_refused_in_words() -> None:
    with pytest.raises(CalqueError, match="reshape=False"):
        calque.grad(lambda a: np.sum(ndimage.rotate(X, a)))(30.0)
    with pytest.raises(CalqueError, match="complex"):
        calque.jit(lambda x: ndimage.correlate(x, [[1.0]]))(X * 1j)
