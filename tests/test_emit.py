"""The printer's text of small programs, to the letter; the text computes the same numbers."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gast
import numpy as np
import pytest
from core_eval import evaluate

import calque
import calque.transpiler.primitives  # noqa: F401
from calque.transpiler.codegen.numpy.emit import emit_function, emit_module
from calque.transpiler.codegen.text.layout import at_most, to_text
from calque.transpiler.codegen.text.spelling import fill, literal, name, without_quotes
from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom
from calque.transpiler.ir.core import Parameter, Slot, Var
from calque.transpiler.ir.types import BOOL, INT, ArrayType, symbol
from calque.transpiler.ir.verify import verify
from calque.transpiler.primitives.record import PRIMITIVES

F8, F4 = np.dtype("f8"), np.dtype("f4")


def var(name: str | None, *dims: Any, dtype: np.dtype = F8) -> Var:
    return Var(ArrayType(dtype, tuple(symbol(d) if isinstance(d, str) else d for d in dims)), name)


def named(value: Array, text: str) -> Array:
    value.atom.name = text
    return value


def origin(line: int, statement: str) -> Origin:
    return Origin("f.py", line, 0, line, 1, statement, "f", statement)


def program(body: Callable[..., Any], *params: Var, **options: Any) -> core.Function:
    """The Core of a function on recorded arrays."""
    builder = Builder(["n", "m"])
    with builder.active(), builder.block() as block:
        result = body(*map(Array, params))
        results = list(result) if isinstance(result, tuple) else [result]
        block.results = [atom(r) for r in results]
    tree = tuple(Slot(k) for k in range(len(results))) if isinstance(result, tuple) else Slot(0)
    signature = [Parameter(p.name, p) for p in params]
    made = core.Function("f", list(params), block, tree, signature, **options)
    verify(made)
    return made


def same(function: core.Function, *args: Any) -> str:
    """The text, having checked that it computes what Core says."""
    text = emit_function(function)
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)
    want = evaluate(function, [np.copy(a) if np.ndim(a) else a for a in args])
    have = scope["f"](*[np.copy(a) if np.ndim(a) else a for a in args])
    have = have if isinstance(function.result, tuple) else (have,)
    for w, h in zip(want, have, strict=True):
        np.testing.assert_array_equal(w, h)
    return text


VECTOR = np.linspace(0.5, 2.0, 5)


def test_a_straight_line_reads_as_written() -> None:
    def loss(w: Array, x: Array, y: Array) -> Array:
        z = named(x @ w, "z")
        p = named(1.0 / (1.0 + np.exp(-z)), "p")
        return -np.mean(y * np.log(p) + (1.0 - y) * np.log(1.0 - p))

    function = program(loss, var("w", "m"), var("x", "n", "m"), var("y", "n"))
    assert emit_function(function) == (
        "def f(w, x, y):\n"
        "    z = x @ w\n"
        "    p = 1.0 / (1.0 + np.exp(-z))\n"
        "    return -np.mean(y * np.log(p) + (1.0 - y) * np.log(1.0 - p))\n"
    )


def test_a_value_used_twice_gets_a_name_that_says_what_it_is() -> None:
    def twice(z: Array) -> Array:
        e = np.exp(-z)
        return e / (1.0 + e)

    assert same(program(twice, var("z", "n")), VECTOR) == (
        "def f(z):\n    exp_minus_z = np.exp(-z)\n    return exp_minus_z / (1.0 + exp_minus_z)\n"
    )


def test_stores_are_made_in_a_copy_of_the_argument() -> None:
    def stores(u: Array) -> Any:
        u[0] = 1.0
        u[1] = u[1] * u[0]
        u[2:] = 0.0
        return u

    assert same(program(stores, var("u", "n")), VECTOR) == (
        "def f(u):\n"
        "    u = u.copy()  # the argument is kept as it is\n"
        "    u[0] = 1.0\n"
        "    u[1] *= u[0]\n"
        "    u[2:] = 0.0\n"
        "    return u\n"
    )


def test_an_argument_that_must_be_modified_is() -> None:
    def stores(u: Array) -> Any:
        u[0] = 1.0
        return np.sum(u), u

    made = program(stores, var("u", "n"), written={0: 1})
    made.result = Slot(0)
    assert emit_function(made) == "def f(u):\n    u[0] = 1.0\n    return np.sum(u)\n"


def test_an_argument_replaced_as_a_whole_is_given_its_value() -> None:
    def doubles(u: Array) -> Any:
        u = u + u[0]
        return np.sum(u * u), u

    made = program(doubles, var("u", "n"), written={0: 1})
    made.result = Slot(0)
    assert emit_function(made) == "def f(u):\n    u += u[0]\n    return np.sum(u * u)\n"


def test_a_read_does_not_move_past_a_store() -> None:
    def swap(x: Array) -> Any:
        x = named(x * 2.0, "x")
        x[0], x[1] = x[1], x[0]
        return x

    assert same(program(swap, var("x", "n")), VECTOR) == (
        "def f(x):\n"
        "    x = x * 2.0\n"
        "    x_first = x[0]\n"
        "    x[0] = x[1]\n"
        "    x[1] = x_first\n"
        "    return x\n"
    )


def test_a_view_that_is_still_needed_is_copied() -> None:
    def views(x: Array) -> Any:
        x = named(x * 2.0, "x")
        head = named(x[:2], "head")
        kept = Array(head.atom)
        x[0] = 7.0
        return x, kept * 3.0

    assert same(program(views, var("x", "n")), VECTOR) == (
        "def f(x):\n"
        "    x = x * 2.0\n"
        "    head = x[:2].copy()\n"
        "    x[0] = 7.0\n"
        "    return x, head * 3.0\n"
    )


def test_a_store_through_a_view_needs_no_writing_back() -> None:
    def through(x: Array) -> Any:
        x = named(x * 2.0, "x")
        tail = x[1:]
        named(tail, "tail")
        tail[0] = 3.0
        tail[1] = 4.0
        return x

    text = same(program(through, var("x", "n")), VECTOR)
    assert ".copy()" not in text


def test_updates_with_a_minus_subtract() -> None:
    def minus(x: Array, v: Array) -> Any:
        x_bar = named(np.zeros_like(x), "x_bar")
        for value in (-v, -0.5 * v, -v * v):
            x_bar.replace(Array(atom(PRIMITIVES["update_add"](x_bar, value, index=(0,)))))
        return x_bar

    assert same(program(minus, var("x", "n"), var("v")), VECTOR, 0.5) == (
        "def f(x, v):\n"
        "    x_bar = np.zeros_like(x)\n"
        "    x_bar[0] -= v\n"
        "    x_bar[0] -= 0.5 * v\n"
        "    x_bar[0] -= v * v\n"
        "    return x_bar\n"
    )


# control flow


def for_loop(builder: Builder, stop: Any, inits: list[tuple[str, Any]], body: Any) -> list[Array]:
    types = [i.type if isinstance(i, Array) else ArrayType(F8, (), True) for _, i in inits]
    phis = tuple(Var(t, n) for t, (n, _) in zip(types, inits))
    outs = tuple(Var(t, n) for t, (n, _) in zip(types, inits))
    index = Var(INT, "i")
    builder.dim_values[index] = builder.dims.fresh()
    with builder.block() as block:
        block.results = [atom(r) for r in body(Array(index), *map(Array, phis))]
    entry = tuple(atom(i) for _, i in inits)
    builder.emit(core.For(outs, index, 0, atom(stop), 1, phis, entry, block))
    return [Array(o) for o in outs]


def test_carried_values_that_permute_are_assigned_at_once() -> None:
    from calque.transpiler.ir.builder import current

    def fibonacci(x: Array) -> Any:
        a, b = for_loop(current(), 3, [("a", 0.0), ("b", 1.0)], lambda i, a, b: (b, a + b))
        return a * x

    assert same(program(fibonacci, var("x", "n")), VECTOR) == (
        "def f(x):\n"
        "    a = 0.0\n"
        "    b = 1.0\n"
        "    for i in range(3):\n"
        "        a, b = b, a + b\n"
        "    return a * x\n"
    )


def test_two_buffers_change_roles_without_a_copy() -> None:
    from calque.transpiler.ir.builder import current

    def sweep(x: Array) -> Any:
        def body(i: Array, u: Array, v: Array) -> Any:
            v[1:-1] = u[:-2] + u[2:]
            return v, u

        u, v = for_loop(current(), 3, [("u", x * 1.5), ("v", np.zeros_like(x))], body)
        return u

    text = same(program(sweep, var("x", "n")), VECTOR)
    assert text == (
        "def f(x):\n"
        "    u = x * 1.5\n"
        "    v = np.zeros_like(x)\n"
        "    for i in range(3):\n"
        "        v[1:-1] = u[:-2] + u[2:]\n"
        "        u, v = v, u\n"
        "    return u\n"
    )


def test_a_copy_stands_before_the_loop_not_in_it() -> None:
    from calque.transpiler.ir.builder import current

    def sweep(u: Array) -> Any:
        def body(i: Array, u: Array) -> Any:
            u[i] = u[i] * 2.0
            return (u,)

        (u,) = for_loop(current(), 3, [("u", u)], body)
        return u

    assert same(program(sweep, var("u", "n")), VECTOR) == (
        "def f(u):\n"
        "    u = u.copy()  # the argument is kept as it is\n"
        "    for i in range(3):\n"
        "        u[i] *= 2.0\n"
        "    return u\n"
    )


def choice(arms: tuple[Any, Any], type: ArrayType, text: str | None = None) -> Callable[..., Any]:
    def body(x: Array) -> Any:
        from calque.transpiler.ir.builder import current

        blocks = []
        test = x > 1.0
        for arm in arms:
            with current().block() as block:
                block.results = [atom(arm(x))]
            blocks.append(block)
        out = Var(type, text)
        current().emit(core.If((out,), test.atom, *blocks))
        return Array(out)

    return body


def test_a_branch_is_a_ternary_or_a_statement() -> None:
    arms = (lambda x: 0.0), (lambda x: (1.0 - x) ** 2)
    type = ArrayType(F8)
    assert same(program(choice(arms, type), var("x")), 0.5) == (
        "def f(x):\n    return 0.0 if x > 1.0 else (1.0 - x) ** 2\n"
    )
    assert same(program(choice(arms, type, "y"), var("x")), 0.5) == (
        "def f(x):\n"
        "    if x > 1.0:\n"
        "        y = 0.0\n"
        "    else:\n"
        "        y = (1.0 - x) ** 2\n"
        "    return y\n"
    )


def test_constant_arms_of_a_truth_value_are_and_or() -> None:
    both = program(choice(((lambda x: x < 2.0), (lambda x: False)), BOOL), var("x"))
    either = program(choice(((lambda x: True), (lambda x: x < 0.0)), BOOL), var("x"))
    assert emit_function(both) == "def f(x):\n    return x > 1.0 and x < 2.0\n"
    assert emit_function(either) == "def f(x):\n    return x > 1.0 or x < 0.0\n"


def test_effects_stand_once_and_in_order() -> None:
    from calque.transpiler.ir.builder import current

    def shows(x: Array) -> Any:
        y = named(x + 1.0, "y")
        current().effect("assert {0}, 'positive'", [y > 0.0])
        current().effect("print({0}, f'twice {{1}:.2f}')", [y, y * 2.0])
        return y

    assert emit_function(program(shows, var("x"))) == (
        "def f(x):\n"
        "    y = x + 1.0\n"
        "    assert y > 0.0, 'positive'\n"
        "    print(y, f'twice {y * 2.0:.2f}')\n"
        "    return y\n"
    )


# phases, modules, trees


def test_phases_and_the_users_statements() -> None:
    from calque.transpiler.ir.builder import current

    def gradient(x: Array) -> Any:
        builder = current()
        with builder.at(origin(2, "y = np.sin(\n    x,\n)")):
            y = named(np.sin(x), "y")
        with builder.at(origin(3, "return np.sum(y * y)")):
            y_bar = named(2.0 * y, "y_bar")
        with builder.at(origin(2, "y = np.sin(\n    x,\n)")):
            return named(y_bar * np.cos(x), "x_bar")

    function = program(gradient, var("x", "n"))
    words = ["forward", "reverse", "reverse", "reverse"]
    for s, word in zip(function.body.statements, words):
        s.phase = word
    text = emit_module(function, title="Gradient of f.", provenance=["From f.py."])
    assert text == (
        '"""Gradient of f.\n\nFrom f.py.\n"""\n'
        "import numpy as np\n\n\n"
        "def f(x):\n"
        "    # forward\n"
        "    y = np.sin(x)\n"
        "\n"
        "    # reverse\n"
        "    # return np.sum(y * y)\n"
        "    y_bar = 2.0 * y\n"
        "    # y = np.sin(x)\n"
        "    x_bar = y_bar * np.cos(x)\n"
        "    return x_bar\n"
    )


Layer = namedtuple("Layer", "W b")


@dataclasses.dataclass
class State:
    """A result of the user's own class."""

    x: Any
    t: Any


def test_structured_arguments_and_results() -> None:
    W, b, x = var(None, "n", "n"), var(None, "n"), var(None, "n")
    builder = Builder(["n"])
    with builder.active(), builder.block() as block:
        h = Array(W) @ Array(x) + Array(b)
        block.results = [atom(h), atom(Array(W) * 2.0)]
    function = core.Function(
        "f", [W, b, x], block, {"layer": Layer(Slot(1), None), "s": State(Slot(0), 1.5)}
    )
    function.signature = [
        Parameter("params", Layer(W, b)),
        Parameter("data", {"in": [x]}),
        Parameter("scale", 2.0, keyword_only=True, default="2.0"),
    ]
    text = emit_module(function, title="A layer.")
    assert "def f(params, data, *, scale=2.0):" in text
    assert "params.W @ data['in'][0] + params.b" in text
    assert "type(params)(W=params.W * 2.0, b=None)" in text
    assert f"from {State.__module__} import State" in text


# texts


@pytest.mark.parametrize(
    "value, others, text",
    [
        (2, [], "2"),
        (-2.5, [], "-2.5"),
        (np.pi, [], "np.pi"),
        (-np.inf, [], "-np.inf"),
        (np.nan, [], "np.nan"),
        (True, [], "True"),
        (2j, [], "2j"),
        (1 - 2j, [], "1.0 - 2j"),
        (np.float64(2.5), [], "2.5"),
        (np.float64(2.5), [var("x", dtype=F4)], "np.float64(2.5)"),
        (np.float64(2.5), [var("x", dtype=F8)], "2.5"),
        (np.float32(2.5), [var("x", dtype=F4)], "2.5"),
        (np.float32(2.5), [], "np.float32(2.5)"),
        (np.int64(3), [var("x", dtype=F8)], "3"),
        (np.int64(3), [var("x", dtype=F4)], "np.int64(3)"),
        (np.array([1.0, 2.0]), [], "np.array([1.0, 2.0])"),
        (np.array([1.0], F4), [], "np.array([1.0], dtype=np.float32)"),
    ],
)
def test_numbers(value: Any, others: list[Any], text: str) -> None:
    from gast import Expr

    shown = to_text(Expr(literal(value, others))).strip()
    assert shown.removeprefix("(").removesuffix(")" if shown.startswith("(") else "") in (
        text,
        text.replace("2j", "2.0j"),
    )


def test_an_f_string_with_quotes_inside_becomes_a_format() -> None:
    made = fill("print(f'{{0}:.2f} {{1}!r}')", [fill("p['W']", []).value, name("b")])
    assert to_text(without_quotes(made)).strip() == "print('{:.2f} {!r}'.format(p['W'], b))"


def test_precedence_is_the_trees_affair() -> None:
    inner = fill("{0} - {1}", [name("a"), name("b")]).value
    assert to_text(fill("{0} ** {1}", [literal(-2.0), inner])).strip() == "(-2.0) ** (a - b)"
    assert to_text(fill("{0} - {1}", [inner, inner])).strip() == "a - b - (a - b)"


def test_a_name_python_cannot_write_is_replaced() -> None:
    def body(x: Array) -> Any:
        y = named(np.sin(x), "")
        z = named(np.cos(x), "lambda")
        return y * y + z * z

    text = same(program(body, var("x", "n")), VECTOR)
    assert "sin_x = np.sin(x)" in text and "cos_x = np.cos(x)" in text


def test_lengths_of_lines_are_bounded() -> None:
    """``at_most`` on the statements of calque's own files."""
    bounds = []
    for file in sorted(Path(calque.__file__).parent.glob("transpiler/ir/*.py")):
        for node in gast.walk(gast.parse(file.read_text())):
            if isinstance(node, (gast.Assign, gast.AugAssign, gast.Expr, gast.If, gast.For)):
                node.body, node.orelse = [gast.Pass()], []
                length, bound = len(to_text(node).split("\n")[0]), at_most(node)
                assert bound >= length, to_text(node)
                bounds.append(bound < 1.5 * length)
    assert sum(bounds) > 0.5 * len(bounds) > 100


def test_digits_of_float32_constants() -> None:
    """As many as float32 needs where it stays float32, all of them where it becomes a double."""
    third = np.float32(1.0) / np.float32(3.0)

    def scaled(x: Any, y: Any) -> Any:
        return x * third, y * third, third + np.ones(2, np.float32)

    x, y = np.ones(3, np.float32), np.ones(3)
    for made in (calque.jit(scaled), calque.vmap(scaled)):
        for found, expected in zip(made(x, y), scaled(x, y), strict=True):
            assert np.asarray(found).dtype == expected.dtype
            np.testing.assert_array_equal(np.ravel(found)[:2], expected[:2])
    text = calque.source(calque.vmap(scaled), x, y)
    assert "0.33333334" in text and repr(float(third)) in text
