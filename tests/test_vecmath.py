"""The vector functions against mpmath, at the edges against NumPy, vectorized, and in a saved module."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpmath as mp
import numba
import numpy as np
import pytest
import scipy.special
from sampling import EVERYTHING
from vecmath_reference import EXACT, TWO_ARGUMENTS, pairs, points, ulps

import calque
from calque.runtime import vecmath
from calque.runtime.vecmath import direct
from calque.transpiler.codegen.numba.called_functions import HALF_POWERS
from calque.transpiler.primitives.record import PRIMITIVES

FAR = ("sin", "cos", "tan")
FLAGS = {"reassoc", "contract", "nsz"}
BOTH = (np.float64, np.float32)
ROOT = Path(calque.__file__).resolve().parent


def _power_of(exponent: float, x: np.ndarray) -> np.ndarray:
    return np.power(x, x.dtype.type(exponent))


NUMPY = {
    **{name: getattr(np, name) for name in EXACT if hasattr(np, name)},
    **{name: getattr(scipy.special, name) for name in EXACT if hasattr(scipy.special, name)},
    **{name: getattr(np, f"arc{name[1:]}") for name in EXACT if name[0] == "a"},
    "pow": np.power,
    **{n: functools.partial(_power_of, e) for e, n in HALF_POWERS.items()},
}
every = pytest.mark.parametrize("name", sorted(EXACT))
in_both = pytest.mark.parametrize("dtype", BOTH, ids=lambda dtype: dtype.__name__)


def named(value: Any) -> str:
    """Return the name of a case."""
    return getattr(value, "__name__", value)


def in_turns(*forms: str) -> Any:
    """Each function in both dtypes, and in each form, by turns: each of the kernels is compiled."""
    cases = [
        (name, dtype, form)
        for i, name in enumerate(sorted(EXACT))
        for j, dtype in enumerate(BOTH)
        for form in forms
        if form == "numba" or name in FAR or EVERYTHING or (i + j) % 2 == (form == "apart")
    ]
    return pytest.mark.parametrize("name, dtype, form", cases, ids=named)


@functools.cache
def kernel(
    name: str, dtype: type, fastmath: bool = True, prange: bool = False, form: str = "numba"
):
    """A loop over one function, compiled with the flags of calque's kernels."""
    function = vecmath.FUNCTIONS[name].compiled(dtype)
    if form != "numba":
        function = direct.direct(function, form == "apart")
    options = {"fastmath": FLAGS if fastmath else False}
    if prange:
        options["parallel"] = {"prange": True}

    if name in TWO_ARGUMENTS:

        @numba.njit(**options)
        def loop(x, y, out):
            for i in numba.prange(out.size):
                out[i] = function(x[i], y[i])

    else:

        @numba.njit(**options)
        def loop(x, out):
            for i in numba.prange(out.size):
                out[i] = function(x[i])

    return loop


def call(name: str, *args: np.ndarray, **options: bool | str) -> np.ndarray:
    """The function over arrays."""
    out = np.empty_like(args[0])
    kernel(name, args[0].dtype.type, **options)(*args, out)
    return out


@every
@in_both
def test_four_units_in_the_last_place(name: str, dtype: type) -> None:
    rng = np.random.default_rng(1)
    count = 300 if name in ("erfcx", *TWO_ARGUMENTS) else 600
    count *= 3 if EVERYTHING else 1  # mpmath takes its time
    args = pairs(name, count, dtype, rng) if name in TWO_ARGUMENTS else (points(name, count, dtype, rng),)
    got = call(name, *args)
    errors = ulps(name, got, *args)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 4, (errors[worst], [a[worst] for a in args], got[worst])


def special_values(dtype: type) -> np.ndarray:
    """Zeros, infinities, NaN, denormals, the ends of the range, whole numbers, and their neighbours."""
    info = np.finfo(dtype)
    positive = [0.0, info.smallest_subnormal, 7 * info.smallest_subnormal, info.tiny, info.eps]
    positive += [info.max, 0.5, 1.0, 2.0, 3.0, 4.0, 1e5, 1e10, math.inf, math.nan]
    with np.errstate(all="ignore"):
        near = [np.nextafter(dtype(v), dtype(w)) for v in (1, 0.5) for w in (0, 2)]
        thresholds = [710.0, 709.78271289, 709.7827129, 745.13, 745.2, 708.39, 1023.9, 1024, 1074]
        thresholds += [1075.5, 88.72, 88.73, 103.9, 104.1, 127.9, 128, 149, 151, 308.25, 308.26, 330]
        values = np.array([*positive, *near, *thresholds, 26.5, 27.3, 2.0**31, 2.0**53, 1e300], dtype)
        return np.concatenate([values, -values])


@every
@in_both
def test_edges_are_numpys(name: str, dtype: type) -> None:
    x = special_values(dtype)
    args: tuple[np.ndarray, ...] = (x,)
    if name in TWO_ARGUMENTS:
        args = tuple(np.array(list(itertools.product(x, x))).T.copy().astype(dtype))
    with np.errstate(all="ignore"):
        wanted = NUMPY[name](*args)
    got = call(name, *args)
    assert got.dtype == wanted.dtype == dtype
    finite = np.isfinite(wanted)
    named = [(*(a[i] for a in args), got[i], wanted[i]) for i in range(got.size)]
    exact = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    assert np.all(exact | finite), [n for n, e in zip(named, exact | finite) if not e]
    signs = np.signbit(got) == np.signbit(wanted)
    assert np.all(signs | np.isnan(wanted)), [n for n, s in zip(named, signs) if not s]
    if name in TWO_ARGUMENTS:
        keep = finite & np.all([np.isfinite(a) & (a != 0) for a in args], axis=0)
    else:
        keep = finite & np.isfinite(x) & (x != 0)
    if name in ("pow", "hypot", "atan2"):
        keep &= np.random.default_rng(0).random(keep.size) < 0.2
    errors = ulps(name, got[keep], *(a[keep] for a in args))
    assert np.max(errors) <= 4, [a[keep][np.argmax(errors)] for a in args]
    same = finite & ~keep & ((args[0] == 0) | ~np.isfinite(args[0]))
    with np.errstate(over="ignore"):
        unit = np.spacing(np.abs(wanted[same]))
    assert np.all(np.abs(got[same] - wanted[same]) <= 4 * unit)


@in_turns("inlined", "apart")
def test_in_this_process_they_give_the_same_bits(name: str, dtype: type, form: str) -> None:
    rng = np.random.default_rng(3)
    x = special_values(dtype)
    if name in TWO_ARGUMENTS:
        edges = np.array(list(itertools.product(x, x))).T.copy().astype(dtype)
        args = tuple(map(np.concatenate, zip(edges, pairs(name, 900, dtype, rng), strict=True)))
    else:
        args = (np.concatenate([x, points(name, 900, dtype, rng)]),)
    for part in (slice(None), slice(0, 3), slice(0, 7)):  # by vectors, one by one, and both
        here = tuple(a[part].copy() for a in args)
        wanted, got = call(name, *here), call(name, *here, form=form)
        nan = np.isnan(wanted)
        assert np.array_equal(nan, np.isnan(got))
        assert wanted[~nan].tobytes() == got[~nan].tobytes()


@in_turns("apart")
def test_loops_call_variants_for_several_numbers(name: str, dtype: type, form: str) -> None:
    x = np.ones(3, dtype)
    args = (x, x) if name in TWO_ARGUMENTS else (x,)
    call(name, *args, form=form)
    [text] = kernel(name, dtype, form=form).inspect_llvm().values()
    body = text[text.index("define ") :]
    body = body[: body.index("\n}")]
    assert re.search(rf"call [^@\n]*<\d+ x \w+> @vecmath\.{name}f?\.[\w.]+\.\d+\(", body), body


@in_turns("numba", "inlined")
def test_the_loop_is_vectorized_and_calls_nothing(name: str, dtype: type, form: str) -> None:
    x = np.ones(3, dtype)
    args = (x, x) if name in TWO_ARGUMENTS else (x,)
    call(name, *args, form=form)
    [text] = kernel(name, dtype, form=form).inspect_llvm().values()
    body = text[text.index("define ") :]
    body = body[: body.index("\n}")]
    calls = set(re.findall(r"call [^@\n]*(?:float|double|i64|i1)>? @([\w.]+)", body))
    calls -= {"sqrt"}  # LLVM's name for the instruction in the loop over what is left
    if name in FAR:
        calls -= {f"vecmath.{name}_beyond"}  # in the loop over what is left
        [lanes] = {c for c in calls if c.startswith("vecmath.")}
        assert re.fullmatch(rf"vecmath\.{name}_beyond\.\d+", lanes)
        calls -= {lanes}
    assert all(c.startswith("llvm.") for c in calls), calls
    assert re.search(r"f(mul|div) <\d+ x (double|float)>", body)


FLAGGED = ["exp", "sin", "log1p", "tanh", "erf", "cbrt", "expm1", "pow"]
IN_TURN = [
    (name, dtype)
    for i, name in enumerate(FLAGGED)
    for j, dtype in enumerate(BOTH)
    if EVERYTHING or i % 2 == j
]


@pytest.mark.parametrize("name, dtype", IN_TURN, ids=named)
def test_the_kernels_flags_change_no_bit(name: str, dtype: type) -> None:
    rng = np.random.default_rng(2)
    args = pairs(name, 900, dtype, rng) if name in TWO_ARGUMENTS else (points(name, 900, dtype, rng),)
    wanted = call(name, *args, fastmath=False)
    assert wanted.tobytes() == call(name, *args).tobytes()
    assert wanted.tobytes() == call(name, *args, prange=True).tobytes()


def near_multiples_of_half_pi(dtype: type, rng: np.random.Generator) -> np.ndarray:
    """The numbers of each binade that are nearest to a multiple of pi / 2, and powers of two.

    A convergent p / q of the continued fraction of 2**e * 2 / pi gives them: q * 2**e is within
    1 / q of p quarter turns.
    """
    info = np.finfo(dtype)
    found = [6381956970095103 * 2.0**797, 5.319372648326541e255, 1.7178836579e20]
    with mp.workprec(2600):
        for e in range(0, int(info.maxexp) - int(info.nmant), 1 if dtype is np.float32 else 6):
            rest, before, q = mp.ldexp(2 / mp.pi, e), 0, 1
            while True:
                rest = 1 / (rest - mp.floor(rest))
                before, q = q, int(mp.floor(rest)) * q + before
                if q >= 2 ** (info.nmant + 1):
                    break
                found.append(math.ldexp(q, e))
    found += [math.ldexp(1.0, e) for e in range(int(info.minexp), int(info.maxexp), 5)]
    with np.errstate(over="ignore"):
        x = np.array(found, dtype)
    x = x[np.isfinite(x)]
    return x * rng.choice([-1, 1], x.size).astype(dtype)


@pytest.mark.parametrize("name", FAR)
@in_both
def test_next_to_the_multiples_of_half_pi(name: str, dtype: type) -> None:
    x = near_multiples_of_half_pi(dtype, np.random.default_rng(3))
    nearest = min(abs(mp.sin(mp.mpf(float(a)))) for a in x)
    assert nearest < (1e-18 if dtype is np.float64 else 1e-8)
    got = call(name, x)
    errors = ulps(name, got, x)
    assert np.max(errors) <= 4, (np.max(errors), x[np.argmax(errors)])


@pytest.mark.parametrize("name", FAR)
@in_both
@pytest.mark.parametrize("place", range(19))
def test_one_lane_far_out(name: str, dtype: type, place: int) -> None:
    x = np.linspace(-3.0, 3.5, 19).astype(dtype)
    near = call(name, x)
    for far in (2.0**45, np.nextafter(dtype(2.0**45), dtype(math.inf)), 2.0**46, -3e38, -math.inf, math.nan):
        x[place] = far
        got = call(name, x)
        alone = call(name, x[place : place + 1])
        assert np.delete(got, place).tobytes() == np.delete(near, place).tobytes()
        assert got[place] == alone[0] or (np.isnan(got[place]) and np.isnan(alone[0]))
        assert np.isnan(got[place]) == (not np.isfinite(x[place]))
        if np.isfinite(far):
            assert ulps(name, got[place : place + 1], x[place : place + 1])[0] <= 4


@in_both
def test_sine_and_cosine_share_what_they_have_in_common(dtype: type) -> None:
    sin, cos = (vecmath.FUNCTIONS[name].compiled(dtype) for name in ("sin", "cos"))

    def multiplications(function) -> int:
        @numba.njit(fastmath=FLAGS)
        def loop(x, out):
            for i in range(out.size):
                out[i] = function(x[i])

        loop(np.ones(3, dtype), np.ones(3, dtype))
        [text] = loop.inspect_llvm().values()
        return len(re.findall(r"call <\d+ x double> @llvm\.fma", text))

    both = vecmath.load("vector")(lambda x: sin(x) + cos(x))
    assert 0 < multiplications(both) == max(multiplications(sin), multiplications(cos))


def test_every_transcendental_primitive_has_one() -> None:
    ufuncs = "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan sinh cosh tanh"
    ufuncs += " arcsinh arccosh arctanh arctan2 hypot"
    names = [f"np.{name}" for name in ufuncs.split()]
    names += [f"special.{name}" for name in "expit log_expit logit erf erfc erfcx exp10".split()]
    for name in names:
        assert PRIMITIVES[name].scalar in vecmath.FUNCTIONS


def test_other_dtypes_and_names_are_refused() -> None:
    with pytest.raises(TypeError, match="exp has no vector form in complex128"):
        vecmath.FUNCTIONS["exp"].name_in(np.complex128)
    with pytest.raises(KeyError, match="gamma is no function of"):
        vecmath.source_of(["gamma"])
    with pytest.raises(KeyError, match="gamma is no function of"):
        vecmath.load("gamma")


def test_source_is_the_least_that_is_needed() -> None:
    text = vecmath.source_of(["tanhf", "exp"])
    assert text == vecmath.source_of(["exp", "tanhf"])
    defined = set(vecmath.defined_by(["tanhf", "exp"]))
    assert "log" not in defined and "erf" not in defined
    assert defined == {
        *("vector", "fused", "ROUND", "fma", "two_to", "LOG2_E", "LN2_HIGH", "LN2_LOW", "exp", "expm1_near"),
        *("exp_parts", "times_two_to", "exp_sum", "SHIFT", "fmaf", "two_to_single", "expm1_close"),
        *("with_sign_single", "LN2_HIGH_SINGLE", "LN2_LOW_SINGLE", "in_powers_of_two", "tanhf"),
        "expm1_bounded",
    }


def all_names() -> list[str]:
    """Every function in both dtypes."""
    return [f.name_in(dtype) for f in vecmath.FUNCTIONS.values() for dtype in BOTH]


def test_source_is_clean(tmp_path: Path) -> None:
    file = tmp_path / "saved.py"
    names = all_names()
    file.write_text(vecmath.imports_of(names) + "\n\n" + vecmath.source_of(names))
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is a developer's tool, not a requirement")
    command = [str(ruff), "check", "--config", str(ROOT / "ruff.toml"), "--no-cache", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


SAVED = """

@njit(fastmath={"reassoc", "contract", "nsz"}, cache=True)
def wave_kernel(x, out):
    for i in range(x.size):
        out[i] = sin(x[i]) * exp(-x[i]) + tanhf(np.float32(x[i]))


@njit(fastmath={"reassoc", "contract", "nsz"}, cache=True)
def ring_kernel(x, out):
    for i in range(x.size):
        out[i] = sin(x[i]) * cos(x[i])


if __name__ == "__main__":
    x = np.append(np.linspace(0.0, 3.0, 50), 1e22)
    out = np.empty_like(x)
    wave_kernel(x, out)
    assert np.allclose(out, np.sin(x) * np.exp(-x) + np.tanh(x), rtol=1e-6)
    ring_kernel(x, out)
    assert np.allclose(out, np.sin(x) * np.cos(x), rtol=1e-6)
    import sys
    assert not any(name.split(".")[0] == "calque" for name in sys.modules)
    print(sum(wave_kernel.stats.cache_hits.values()))
"""


def test_a_saved_module_needs_numpy_and_numba_alone(tmp_path: Path) -> None:
    names = ["sin", "cos", "exp", "tanhf"]
    file = tmp_path / "saved.py"
    file.write_text(vecmath.imports_of(names) + "\n\n" + vecmath.source_of(names) + SAVED)
    for hits in ("0", "1"):
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == hits


def test_plain_functions_mean_the_same() -> None:
    space: dict[str, object] = {"np": np, "math": math}
    exec(vecmath.plain_source_of(all_names()), space)
    for name, function in vecmath.FUNCTIONS.items():
        for dtype in BOTH:
            plain = space[function.name_in(dtype)]
            x = dtype(1.25 if name == "acosh" else 0.375)
            args = (x, dtype(0.75)) if name in TWO_ARGUMENTS else (x,)
            got = plain(*args)
            wanted = NUMPY[name](*args)
            assert abs(got - wanted) <= 8 * np.spacing(np.abs(wanted))


def test_coefficients_are_the_computed_ones() -> None:
    spec = importlib.util.spec_from_file_location("minimax", ROOT / "benchmarks" / "minimax.py")
    minimax = importlib.util.module_from_spec(spec)
    sys.modules["minimax"] = minimax
    spec.loader.exec_module(minimax)
    files = (ROOT / "runtime" / "vecmath").glob("*.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    for name, target in minimax.POLYNOMIALS.items():
        coefficients, _ = minimax.remez(target)
        for c in minimax.printed(coefficients):
            assert c in text, (name, c)
