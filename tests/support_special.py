"""The table of ``scipy.special`` in docs/support.md: examples, and where compiled code has them.

An example is given where the first argument is not an array.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import calque
from calque.transpiler.errors import CalqueError

_ORDERS = "jv jve yv yve iv ive kv kve yn kn hankel1 hankel2 hankel1e hankel2e struve modstruve"
_DEGREES = """eval_legendre eval_chebyt eval_chebyu eval_chebyc eval_chebys eval_sh_legendre
eval_sh_chebyt eval_sh_chebyu eval_laguerre eval_hermite eval_hermitenorm"""
_SHAPE = """gammainc gammaincc gammaincinv gammainccinv stdtr stdtrit chdtr chdtrc chdtri hyp0f1
expn zeta pdtr pdtrc pdtri"""
_TWO = """betainc betaincc betaincinv betainccinv fdtr fdtrc fdtri hyp1f1 hyperu eval_genlaguerre
eval_gegenbauer bdtr bdtrc nbdtr nbdtrc"""
_SPHERICAL = "spherical_jn spherical_yn spherical_in spherical_kn"
_INTEGRALS = "itj0y0 iti0k0 it2j0y0 it2i0k0"
_ZEROS_OF_ORDER = "jn jnp yn ynp"
_ZEROS = "ber bei ker kei berp beip kerp keip"
_SEVERAL_ZEROS = "ai bi y0 y1 y1p fresnel"
_COMPLEX_ZEROS = "erf fresnelc fresnels"
_ROOTS = """legendre chebyt chebyu chebyc chebys laguerre hermite hermitenorm sh_legendre sh_chebyt
sh_chebyu"""
_SHORT = "t u c s l h he p ts us ps"  # older names of these
_ROOTS_OF_ONE = "gegenbauer genlaguerre"
EXAMPLES = {
    **{name: f"special.{name}(2, x)" for name in (_ORDERS + " " + _DEGREES).split()},
    **{name: f"special.{name}(2, x)" for name in _SHAPE.split()},
    **{name: f"special.{name}(2, 3, x)" for name in _TWO.split()},
    **{name: f"special.{name}(x, 1.5, 2.5)" for name in ("gdtr", "gdtrc")},
    **{name: f"special.{name}(x)[0]" for name in ("airy", "fresnel", "sici", "shichi")},
    "comb": "special.comb(x, 2)",
    "elliprd": "special.elliprd(x, 1.0, 2.0)",
    "eval_jacobi": "special.eval_jacobi(2, 0.5, 1.5, x)",
    "factorial": "special.factorial(x)",
    "hyp2f1": "special.hyp2f1(0.5, 1.5, 2.5, x)",
    "lambertw": "special.lambertw(x).real",
    "multigammaln": "special.multigammaln(x + 1, 2)",
    "ndtri_exp": "special.ndtri_exp(-x)",
    "legendre_p": "special.legendre_p(2, x)[0]",
    "sph_legendre_p": "special.sph_legendre_p(2, 1, x)[0]",
    "assoc_legendre_p": "special.assoc_legendre_p(2, 1, x)[0]",
    "sph_harm_y": "special.sph_harm_y(2, 1, x, x[::-1]).real",
    "ellipj": "special.ellipj(x, x[::-1])[0]",
    **{name: f"special.{name}(2, x)" for name in _SPHERICAL.split()},
    **{name: f"special.{name}(4)[2] * x" for name in ("bernoulli", "euler")},
    **{name: f"special.{name}(2, x)" for name in ("jvp", "yvp", "ivp", "kvp")},
    **{name: f"special.{name}(2, x).real" for name in ("h1vp", "h2vp")},
    **{name: f"special.{name}(x)[0]" for name in _INTEGRALS.split()},
    **{name: f"special.{name}(0.5, 1.5, x)" for name in ("wright_bessel", "log_wright_bessel")},
    **{f"{name}_zeros": f"special.{name}_zeros(1, 3)[2] * x" for name in _ZEROS_OF_ORDER.split()},
    **{f"{name}_zeros": f"special.{name}_zeros(3)[2] * x" for name in _ZEROS.split()},
    **{f"roots_{name}": f"special.roots_{name}(3)[0][2] * x" for name in _ROOTS.split()},
    **{
        f"roots_{name}": f"special.roots_{name}(3, 0.5)[0][2] * x" for name in _ROOTS_OF_ONE.split()
    },
    **{f"roots_{n}": f"special.roots_{n}(3, 1.5, 0.5)[0][2] * x" for n in ("jacobi", "sh_jacobi")},
    **{
        f"{name}_zeros": f"special.{name}_zeros(3)[0][2].real * x"
        for name in _SEVERAL_ZEROS.split()
    },
    **{f"{name}_zeros": f"special.{name}_zeros(3)[2].real * x" for name in _COMPLEX_ZEROS.split()},
    **{f"{name}_roots": f"special.{name}_roots(3)[0][2] * x" for name in _SHORT.split()},
    **{f"{name}_roots": f"special.{name}_roots(3, 0.5)[0][2] * x" for name in ("cg", "la")},
    **{f"{name}_roots": f"special.{name}_roots(3, 1.5, 0.5)[0][2] * x" for name in ("j", "js")},
    "jnjnp_zeros": "special.jnjnp_zeros(3)[0][2] * x",
    "jnyn_zeros": "special.jnyn_zeros(1, 3)[0][2] * x",
    "kelvin_zeros": "special.kelvin_zeros(3)[0][2] * x",
    "lpmv": "special.lpmv(1, 2.0, x)",
    "eval_sh_jacobi": "special.eval_sh_jacobi(2, 2.5, 1.5, x)",
    "assoc_laguerre": "special.assoc_laguerre(x, 2, 1.5)",
    "gdtria": "special.gdtria(x, 1.5, 2.0)",
    "gdtrix": "special.gdtrix(1.5, 2.0, x)",
    "perm": "special.perm(x + 2, 2)",
    "stirling2": "special.stirling2(4, 2) * x",
    "factorial2": "special.factorial2(5, exact=True) * x",
    "factorialk": "special.factorialk(5, 2, exact=True) * x",
    "voigt_profile": "special.voigt_profile(x, 0.5, 0.8)",
    "wofz": "special.wofz(x).real",
}


HEAD = """\
*kernel*: compiled loops hold it; "whole": `jit` calls SciPy for whole arrays. *CUDA*: "kernel", or "CuPy" where the launcher calls
`cupyx.scipy.special`; "no": refused for arrays on a GPU.

| function | tried as | value | jvp | vjp | batch | kernel | CUDA |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def columns(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, str]:
    """The places where compiled code has a function: on the host, and on a GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        host = _launcher(calque.source(calque.jit(fn), *args))
        try:
            types = [calque.spec(f"{a.dtype.str[1:]}[{', '.join('nm'[: a.ndim])}]") for a in args]
            text = calque.source(calque.jit(fn), *types, stage="cuda")
        except (CalqueError, NotImplementedError):
            return _kind(host, "whole"), "no"
    return _kind(host, "whole"), _kind(_launcher(text), "CuPy")


def _launcher(text: str) -> str:
    """The text of the launcher, without comments."""
    return re.sub(r"#.*", "", text.partition("\ncode = ")[0].rpartition("\ndef ")[2])


def _kind(launcher: str, otherwise: str) -> str:
    return otherwise if "special." in launcher else "kernel"
