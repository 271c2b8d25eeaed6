"""The examples of ``scipy.special`` in docs/support.md whose first argument is not an array."""

from __future__ import annotations

_ORDERS = "jv jve yv yve iv ive kv kve yn kn hankel1 hankel2 hankel1e hankel2e struve modstruve"
_DEGREES = """eval_legendre eval_chebyt eval_chebyu eval_chebyc eval_chebys eval_sh_legendre
eval_sh_chebyt eval_sh_chebyu eval_laguerre eval_hermite eval_hermitenorm"""
_SHAPE = """gammainc gammaincc gammaincinv gammainccinv stdtr stdtrit chdtr chdtrc chdtri hyp0f1
expn zeta pdtr pdtrc pdtri"""
_TWO = """betainc betaincc betaincinv betainccinv fdtr fdtrc fdtri hyp1f1 hyperu eval_genlaguerre
eval_gegenbauer bdtr bdtrc nbdtr nbdtrc"""
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
    "voigt_profile": "special.voigt_profile(x, 0.5, 0.8)",
    "wofz": "special.wofz(x).real",
}
