"""Arguments to differentiate by, said by name: ``argnums="y"``, ``argnames=("x", "k")``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import calque
from calque.runtime.saving.provenance import transform_text

KINDS = ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"]


def scaled(x: Any, y: Any, *, k: Any = 2.0) -> Any:
    return x * x * y**3 * k


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["x", "y"])
def test_a_name_is_as_its_number(kind: str, name: str) -> None:
    make = getattr(calque, kind)
    number = make(scaled, argnums=["x", "y"].index(name))(2.0, 3.0)
    assert make(scaled, argnums=name)(2.0, 3.0) == number
    assert make(scaled, argnames=name)(2.0, 3.0) == number
    assert make(argnames=name)(scaled)(2.0, 3.0) == number
    assert make(scaled, argnums=name)(2.0, y=3.0) == number


def test_several_names_give_a_tuple_in_their_order() -> None:
    assert calque.grad(scaled, argnames=("y", "x"))(2.0, 3.0) == (216.0, 216.0)
    assert calque.grad(scaled, argnums=("k", 0))(2.0, 3.0, k=1.0) == (108.0, 108.0)
    assert calque.grad(scaled, argnames=["k"])(2.0, y=3.0, k=1.0) == (108.0,)


def test_arguments_given_by_keyword_alone() -> None:
    assert calque.grad(scaled, argnames="k")(2.0, 3.0, k=1.0) == 108.0
    assert calque.grad(lambda **given: given["a"] ** 2, argnames="a")(a=3.0) == 6.0
    assert calque.grad(partial(scaled, y=3.0), argnums="x")(2.0) == 216.0


def test_names_compose() -> None:
    twice = calque.grad(calque.grad(scaled, argnames="y"), argnames="y")
    assert twice(2.0, 3.0) == 144.0
    assert calque.jit(twice)(2.0, 3.0) == 144.0
    over = calque.vmap(calque.grad(scaled, argnames="y"))(np.array([1.0, 2.0]), np.ones(2))
    np.testing.assert_allclose(over, [6.0, 24.0])


class Model:
    def loss(self, w: Any, b: Any) -> Any:
        return w * b**2

    by_bias = calque.grad(loss, argnames="b")


def test_methods_count_no_self() -> None:
    assert Model().by_bias(1.0, 3.0) == 6.0
    assert calque.grad(Model().loss, argnames="b")(1.0, 3.0) == 6.0


def test_names_within_a_function_that_is_transformed() -> None:
    def outer(x: Any) -> Any:
        def inner(u: Any, *, v: Any) -> Any:
            return u * v**3

        return calque.grad(inner, argnames="v")(1.0, v=x) + calque.hessian(inner, "v")(1.0, v=x)

    assert outer(2.0) == 24.0
    assert calque.grad(outer)(2.0) == 18.0


def test_the_command_in_a_saved_module_has_the_name() -> None:
    assert transform_text(calque.grad(scaled, argnums="y")) == "grad(f, argnums='y')"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"argnums": "z"},
            "argnums or argnames has 'z', which is no parameter of scaled: it has x, y, k",
        ),
        ({"argnums": (0, "z")}, "argnums or argnames has 'z', which is no parameter of scaled"),
        ({"argnames": "z"}, "argnums or argnames has 'z', which is no parameter of scaled"),
        ({"argnums": 1, "argnames": "x"}, "argnums and argnames are both given"),
        ({"argnames": ()}, "argnames must be a name or a sequence of names"),
        ({"argnames": 1}, "argnames must be a name or a sequence of names"),
        ({"argnums": ("x", None)}, "argnums must be an int or a sequence of ints"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_none_are_refused_at_once(kind: str, options: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{kind}: {text}"):
        getattr(calque, kind)(scaled, **options)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("k", "argnums or argnames has 'k', and the call of scaled does not give it: pass k="),
        (("x", 0), "names an argument of scaled twice"),
        (("x", 5), "argnums"),
    ],
)
def test_names_that_a_call_lacks_are_refused(names: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        calque.grad(scaled, argnums=names)(2.0, 3.0)
