"""Malformed calls of everything public are refused, and the refusal names the argument.

One call in eighty of the systematic ones and a few random ones run everywhere; ``CALQUE_TESTS=all`` runs all.
"""

import inspect
import sys
from typing import Any

import numpy as np
import pytest

import calque
from calque import cli
from calque.tests import malformed_calls, malformed_transformations
from calque.tests.malformed_transformations import double, product, twin
from calque.tests.malformed_values import cyclic_dict, cyclic_list
from calque.tests.sampling import EVERYTHING, sampled
from calque.transpiler.errors import CalqueError

PARTS = 16 if EVERYTHING else 1
pytestmark = pytest.mark.filterwarnings("ignore")  # of NumPy, on what is no number


def faults(calls):
    found = [(call.name, malformed_calls.fault(call)) for call in calls]
    return [f"{name}: {fault}" for name, fault in found if fault]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_parameter_with_every_value(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = sampled(malformed_calls.systematic(), 79)[part::PARTS]
    assert not faults(calls)


def test_too_few_and_too_many_arguments():
    assert not faults(malformed_calls.arities())


@pytest.mark.parametrize("seed", range(20 if EVERYTHING else 1))
def test_at_random(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not faults(malformed_calls.at_random(seed, 200 if EVERYTHING else 60))


def test_everything_public_has_a_call():
    called = {subject.name for subject in malformed_calls.SUBJECTS}
    functions = {n for n in calque.__all__ if callable(getattr(calque, n))} - {"JitFallback"}
    functions |= {f"random.{name}" for name in calque.random.__all__}
    assert not {n for n in functions if not any(n in name for name in called)}
    for subject in malformed_calls.SUBJECTS:
        space, _, name = subject.name.rpartition(".")
        public = getattr(calque.random if space == "random" else calque, name, None)
        if public is not None and subject.name != "linear_transpose":
            several = inspect.Parameter.VAR_POSITIONAL
            mine = inspect.signature(public).parameters.values()
            named = {p.name for p in mine if p.kind != several}
            tried = {
                p for s in malformed_calls.SUBJECTS if s.name == subject.name for p in s.parameters
            }
            named -= {"parallel", "cost"} if subject.name == "explain" else set()  # flags of text
            assert named <= tried, (subject.name, named - tried)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: calque.grad(product, argnums=2), TypeError, "grad: argnums 2 is out of range: product takes 2 positional arguments"),
        (lambda: calque.grad(product, argnums=(0, -3)), ValueError, "grad: argnums -3 is out of range: product takes 2 positional arguments"),
        (lambda: calque.grad(product, argnums=(0, 0)), TypeError, r"grad: argnums \(0, 0\) names an argument of product twice"),
        (lambda: calque.grad(calque.jit(calque.grad(double)), argnums=1), TypeError, "argnums 1 is out of range: double takes 1"),
        (lambda: calque.hessian(has_aux=1.5), TypeError, "hessian: has_aux must be True or False, and is 1.5"),
        (lambda: calque.jit(product, static_argnums=2), ValueError, "jit: static_argnums 2 is out of range"),
        (lambda: calque.jit(product, static_argnames=["z"]), ValueError, "jit: static_argnames has 'z', which is no parameter of product: it has x, y"),
        (lambda: calque.vmap(double, in_axes=(0, 0)), ValueError, "vmap: in_axes has 2 entries, and the function takes 1"),
        (lambda: calque.vmap(double, in_axes=cyclic_list()), ValueError, "vmap: in_axes must be an int, None or a tree of these, and is .*: it holds itself"),
        (lambda: calque.custom_jvp(double, nondiff_argnums=3), ValueError, "custom_jvp: nondiff_argnums 3 is out of range"),
        (lambda: calque.linear(twin(double), result=np.zeros_like, wrt=1), ValueError, "linear: wrt 1 is out of range"),
        (lambda: calque.elementwise(twin(double), static="n"), ValueError, "elementwise: static has 'n', which is no parameter"),
        (lambda: calque.grad(None), TypeError, "grad: fun must be a function, and is None"),
        (lambda: calque.spec(None), CalqueError, "spec: text must be a text, and is None"),
        (lambda: calque.grad(product)(cyclic_dict(), 1.0), ValueError, r"product_grad: argument 0 \(x\) holds itself"),
        (lambda: calque.jit(double)(np.array(["a"])), CalqueError, r"double_jit: argument 0 \(x\) is an array of dtype <U1"),
        (lambda: calque.jit(double)({"w": [np.array([None])]}), CalqueError, r"argument 0 \(x\['w'\]\[0\]\) is an array of dtype object"),
        (lambda: calque.vjp(double, "a"), TypeError, r"vjp: argument 0 \(x\) is 'a', which holds no number"),
        (lambda: calque.grad(lambda x: x)("a"), CalqueError, "grad: argument 0 is a str, which holds no number"),
        (lambda: calque.jit(double)(calque.spec("f8[3]")), TypeError, r"argument 0 \(x\) is a type, spec\('f8\[3\]'\): a call needs values"),
        (lambda: calque.jvp(double)(2.0, x_dot=1.0), TypeError, "double_jvp: arguments are given by position, and x_dot by name"),
        (lambda: calque.jit(lambda x: calque.source(double, x))(1.0), CalqueError, "calque.source is called in a function that is transformed"),
        (lambda: calque.grad(lambda x, held=cyclic_list(): x * held[0])(1.0), ValueError, "held_b is a list that holds itself"),
        (lambda: calque.custom_vjp(double)(1.0), AttributeError, "double has no rule yet"),
    ],
)  # fmt: skip
def test_texts(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def wrapped(function):
    import functools

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args[:1], **kwargs)

    return wrapper


class Model:
    def __init__(self, scale):
        self.scale = scale

    @calque.grad(argnums=1)
    def slope(self, x, y):
        return self.scale * x * y


def test_what_is_legal_works():
    """Calls that look malformed and are legal: JAX takes these, too."""
    assert calque.grad(lambda *xs: xs[0] * xs[2], argnums=2)(2.0, 3.0, 4.0) == 2.0
    assert calque.grad(wrapped(double), argnums=0)(1.0, 2.0) == 2.0
    assert Model(3.0).slope(2.0, 5.0) == 6.0
    assert calque.grad(product, has_aux=None, argnums={1})(2.0, 3.0) == (2.0,)
    assert calque.grad(product, has_aux=np.bool_(False), holomorphic=0)(2.0, 3.0) == 3.0
    assert calque.jit(product, static_argnums=None, static_argnames=None)(2.0, 3.0) == 6.0
    assert calque.jit(calque.jit(product, static_argnums=0), static_argnums=(0, 0))(2, 3.0) == 6.0
    assert calque.jit(lambda x, **k: x * k["n"], static_argnames="n")(2.0, n=3) == 6.0
    assert calque.grad(lambda x, _: 2.0 * x, argnums=(0, 1))(1.0, None) == (2.0, None)
    assert calque.vmap(double, in_axes=[0], axis_name=("a", 1))(np.ones(2)).tolist() == [2.0, 2.0]
    assert calque.vmap(double, in_axes=np.int64(0), axis_size=2)(np.ones(2)).tolist() == [2.0, 2.0]
    assert calque.jit(lambda x, kind: 2.0 * x if kind == "a" else x)(1.0, "a") == 2.0
    assert calque.checkpoint(prevent_cse=False)(double)(1.0) == 2.0
    assert calque.check_grads(double, (1.0,), modes=None, atol=1, rtol=np.float32(1.0)) is None


SHOWN = ["show", f"{malformed_transformations.__file__}:double", "--args"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["shew"], "shew"),
        (["show"], "FILE:FUNC"),
        (["show", "double"], "double"),
        (["show", "nowhere.py:f"], "nowhere.py"),
        (["show", f"{malformed_transformations.__file__}:doubel"], "double"),
        (["show", f"{malformed_transformations.__file__}:SQUARE"], "SQUARE"),
        ([*SHOWN], "--args"),
        ([*SHOWN, "g8[3]"], "g8"),
        ([*SHOWN, "f8[3"], "f8[3"),
        ([*SHOWN, "f8, f8"], "--args"),
        ([*SHOWN, "f8[3]", "--transform", "grad"], "grad"),
        ([*SHOWN, "f8", "--transform", "grad(f, argnums=None)"], "argnums"),
        ([*SHOWN, "f8", "--transform", "grad(f, argnums=5)"], "argnums"),
        ([*SHOWN, "f8", "--transform", "grad(f, argnum=0)"], "argnum"),
        ([*SHOWN, "f8", "--transform", "grod(f)"], "grod"),
        ([*SHOWN, "f8[3]", "--transform", "vmap(f, in_axes='a')"], "in_axes"),
        ([*SHOWN, "f8", "--transform", "jit(f, static_argnums=(7,))"], "static_argnums"),
        ([*SHOWN, "f8", "--transform", "jit(f, parallel='x')"], "parallel"),
        ([*SHOWN, "f8", "--transform", "checkpoint(f, every=0)"], "every"),
        ([*SHOWN, "f8", "--transform", "f("], "--transform"),
        ([*SHOWN, "f8", "--stage", "c"], "--stage"),
        ([*SHOWN, "f8", "-o", "/nowhere/at/all.py"], "/nowhere/at/all.py"),
        (["check", f"{malformed_transformations.__file__}:double", "--args", "f8", "--seed", "x"], "--seed"),
        (["check", f"{malformed_transformations.__file__}:double", "--args", "f8", "--seed", "-1"], "seed"),
        (["check", f"{malformed_transformations.__file__}:double", "--args", "i8"], "floating dtype"),
        (["explain", f"{malformed_transformations.__file__}:double", "--args", "f8[n", "--transform", "f"], "f8[n"),
        (["cache", "empty"], "empty"),
        (["verify"], "FILE"),
        (["verify", "nowhere.py"], "nowhere.py"),
    ],
)  # fmt: skip
def test_the_command_names_what_is_wrong(arguments, text, capsys):
    assert cli.main(arguments) in (1, 2)
    shown = capsys.readouterr().err
    assert text in shown and "Traceback" not in shown


NAMES = np.array(["a", "b"])


def counted(x):
    total = 0.0
    for name in NAMES:
        total = total + (x if name == "a" else 5.0 * x)
    return total


def test_captured_texts_are_compared(monkeypatch):
    """Arrays of texts are known values: a changed element, or another array, makes a new program."""
    found = []
    for names in (["a", "b"], ["b", "a"], ["a"]):
        monkeypatch.setattr(sys.modules[__name__], "NAMES", np.array(names))
        found.append(calque.grad(counted)(1.0))
    assert found == [6.0, 6.0, 1.0]
    NAMES[0] = "b"
    assert calque.grad(counted)(1.0) == 5.0


@pytest.mark.parametrize(
    "use", [lambda x: x * np.sum(NAMES == "a"), lambda x: x if NAMES[0] == "a" else 5.0 * x]
)
def test_arithmetic_on_texts_is_refused(use):
    """It compared generated arrays of texts with texts, and found none: 0.0 without a word."""
    with pytest.raises(CalqueError, match="holds no numbers to compute with"):
        calque.grad(use)(1.0)


def test_a_default_that_was_a_container_may_be_a_number():
    """Lambdas of one code share a program, whose guards read items of the default."""
    for held, slope in (((2.0,), 2.0), (3.0, 3.0), ([4.0, 1.0], 4.0), (None, 1.0)):
        f = lambda x, i=held: x * (1.0 if i is None else i if isinstance(i, float) else i[0])
        assert calque.grad(f)(1.0) == slope


TABLE: Any = np.ones((2, 2))


def test_a_captured_array_may_become_a_ragged_list(monkeypatch):
    f = calque.jit(lambda x: x * TABLE[0][0] * len(TABLE[1]))
    assert f(1.0) == 2.0
    monkeypatch.setattr(sys.modules[__name__], "TABLE", np.ones((2, 3)))
    assert f(1.0) == 3.0
    monkeypatch.setattr(sys.modules[__name__], "TABLE", [[2.0], [1.0, 2.0, 3.0, 4.0]])
    assert f(1.0) == 8.0
