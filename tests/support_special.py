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
