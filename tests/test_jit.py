"""``jit`` gives NumPy's own numbers: values, dtypes, exceptions, stores into arguments.

The oracle is the plain call. Most programs run with ``CALQUE_JIT=0``, the same kernels as plain
Python; what depends on the compiler (dtypes above all) runs compiled.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_programs
from sampling import FEW, sampled

import calque
from battery.registry import Program, load
from calque.runtime.call import dispatch
from calque.transpiler.ir import pytrees

pytest.importorskip("numba")

ACCEPTED = [program for program in load() if program.refused is None]
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"]
_modules = itertools.count()


def same(want: Any, got: Any, factor: float = 1.0, signed: bool = True) -> None:
    """Equal to rounding, and in kind, dtype, shape, NaNs, infinities and signs of zeros."""
    assert type(got) is type(want), (got, want)
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for w, g in zip(want, got):
            same(w, g, factor, signed)
        return
    if isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            same(want[key], got[key], factor, signed)
        return
    if want is None:
        return
    if not isinstance(want, (np.ndarray, np.generic)):
        np.testing.assert_allclose(got, want, rtol=1e-12 * factor)
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.abs(want[np.isfinite(want)]) if want.ndim else np.array([])
    rounding = (1e-5 if want.dtype.char in "fF" else 1e-13) * factor
    scale = min(np.max(finite, initial=0.0), 1e3)
    if want.dtype.kind == "c":  # which part is not finite is not determined
        assert np.array_equal(np.isfinite(got), np.isfinite(want))
        got, want = np.where(np.isfinite(want), got, 0), np.where(np.isfinite(want), want, 0)
    elif signed:
        zero = (want == 0) & (got == 0)
        np.testing.assert_array_equal(np.signbit(got) & zero, np.signbit(want) & zero)
    np.testing.assert_allclose(got, want, rtol=rounding, atol=rounding * 1e-2 * scale)


def copied(value: Any) -> Any:
    """A copy, in the same layout of memory."""
    if isinstance(value, np.ndarray):
        base = value
        while isinstance(base.base, np.ndarray):
            base = base.base
        start = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        room = np.frombuffer(bytearray(base.tobytes("A")), base.dtype)
        return np.ndarray(value.shape, value.dtype, room, start, value.strides)
    if isinstance(value, (list, tuple)):
        return type(value)(copied(v) for v in value)
    return value


def outcome(fn: Callable[..., Any], args: Any) -> tuple[Any, Any]:
    """The result and the class of the exception, one of them None."""
    try:
        with np.errstate(all="ignore"):
            return fn(*args), None
    except Exception as error:
        return None, error


def agrees(
    fn: Callable[..., Any],
    *args: Any,
    jitted: Callable[..., Any] | None = None,
    factor: float = 1.0,
    signed: bool = True,
) -> Any:
    """The plain and the jitted call give, raise and leave behind the same."""
    mine, theirs = copied(args), copied(args)
    want, refused = outcome(fn, mine)
    got, error = outcome(jitted or calque.jit(fn), theirs)
    assert isinstance(error, type(refused)), error
    if error is None:
        same(want, got, factor, signed)
    same(mine, theirs, factor, signed)
    return got


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


@pytest.fixture(autouse=True)
def compiled_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba takes every kernel: there is no way out to NumPy source."""

    def shown(text: str) -> None:
        assert "runs as NumPy source" not in text, text

    monkeypatch.setattr(dispatch, "show_text", shown)


def made(text: str, folder: Path) -> Any:
    """A module of source text."""
    path = folder / f"jitted_{next(_modules)}.py"
    path.write_text(f"import numpy as np\n\n\n{text}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# programs


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("program", sampled(ACCEPTED, 8, 2), ids=lambda program: program.id)
def test_battery(program: Program) -> None:
    """Value and gradient of programs of each part of the battery."""
    fn = program.scalar()
    value = calque.jit(fn)(*program.fresh())
    np.testing.assert_allclose(value, fn(*program.fresh()), rtol=1e-12)
    whole = calque.value_and_grad(fn, argnums=program.diff)
    check_gradient(whole(*program.fresh()), calque.jit(whole)(*program.fresh()))


def check_gradient(want: Any, got: Any) -> None:
    want, got = pytrees.flatten(want)[0], pytrees.flatten(got)[0]
    assert len(got) == len(want)
    for w, g in zip(want, got):
        assert np.shape(g) == np.shape(w)
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-11 * np.max(np.abs(w), initial=1.0))


@pytest.mark.parametrize("program", sampled(ACCEPTED[3::17], 2), ids=lambda program: program.id)
def test_battery_compiled(program: Program) -> None:
    whole = calque.value_and_grad(program.scalar(), argnums=program.diff)
    check_gradient(whole(*program.fresh()), calque.jit(whole)(*program.fresh()))


# 55: a size read in a loop whose schedule was tried twice; 188: a swap of rows whose indices are
# equal without a word; 380: a number of one loop in what another stores; the others: a mixture
@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("seed", [4, 55, 71, 188, 380])
def test_random_programs(seed: int, tmp_path: Path) -> None:
    fn = made(random_programs.text(seed), tmp_path).f
    rng = np.random.default_rng([seed, 17])
    size = 4 + seed % 3
    args = (0.314, rng.uniform(-1.0, 1.0, size), rng.uniform(-1.0, 1.0, (size, size)))
    agrees(fn, *args, factor=100.0)
    whole = calque.value_and_grad(fn, argnums=(0, 1, 2))
    check_gradient(whole(*copied(args)), calque.jit(whole)(*copied(args)))


# dtypes, compiled

BINARY = """a + b; a - b; a * b; a / b; a // b; a % b; a < b; a <= b; a == b; a != b; a > b; a >= b
a & b; a | b; a ^ b; np.maximum(a, b); np.minimum(a, b); np.logical_and(a, b); np.where(a > 0, a, b)
np.logical_xor(a, b); np.arctan2(a, b); np.hypot(a, b); np.copysign(a, b); np.fmax(a, b)
np.fmod(a, b); np.heaviside(a, b); np.logaddexp(a, b); a << (b & 3); a >> (b & 3)
np.float_power(a, b); np.nextafter(a, b)"""
UNARY = """-a; ~a; abs(a); np.sign(a); np.sqrt(a); np.exp(a); np.sin(a); np.floor(a); np.trunc(a)
np.square(a); np.reciprocal(a); np.isnan(a); np.isfinite(a); np.logical_not(a); np.tanh(a)
np.log(a); np.cbrt(a); np.deg2rad(a); a ** 0.5; a ** 3; a ** -1; a ** -2; a ** 2.0
a ** -3.0; a ** -1.5; a ** 2.5; a ** -0.5; a ** 1.3; 2.0 ** a; a + 1; a * 2.5
a - 1.5; 1 - a; 2.5 - a; a / 2; 1 / a; a // 2; a % 3; a // 2.5; a % 2.5; -3 // a; 7 % a; a + True
a * 1j; a > 0.5; a == 1; np.maximum(a, 0); np.minimum(a, 0.5); np.where(a > 0, a, 0); np.sum(a)
np.where(a > 0, 1.5, 0); np.clip(a, 0, 2.5); a & 1; a << 2; a >> 1; a.astype(np.float32)
a.astype(np.int8); a.astype(bool); a.astype(complex); np.prod(a); np.max(a); np.min(a); np.any(a)
np.all(a); np.mean(a); np.var(a); np.count_nonzero(a); np.diff(a); np.fabs(a); np.rint(a)"""
EITHER_ZERO = ("max", "min", "clip")  # of 0.0 and -0.0 NumPy gives one or the other


def numbers(dtype: str, each: int = 1) -> np.ndarray:
    """Edge cases of a dtype, ``each`` several times in a row."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        info = np.iinfo(dtype)
        values = [0, 1, 2, info.max, info.max // 2 + 1, info.min + 1, 7]
    elif kind == "b":
        values = [True, False, True, True, False, True, True]
    elif kind == "f":
        values = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan]
    else:
        values = [0, 1.5 - 2j, -2.5 + 1j, 3j, 1 + 1j, 2.0, -1.0]
    return np.resize(np.repeat(np.array(values, dtype), each), 49)


def with_values(texts: str, names: dict[str, Any]) -> list[str]:
    """The expressions that NumPy has a value for."""
    found = []
    for text in texts.replace("\n", ";").split(";"):
        value, error = outcome(lambda text=text: eval(text.strip(), {"np": np, **names}), ())
        if error is None and np.asarray(value).dtype != np.float16:
            found.append(text.strip())
    return found


def check_expressions(texts: list[str], names: dict[str, Any], folder: Path) -> None:
    for either in (True, False):
        chosen = [t for t in texts if any(w in t for w in EITHER_ZERO) == either]
        head = f"def f({', '.join(names)}):\n    return (\n"
        fn = made(head + "".join(f"        {t},\n" for t in chosen) + "    )\n", folder).f
        agrees(fn, *names.values(), signed=not either)


PAIRS = [("i1", "u1"), ("u8", "i4"), ("f4", "i4"), ("f4", "u2"), ("f8", "i8"), ("c8", "c16"),
         ("f8", "c16"), ("?", "f4"), ("i2", "i2"), ("u4", "u8")]  # fmt: skip


@pytest.mark.parametrize("left, right", PAIRS if not FEW else PAIRS[:3])
def test_dtypes_of_two_operands(left: str, right: str, tmp_path: Path) -> None:
    names = {"a": numbers(left), "b": numbers(right, 7)}
    check_expressions(with_values(BINARY, names), names, tmp_path)


QUIRKS = {"?": ["a ** 3"]}  # the dtype that NumPy gives these depends on the exponent's value


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f4", "c8"] if not FEW else ["i1"])
def test_dtypes_beside_numbers(dtype: str, tmp_path: Path) -> None:
    names = {"a": numbers(dtype)}
    texts = [t for t in with_values(UNARY, names) if t not in QUIRKS.get(dtype, ())]
    check_expressions(texts, names, tmp_path)


# layouts, sizes, stores


def reduced(x):
    low = np.max(x, axis=1), x.min(axis=-1, keepdims=True), np.argmax(x), x.sum(axis=(0, 1))
    return low, np.sum(x, axis=0), np.var(x, axis=0), np.prod(x, axis=1), np.all(x > -9.0)


def rearranged(x):
    y = x.reshape(-1)
    return x[::-1] * 2, x.T - 1, x[1:] - x[:-1], x[..., None] + x[0], y + 1, x[:, ::2], x[None]


def joined(x):
    parts = np.concatenate([x, 2 * x], axis=1), np.stack([x, x + 1]), np.tile(x, (2, 1))
    return parts, np.where(x > 0, x, -x), x[x > 0], np.cumsum(x, axis=0), np.roll(x, 1, axis=1)


def shifts(x):
    x[1:] = x[:-1]
    x[:, 1:] += x[:, :-1]
    x[:, ::-1] += x
    x[:] = x[::-1]


def stores(x):
    view = x.T
    view[0] = 7.0
    x[x < 0] = 0.5
    x[:, -1] *= 2
    x[[0, -1]] += 1
    return x + view.T


def walks(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i, 0] > 5.0:
            continue
        for j in range(x.shape[1]):
            x[i, j] = x[i, j] + x[i - 1, j - 1]
            total += x[i, j] ** 2
        if total > 50.0:
            break
    return total


def grows(x):
    out = []
    for row in x:
        row[:1] += 1.0
        out.append(np.sum(row))
    return np.array(out)


def layouts(shape: tuple[int, int]) -> dict[str, np.ndarray]:
    base = np.random.default_rng(0).normal(size=(2 * shape[0] + 1, 2 * shape[1] + 1))
    a = base[: shape[0], : shape[1]].copy()
    return {
        "C": a,
        "F": np.asfortranarray(a),
        "T": np.ascontiguousarray(a.T).T,
        "reversed": a[::-1, ::-1],
        "steps": base[1::2, 1::2],
        "of one number": np.broadcast_to(np.float64(1.5), shape),
    }


PLACES = [*(((3, 4), name) for name in layouts((3, 4))),
          *((shape, "C") for shape in [(1, 4), (3, 1), (1, 1), (0, 4), (3, 0)])]  # fmt: skip


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("fn", [reduced, rearranged, joined, shifts, stores, walks, grows])
@pytest.mark.parametrize("shape, layout", PLACES)
def test_layouts_and_sizes(fn: Callable[..., Any], shape: tuple[int, int], layout: str) -> None:
    x = layouts(shape)[layout]
    if layout == "of one number" and fn in (shifts, stores, walks, grows):
        x = x.copy()
    if fn is walks and shape == (0, 4):  # no iteration: the number is Python's, a kernel's is NumPy's
        assert calque.jit(fn)(x) == fn(x.copy()) == 0.0
        return
    agrees(fn, x, factor=10.0)


@pytest.mark.parametrize("fn", [reduced, shifts, stores, walks, grows])
def test_layouts_compiled(fn: Callable[..., Any]) -> None:
    jitted = calque.jit(fn)
    for name in ("C", "F", "reversed", "steps"):
        agrees(fn, layouts((3, 4))[name], jitted=jitted, factor=10.0)


def swapped_rows(x, a):
    c = a * x
    for k in range(3):
        row = (k + 1) % x.shape[0]
        c[row], c[-1] = np.cos(x), c[(k + 1) % x.shape[0]] * np.sin(x[k])
    return np.sum(c * c)


@pytest.mark.usefixtures("stepped")
def test_what_is_written_is_read_after() -> None:
    """Two names for one row: the reverse sweep must not read it in the iteration of its store."""
    rng = np.random.default_rng(1)
    args = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, (6, 6))
    whole = calque.value_and_grad(swapped_rows, argnums=(0, 1))
    check_gradient(whole(*args), calque.jit(whole)(*args))


# transformations, inside and outside


def smooth(x):
    return np.sum(np.tanh(x) * x**2) + x[0] * np.exp(-x[1])


def branches(x):
    total = 0.0
    for i in range(1, x.shape[0]):
        if x[i] > 0:
            total += x[i] * x[i - 1]
        else:
            total -= np.sin(x[i])
    return total


def recurrence(x):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = 0.5 * y[i - 1] + x[i] ** 2
    return np.sum(y * y)


TRANSFORMATIONS = {
    "grad": calque.grad,
    "jacfwd": calque.jacfwd,
    "hessian": calque.hessian,
    "checkpoint": lambda fn: calque.grad(calque.checkpoint(fn)),
    "jit within": lambda fn: calque.grad(calque.jit(fn)),
    "jvp": lambda fn: lambda x: calque.jvp(fn, (x,), (np.cos(x),)),
    "vjp": lambda fn: lambda x: calque.vjp(fn, x)[1](1.0),
    "vmap": lambda fn: lambda x: calque.vmap(fn)(np.stack([x, -x, x**2])),
    "vmap of grad": lambda fn: lambda x: calque.vmap(calque.grad(fn))(np.stack([x, -x])),
}


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("fn", [smooth, branches, recurrence])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations(fn: Callable[..., Any], name: str) -> None:
    whole = TRANSFORMATIONS[name](fn)
    agrees(whole, np.array([0.5, -0.3, 1.2, 2.0]), factor=1e3)


def test_other_sizes_take_the_same_kernels() -> None:
    jitted = calque.jit(smooth)
    for size in (2, 3, 100):
        agrees(smooth, np.linspace(0.0, 1.0, size), jitted=jitted)
    assert jitted.cache_info().programs == 1


# exceptions


def picks(x, i):
    total = 0.0
    for k in range(3):
        total += x[i[k]]
    return total


def divides(n, m):
    total = 0.0
    for k in range(n):
        total += 1.0 / (k - m)
    return total


def largest(x):
    return np.max(x)


def test_exceptions() -> None:
    x = np.arange(4.0)
    jitted = calque.jit(picks)
    agrees(picks, x, np.array([0, -4, 3]), jitted=jitted)
    agrees(picks, x, np.array([0, 4, 3]), jitted=jitted)
    agrees(picks, x, np.array([0, -5, 3]), jitted=jitted)
    agrees(divides, 4, 9)
    agrees(divides, 4, 2)
    agrees(largest, np.zeros(0))
    agrees(largest, np.array([1.0, np.nan, 2.0]))
    agrees(lambda x, y: x + y, np.zeros(3), np.zeros(4))


def first_above(x):
    for i in range(3):
        if x[i % x.shape[0], 0] > 1.0:
            return x + 1.0
    return np.zeros_like(x)


def counted_once(x, i):
    x[i, 0] += 1.0
    x[i, 1] = 2.0 * x[i, 1] + 1.0
    x[i] = x[:3] - 1.0
    return x


def gathered(x, i):
    return x[i] * 2.0, x[i, 1:] - 1.0, x[:, i % 3]


def test_index_in_a_condition_is_checked() -> None:
    """The read stands in the text of the branch, not on a line of its own."""
    agrees(first_above, np.zeros((3, 0)))
    agrees(first_above, np.ones((3, 2)))


@pytest.mark.usefixtures("stepped")
def test_index_arrays() -> None:
    x = np.arange(12.0).reshape(4, 3)
    for fn in (counted_once, gathered):
        for indices in ([0, 0, 2], [-1, 3, -4], [0, 4, 1], [1, -5, 0]):
            agrees(fn, x, np.array(indices))
    agrees(gathered, x, np.zeros((2, 2), int))
    agrees(gathered, x, np.zeros(0, int))


def test_values_that_many_share_are_looked_at_once(stepped: None) -> None:
    """Sixty values, each read twice by the next: looked at along every path there are 2**60."""

    def f(x):
        for _ in [None] * 60:
            x = 0.5 * x + np.sin(x)
        return np.sum(x)

    x = np.linspace(0.1, 1.0, 5)
    np.testing.assert_allclose(calque.jit(f)(x), f(x), rtol=1e-12)


def test_a_mean_of_an_expression_of_matrices_is_read_where_it_is_computed():
    """Its count of elements asks for the size of an array that is in no memory."""
    a, b = np.arange(12.0).reshape(3, 4), np.linspace(0.0, 2.0, 12).reshape(3, 4)
    squares = calque.jit(lambda a, b: np.mean((a - b) ** 2))
    np.testing.assert_allclose(squares(a, b), np.mean((a - b) ** 2), rtol=1e-14)
    outer = calque.jit(lambda x, y: np.mean(np.outer(x, y) ** 2))
    np.testing.assert_allclose(outer(a[0], b[:, 0]), np.mean(np.outer(a[0], b[:, 0]) ** 2), rtol=1e-14)
    for text in (squares.source(a, b), outer.source(a[0], b[:, 0])):
        launcher = text[text.rindex("def ") :]
        assert "**" not in launcher and "np.outer" not in launcher
