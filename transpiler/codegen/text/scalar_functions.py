"""Functions of one or two numbers on all targets: each is declared here, and nowhere else.

A record names one in its ``scalar``. From the table follow what kernels call, of which functions
``runtime/vecmath`` has polynomials, what runs where a kernel is stepped through, and CUDA's names.

>>> SCALAR_FUNCTIONS["asin"]
ScalarFunction(value='np.arcsin(x)', numba='vecmath', c='asin', of_complex='numba')
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScalarFunction:
    """A function's text on each target; an empty one where the target has none."""

    value: str  # in Python, of x and y
    numba: str  # in kernels; or that ``runtime/vecmath`` has a polynomial of its name
    c: str  # the name in CUDA C, without the letter of its type
    of_complex: str  # the targets with a function of complex numbers; alike: kernels' same text


VECTOR = "vecmath"
# names, in Python, in kernels, in CUDA C, targets with complex numbers; {n} is the name
_TABLE = (
    ("exp exp2 expm1 log log2 log10", "np.{n}(x)", VECTOR, "{n}", "numba cuda"),
    ("sin cos tan sinh cosh tanh", "np.{n}(x)", VECTOR, "{n}", "numba cuda"),
    ("asin acos atan asinh acosh atanh", "np.arc{rest}(x)", VECTOR, "{n}", "numba"),
    ("log1p cbrt", "np.{n}(x)", VECTOR, "{n}", ""),
    ("erf erfc", "math.{n}(x)", VECTOR, "{n}", ""),
    ("erfcx", "math.exp(x * x) * math.erfc(x)", VECTOR, "{n}", ""),
    ("exp10", "np.power(10.0, x)", VECTOR, "{n}", ""),
    ("atan2", "np.arctan2(x, y)", VECTOR, "{n}", ""),
    ("hypot", "np.hypot(x, y)", VECTOR, "{n}", ""),
    ("expit", "1.0 / (1.0 + np.exp(-x))", VECTOR, "", ""),
    ("log_expit", "-np.logaddexp(0.0, -x)", VECTOR, "", ""),
    ("logit", "np.log(x / (1.0 - x))", VECTOR, "", ""),
    ("sqrt", "np.sqrt(x)", "np.sqrt({0})", "sqrt", "numba cuda"),
    ("abs", "np.abs(x)", "abs({0})", "fabs", "alike cuda"),
    ("fabs", "np.fabs(x)", "abs({0})", "fabs", ""),
    ("isnan isinf isfinite", "np.{n}(x)", "np.{n}({0})", "{n}", "alike cuda"),
    ("signbit degrees radians", "np.{n}(x)", "np.{n}({0})", "", ""),
    ("floor ceil trunc rint", "np.{n}(x)", "np.{n}({0})", "{n}", ""),
    ("sign", "np.sign(x)", "sign({0})", "sign", ""),
    ("maximum minimum", "np.{n}(x, y)", "{n}({0}, {1})", "{n}", ""),
    ("fmax fmin copysign", "np.{n}(x, y)", "np.{n}({0}, {1})", "{n}", ""),
    ("nextafter ldexp", "np.{n}(x, y)", "np.{n}({0}, {1})", "", ""),
    ("fmod", "np.fmod(x, y)", "fmod({0}, {1})", "fmod", ""),
    ("pow", "np.power(x, y)", "{0} ** {1}", "pow", ""),
    ("lgamma gammaln", "math.lgamma(x)", "math.lgamma({0})", "lgamma", ""),
    ("gamma", "math.gamma(x)", "math.gamma({0})", "tgamma", ""),
    ("erfinv erfcinv j0 j1 y0 y1", "special.{n}(x)", "", "{n}", ""),
    ("i0 i1", "special.{n}(x)", "", "cyl_bessel_{n}", ""),
    ("ndtr", "special.ndtr(x)", "", "normcdf", ""),
    ("ndtri", "special.ndtri(x)", "", "normcdfinv", ""),
)
SCALAR_FUNCTIONS = {
    name: ScalarFunction(*(t.replace("{n}", name).replace("{rest}", name[1:]) for t in texts))
    for names, *texts in _TABLE
    for name in names.split()
}
