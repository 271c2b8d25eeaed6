"""The table of ``scipy.stats`` in docs/support.md: distributions and their methods.

Each distribution is called once for all of its methods, as in ``EXAMPLES``.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import stats

import calque
from calque.transpiler.errors import CalqueError

TITLE = "scipy.stats"
HEAD = """\
Distributions at these shape parameters, continuous ones with `loc` and `scale`; `pmf` for `pdf` of the others. In a cell: `v` the value is SciPy's,
`f` and `r` forward and reverse mode agree with each other and with differences, by the place and by every
parameter (`d` in place of both: by the place only), `b` `vmap` equals a loop, `k` compiled loops hold
it; `0`: piecewise constant. An empty cell is refused.

"""
METHODS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
OF_COUNTS = {"pdf": "pmf", "logpdf": "logpmf"}  # a discrete distribution's names
DISCRETE: dict[str, tuple[float, ...]] = {
    "poisson": (2.7,),
    "binom": (9, 0.37),
    "bernoulli": (0.3,),
    "geom": (0.35,),
    "nbinom": (4.3, 0.4),
}
CONTINUOUS: dict[str, tuple[float, ...]] = {
    "norm": (),
    "expon": (),
    "uniform": (),
    "laplace": (),
    "logistic": (),
    "cauchy": (),
    "lognorm": (0.8,),
    "weibull_min": (1.7,),
    "gumbel_r": (),
    "pareto": (2.6,),
    "t": (4.3,),
    "chi2": (3.4,),
    "f": (5.2, 7.1),
    "gamma": (2.3,),
    "invgamma": (3.1,),
    "beta": (2.3, 1.6),
    "truncnorm": (-1.2, 1.9),
}
PROBABILITIES = np.array([0.03, 0.21, 0.47, 0.78, 0.97])


def method_of(dist: Any, name: str, count: int) -> Callable[..., Any]:
    """A function with the call in its text, as a user writes it."""
    end = ["loc", "scale"] if hasattr(dist, "pdf") else []
    given = ", ".join(["x", *(f"a{k}" for k in range(count)), *end])
    text, file = f"def f({given}):\n    return dist.{name}({given})\n", f"<{dist.name}.{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"dist": dist, "np": np}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., Any] = namespace["f"]
    return made


def verdict(f: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The letters of a cell."""
    try:
        mapped = calque.vmap(f, in_axes=(0,) + (None,) * len(args[1:]))(*args)
    except (CalqueError, NotImplementedError):
        return ""
    np.testing.assert_allclose(mapped, f(*args), rtol=1e-9)
    numbers = tuple(k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f")
    slopes = differences(f, args, numbers)
    letters = "v"
    try:
        reverse = calque.grad(lambda *a: np.sum(f(*a)), argnums=numbers)(*args)
        forward = calque.jvp(lambda *a: f(*with_(args, numbers, a)), *tangents(args, numbers))[1]
        for got, by in zip(reverse, slopes, strict=True):
            want = by if np.ndim(got) else np.sum(by)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(forward, np.sum(slopes, axis=0), rtol=1e-4, atol=1e-5)
        letters += "fr" if np.any(slopes) else "0"
    except (CalqueError, NotImplementedError):
        try:
            got = calque.grad(lambda x: np.sum(f(x, *args[1:])))(args[0])
        except (CalqueError, NotImplementedError):
            return letters
        np.testing.assert_allclose(got, slopes[0], rtol=1e-4, atol=1e-5)
        letters += "d"
    try:
        mapped = calque.vmap(f, in_axes=(0,) + (None,) * len(args[1:]))(*args)
    except (CalqueError, NotImplementedError):
        return letters + ("k" if in_kernels(f, args) else "")
    np.testing.assert_allclose(mapped, f(*args), rtol=1e-9)
    return letters + "b" + ("k" if in_kernels(f, args) else "")


def tangents(args: tuple[Any, ...], numbers: tuple[int, ...]) -> tuple[Any, Any]:
    """The arguments of these positions, and ones like them."""
    given = tuple(args[k] for k in numbers)
    return given, tuple(map(np.ones_like, given))


def with_(args: tuple[Any, ...], numbers: tuple[int, ...], given: Any) -> list[Any]:
    """The arguments, some of them others."""
    return [given[numbers.index(k)] if k in numbers else a for k, a in enumerate(args)]


def differences(
    f: Callable[..., Any], args: tuple[Any, ...], numbers: tuple[int, ...]
) -> np.ndarray:
    """The slope by each of some arguments, in each place."""
    found = []
    for k in numbers:
        given = args[k]
        step = 1e-6 * np.minimum(1.0, np.abs(given))
        high, low = (f(*args[:k], given + s, *args[k + 1 :]) for s in (step, -step))
        found.append((high - low) / (2.0 * step))
    return np.nan_to_num(found, posinf=0.0, neginf=0.0)  # also where all is minus infinity


def in_kernels(f: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """True if the launcher of the compiled text leaves nothing to SciPy, or to NumPy's loops."""
    places = [np.broadcast_to(a, np.shape(args[0])).copy() for a in args]  # nothing is hoisted
    text = calque.source(calque.jit(f), *places)
    launcher = text.rpartition("\ndef ")[2]
    elsewhere = ("special.", "stats.", "betainc_by", "gamma_slope")
    return "@kernel" in text and not any(word in launcher for word in elsewhere)


def cells(name: str, shapes: tuple[float, ...]) -> Iterator[str]:
    """The cells of a distribution."""
    dist = getattr(stats, name)
    end = (0.3, 1.7) if name in CONTINUOUS else ()
    for method in METHODS:
        args: tuple[Any, ...] = (*shapes, *end)
        x = PROBABILITIES if method in ("ppf", "isf") else dist.ppf(PROBABILITIES, *args)
        if name in DISCRETE and method not in ("ppf", "isf"):
            x = x.astype(int)
        own = method if name in CONTINUOUS else OF_COUNTS.get(method, method)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield verdict(method_of(dist, own, len(shapes)), (x, *args))


def table() -> str:
    """The section of the page."""
    lines = [f"| distribution | at | {' | '.join(METHODS)} |", "| --- " * (2 + len(METHODS)) + "|"]
    for name, shapes in (CONTINUOUS | DISCRETE).items():
        given = ", ".join(map(str, shapes))
        marks = [f"`{c}`" if c else "" for c in cells(name, shapes)]
        lines.append(f"| `stats.{name}` | {given} | {' | '.join(marks)} |")
    return f"\n## {TITLE}\n\n{HEAD}" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table())
