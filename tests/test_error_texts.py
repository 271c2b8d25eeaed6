"""The text of an error: as in plain Python, formed when it is raised, and the loop is a kernel."""

from __future__ import annotations

import importlib.util
import itertools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import on_cuda
from sampling import sampled

import calque
from calque import grad, jit, vmap
from calque.transpiler.errors import UnsupportedFunction

FORMS = {
    "a spec": 'f"below by {v:.2f} at {k:>3}"',
    "no spec": 'f"below by {v} at {k}"',
    "representations": 'f"{v!r} at {k!r} {v!s} {k!a}"',
    "percent": '"below by %.2f at %3d" % (v, k)',
    "percent of one": '"below by %s" % v',
    "percent of names": '"%(v).2f at %(k)s" % {"v": v, "k": k}',
    "percent of objects": '"%r %-9s|%5.1f%%" % (v, k, v)',
    "format": '"below by {:.2f} at {:>3}".format(v, k)',
    "format by names": '"below by {v:.2f} at {1!r}".format(0, k, v=v)',
    "format of parts": '"{0[1]:.1f} {1.size}".format(x, x)',
    "str and a sum": '"below by " + str(v) + " at " + repr(k)',
    "format of one": '"below by " + format(v, ".3e")',
    "join": '", ".join([str(v), f"{k:03d}"])',
    "join of a generator": '" ".join(str(q) for q in (v, k))',
    "a nested spec": 'f"{v:{w}.{p}f}"',
    "a spec that the run knows": 'f"{v:{k}.1f}"',
    "self-documenting": 'f"{v=} {k=:>4}"',
    "arguments": '"text", v, k, v < 0, (v, [k])',
    "a number": "v",
    "nothing": "",
    "an array": 'f"{x}"',
    "a part of an array": 'f"{x[:2]} {x[k - 1:k + 1]!r}"',
    "sizes": 'f"{x.shape} {len(x)} {x.dtype} {x.ndim}"',
    "a line": '"-" * 3 + f"{v:.0f}"',
    "rounded": 'f"{round(v, 2)} {int(v)} {float(v):.3f} {abs(v):.1f}"',
    "a helper": "said(v, k)",
    "laid out": 'f"{v:.2f}".rjust(10) + str(k).zfill(4) + f"{v}".upper()',
    "containers": 'f"{[v, k]} {(v,)} { {1: v} }"',
    "numbers of Python": 'f"{k:#x} {k:b} {k:,} {k:0>5d} {v:.1%} {v:+.3g} {k / 3:e}"',
    "braces and quotes": """f"{{{v:.1f}}} {{0}} it's \\"{k}\\" \\\\ \\n é" """,
    "no value": '"{0} {1:.2f} }} {{"',
    "float32": 'f"{np.float32(v)} {np.float32(v)!r} {np.float32(v):.3f} {np.float32(v)!s}"',
    "NumPy's own": 'np.array2string(x[:3], precision=2) + f"{np.int8(k)!r} {np.sum(x)!r}"',
    "truth": 'f"{v < 0} {k > 3!r} {bool(v)} {np.isnan(v)!r}"',
    "complex": 'f"{v * 1j} {np.complex64(v * 1j)!r} {complex(v):.1f}"',
}
ASSERTS = {
    "a text": 'assert v > -100.0, f"below by {v:.2f} at {k!r}"',
    "a constant": 'assert v > -100.0, "below"',
    "none": "assert v > -100.0",
    "a number": "assert v > -100.0, v",
    "percent": 'assert v > -100.0 and k < 90, "%s at %d" % (v, k)',
}
HEAD = '''
import numpy as np
w, p = 10, 2


class Below(ValueError):
    """An error with more than a text."""

    def __init__(self, text, at, *, value=None):
        super().__init__(text, at)
        self.value = value


def said(a, b):
    return f"said {a:.1f} {b}"

'''
LOOP = """
def {name}(c, x):
    v = 0.0
    for k in range(len(x)):
        v = c * v + x[k]
{refusal}
    return v

"""
X = np.linspace(0.0, 1.0, 20)
BAD = np.where(np.arange(20) == 7, -1000.0, X)


def module(path: Path, text: str) -> Any:
    """A module of a text, written to a file."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made  # generated code imports the module's classes
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function for each form of a text."""
    raising = {n: f"        if v < -100.0:\n            raise ValueError({f})" for n, f in FORMS.items()}
    asserting = {f"assert {n}": f"        {text}" for n, text in ASSERTS.items()}
    refusals = raising | asserting
    text = HEAD + "".join(LOOP.format(name=named(n), refusal=r) for n, r in refusals.items())
    return module(tmp_path_factory.mktemp("texts") / "texts_of_errors.py", text)


def named(form: str) -> str:
    """A form's function."""
    return "of_" + "".join(c if c.isalnum() else "_" for c in form)


def error_of(function: Any, *args: Any) -> tuple[Any, ...]:
    """The error of a call: its class, its arguments with their classes, and what it has besides."""
    with pytest.raises(Exception) as raised:
        function(*args)
    error: Any = raised.value
    return type(error), repr(error.args), str(error), getattr(error, "value", None)


@pytest.mark.parametrize("form", [*FORMS, *(f"assert {n}" for n in ASSERTS)])
def test_a_text_is_pythons(programs: Any, form: str) -> None:
    function = getattr(programs, named(form))
    wanted = error_of(function, 0.9, BAD)
    assert error_of(grad(function), 0.9, BAD) == wanted
    assert error_of(vmap(function, in_axes=(None, 0)), 0.9, np.stack([X, BAD, BAD])) == wanted


@pytest.mark.parametrize("form", sampled([*FORMS, *(f"assert {n}" for n in ASSERTS)], 1))
def test_a_loop_with_a_text_is_a_kernel(programs: Any, form: str) -> None:
    function = getattr(programs, named(form))
    wanted = error_of(function, 0.9, BAD)
    fast = jit(function)
    assert fast(0.9, X) == pytest.approx(function(0.9, X), rel=1e-13)
    info = fast.cache_info()
    assert info.compiled + info.loaded == 1
    assert error_of(fast, 0.9, BAD) == wanted
    assert "the loop is Python's" not in calque.explain(fast, 0.9, X)


KINDS = ["f8", "f4", "i8", "i4", "i1", "u1", "u8", "?", "c8", "c16"]
SPECS = {
    "f": ["", ".2f", ">12.3e", "+g", "010.1f", ".3g", "_<9.2f", ".1%", "+.4", "'^10"],
    "i": ["", "d", ">6d", "+d", "#x", "b", ",", "03d", ".1f", "<6", "{{^9"],
    "?": ["", "d", ">7", "s"[:0]],
    "c": ["", ".2f", "+.1e", ">20.1f"],
}


def random_text(draw: random.Random, kinds: list[str]) -> str:
    """A text of an f-string, ``%`` or ``format`` with values ``a0``, ``a1`` ... of some kinds."""
    pieces, values = [], []
    for place, kind in enumerate(kinds):
        family = "i" if kind[0] in "iu" else "f" if kind[0] == "f" else kind[0]
        spec = draw.choice(SPECS[family])
        conversion = draw.choice(["", "", "!r", "!s", "!a"])
        spec = "" if conversion and "{" in spec else draw.choice(["", ">20"]) if conversion else spec
        pieces.append((draw.choice(["", "it's ", "{{}} ", "%% "]), conversion, spec))
        values.append(f"a{place}[k]")
    way = draw.choice(["f", "format", "percent", "args"])
    if way == "args":
        return ", ".join(['"text"', *values])
    if way == "percent":
        marks = [draw.choice(["%s", "%r", "%10s", "%-8s", "%.3s"]) for _ in values]
        return f'"{" ".join(marks)}" % ({", ".join(values)},)'
    if way == "format":
        holes = [f"{said}{{{c}:{spec}}}".replace("{{^9", ">9") for said, c, spec in pieces]
        return f'"{"".join(holes)}".format({", ".join(values)})'
    holes = [
        f"{said}{{{value}{c}:{spec}}}".replace("{{^9", "{'{'}^9").replace("'^10", "*^10")
        for value, (said, c, spec) in zip(values, pieces, strict=True)
    ]
    return f'f"{"".join(holes)}"'


def random_refusal(seed: int) -> tuple[str, list[Any]]:
    """A function that raises in a loop, and arguments for which it does."""
    draw = random.Random(seed)
    kinds = [draw.choice(KINDS) for _ in range(draw.randint(1, 3))]
    names = [f"a{k}" for k in range(len(kinds))]
    raised = f"raise {draw.choice(['ValueError', 'RuntimeError', 'Below'])}"
    text = random_text(draw, kinds)
    if raised.endswith("Below"):
        text = f"({text}), k, value={names[0]}[k]"
        text = text if not text.startswith('("text", ') else f'"text", k, value={names[0]}[k]'
    around = draw.choice(
        [
            "if x[k] < 0.0:\n            {}",
            "if k > 2 and s > 10.0:\n            if x[k] < 0.0:\n                {}",
            "while s > 100.0:\n            s -= 1.0\n            if x[k] < 0.0:\n                {}",
            "for j in range(k):\n            if x[j] < 0.0 and j > 1:\n                {}",
        ]
    ).format(f"{raised}({text})")
    source = (
        f"def refusing(x, {', '.join(names)}):\n    s = 200.0\n    for k in range(x.size):\n"
        f"        {around}\n        s += x[k]\n    return s\n"
    )
    numbers = np.random.default_rng(seed)
    arrays = [(numbers.standard_normal(9) * 50 + 1j * numbers.standard_normal(9)) for _ in kinds]
    given = [
        (np.abs(a.real) > 20 if kind == "?" else a if kind[0] == "c" else a.real).astype(kind)
        if kind[0] != "u"
        else np.abs(a.real).astype(kind)
        for a, kind in zip(arrays, kinds, strict=True)
    ]
    return source, given


@pytest.mark.parametrize("seed", sampled(range(120), 4))
def test_random_texts(tmp_path: Path, seed: int) -> None:
    source, given = random_refusal(seed)
    function = module(tmp_path / f"random_text_{seed}.py", HEAD + source).refusing
    x = np.where(np.arange(9) == 4, -1.0, 2.0)
    wanted = error_of(function, x, *given)
    assert error_of(grad(function), x, *given) == wanted, source
    fast = jit(grad(function))
    np.testing.assert_array_equal(fast(np.abs(x), *given), grad(function)(np.abs(x), *given))
    assert error_of(fast, x, *given) == wanted, source
    info = fast.cache_info()
    assert info.compiled + info.loaded >= 1, source


class Below(ValueError):
    """An error of the user's, with more than a text."""

    def __init__(self, text: str, at: int, *, value: Any = None):
        super().__init__(text, at)
        self.value = value


def own_class(c: Any, x: Any) -> Any:
    v = 0.0
    for k in range(len(x)):
        v = c * v + x[k]
        if v < -100.0:
            raise Below(f"below by {v:.2f}", k, value=v) from None
    return v


def made_before(c: Any, x: Any) -> Any:
    v = 0.0
    for k in range(len(x)):
        v = c * v + x[k]
        refusal = ValueError(f"below by {v:.2f}", k)
        if v < -100.0:
            raise refusal
    return v


def checked_number(value: Any, what: str) -> Any:
    if not np.isfinite(value) or value < -100.0:
        raise ValueError(f"{what} must be finite, not {value!r}")
    return value


def nested(c: Any, x: Any) -> Any:
    def step(v: Any, k: int) -> Any:
        return checked_number(c * v + x[k], f"v[{k}]")

    v = 0.0
    for k in range(len(x)):
        v = step(v, k)
    return v


@pytest.mark.parametrize("function", [own_class, made_before, nested])
def test_where_errors_come_from(function: Any) -> None:
    wanted = error_of(function, 0.9, BAD)
    batch = np.stack([X, X, BAD, 2.0 * BAD])
    for fast in (grad(function), jit(function), jit(grad(function))):
        assert error_of(fast, 0.9, BAD) == wanted
    for many in (vmap(function, in_axes=(None, 0)), jit(vmap(grad(function), in_axes=(None, 0)))):
        assert error_of(many, 0.9, batch) == wanted
        many(0.9, batch[:2])


def test_an_assert_tells_of_the_first_example_that_fails() -> None:
    def root(x: Any, n: int) -> Any:
        assert x > 0.0, f"{x:.1f} of {n} is negative"
        return np.sqrt(x)

    for many in (vmap(root, in_axes=(0, None)), jit(vmap(grad(root), in_axes=(0, None)))):
        with pytest.raises(AssertionError, match=r"^-2\.0 of 3 is negative"):
            many(np.array([1.0, -2.0, -3.0]), 3)
        assert many(np.ones(0), 3).shape == (0,)


def test_a_text_is_of_the_moment_it_is_made() -> None:
    def stored(x: Any) -> Any:
        text = f"x was {x[:2]}"
        for k in range(x.size):
            x[k] += 5.0
            if x[k] < 0.0:
                raise ValueError(f"{text}, and is {x[:2]}")
        return np.sum(x)

    wanted = error_of(stored, BAD.copy())
    assert error_of(grad(stored), BAD) == wanted
    assert error_of(jit(stored), BAD.copy()) == wanted


def test_the_users_frames_are_shown() -> None:
    fast = jit(own_class)
    with pytest.raises(Below) as raised:
        fast(0.9, BAD)
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    assert not getattr(raised.value, "__notes__", [])
    frames = [entry.name for entry in raised.traceback]
    assert frames[-2:] == ["own_class_jit", "own_class_kernel"]


def test_sizes_in_an_error_that_every_call_raises() -> None:
    def matrix(x: Any, n: int) -> Any:
        if x.ndim != 2:
            raise ValueError(f"x must be 2-D, got shape {x.shape} and {n} of {x.size:>4}, {x[0]:.1f}")
        return np.sum(x)

    for size in (4, 5):
        with pytest.raises(ValueError, match=rf"got shape \({size},\) and 3 of    {size}, \.\.\."):
            grad(matrix)(np.ones(size), 3)
        with pytest.raises(ValueError, match=rf"got shape \({size},\) and 3 of    {size}, \.\.\."):
            jit(grad(matrix))(np.ones(size), 3)


def test_what_has_no_text_is_refused() -> None:
    class State:
        def __init__(self, v: Any) -> None:
            self.v = v

    def of_an_object(x: Any) -> Any:
        state = State(x[0])
        if x[0] < 0.0:
            raise ValueError(f"bad {state}")
        return x[0]

    with pytest.raises(UnsupportedFunction, match="A State in a message cannot be written"):
        grad(of_an_object)(X)


class Named:
    """An object that says what it is."""

    def __init__(self, v: Any) -> None:
        self.v = v

    def __str__(self) -> str:
        return f"a thing of {self.v:.2f}"


def test_a_class_with_a_text_of_its_own() -> None:
    def refusing(x: Any) -> Any:
        for k in range(x.size):
            thing = Named(x[k])
            if x[k] < 0.0:
                raise ValueError(f"bad: {thing}, {thing!s:>20}")
        return np.sum(x)

    wanted = error_of(refusing, BAD)
    assert error_of(jit(grad(refusing)), BAD) == wanted


SAVED = """
import numpy as np
from saved_refusal import {name}

x = np.where(np.arange(20) == 7, -1000.0, np.linspace(0.0, 1.0, 20))
try:
    {name}(0.9, x)
except ValueError as error:
    print(type(error).__name__, *error.args)
"""


@pytest.mark.parametrize("compiled", [False, True])
def test_a_saved_module_has_the_text(tmp_path: Path, compiled: bool) -> None:
    form = 'f"below by {v:.2f} at {k!r}, {v!r}"'
    refusal = f"        if v < -100.0:\n            raise ValueError({form})"
    own = module(tmp_path / "own_refusal.py", HEAD + LOOP.format(name="refusing", refusal=refusal))
    fast = jit(grad(own.refusing)) if compiled else grad(own.refusing)
    calque.save(fast, tmp_path / "saved_refusal.py", 0.9, X)
    name = "refusing_grad_jit" if compiled else "refusing_grad"
    done = subprocess.run(
        [sys.executable, "-c", SAVED.format(name=name)], cwd=tmp_path, capture_output=True, text=True
    )
    wanted = error_of(own.refusing, 0.9, BAD)[2]
    assert done.stdout.strip() == f"ValueError {wanted}", done.stderr


def test_kernels_that_are_not_compiled_have_the_text(programs: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    for form in itertools.islice(FORMS, 6):
        function = getattr(programs, named(form))
        assert error_of(jit(function), 0.9, BAD) == error_of(function, 0.9, BAD)


@pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
@pytest.mark.parametrize("form", ["representations", "percent of objects", "arguments", "assert percent"])
def test_a_loop_on_a_gpu_has_the_text(programs: Any, form: str) -> None:
    """The host runs such a loop: numbers on the device are shown as NumPy shows them."""
    function = getattr(programs, named(form))
    assert on_cuda(function, 0.9, X) == pytest.approx(function(0.9, X), rel=1e-12)
    assert error_of(lambda *args: on_cuda(function, *args), 0.9, BAD) == error_of(function, 0.9, BAD)
