"""Legendre functions, spherical harmonics and Bessel functions, and Jacobi's, of ``scipy.special``.

Slopes of Legendre functions are SciPy's own derivatives (``diff_n``); those of harmonics follow
from ladder operators, which have no singularity at the poles (DLMF 14.10; Varshalovich, Quantum
Theory of Angular Momentum, 5.8), those of elliptic functions by the parameter from the incomplete
integral (DLMF 22.13, 22.16), of spherical Bessel functions from their equation (DLMF 10.47).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.primitives.base import operand
from calque.transpiler.primitives.elementwise import no_derivative
from calque.transpiler.primitives.scipy_modules import Lazy, means
from calque.transpiler.primitives.special import LACKING, declare, special, unknown
from calque.transpiler.primitives.special_functions import by_parameter_of_ellipkinc

_DEGREE, _ORDER, _UNIT = (3.0, 3.0), (1.0, 1.0), (0.1, 0.9)
_HIGHEST = 2  # the highest derivative that SciPy computes


def _known_order(diff_n: Any, name: str) -> int:
    """The number of derivatives that a call asks for."""
    if isinstance(diff_n, Array):
        no_derivative(f"special.{name} with diff_n that is known only when it runs")()
    if operator.index(diff_n) not in range(_HIGHEST + 1):
        raise ValueError(
            f"diff_n is currently only implemented for orders 0, 1, and 2, received: {diff_n}."
        )
    return operator.index(diff_n)


# Legendre functions


def _legendre(name: str, given: int, beyond: Callable[..., Any], options: str = "") -> None:
    """Declare a Legendre function and its derivatives, of which each is the slope of the last.

    ``given`` is the number of degrees and orders; ``beyond`` the slope of the highest derivative,
    of these, the argument, and the function with its derivatives.
    """
    whole, kind = Lazy("scipy.special", name), options.replace("=", " ").strip(", ")
    labels = [f"{name} {kind} {k}".replace("  ", " ") for k in range(_HIGHEST + 1)]
    known = {"norm": True} if options else {}

    def entry(k: int) -> None:
        def value(*args: Any) -> Any:
            return whole(*args, diff_n=k, **known)[k]

        def partials(*args: Any) -> tuple[Any, ...]:
            numbers, x = args[:given], args[given]
            refused = [unknown(f"special.{name}", "degree and order")] * given
            if k < _HIGHEST:
                return *refused, special(labels[k + 1], *numbers, x)
            values = [special(label, *numbers, x) for label in labels[:-1]]
            return *refused, beyond(*numbers, x, *values, args[-1])

        value.__name__ = name
        places = ", ".join(f"{{{p}}}" for p in range(given + 1))
        facts: dict[str, Any] = {
            "domain": [_DEGREE, _ORDER][:given] + [_UNIT],
            "known": tuple(range(given)),
            "spelling": f"special.{name}({places}{options}, diff_n={k})[{k}]",
        }
        declare(
            *(labels[k], partials, given + 1),
            path=None,
            reference=value,
            word=name,
            cupy=LACKING,
            **facts,
        )

    for k in range(_HIGHEST + 1):
        entry(k)


def _of_polynomial(n: Any, x: Any, *values: Any) -> Any:
    """15 times a Gegenbauer polynomial of a degree lower by 3; zero below degree 3."""
    if not isinstance(n, (Array, np.ndarray)):
        return 15.0 * special("eval_gegenbauer", n - 3, 3.5, x) if n > 2 else 0.0
    low = np.less(n, 3)
    found = special("eval_gegenbauer", np.where(low, 0, np.subtract(n, 3)), 3.5, x)
    return np.where(low, 0.0, 15.0 * found)


def _by_equation(n: Any, m: Any, x: Any, y: Any, first: Any, second: Any) -> Any:
    """Legendre's equation, differentiated."""
    room, square = 1.0 - x * x, np.multiply(m, m) * 1.0
    factor = np.multiply(n, np.add(n, 1)) - 2.0 - square / room
    return (4.0 * x * second - factor * first + 2.0 * square * x / (room * room) * y) / room


def _by_equation_of_angle(n: Any, m: Any, theta: Any, y: Any, first: Any, second: Any) -> Any:
    """The same for the cosine of an angle."""
    sine, cosine, square = np.sin(theta), np.cos(theta), np.multiply(m, m) * 1.0
    factor = np.multiply(n, np.add(n, 1)) - (square + 1.0) / (sine * sine)
    return -cosine / sine * second - factor * first - 2.0 * square * cosine / sine**3 * y


_legendre("legendre_p", 1, _of_polynomial)
_legendre("sph_legendre_p", 2, _by_equation_of_angle)
_legendre("assoc_legendre_p", 2, _by_equation)
_legendre("assoc_legendre_p", 2, _by_equation, ", norm=True")


def _number(x: Any) -> Any:
    """A degree or an order, or an array of these, as the rules take it."""
    x = operand(x)
    return FUNCTIONS[np.asarray](x) if isinstance(x, np.ndarray) else x


def _stacked(label: str, args: tuple[Any, ...], count: int) -> Any:
    return np.stack([special(f"{label} {k}", *args) for k in range(count + 1)])


def _real(x: Any, name: str) -> Any:
    x = FUNCTIONS[np.asarray](operand(x))
    if x.dtype.kind == "c":
        no_derivative(f"special.{name} of complex numbers")()
    return x


@means("scipy.special", "legendre_p")
def _legendre_p(n: Any, z: Any, *, diff_n: Any = 0) -> Any:
    args = _number(n), _real(z, "legendre_p")
    return _stacked("legendre_p", args, _known_order(diff_n, "legendre_p"))


@means("scipy.special", "sph_legendre_p")
def _sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: Any = 0) -> Any:
    args = _number(n), _number(m), _real(theta, "sph_legendre_p")
    return _stacked("sph_legendre_p", args, _known_order(diff_n, "sph_legendre_p"))


@means("scipy.special", "assoc_legendre_p")
def _assoc_legendre_p(
    n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: Any = False, diff_n: Any = 0
) -> Any:
    name = "assoc_legendre_p"
    if isinstance(branch_cut, Array) or np.any(np.not_equal(branch_cut, 2)):
        no_derivative(f"special.{name} with branch_cut other than 2")()
    args = _number(n), _number(m), _real(z, name)
    label = f"{name} norm True" if norm else name
    return _stacked(label, args, _known_order(diff_n, name))


# spherical harmonics


def _harmonic_by_theta(n: Any, m: Any, theta: Any, phi: Any) -> Any:
    """Half the difference of the harmonics of the orders beside ``m``, turned to its own.

    SciPy's are those of the size of an angle below 0.
    """
    n, m, up, down = _ladder(n, m)
    turn, side = np.exp(-1j * phi), np.where(np.sin(theta) < 0.0, -0.5, 0.5)
    above = special("sph_harm_y", *_whole(n, m + 1.0), theta, phi)
    below = special("sph_harm_y", *_whole(n, m - 1.0), theta, phi)
    return side * (up * turn * above - down * np.conj(turn) * below)


def _ladder(n: Any, m: Any) -> tuple[Any, ...]:
    """Degree and order as floats, and the factors of the steps up and down from that order."""
    n, m = np.multiply(n, 1.0), np.multiply(m, 1.0)
    steps = (n - m) * (n + m + 1.0), (n + m) * (n - m + 1.0)
    return n, m, *(np.sqrt(np.maximum(s, 0.0)) for s in steps)


def _whole(*numbers: Any) -> list[Any]:
    return [x.astype(np.int64) if hasattr(x, "astype") else int(x) for x in numbers]


def _harmonic(n: Any, m: Any, theta: Any, phi: Any, y: Any) -> tuple[Any, ...]:
    refused = unknown("special.sph_harm_y", "degree and order")
    by_phi = 1j * np.multiply(m, 1.0) * y
    return refused, refused, _harmonic_by_theta(n, m, theta, phi), by_phi


declare(
    "sph_harm_y",
    _harmonic,
    4,
    [_DEGREE, _ORDER, _UNIT, _UNIT],
    known=(0, 1),
    path=None,
)


@means("scipy.special", "sph_harm_y")
def _sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: Any = 0) -> Any:
    count = _known_order(diff_n, "sph_harm_y")
    args = _number(n), _number(m), _real(theta, "sph_harm_y"), _real(phi, "sph_harm_y")
    y = special("sph_harm_y", *args)
    if count == 0:
        return y
    order = np.multiply(args[1], 1j)
    by_theta, by_phi = _harmonic_by_theta(*args), order * y
    first = np.stack([by_theta, by_phi], axis=-1)
    if count == 1:
        return y, first
    mixed = order * by_theta
    rows = [[_twice_by_theta(*args), mixed], [mixed, order * by_phi]]
    return y, first, np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _twice_by_theta(n: Any, m: Any, theta: Any, phi: Any) -> Any:
    """The ladder operators, applied once more."""
    n, m, up, down = _ladder(n, m)
    turn, side = np.exp(-1j * phi), np.where(np.sin(theta) < 0.0, -0.5, 0.5)
    degree, above_m, below_m = _whole(n, m + 1.0, m - 1.0)
    above = _harmonic_by_theta(degree, above_m, theta, phi)
    below = _harmonic_by_theta(degree, below_m, theta, phi)
    found = up * turn * np.where(up == 0.0, 0.0, above)
    return side * (found - down * np.conj(turn) * np.where(down == 0.0, 0.0, below))


# Jacobi's elliptic functions


def _jacobi(place: int) -> Callable[..., Any]:
    def partials(u: Any, m: Any, y: Any) -> tuple[Any, Any]:
        sn, cn, dn, angle = (special(f"ellipj {k}", u, m) for k in range(4))
        by_m = -dn * by_parameter_of_ellipkinc(angle, m)  # of the amplitude
        slopes = (
            (cn * dn, cn * by_m),
            (-sn * dn, -sn * by_m),
            (-m * sn * cn, -sn * (0.5 * sn + m * cn * by_m) / dn),
            (dn, by_m),
        )
        return slopes[place]

    return partials


def _elliptic(place: int) -> None:
    whole = Lazy("scipy.special", "ellipj")

    def part(u: Any, m: Any) -> Any:
        return whole(u, m)[place]

    part.__name__ = "ellipj"
    declare(
        *(f"ellipj {place}", _jacobi(place), 2, [(-2.0, 2.0), _UNIT]),
        path=None,
        reference=part,
        spelling=f"special.ellipj({{0}}, {{1}})[{place}]",
        word="ellipj",
        cupy=LACKING,
    )


for _place in range(4):
    _elliptic(_place)


@means("scipy.special", "ellipj")
def _ellipj(u: Any, m: Any) -> Any:
    return tuple(special(f"ellipj {k}", operand(u), operand(m)) for k in range(4))


# spherical Bessel functions


def _spherical(name: str, sign: float) -> None:
    """Declare one and its derivative, whose slope follows from the equation of both."""
    whole = Lazy("scipy.special", name)

    def derived(n: Any, z: Any) -> Any:
        return whole(n, z, derivative=True)

    def by_equation(n: Any, z: Any, slope: Any) -> tuple[Any, Any]:
        apart = np.multiply(n, np.add(n, 1)) / (z * z)
        bend = (apart + sign) * special(name, n, z) - 2.0 * slope / z
        return unknown(f"special.{name}", "order"), bend

    derived.__name__ = name
    facts: dict[str, Any] = {"domain": [_ORDER, (0.5, 3.0)], "known": (0,), "cupy": LACKING}
    spelling = f"special.{name}({{0}}, {{1}}, derivative=True)"
    label = f"{name} derivative"
    declare(
        *(label, by_equation, 2),
        **{**facts, "path": None, "reference": derived, "spelling": spelling, "word": name},
    )

    def partials(n: Any, z: Any, y: Any) -> tuple[Any, Any]:
        return unknown(f"special.{name}", "order"), special(label, n, z)

    declare(name, partials, 2, **{**facts, "path": None})

    @means("scipy.special", name)
    def call(n: Any, z: Any, derivative: Any = False) -> Any:
        return special(label if derivative else name, operand(n), operand(z))


for _name, _sign in (
    *(("spherical_jn", -1.0), ("spherical_yn", -1.0)),
    *(("spherical_in", 1.0), ("spherical_kn", 1.0)),
):
    _spherical(_name, _sign)
