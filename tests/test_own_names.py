# ruff: noqa: F823  (programs that read what they have not assigned, on purpose)
"""A name that a function assigns is its own: before it has a value, no global or outer name stands in."""

from __future__ import annotations

import contextlib
import types
from pathlib import Path
from typing import Any

import gast
import numpy as np
import pytest

import calque
from calque.transpiler.errors import UndefinedVariable
from calque.transpiler.frontend.source import bound_names

x, y, np_name = 100.0, 7.0, "np"


def deleted(a):
    x = a * 2.0
    del x
    return a * x


def deleted_parameter(x):
    del x
    return x


def read_first(a):
    b = a * y
    y = 3.0
    return b * y


def of_no_iteration(a):
    for y in []:
        pass
    return a * y


def in_a_function_within(a):
    def inner(b):
        c = b * y
        y = 2.0
        return c * y

    return inner(a)


def of_the_function_around(a):
    def inner(b):
        return b * y

    c = inner(a)
    y = 2.0
    return c * y


def imported_later(a):
    b = np.sin(a)
    import numpy as np

    return np.sum(b)


def augmented(a):
    y *= a
    return y


def in_a_comprehension(a):
    b = sum([a * y for _ in range(2)])
    y = 1.0
    return b * y


def in_a_generator(a):
    def items():
        yield a * y
        y = 1.0
        yield a * y

    return sum(items())


MISSING = [deleted, deleted_parameter, read_first, of_no_iteration, in_a_function_within, of_the_function_around, imported_later, augmented, in_a_comprehension, in_a_generator]


@pytest.mark.parametrize("how", [lambda f: f, calque.jit], ids=["plain", "jit"])
@pytest.mark.parametrize("f", MISSING)
def test_as_python_says(f: Any, how: Any) -> None:
    with pytest.raises(NameError) as theirs:
        f(1.5)
    with pytest.raises(UndefinedVariable) as ours:
        how(calque.grad(f))(1.5)
    found, wanted = ours.value.message.rstrip("."), str(theirs.value)
    if f is in_a_comprehension:  # a function of its own until Python 3.12
        wanted = wanted.replace("free", "local").removesuffix(" in enclosing scope")
    assert found == wanted
    assert f.__name__ in str(ours.value) or ", in inner" in str(ours.value) or ", in items" in str(ours.value)


def taken_or_not(a):
    if a > 0.0:
        b = a * a
    else:
        b = a * y
        y = 1.0
    return b


def test_in_an_arm_it_is_raised_when_taken() -> None:
    for f in (calque.grad(taken_or_not), calque.jit(calque.grad(taken_or_not))):
        assert f(1.5) == 3.0
        with pytest.raises(UnboundLocalError, match="cannot access local variable 'y'"):
            f(-1.5)


def outer_names(a):
    global y
    b = a * y

    def inner(c):
        return c * x

    def counts():
        nonlocal b
        b = b * 2.0
        return b

    total = sum(x * a for x in [1.0, 2.0])
    z = [w for w in range(3) if (last := w) >= 0]
    return inner(b) + counts() + total + len(z) + last


def test_names_that_are_not_the_functions_own() -> None:
    assert calque.source(outer_names, 1.5)
    assert calque.jit(outer_names)(1.5) == outer_names(1.5)
    step = 1e-6
    differences = (outer_names(1.5 + step) - outer_names(1.5 - step)) / (2.0 * step)
    assert np.isclose(calque.grad(outer_names)(1.5), differences)


def codes(code: types.CodeType) -> Any:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes(inner)


def test_the_names_are_those_of_pythons_compiler() -> None:
    compared = 0
    for file in sorted(Path(contextlib.__file__).parent.glob("[c-f]*.py")):
        text = file.read_text(encoding="utf-8")
        made = {(c.co_name, c.co_firstlineno): c for c in codes(compile(text, str(file), "exec"))}
        for node in gast.walk(gast.parse(text)):
            plain = isinstance(node, gast.FunctionDef) and not node.decorator_list
            code = made.get((node.name, node.lineno)) if plain else None
            if code is None:
                continue
            own = {v for v in (*code.co_varnames, *code.co_cellvars) if not v.startswith((".", "_"))}
            comprehended = {c for inner in codes(code) if inner.co_name.startswith("<") for c in inner.co_varnames}
            if not comprehended and not any(isinstance(n, gast.comprehension) for n in gast.walk(node)):
                assert {v for v in bound_names(node) if not v.startswith("_")} == own, (file, node.name)
                compared += 1
    assert compared > 300


class Scale:
    def __init__(self) -> None:
        self.x = np.array([1.0, 2.0, 3.0])


scale = Scale()


def test_a_leaf_and_a_captured_array_of_one_name() -> None:
    def scaled(*args: Any) -> Any:
        x = args[0]
        return np.sum(x * x * scale.x)

    place = np.array([0.3, 1.1, 2.2])
    np.testing.assert_allclose(calque.grad(scaled)(place), 2.0 * place * scale.x)
    np.testing.assert_allclose(calque.jit(calque.grad(scaled))(place), 2.0 * place * scale.x)
