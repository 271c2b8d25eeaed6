"""The table of scalar functions: what each is in Python, in kernels and in CUDA C. `pytest -s` prints it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cuda_emulator.nvrtc import compiled, nvrtc
from scipy import special

from calque.runtime import kernels, vecmath
from calque.transpiler.codegen.cuda.device_functions import definitions
from calque.transpiler.codegen.numba.called_functions import OF_COMPLEX
from calque.transpiler.codegen.text.scalar_functions import SCALAR_FUNCTIONS, VECTOR, ScalarFunction
from calque.transpiler.primitives.record import PRIMITIVES, Primitive

PLAIN = {"np": np, "math": math, "special": special}
IN_KERNELS = {n: getattr(kernels, n) for n in ("fmod", "maximum", "minimum", "sign")}
OURS, TESTS = ("maximum", "minimum", "sign"), ("isnan", "isinf", "isfinite")
NAMED: list[tuple[str, Primitive]] = [
    (r.scalar, r) for r in PRIMITIVES.values() if r.scalar in SCALAR_FUNCTIONS
]


def line(name: str, f: ScalarFunction) -> str:
    """One function's row."""
    return f"{name:10}{f.value or '-':32}{f.numba or '-':22}{f.c or '-':12}{f.of_complex or '-'}"


def test_the_table() -> None:
    heads = ScalarFunction("in Python", "in kernels", "CUDA C", "complex, too")
    rows = [line("function", heads), *(line(n, f) for n, f in SCALAR_FUNCTIONS.items())]
    print("\n" + "\n".join(rows))
    assert len(rows) == len({scalar for scalar, _ in NAMED}) + 1  # no row that no record names


@pytest.mark.parametrize(("name", "record"), NAMED, ids=[r.name for _, r in NAMED])
def test_a_value_is_the_records(name: str, record: Primitive) -> None:
    assert record.samples is not None
    f = SCALAR_FUNCTIONS[name]
    texts = [f.value, *([f.numba.format("x", "y")] if f.numba not in ("", VECTOR) else [])]
    for args, _ in record.samples(np.random.default_rng(5)):
        if all(np.ndim(a) == 0 and np.asarray(a).dtype == np.float64 for a in args):
            scope: dict[str, Any] = dict(zip("xy", map(float, args)))
            for text in texts:
                found = eval(text, IN_KERNELS | PLAIN | scope)
                assert np.allclose(found, record.function(*args), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_kernels_have_what_is_said_of_complex_numbers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, wanted = getattr(kernels, f"complex_{name}")(0.5 + 0.25j), getattr(np, name)(0.5 + 0.25j)
    assert abs(found - wanted) <= 2.0 * np.spacing(abs(wanted))  # these compute by themselves
    monkeypatch.setenv("CALQUE_JIT", "0")
    assert getattr(kernels, f"complex_{name}")(0.5 + 0.25j) == wanted


@pytest.mark.parametrize("name", SCALAR_FUNCTIONS)
def test_every_target_has_what_is_said(name: str) -> None:
    f = SCALAR_FUNCTIONS[name]
    if f.numba == VECTOR:
        assert vecmath.FUNCTIONS[name].plain == f.value
        assert vecmath.source_of([name, f"{name}f"])
    if f.c and nvrtc() is not None:
        names = [f.c] if name in TESTS else [f.c, f"{f.c}f"]
        given = "x, x" if "y)" in f.value else "x"
        body = " ".join(f"out[0] = {n}({given});" for n in names)
        texts = definitions(set(names)) if name in OURS else ""
        compiled(f'{texts}\nextern "C" __global__ void k(double* out, double x) {{{body}}}', "sm_80")
