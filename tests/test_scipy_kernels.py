"""SciPy's functions of numbers in compiled loops: its own machine code, called for one element."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.primitives.special import SPECIAL

special, stats = pytest.importorskip("scipy.special"), pytest.importorskip("scipy.stats")
linalg = pytest.importorskip("scipy.linalg")
no_fallback = pytest.mark.filterwarnings("error::calque.runtime.call.fallback.JitFallback")

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.25, 2.5, -2.5, 30.0, np.inf, -np.inf, np.nan])
# of what other code than SciPy's computes in kernels, other tests hold the values
OWN = frozenset(
    """expit log_expit logit erf erfc erfcx ndtr log_ndtr gammaln gamma digamma psi xlogy xlog1py
    expm1 log1p exp2 exp10 cbrt""".split()
)
NAMES = [
    n
    for n, record in SPECIAL.items()
    if record.kind == "elementwise"
    and n not in OWN
    and isinstance(getattr(special, n, None), np.ufunc)
]
FEW = np.array([0.0, 1.0, 0.25, 2.5, np.nan])  # SciPy's hyp1f1 does not end at infinity


def functions_of(count: int) -> tuple[Any, ...]:
    return tuple(f for f in (getattr(special, n) for n in NAMES) if f.nin == count)


def grid(count: int, dtype: str) -> list[np.ndarray]:
    """All combinations of edge values, and numbers between them."""
    rng, edges = np.random.default_rng(count), EDGES if count < 3 else FEW
    found = [v.ravel() for v in np.meshgrid(*[edges] * count)]
    return [np.concatenate([v, rng.uniform(0.1, 0.9, 40)]).astype(dtype) for v in found]


@no_fallback
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_function_is_called_for_one_element(count: int, dtype: str) -> None:
    called = tuple(f for f in functions_of(count) if _takes(f, count, dtype))

    def f(*args):
        return tuple(g(*args) for g in called)

    args = grid(count, dtype)
    compiled = calque.jit(f)
    text = calque.source(compiled, *args)
    launcher = text.rpartition("\ndef ")[2]
    assert "special." not in launcher, launcher
    with np.errstate(all="ignore"):
        for g, found, want in zip(called, compiled(*args), f(*args), strict=True):
            assert found.dtype == want.dtype, g
            np.testing.assert_array_equal(found, want, err_msg=str(g))


def _takes(f: Any, count: int, dtype: str) -> bool:
    """True if a function takes real numbers, and no integers in their place."""
    char, warns = np.dtype(dtype).char, f.__name__ in ("expn", "kn", "yn")
    return f.nout == 1 and not warns and any(t.startswith(char * count) for t in f.types)


def integers(n, x):
    return special.eval_hermite(n, x), special.eval_legendre(3, x), special.expn(n, x)


def wrapped(n, x):
    spherical = special.spherical_jn(n, x), special.spherical_kn(2, x)
    zetas = special.zeta(x + 1.0), special.zeta(x + 1.0, 0.3)
    return *zetas, special.lambertw(x), special.kn(2, x), *spherical


def parts(n, x):
    sine, cosine = special.sici(x)
    return (
        special.ellipj(x, 0.3)[1],
        sine * cosine,
        special.airy(x)[2],
        special.fresnel(x)[1],
        special.shichi(x)[0],
    )


def complex_numbers(n, x):
    z = x + 0.5j
    return (
        special.wofz(z),
        special.jv(1.5, z),
        special.gamma(z),
        special.erf(z),
        special.hankel1(2, z),
    )


@no_fallback
@pytest.mark.parametrize("f", [integers, wrapped, parts, complex_numbers])
def test_functions_of_other_kinds(f: Any) -> None:
    n, x = np.arange(40) % 5, np.random.default_rng(0).uniform(0.1, 3.0, 40)
    for dtype in "f8", "f4":
        y = x.astype(dtype)
        for found, want in zip(calque.jit(f)(n, y), f(n, y), strict=True):
            assert found.dtype == want.dtype
            near = 1e-15 if want.dtype.char in "dD" else 1e-6
            np.testing.assert_allclose(found, want, rtol=near, atol=0)
    assert "special." not in calque.source(calque.jit(f), n, x).rpartition("\ndef ")[2]


def looped(special_, x):
    """A parameter whose name is that of the module."""
    total = 0.0
    for i in range(x.size):
        total += stats.t.logpdf(x[i], special_) + special.gammainc(special_, x[i])
        total += special.jv(special_, x[i]) * special.sici(x[i])[1] + special.zeta(2.5, x[i])
    return total


def named(special, x):
    return np.sum(stats.gamma.cdf(x, special) * stats.beta.ppf(x / 9.0, special, 2.0))


@no_fallback
@pytest.mark.parametrize("f", [looped, named])
def test_the_modules_name_and_gradients(f: Any) -> None:
    x = np.linspace(0.1, 4.0, 30)
    np.testing.assert_allclose(calque.jit(f)(1.5, x), f(1.5, x), rtol=1e-13)
    g = calque.grad(f, 1)
    np.testing.assert_allclose(calque.jit(g)(1.5, x), g(1.5, x), rtol=1e-12)


def by_parameters(a, b, x):
    incomplete = special.gammainc(a, b) + special.betainc(a, b, x) + special.betaincinv(b, a, x)
    return np.sum(incomplete + special.gammainccinv(a, x) + special.polygamma(2, a))


@no_fallback
def test_slopes_by_parameters() -> None:
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.uniform(-3.0, 4.0, (2, 200)))
    x = rng.uniform(0.01, 0.99, 200)
    ends = [np.array(v) for v in ([0.0, 1.0, np.inf], [1.0, 0.0, 2.0], [0.0, 1.0, 0.5])]
    g = calque.grad(by_parameters, (0, 1, 2))
    with np.errstate(all="ignore"):
        for args in (a, b, x), ends:
            for found, want in zip(calque.jit(g)(*args), g(*args), strict=True):
                np.testing.assert_allclose(found, want, rtol=1e-9)
        single = [v[:30].astype("f4") for v in (a, b, x)]
        for found, want in zip(calque.jit(g)(*single), g(*single), strict=True):
            assert found.dtype == want.dtype
            np.testing.assert_allclose(found, want, rtol=2e-3)
    text = calque.source(calque.jit(g), a, b, x)
    assert "special." not in text.rpartition("\ndef ")[2] and "_by_" not in text


def test_on_threads() -> None:
    x = np.random.default_rng(0).uniform(0.1, 30.0, 200_000)

    def f(x):
        return special.jv(1.5, x) + special.gammainc(x, 2.0)

    np.testing.assert_array_equal(calque.jit(f, parallel=True)(x), f(x))


SCRIPT = """
import numpy as np, calque
from test_scipy_kernels import looped
g = calque.jit(looped)
x = np.linspace(0.1, 4.0, 30)
assert np.isclose(g(1.5, x), looped(1.5, x), rtol=1e-13)
"""


def script(code: str, **more: str) -> str:
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **more}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_machine_code_is_kept_for_another_process(tmp_path: Path) -> None:
    """SciPy's functions are at other addresses there."""
    tmp_path.chmod(0o700)
    first = script(SCRIPT, CALQUE_CACHE=str(tmp_path), CALQUE_DEBUG="1")
    second = script(SCRIPT, CALQUE_CACHE=str(tmp_path), CALQUE_DEBUG="1")
    assert "compiled in" in first and "compiled in" not in second
    assert "loaded from the cache" in second
    again = script(SCRIPT, CALQUE_CACHE=str(tmp_path), CALQUE_DEBUG="1", SCIPY_ARRAY_API="1")
    assert "loaded from the cache" in again or "compiled in" in again


def test_stepping() -> None:
    """With ``CALQUE_JIT=0`` the same text is plain Python."""
    script(SCRIPT, CALQUE_JIT="0", CALQUE_CACHE="0")


def test_a_saved_module_calls_scipy_alone(tmp_path: Path) -> None:
    x = np.linspace(0.1, 4.0, 30)
    calque.save(calque.jit(looped), str(tmp_path / "saved.py"), 1.5, x)
    code = f"""
import sys; sys.modules["calque"] = None; sys.path.insert(0, {str(tmp_path)!r})
import numpy as np, saved
print(repr(float(saved.looped_jit(1.5, np.linspace(0.1, 4.0, 30)))))
"""
    np.testing.assert_allclose(float(script(code).split()[0]), looped(1.5, x), rtol=1e-13)


def propagated(t, rates, x):
    total = 0.0
    for k in range(t.shape[0]):
        total += np.sum(np.log(linalg.expm(rates * t[k]) @ x))
    return total


def test_the_slope_of_a_small_exponential_is_part_of_a_larger_one() -> None:
    rng = np.random.default_rng(6)
    slopes = calque.jit(calque.grad(propagated, argnums=(0, 1)))
    for n, block in ((1, True), (4, True), (40, False)):
        t, rates, x = rng.uniform(0.1, 0.5, 3), rng.random((n, n)) / n, rng.random((n, 2))
        text = calque.source(slopes, t, rates, x, stage="kernels")
        assert ("expm_frechet" in text) is not block
        plain = calque.grad(propagated, argnums=(0, 1))(t, rates, x)
        for found, other in zip(slopes(t, rates, x), plain, strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-11)
        single = rates.astype(np.float32)
        assert slopes(t, single, x)[1].dtype == np.float32
