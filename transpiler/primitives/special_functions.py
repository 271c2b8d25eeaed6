"""Further functions of ``scipy.special`` by their slopes: integrals, transforms, combinations.

Where a closed form cancels, the slope is a series or a function that does not (Abramowitz and
Stegun, chapters 5, 7, 17; Carlson, 1995, for incomplete elliptic integrals).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.primitives.base import apply, operand, raise_where
from calque.transpiler.primitives.elementwise import no_derivative
from calque.transpiler.primitives.scipy_modules import Lazy, means
from calque.transpiler.primitives.scipy_stats import both, chosen, either
from calque.transpiler.primitives.special import SPECIAL, declare, rgamma_slope, special, unknown

_PI, _ROOT_PI = math.pi, math.sqrt(math.pi)
_ROOT_2PI, _DEGREE = math.sqrt(2.0 * math.pi), math.pi / 180.0
_POSITIVE, _UNIT, _FIXED = (0.5, 3.0), (0.1, 0.9), (1.0, 1.0)


def _series(x: Any, *terms: float) -> Any:
    total: Any = terms[-1]
    for term in terms[-2::-1]:
        total = total * x + term
    return total


# gamma functions


def _is_pole(z: Any) -> Any:
    return both(z <= 0.0, np.equal(z, np.floor(z)))


def _rgamma_slope(z: Any) -> Any:
    return rgamma_slope(z, special("rgamma", z))


def _poch(z: Any, m: Any, y: Any) -> tuple[Any, Any]:
    """The slopes of ``gamma(z + m) / gamma(z)``, also where the gammas have poles."""
    end, one, other = z + m, _is_pole(z), _is_pole(z + m)
    near, twice = chosen(one, 1.0, z), both(one, other)  # no pole is an argument of digamma
    upper = chosen(other, 1.0, end)
    at_end = special("digamma", upper)
    at_one = special("gamma", upper) * _rgamma_slope(z) + y * at_end
    # reflected, gamma(1 - z) / gamma(1 - z - m) for whole m
    at_two = y * (
        special("digamma", 1.0 - chosen(twice, end, 0.0))
        - special("digamma", 1.0 - chosen(twice, z, 0.0))
    )
    by_z = chosen(twice, at_two, chosen(one, at_one, y * (at_end - special("digamma", near))))
    return by_z, y * special("digamma", end)


def _binom(n: Any, k: Any, y: Any) -> tuple[Any, Any]:
    """The slopes of ``gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1))``, poles included."""
    upper, first, second = n + 1.0, k + 1.0, n - k + 1.0
    poles = either(_is_pole(first), _is_pole(second))
    whole = special("digamma", upper)
    one, other = (special("digamma", chosen(poles, 1.0, z)) for z in (first, second))
    front = special("gamma", chosen(poles, upper, 1.0))
    by_first = front * _rgamma_slope(first) * special("rgamma", second)
    by_second = front * special("rgamma", first) * _rgamma_slope(second)
    by_n = chosen(poles, y * whole + by_second, y * (whole - other))
    return by_n, chosen(poles, by_first - by_second, y * (other - one))


declare("gammasgn", None, domain=[_POSITIVE])
declare("loggamma", lambda x, y: special("digamma", x), domain=[_POSITIVE])
declare("poch", _poch, 2, [_POSITIVE, _POSITIVE])
declare("binom", _binom, 2, [(2.1, 4.0), (0.5, 1.5)])
declare(
    "zeta",
    lambda x, q, y: (unknown("special.zeta", "first argument"), -x * special("zeta", x + 1.0, q)),
    2,
    [(2.5, 2.5), _POSITIVE],
    known=(0,),
    path=None,
)
declare("zetac", None, domain=[(2.0, 4.0)])
_one_zeta = declare(
    "zeta of one",
    None,
    domain=[(2.0, 4.0)],
    path=None,
    reference=Lazy("scipy.special", "zeta"),
    spelling="special.zeta({0})",
    word="zeta",
)
for _record in (SPECIAL["zetac"], _one_zeta):
    _record.nondifferentiable = False
    _record.jvp = _record.vjp = no_derivative(f"special.{_record.name.split('.')[1].split()[0]}")


@means("scipy.special", "zeta")
def _zeta(x: Any, q: Any = None) -> Any:
    if q is None:
        return apply(_one_zeta, operand(x))
    return special("zeta", operand(x), operand(q))


@means("scipy.special", "multigammaln")
def _multigammaln(a: Any, d: Any) -> Any:
    a = FUNCTIONS[np.asarray](operand(a))
    if isinstance(d, Array) or int(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    problem = f"condition a > 0.5 * (d-1) ({0.5 * (d - 1):f}) not met"
    raise_where(np.any(a <= 0.5 * (d - 1)), ValueError(problem))
    total: Any = np.float64(d * (d - 1) * 0.25 * math.log(_PI))
    for j in range(int(d)):
        total = total + special("gammaln", a - 0.5 * j)
    return total


@means("scipy.special", "comb")
def _comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    if exact:
        if isinstance(N, Array) or isinstance(k, Array):
            no_derivative("special.comb with exact=True")()
        return Lazy("scipy.special", "comb")(N, k, exact=True, repetition=repetition)
    N, k = operand(N), operand(k)
    if repetition:
        return np.where((k == 0) & (N >= 0), 1.0, special("binom", N + k - 1, k))
    found = special("binom", N, k)
    return np.where((k <= N) & (N >= 0) & (k >= 0), found, 0.0)


@means("scipy.special", "factorial")
def _factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    if exact and extend == "zero" and not isinstance(n, Array):
        return Lazy("scipy.special", "factorial")(n, exact=True)
    if exact or extend != "zero":
        no_derivative("special.factorial with exact=True or extend")()
    n = operand(n)
    return np.where(n < 0, 0.0, special("gamma", n + 1.0))


# error functions

declare("dawsn", lambda x, y: 1.0 - 2.0 * x * y)
declare("erfi", lambda x, y: 2.0 / _ROOT_PI * np.exp(x * x))
declare("wofz", lambda z, y: 2.0j / _ROOT_PI - 2.0 * z * y)
declare("ndtri_exp", lambda x, y: _ROOT_2PI * np.exp(x + 0.5 * y * y), domain=[(-3.0, -0.1)])


def _voigt(x: Any, sigma: Any, gamma: Any, y: Any) -> tuple[Any, ...]:
    """The slopes of Voigt's profile; at a width of 0 of the normal part, Lorentz's."""
    narrow = sigma == 0
    width = chosen(narrow, 1.0, sigma)
    z = (x + 1j * gamma) / (math.sqrt(2.0) * width)
    slope = (2.0j / _ROOT_PI - 2.0 * z * special("wofz", z)) / (2.0 * _ROOT_PI * width**2)
    square = x * x + gamma * gamma
    safe = _PI * chosen(narrow, square * square, 1.0)
    by_x = chosen(narrow, -2.0 * x * gamma / safe, np.real(slope))
    by_gamma = chosen(narrow, (x * x - gamma * gamma) / safe, -np.imag(slope))
    rest = np.real(slope * z) * math.sqrt(2.0)
    return by_x, chosen(narrow, 0.0, -y / width - rest), by_gamma


declare("voigt_profile", _voigt, 3, [(-2.0, 2.0), _POSITIVE, _POSITIVE])


def _owens_t(h: Any, a: Any, y: Any) -> tuple[Any, Any]:
    half, square = 0.5 * h * h, 1.0 + a * a
    by_h = -np.exp(-half) * special("erf", a * h / math.sqrt(2.0)) / (2.0 * _ROOT_2PI)
    return by_h, np.exp(-half * square) / (2.0 * _PI * square)


declare("owens_t", _owens_t, 2)


# exponential, trigonometric and other integrals


def _expn(n: Any, x: Any, y: Any) -> tuple[Any, Any]:
    first = n == 0
    below = -np.exp(-x) * (1.0 + x) / (x * x)
    slope = chosen(first, below, -special("expn", chosen(first, 1, n) - 1, x))
    return unknown("special.expn", "order"), slope


declare("expi", lambda x, y: np.exp(x) / x, domain=[_POSITIVE])
declare("exp1", lambda x, y: -np.exp(-x) / x, domain=[_POSITIVE])
declare("expn", _expn, 2, [(2.0, 2.0), _POSITIVE], known=(0,))


def _spence(x: Any, y: Any) -> Any:
    u = x - 1.0
    near = np.abs(u) < 0.02
    series = _series(u, -1.0, 1 / 2, -1 / 3, 1 / 4, -1 / 5, 1 / 6, -1 / 7, 1 / 8, -1 / 9)
    return chosen(near, series, np.log(x) / chosen(near, 1.0, -u))


def _exprel(x: Any, y: Any) -> Any:
    near = np.abs(x) < 1.0
    far = chosen(near, 1.0, x)
    series = special("hyp1f1", 2.0, 3.0, chosen(near, x, 0.0))
    return chosen(near, 0.5 * series, np.exp(x) / far - y / far)


def _exprel_slope(x: Any) -> Any:
    return _exprel(x, special("exprel", x))


declare("spence", _spence, domain=[_POSITIVE])
declare("exprel", _exprel)


def _powm1(x: Any, y: Any, out: Any) -> tuple[Any, Any]:
    return y * x ** (y - 1.0), (out + 1.0) * np.log(x)


def declare_parts(name: str, slopes: list[Callable[..., Any]], bounds: Any = None) -> None:
    """Declare a function of one argument that has several results, each as its own record."""
    whole = Lazy("scipy.special", name)
    for place, slope in enumerate(slopes):

        def part(x: Any, place: int = place) -> Any:
            return whole(x)[place]

        def partials(x: Any, y: Any, slope: Any = slope) -> Any:
            return slope(x)

        part.__name__ = name
        text = f"special.{name}({{0}})[{place}]"
        declare(
            f"{name} {place}",
            partials,
            domain=bounds,
            path=None,
            reference=part,
            spelling=text,
            word=name,
        )

    @means("scipy.special", name)
    def call(x: Any) -> Any:
        x = FUNCTIONS[np.asarray](operand(x))
        return tuple(special(f"{name} {k}", x) for k in range(len(slopes)))


def _airy(place: int, x: Any) -> Any:
    return special(f"airy {place}", x)


declare_parts("fresnel", [lambda x: np.sin(0.5 * _PI * x * x), lambda x: np.cos(0.5 * _PI * x * x)])
declare_parts("sici", [lambda x: np.sinc(x / _PI), lambda x: np.cos(x) / x], [_POSITIVE])
declare_parts(
    "shichi",
    [
        lambda x: 0.5 * (special("exprel", x) + special("exprel", -x)),
        lambda x: np.cosh(x) / x,
    ],
    [_POSITIVE],
)
declare_parts(
    "airy",
    [
        lambda x: _airy(1, x),
        lambda x: x * _airy(0, x),
        lambda x: _airy(3, x),
        lambda x: x * _airy(2, x),
    ],
)


# elliptic integrals


def _ellipk(m: Any, y: Any) -> Any:
    near = np.abs(m) < 0.3
    far = chosen(near, 0.5, m)
    closed = (special("ellipe", far) / (1.0 - far) - special("ellipk", far)) / (2.0 * far)
    series = special("hyp2f1", 1.5, 1.5, 2.0, chosen(near, m, 0.0))
    return chosen(near, _PI / 8.0 * series, closed)


def _ellipe(m: Any, y: Any) -> Any:
    near = np.abs(m) < 0.3
    far = chosen(near, 0.5, m)
    closed = (special("ellipe", far) - special("ellipk", far)) / (2.0 * far)
    series = special("hyp2f1", 0.5, 1.5, 2.0, chosen(near, m, 0.0))
    return chosen(near, -_PI / 8.0 * series, closed)


def _ellipkm1(p: Any, y: Any) -> Any:
    near = np.abs(1.0 - p) < 0.3
    far = chosen(near, 0.5, p)
    closed = (special("ellipe", 1.0 - far) / far - special("ellipkm1", far)) / (2.0 - 2.0 * far)
    series = special("hyp2f1", 1.5, 1.5, 2.0, chosen(near, 1.0 - p, 0.0))
    return -chosen(near, _PI / 8.0 * series, closed)


declare("ellipk", _ellipk, domain=[_UNIT])
declare("ellipe", _ellipe, domain=[_UNIT])
declare("ellipkm1", _ellipkm1, domain=[_UNIT])


def _carlson(*args: Any) -> tuple[Any, ...]:
    return (unknown("special.elliprd", "arguments"),) * 3


declare("elliprd", _carlson, 3, [_FIXED, _FIXED, _FIXED], known=(0, 1, 2))


def _reduced(phi: Any) -> tuple[Any, Any, Any]:
    """The whole half turns in an angle; the sine of the rest, and its cosine's square."""
    turns = np.rint(phi / _PI)
    rest = phi - turns * _PI
    return turns, np.sin(rest), np.cos(rest) ** 2


def by_parameter_of_ellipkinc(phi: Any, m: Any) -> Any:
    """The slope of the incomplete elliptic integral of the first kind by its parameter."""
    turns, s, c2 = _reduced(phi)
    within = s**3 * special("elliprd", c2, 1.0, 1.0 - m * s * s) / 6.0
    whole = chosen(turns == 0, 0.0, 2.0 * turns * _ellipk(chosen(turns == 0, 0.0, m), None))
    return within + whole


def _ellipkinc(phi: Any, m: Any, y: Any) -> tuple[Any, Any]:
    s = _reduced(phi)[1]
    return 1.0 / np.sqrt(1.0 - m * s * s), by_parameter_of_ellipkinc(phi, m)


def _ellipeinc(phi: Any, m: Any, y: Any) -> tuple[Any, Any]:
    turns, s, c2 = _reduced(phi)
    delta2 = 1.0 - m * s * s
    within = -(s**3) * special("elliprd", c2, delta2, 1.0) / 6.0
    whole = chosen(turns == 0, 0.0, 2.0 * turns * _ellipe(chosen(turns == 0, 0.0, m), None))
    return np.sqrt(delta2), within + whole


declare("ellipkinc", _ellipkinc, 2, [(-2.0, 4.0), _UNIT])
declare("ellipeinc", _ellipeinc, 2, [(-2.0, 4.0), _UNIT])


def _agm(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    m = 1.0 - (b / a) ** 2
    whole = special("ellipk", m)
    by_b = _PI * b * _ellipk(m, whole) / (a * whole**2)
    return (y - b * by_b) / a, by_b


declare("agm", _agm, 2, [_POSITIVE, _POSITIVE])


# Lambert's W and its kin


declare("wrightomega", lambda x, y: y / (1.0 + y))
declare(
    "lambertw",
    lambda z, k, tol, y: (np.exp(-y) / (1.0 + y), None, None),
    3,
    [_POSITIVE, (0.0, 0.0), (1e-8, 1e-8)],
    known=(1, 2),
    path=None,
)


@means("scipy.special", "lambertw")
def _lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    return special("lambertw", operand(z), operand(k), tol)


# Box and Cox, Huber, degrees


def _box_cox(log: Callable[[Any], Any]) -> Callable[..., Any]:
    def partials(x: Any, power: Any, y: Any) -> tuple[Any, Any]:
        place = log(x)
        return np.exp((power - 1.0) * place), place * place * _exprel_slope(power * place)

    return partials


def _inverse_box_cox(added: float) -> Callable[..., Any]:
    def partials(y: Any, power: Any, x: Any) -> tuple[Any, Any]:
        t, value = power * y, x + added
        near = np.abs(t) < 0.01
        far = chosen(near, 1.0, t)
        series = _series(t, -1 / 2, 2 / 3, -3 / 4, 4 / 5, -5 / 6, 6 / 7, -7 / 8, 8 / 9)
        slope = chosen(near, series, (1.0 / (1.0 + far) - np.log1p(far) / far) / far)
        return value / (1.0 + t), value * y * y * slope

    return partials


declare("boxcox", _box_cox(np.log), 2, [_POSITIVE, _UNIT])
declare("boxcox1p", _box_cox(np.log1p), 2, [_POSITIVE, _UNIT])
declare("inv_boxcox", _inverse_box_cox(0.0), 2, [_UNIT, _UNIT])
declare("inv_boxcox1p", _inverse_box_cox(1.0), 2, [_UNIT, _UNIT])
declare("powm1", _powm1, 2, [_POSITIVE, _POSITIVE])


def _huber(delta: Any, r: Any, y: Any) -> tuple[Any, Any]:
    far = np.abs(r) > delta
    return chosen(far, np.abs(r) - delta, 0.0), chosen(far, delta * np.sign(r), r)


def _pseudo_huber(delta: Any, r: Any, y: Any) -> tuple[Any, Any]:
    none = delta == 0
    safe = chosen(none, 1.0, delta)
    root = np.sqrt(1.0 + (r / safe) ** 2)
    by_delta = chosen(none, np.abs(r), 2.0 * y / safe - (r / safe) * r / root)
    return by_delta, chosen(none, 0.0, r / root)


declare("huber", _huber, 2, [_UNIT, (1.0, 3.0)])
declare("pseudo_huber", _pseudo_huber, 2, [_UNIT, (1.0, 3.0)])
declare("cosm1", lambda x, y: -np.sin(x))
declare("sindg", lambda x, y: _DEGREE * special("cosdg", x))
declare("cosdg", lambda x, y: -_DEGREE * special("sindg", x))
declare("tandg", lambda x, y: _DEGREE * (1.0 + y * y))
declare("cotdg", lambda x, y: -_DEGREE * (1.0 + y * y), domain=[(20.0, 60.0)])
