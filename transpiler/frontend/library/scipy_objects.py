"""Recognition of SciPy's objects, and hints for functions that have no rule."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, function_name
from calque.transpiler.primitives.base import SPARSE

# a module of SciPy -> where NumPy has functions of the same names that do the same
_IN_NUMPY = {
    "scipy.linalg": (np.linalg, np),
    "scipy.fft": (np.fft,),
    "scipy.fftpack": (np.fft,),
    "scipy.special": (np,),
    "scipy.signal": (np,),
    "scipy.integrate": (np,),
}


def is_scipys(function: Any) -> bool:
    """True if a function, or the class of a callable object, is SciPy's."""
    modules = getattr(function, "__module__", None), type(function).__module__
    return any((m or "").startswith("scipy") for m in modules)


_ROOT = Path(__file__).parents[3]  # as the code objects have it, which know no links
_OURS = (str(_ROOT / "runtime") + os.sep, str(_ROOT / "transpiler") + os.sep)
_TWINS = str(_ROOT / "runtime" / "scipy_twins") + os.sep


def is_scipys_code(file: str) -> bool:
    """True for a file of SciPy's, or of calque's twins of it.

    >>> is_scipys_code(__file__)
    False
    """
    return file.startswith((_TWINS, *_places("scipy")))


def is_users_code(file: str) -> bool:
    """True for a file that is neither SciPy's nor NumPy's nor calque's own.

    >>> is_users_code(__file__)
    False
    """
    return not file.startswith((*_OURS, *_places("scipy", "numpy")))


def _places(*libraries: str) -> list[str]:
    """The folders of those libraries that are imported."""
    found = [getattr(sys.modules.get(name), "__file__", None) for name in libraries]
    return [str(Path(f).parent) + os.sep for f in found if f is not None]


def is_frozen(owner: Any) -> bool:
    """True for a distribution with frozen parameters, whose methods call the distribution's."""
    return is_scipys(owner) and type(owner).__name__ in (
        "rv_continuous_frozen",
        "rv_discrete_frozen",
    )


def is_distribution(value: Any) -> bool:
    """True for a distribution of ``scipy.stats``, or a copy, which nobody changes."""
    return is_scipys(value) and any(
        c.__name__ in ("rv_generic", "multi_rv_generic") for c in type(value).__mro__
    )


def _numpys(name: str) -> str | None:
    """NumPy's name of a function of SciPy, where calque knows it."""
    module, _, own = name.rpartition(".")
    for place in _IN_NUMPY.get(module, ()):
        found = getattr(place, own, None)
        if callable(found) and found in FUNCTIONS:
            return function_name(found)
    return None


_KEPT = "keep the call in a function of yours that calque.opaque declares, with its derivative"
_ROOTS = (
    "brentq brenth ridder bisect newton toms748 root_scalar root fsolve newton_krylov broyden1"
    " broyden2 anderson linearmixing diagbroyden excitingmixing"
).split()
_STEADY = ("fixed_point",)
_QUADRATURES = "quad quad_vec dblquad tplquad nquad fixed_quad quadrature cubature".split()
_EQUATIONS = "solve_ivp odeint ode complex_ode solve_bvp RK23 RK45 DOP853 Radau BDF LSODA".split()
_SAMPLED = "simpson romb cumulative_simpson cumulative_trapezoid".split()


def way_around(name: str) -> str:
    """Advice for a function of SciPy that calls another one, or for such a class."""
    module, _, own = name.rpartition(".")
    if module == "scipy.optimize":
        if own in _ROOTS:
            return (
                "write the iteration in NumPy as the solve of calque.custom_root(f, guess, solve), "
                f"or {_KEPT}"
            )
        if own in _STEADY:
            return "write calque.fixed_point(f, x0)"
        return (
            "minimize outside, with calque.value_and_grad(f); the minimum's derivative is that of "
            "the root of the gradient: calque.custom_root(grad(f), guess, solve)"
        )
    if own in _QUADRATURES:
        return f"sum over nodes (np.polynomial.legendre.leggauss(n) gives some), or {_KEPT}"
    if own in _EQUATIONS:
        return f"write the steps as a loop (Euler, Runge-Kutta), or {_KEPT}"
    return f"write it in NumPy, or {_KEPT}"


_LIBRARIES = {"numpy": "NumPy", "scipy": "SciPy"}


_INSTEAD = {
    "np.nditer": "loop over x.ravel()",
    "np.lib.stride_tricks.as_strided": "slice, or take np.lib.stride_tricks.sliding_window_view",
    **dict.fromkeys(("np.asmatrix", "np.bmat"), "compute with plain arrays, as A @ x"),
    "fractions.Fraction": "compute with floats",
    "decimal.Decimal": "compute with floats",
}


def missing(function: Any, name: str) -> str:
    """The message about a function that is neither known nor read."""
    top = (getattr(function, "__module__", None) or "").partition(".")[0]
    written = isinstance(function, type) or hasattr(inspect.unwrap(function), "__code__")
    if not written or not top:
        return f"{name} has neither a rule nor Python source."
    if top in sys.stdlib_module_names:
        return f"{name} has no rule for run-time values."
    return f"{name} has no rule, and the code of {_LIBRARIES.get(top, top)} is not entered."


def instead_of(function: Any, name: str) -> str:
    """The hint for a function without a rule: another one, or the declaration that admits it."""
    if not name.startswith("scipy."):
        if name.startswith("np.ma."):
            return "select by np.where(mask, x, 0.0), or by x[mask]"
        return _INSTEAD.get(name, "write it in NumPy, or declare a primitive for it")
    module, _, own = name.rpartition(".")
    if module.startswith("scipy.sparse"):
        return SPARSE
    if module.startswith("scipy.spatial") and _is_of_class(function):
        return "find the neighbours outside, and pass their indices: compute with x[indices]"
    if module == "scipy.interpolate":
        return f"write np.interp, or evaluate the pieces' coefficients in NumPy, or {_KEPT}"
    if module == "scipy.optimize" or own in (*_QUADRATURES, *_EQUATIONS):
        return way_around(name)
    if own in _SAMPLED:
        return f"write np.trapezoid, or the rule's weights in NumPy, or {_KEPT}"
    if not hasattr(function, "__name__"):
        return f"call a method of {name} with its parameters"
    other = _numpys(name)
    write = f"write {other}" if other else "write it in NumPy"
    return f"{write}, or give its derivative: calque.opaque({name}, result=..., jvp=..., vjp=...)"


def _is_of_class(function: Any) -> bool:
    """True for a class, an instance, or a method."""
    owner = getattr(function, "__self__", None)
    return isinstance(function, type) or not hasattr(function, "__name__") or owner is not None


def is_sparse(value: Any) -> bool:
    """True if a value is a sparse matrix, or array, of SciPy's."""
    return type(value).__module__.startswith("scipy.sparse")
