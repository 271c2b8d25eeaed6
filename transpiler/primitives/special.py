"""``scipy.special``: declared by name, so that SciPy is imported only where a program uses it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    elementwise,
    opaque,
    operand,
    ufunc_handler,
)
from calque.transpiler.primitives.elementwise import no_derivative
from calque.transpiler.primitives.record import Lacking, load_all
from calque.transpiler.primitives.reductions import (
    Axes,
    expand,
    infer_reduction,
    normalize_axes,
    reduction_samples,
    reduction_text,
)
from calque.transpiler.primitives.scipy_modules import Lazy, means

# functions that cupyx.scipy.special has, too
IN_CUPY = frozenset(
    """bdtr bdtrc beta betainc betaincinv betaln binom boxcox boxcox1p cbrt chdtr chdtrc chdtri
    cosdg
    cosm1 cotdg digamma ellipeinc ellipk ellipkinc ellipkm1 entr erf erfc erfcinv erfcx erfinv exp1
    exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc fdtri gamma gammainc gammaincc gammainccinv
    gammaincinv gammaln gammasgn gdtr gdtrc huber i0 i0e i1 i1e inv_boxcox inv_boxcox1p j0 j1 k0 k0e
    k1 k1e kl_div log1p log_expit log_ndtr loggamma logit nbdtr nbdtrc ndtr ndtri pdtr pdtrc pdtri
    poch polygamma pseudo_huber psi rel_entr rgamma sindg tandg wright_bessel xlog1py xlogy y0 y1 yn
    zeta zetac""".split()
)
LACKING = Lacking("compute it on the host, with SciPy")
# name in scipy.special -> its record
SPECIAL: dict[str, Primitive] = {}
_PI, _ROOT_PI, _ROOT_2PI = math.pi, math.sqrt(math.pi), math.sqrt(2.0 * math.pi)
_POSITIVE, _UNIT = [(0.5, 3.0)], [(0.1, 0.9)]


def _lazy(name: str) -> Lazy:
    return Lazy("scipy.special", name)


def special(name: str, *args: Any) -> Any:
    """The function as rules use it, also one of a family that is imported late."""
    if name not in SPECIAL:
        load_all()
    return apply(SPECIAL[name], *args)


def unknown(name: str, parameter: str = "") -> NotDifferentiable:
    """The error of a derivative that is not known, in the place of a slope."""
    by = f" by its {parameter}" if parameter else ""
    return NotDifferentiable(f"{name} has no derivative{by}.", current().origin)


def declare(
    name: str,
    partials: Callable[..., Any] | None,
    count: int = 1,
    domain: list[tuple[float, float]] | None = None,
    known: tuple[int, ...] = (),
    path: str | None = "",
    **facts: Any,
) -> Primitive:
    """Declare an elementwise function of ``scipy.special`` by its slopes, for ``elementwise``.

    The arguments ``known`` are numbers at the low end of their ``domain`` in samples; ``path`` is
    the name in SciPy where it is another, None for what no function of SciPy's is alone.
    """
    function = facts.pop("reference", None) or _lazy(name)
    record = elementwise(
        function,
        partials,
        name,
        arity=count,
        domain=domain or (),
        name=f"special.{name}",
        **{"cupy": None if name in IN_CUPY else LACKING, **facts},
    )
    SPECIAL[name] = record
    if known:
        numbers = {k: _whole((domain or [])[k][0]) for k in known}
        record.samples = _with_numbers(record.samples, numbers)
    if path is not None:
        means("scipy.special", path or name)(ufunc_handler(record, count))
    return record


def _whole(number: float) -> Any:
    return int(number) if number == int(number) else number


def _with_numbers(samples: Any, numbers: dict[int, Any]) -> Callable[..., Any]:
    def found(rng: np.random.Generator) -> Any:
        rows = [r for r in samples(rng) if len({np.shape(a) for a in r[0]}) == 1]
        return [(tuple(numbers.get(k, a) for k, a in enumerate(args)), p) for args, p in rows]

    return found


def _log_ndtr(x: Any, y: Any) -> Any:
    """The density over the probability; in the lower tail of the scaled ones, which stay."""
    low = x < 0.0
    tail = 2.0 / _ROOT_2PI / special("erfcx", -math.sqrt(0.5) * np.where(low, x, 0.0))
    rest, value = np.where(low, 0.0, x), np.where(low, 0.0, y)
    return np.where(low, tail, np.exp(-0.5 * rest * rest - value) / _ROOT_2PI)


def rgamma_slope(x: Any, y: Any) -> Any:
    """The slope of ``1 / gamma(x)``; left of 1/2 of its reflection, which has no poles."""
    low = x < 0.5
    left, right = np.where(low, x, 0.0), np.where(low, 1.0, x)
    bend = np.cos(_PI * left) - special("digamma", 1.0 - left) * np.sin(_PI * left) / _PI
    return np.where(low, special("gamma", 1.0 - left) * bend, -y * special("digamma", right))


declare("expit", lambda x, y: y * (1.0 - y), total=True, smooth=True)
declare("log_expit", lambda x, y: special("expit", -x), smooth=True)
declare("logit", lambda x, y: 1.0 / (x * (1.0 - x)), domain=_UNIT)
declare("erf", lambda x, y: 2.0 / _ROOT_PI * np.exp(-x * x), total=True, smooth=True)
declare("erfc", lambda x, y: -2.0 / _ROOT_PI * np.exp(-x * x), smooth=True)
declare("erfcx", lambda x, y: 2.0 * x * y - 2.0 / _ROOT_PI)
declare("erfinv", lambda x, y: _ROOT_PI / 2.0 * np.exp(y * y), domain=[(-0.9, 0.9)])
declare("erfcinv", lambda x, y: -_ROOT_PI / 2.0 * np.exp(y * y), domain=_UNIT)
declare("ndtr", lambda x, y: np.exp(-0.5 * x * x) / _ROOT_2PI, smooth=True)
declare("log_ndtr", _log_ndtr)
declare("ndtri", lambda x, y: _ROOT_2PI * np.exp(0.5 * y * y), domain=_UNIT)
declare("gammaln", lambda x, y: special("digamma", x), domain=_POSITIVE)
declare("gamma", lambda x, y: y * special("digamma", x), domain=_POSITIVE)
declare("rgamma", rgamma_slope, domain=_POSITIVE)
declare("digamma", lambda x, y: special("polygamma", 1, x), domain=_POSITIVE)
declare("psi", lambda x, y: special("polygamma", 1, x), domain=_POSITIVE)


def _beta_slopes(a: Any, b: Any) -> tuple[Any, Any]:
    both = special("digamma", a + b)
    return special("digamma", a) - both, special("digamma", b) - both


declare("betaln", lambda a, b, y: _beta_slopes(a, b), 2, _POSITIVE * 2)
declare("beta", lambda a, b, y: tuple(y * s for s in _beta_slopes(a, b)), 2, _POSITIVE * 2)
declare("xlogy", lambda x, y, z: (np.log(y), x / y), 2, [(-2.0, 2.0), (0.5, 3.0)])
declare("xlog1py", lambda x, y, z: (np.log1p(y), x / (1.0 + y)), 2, [(-2.0, 2.0), (0.5, 3.0)])
declare("entr", lambda x, y: -np.log(x) - 1.0, domain=_POSITIVE)
declare("rel_entr", lambda x, y, z: (np.log(x / y) + 1.0, -x / y), 2, _POSITIVE * 2)
declare("kl_div", lambda x, y, z: (np.log(x / y), 1.0 - x / y), 2, _POSITIVE * 2)
declare("expm1", lambda x, y: y + 1.0)
declare("log1p", lambda x, y: 1.0 / (1.0 + x), domain=_POSITIVE)
declare("exp2", lambda x, y: math.log(2.0) * y)
declare("exp10", lambda x, y: math.log(10.0) * y)
declare("cbrt", lambda x, y: 1.0 / (3.0 * y * y), domain=_POSITIVE)


def _polygamma_rule(direction: str) -> Callable[..., Any]:
    def rule(given: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        order, x = args
        if isinstance(order, Array):
            no_derivative("special.polygamma of a run-time order")()
        slope = special("polygamma", order + 1, x)
        return (given[1] * slope,) if direction == "jvp" else (None, given[0] * slope)

    return rule


declare("polygamma", None, 2)
_polygamma = SPECIAL["polygamma"]
_polygamma.nondifferentiable = False
_polygamma.cupy = "special.polygamma(np.asarray({0}), {1})"  # no order as a number
_polygamma.jvp, _polygamma.vjp = _polygamma_rule("jvp"), _polygamma_rule("vjp")
_polygamma.samples = lambda rng: [((1, np.asarray(rng.uniform(1, 3, s))), {}) for s in [(3,), ()]]


# along axes


def _logsumexp_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    axis, keepdims = params["axis"], params["keepdims"]
    weights = np.exp(args[0] - expand(outs[0], args[0], axis, keepdims))
    return (np.sum(weights * tangents[0], axis=axis, keepdims=keepdims),)


def _logsumexp_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    axis, keepdims = params["axis"], params["keepdims"]
    weights = np.exp(args[0] - expand(outs[0], args[0], axis, keepdims))
    return (expand(cotangents[0], args[0], axis, keepdims) * weights,)


SPECIAL["logsumexp"] = opaque(
    "special.logsumexp",
    _lazy("logsumexp"),
    infer_reduction(_lazy("logsumexp")),
    reduction_text("special.logsumexp"),
    _logsumexp_jvp,
    _logsumexp_vjp,
    fresh=True,
    samples=lambda rng: reduction_samples(rng, empty=False),
    smooth=True,
)


def _along(name: str, rule: Callable[..., Any], transpose: Callable[..., Any]) -> None:
    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        return (rule(tangents[0], outs[0], params["axis"]),)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        return (transpose(cotangents[0], outs[0], params["axis"]),)

    def infer(x: Any, axis: Axes) -> ArrayType:
        return type_of(x).with_dtype(_lazy(name)(np.ones(1, type_of(x).dtype)).dtype)

    def spell(args: Any, params: dict[str, Any]) -> str:
        return reduction_text(f"special.{name}")(args, {**params, "keepdims": False})

    def samples(rng: np.random.Generator) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        found = reduction_samples(rng, empty=False)
        return [(args, {"axis": p["axis"]}) for args, p in found]

    SPECIAL[name] = opaque(
        f"special.{name}",
        _lazy(name),
        infer,
        spell,
        jvp,
        vjp,
        fresh=True,
        smooth=True,
        samples=samples,
    )


def _softmax_rule(y_bar: Any, y: Any, axis: Axes) -> Any:
    """The Jacobian is symmetric: one rule for both directions."""
    return y * (y_bar - np.sum(y * y_bar, axis=axis, keepdims=True))


def _log_softmax_jvp(x_dot: Any, y: Any, axis: Axes) -> Any:
    return x_dot - np.sum(np.exp(y) * x_dot, axis=axis, keepdims=True)


def _log_softmax_vjp(y_bar: Any, y: Any, axis: Axes) -> Any:
    return y_bar - np.exp(y) * np.sum(y_bar, axis=axis, keepdims=True)


_along("softmax", _softmax_rule, _softmax_rule)
_along("log_softmax", _log_softmax_jvp, _log_softmax_vjp)


@means("scipy.special", "logsumexp")
def _logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """``scipy.special.logsumexp``; weights are a product before the sum."""
    x = FUNCTIONS[np.asarray](operand(a))
    if b is None and not return_sign:
        axes = normalize_axes(axis, x.ndim)
        return apply(SPECIAL["logsumexp"], x, axis=axes, keepdims=bool(keepdims))
    b = operand(1.0 if b is None else b)
    if isinstance(b, (Array, np.ndarray)):
        shape = np.broadcast_shapes(x.shape, b.shape)
        x = np.where(b == 0, -np.inf, x if x.shape == shape else np.broadcast_to(x, shape))
    axes = normalize_axes(tuple(range(x.ndim)) if axis is None else axis, x.ndim)
    top = np.max(np.real(x), axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.sum(b * np.exp(x - top), axis=axes, keepdims=True)
    found = np.log(np.abs(total) if return_sign else total) + top
    sign = np.sign(total)
    if not keepdims:
        found, sign = np.squeeze(found, axis=axes), np.squeeze(sign, axis=axes)
    return (found, sign) if return_sign else found


def _along_handler(name: str) -> Callable[..., Any]:
    def call(x: Any, axis: Any = None) -> Any:
        x = FUNCTIONS[np.asarray](operand(x))
        return apply(SPECIAL[name], x, axis=normalize_axes(axis, x.ndim))

    return call


for _name in ("softmax", "log_softmax"):
    means("scipy.special", _name)(_along_handler(_name))


@means("scipy.special", "softplus")
def _softplus(x: Any) -> Any:
    return np.logaddexp(0.0, x)


elementwise(np.i0, lambda x, y: special("i1", x), spelling="np.i0({0})")
