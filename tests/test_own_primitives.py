"""The user's own primitives: functions that stay calls, with rules declared by hand."""

from __future__ import annotations

import importlib.util
import itertools
import math
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import pytest
import scipy.special as sp

import calque
from calque.transpiler.errors import NotDifferentiable, ShapeError, UnsupportedFunction

jax.config.update("jax_enable_x64", True)

THREES = 3.0


@calque.elementwise(partials=lambda x, y: (1.0 - y * y,))
def squashed(x):
    """tanh, by a C function."""
    return np.vectorize(math.tanh, otypes=[np.result_type(x)])(x)


@calque.elementwise(partials=lambda a, b, y, *, order: (order * y / a, y / b))
def monomial(a, b, *, order):
    return np.power(a, order) * b


def _slope(x, y):
    if x.ndim == 0:
        return squashed(x) * 0.0 + THREES * (x > 0)
    return np.where(x > 0, 3.0, 0.0)


@calque.elementwise(partials=_slope)
def ramp(x):
    return 3.0 * np.maximum(x, 0.0)


@calque.linear(transpose=lambda y_bar, x: np.cumsum(y_bar[::-1])[::-1], result=np.zeros_like)
def running(x):
    return np.array(list(itertools.accumulate(x)), x.dtype)


@calque.linear(
    transpose=lambda y_bar, x: np.stack([y_bar, -y_bar], axis=-1),
    result=lambda x: x[..., 0],
    batch="expand_dims",
)
def difference(x):
    return x[..., 0] - x[..., 1]


@calque.linear(transpose=lambda y_bar, a, b: y_bar * a, result=np.multiply, wrt=1)
def scaled(a, b):
    return np.asarray(a) * b


@calque.bilinear(
    transpose=lambda y_bar, a, b: (np.outer(y_bar, b), a.T @ y_bar), result=lambda a, b: a @ b
)
def product(a, b):
    return np.array([math.fsum(row * b) for row in a])


@calque.reduction(slope=lambda x, y, axis=None: np.exp(x - y))
def log_sum_exp(x, axis=None, keepdims=False):
    return sp.logsumexp(x, axis=axis, keepdims=keepdims)


@calque.reduction(slope=lambda x, y: x / y)
def length(x):
    return np.sqrt(np.dot(x.ravel(), x.ravel()))


def _polar_vjp(bars, y, x):
    radius, angle = y
    radius_bar, angle_bar = bars
    a, b = x[0], x[1]
    x_bar = np.zeros(2)
    if radius_bar is not None:
        x_bar = x_bar + radius_bar * x / radius
    if angle_bar is not None:
        x_bar = x_bar + angle_bar * np.array([-b, a]) / radius**2
    return x_bar


@calque.opaque(
    result=lambda x: (x[0], x[0]),
    jvp=lambda x_dot, y, x: (
        x @ x_dot / y[0],
        (x[0] * x_dot[1] - x[1] * x_dot[0]) / y[0] ** 2,
    ),
    vjp=_polar_vjp,
)
def polar(x):
    return np.float64(math.hypot(x[0], x[1])), np.float64(math.atan2(x[1], x[0]))


@calque.opaque(result=lambda x: x)
def without_rules(x):
    return np.exp(x)


@calque.opaque(result=lambda x: x[:-1], jvp=lambda d, y, x: d, vjp=lambda c, y, x: c)
def wrong_rules(x):
    return x[1:]


calque.elementwise(sp.j0, lambda x, y: -sp.j1(x), name="scipy.special.j0")
calque.elementwise(sp.j1, lambda x, y: 0.5 * (sp.j0(x) - sp.jv(2, x)), name="scipy.special.j1")

RNG = np.random.default_rng(7)
VECTOR, MATRIX = RNG.uniform(0.5, 1.5, 4), RNG.uniform(0.5, 1.5, (3, 4))


def _jax_polar(x):
    return jnp.hypot(x[0], x[1]), jnp.arctan2(x[1], x[0])


# a program over own primitives, its twin in JAX, the arguments of one example
PROGRAMS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "elementwise": (
        lambda x: np.sum(squashed(x) * x),
        lambda x: jnp.sum(jnp.tanh(x) * x),
        (VECTOR,),
    ),
    "elementwise of two, with a keyword": (
        lambda a, b: np.sum(monomial(a, b, order=3)),
        lambda a, b: jnp.sum(a**3 * b),
        (MATRIX, VECTOR),
    ),
    "a rule that branches on the rank": (
        lambda x: np.sum(ramp(x - 1.0)) + ramp(x[0]),
        lambda x: jnp.sum(3 * jnp.maximum(x - 1, 0)) + 3 * x[0],
        (VECTOR,),
    ),
    "linear": (
        lambda x: np.sum(running(x * x) ** 2),
        lambda x: jnp.sum(jnp.cumsum(x * x) ** 2),
        (VECTOR,),
    ),
    "linear, axes in front": (
        lambda x: np.sum(difference(x * x) ** 3),
        lambda x: jnp.sum((x[..., 0] ** 2 - x[..., 1] ** 2) ** 3),
        (MATRIX[:, :2],),
    ),
    "linear in one of two": (
        lambda x: np.sum(scaled(2.0, x) ** 2),
        lambda x: jnp.sum(4 * x**2),
        (VECTOR,),
    ),
    "bilinear": (
        lambda a, b: np.sum(np.sin(product(a, b))),
        lambda a, b: jnp.sum(jnp.sin(a @ b)),
        (MATRIX, VECTOR),
    ),
    "reduction": (
        lambda x: log_sum_exp(x) ** 2,
        lambda x: jax.scipy.special.logsumexp(x) ** 2,
        (MATRIX,),
    ),
    "reduction along an axis": (
        lambda x: np.sum(log_sum_exp(x, axis=-1) ** 2 * log_sum_exp(x, 0, keepdims=True)[0, :3]),
        lambda x: jnp.sum(jsp.logsumexp(x, -1) ** 2 * jsp.logsumexp(x, 0, keepdims=True)[0, :3]),
        (MATRIX,),
    ),
    "reduction without axis": (
        lambda x: length(x) * length(x[0]),
        lambda x: jnp.sqrt(jnp.sum(x * x) * jnp.sum(x[0] ** 2)),
        (MATRIX,),
    ),
    "opaque, two results": (
        lambda x: polar(x)[0] ** 2 * polar(x)[1] + polar(2.0 * x)[1] ** 2,
        lambda x: _jax_polar(x)[0] ** 2 * _jax_polar(x)[1] + _jax_polar(2.0 * x)[1] ** 2,
        (VECTOR[:2],),
    ),
    "of SciPy": (
        lambda x: np.sum(sp.j0(x) * x),
        lambda x: jnp.sum(_jax_j0(x) * x),
        (VECTOR,),
    ),
    "in a loop": (
        lambda x, w: _looped(x, w),
        lambda x, w: _jax_looped(x, w),
        (VECTOR, RNG.uniform(0.1, 0.4, (4, 4))),
    ),
}


@jax.custom_jvp
def _jax_j0(x):
    return jnp.cos(x[:, None] * jnp.sin(jnp.pi * (jnp.arange(400) + 0.5) / 400)).mean(1)


_jax_j0.defjvp(lambda p, t: jax.jvp(_jax_j0.fun, p, t))


def _looped(x, w):
    for _ in range(3):
        x = squashed(product(w, x))
    return np.sum(x)


def _jax_looped(x, w):
    for _ in range(3):
        x = jnp.tanh(w @ x)
    return jnp.sum(x)


def same(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_of_jax(name: str) -> None:
    f, twin, args = PROGRAMS[name]
    numbers = tuple(range(len(args)))
    tangents = tuple(RNG.normal(size=a.shape) for a in args)

    @jax.jit  # operation by operation, JAX compiles each of them
    def expected(args, tangents):
        moved = jax.jvp(twin, args, tangents)
        slopes = jax.grad(twin, numbers)(*args)
        return moved, slopes, jax.hessian(twin)(*args), jax.hessian(twin, numbers)(*args)

    moved, slopes, curvature, curvatures = expected(args, tangents)
    same(f(*args), moved[0])
    same(calque.jvp(f, args, tangents), moved)
    same(calque.grad(f, numbers)(*args), slopes)
    same(calque.hessian(f)(*args), curvature)
    same(calque.hessian(f, argnums=numbers)(*args), curvatures)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_are_those_of_a_loop(name: str, count: int) -> None:
    f, _, args = PROGRAMS[name]
    numbers = tuple(range(len(args)))
    batches = [RNG.uniform(0.5, 1.5, (count, *a.shape)) for a in args]
    slopes = calque.grad(f, numbers)
    axes = (0,) + (None,) * (len(args) - 1)
    for given, in_axes in ((batches, 0), ([batches[0], *args[1:]], axes)):
        made = calque.vmap(f, in_axes)(*given)
        gradients = calque.vmap(slopes, in_axes)(*given)
        total = calque.grad(lambda *a, i=in_axes: np.sum(calque.vmap(f, i)(*a) ** 2))(*given)
        assert made.shape == (count,)
        assert total.shape == batches[0].shape
        for lane in range(count):
            row = [b[lane] if a == 0 else b for a, b in zip(axes, given, strict=True)]
            row = [b[lane] for b in given] if in_axes == 0 else row
            same(made[lane], f(*row))
            same([g[lane] for g in gradients], list(slopes(*row)))
            same(total[lane], 2.0 * f(*row) * slopes(*row)[0])


def test_the_function_stays_a_call_in_the_source() -> None:
    text = calque.source(calque.grad(lambda x, w: np.sum(product(w, squashed(x)))), VECTOR, MATRIX)
    code = [line for line in text.splitlines() if not line.strip().startswith("#")]
    assert not any("product(w, " in line for line in code), "its value is not needed"
    assert "squashed(x)" in text
    assert "math" not in text and "vectorize" not in text


def test_a_saved_module_imports_the_function(tmp_path: Path) -> None:
    path = tmp_path / "saved.py"
    slope = calque.grad(lambda x: np.sum(sp.j0(x) * squashed(x)))
    calque.save(slope, path, VECTOR)
    text = path.read_text()
    assert "from scipy.special import j0\nfrom scipy.special import j1\n" in text
    assert f"from {__name__} import squashed\n" in text
    spec = importlib.util.spec_from_file_location("saved", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (made,) = [v for k, v in vars(module).items() if k.endswith("_grad")]
    same(made(VECTOR), slope(VECTOR))


def test_names_that_are_taken() -> None:
    def shadowed(squashed):
        return _apply(squashed) * squashed

    slope = 1.0 - math.tanh(0.5) ** 2
    same(calque.grad(shadowed)(0.5), math.tanh(0.5) + 0.5 * slope)
    same(calque.grad(squashed)(0.5), slope)
    text = calque.source(squashed, 0.5)
    assert "return squashed(" not in text, "it would call itself"


def _apply(x):
    return squashed(x)


def test_two_functions_of_one_name() -> None:
    modules = []
    for name, factor in (("first_of_two", 2.0), ("second_of_two", 5.0)):
        module: Any = types.ModuleType(name)
        exec("def times(x):\n    return FACTOR * x\n", vars(module))
        module.FACTOR, module.times.__module__ = factor, name
        sys.modules[name] = module
        calque.elementwise(module.times, _FACTORS[name])
        modules.append(module)
    first, second = (m.times for m in modules)
    same(calque.value_and_grad(lambda x: first(x) * second(x))(3.0), (90.0, 60.0))


_FACTORS: dict[str, Any] = {
    "first_of_two": lambda x, y: 2.0 + 0.0 * x,
    "second_of_two": lambda x, y: 5.0 + 0.0 * x,
}


def test_a_new_declaration_takes_effect() -> None:
    module: Any = types.ModuleType("declared_again")
    exec("def thing(x):\n    return 2.0 * x\n", vars(module))
    module.thing.__module__ = "declared_again"
    sys.modules["declared_again"] = module
    thing = calque.elementwise(module.thing, lambda x, y: 2.0 + 0.0 * x)
    slope = calque.grad(lambda x: thing(x) * x)
    assert slope(3.0) == 12.0
    calque.elementwise(thing, lambda x, y: 7.0 + 0.0 * x)  # wrong on purpose
    assert slope(3.0) == 27.0


def test_rules_read_captured_values_again() -> None:
    global THREES
    slope = calque.grad(lambda x: ramp(x))
    assert slope(2.0) == 3.0
    try:
        THREES = 4.0
        assert slope(2.0) == 4.0
    finally:
        THREES = 3.0


def test_dtypes_follow() -> None:
    for dtype in ("f4", "f8"):
        x = np.asarray(VECTOR, dtype)
        assert calque.grad(lambda x: np.sum(running(squashed(x))))(x).dtype == dtype


def test_the_function_is_given_back_and_still_plain() -> None:
    assert isinstance(squashed, types.FunctionType)
    assert squashed(0.5) == math.tanh(0.5)


SCRIPT = """
import numpy as np
import calque
from calque.transpiler.errors import UnsupportedFunction

@calque.elementwise(partials=lambda x, y: y)
def exponential(x):
    return np.exp(x)

slope = calque.grad(lambda x: exponential(2.0 * x))
print(abs(slope(0.5) - 2.0 * np.exp(1.0)) < 1e-12)
try:
    calque.save(slope, "saved.py", 0.5)
except UnsupportedFunction as error:
    print("__main__" in str(error))
"""


def test_functions_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["True", "True"], done.stderr
    assert not (tmp_path / "saved.py").exists()


# refusals


def refused(kind: type[Exception], text: str, f: Any, *args: Any) -> None:
    with pytest.raises(kind) as caught:
        f(*args)
    assert text in str(caught.value)
    assert Path(__file__).name in str(caught.value), "the user's line"


def test_functions_that_cannot_be_imported() -> None:
    local = calque.elementwise(lambda x: x, lambda x, y: 1.0)
    refused(UnsupportedFunction, "cannot be imported by name", calque.grad(lambda x: local(x)), 1.0)

    @calque.elementwise(partials=lambda x, y: 1.0)
    def inner(x):
        return x

    refused(UnsupportedFunction, "inner cannot be imported", calque.grad(lambda x: inner(x)), 1.0)


def test_missing_rules() -> None:
    refused(NotDifferentiable, "no derivative", calque.grad(lambda x: without_rules(x)), 1.0)
    same(calque.vmap(lambda x: without_rules(x))(VECTOR), np.exp(VECTOR))


def test_rules_that_do_not_fit() -> None:
    refused(ShapeError, "sizes", calque.grad(lambda x: np.sum(wrong_rules(x))), VECTOR)


def test_derivatives_by_what_is_not_linear() -> None:
    f = lambda a, x: np.sum(scaled(a, x))  # noqa: E731
    refused(NotDifferentiable, "declared linear in some", calque.grad(f), 2.0, VECTOR)
    refused(NotDifferentiable, "declared linear in some", calque.jacfwd(f), 2.0, VECTOR)


def test_arguments_that_are_no_arrays() -> None:
    f = calque.grad(lambda x: np.sum(squashed("a") * x))
    refused(UnsupportedFunction, "neither an array nor a number", f, VECTOR)


def test_wrong_declarations() -> None:
    with pytest.raises(ValueError, match='batch must be "sequential", "expand_dims" or a function'):
        calque.linear(running, lambda c, x: c, result=np.zeros_like, batch="all")
    with pytest.raises(TypeError, match="elementwise: function must be a function, and is 3.0"):
        calque.elementwise(3.0)


def doubled(x):
    return x * 2.0


def test_passes_of_kernels_may_ask_a_rule_again():
    declared = calque.opaque(doubled, result=lambda x: x, name=f"{__name__}.doubled")
    fn = calque.jit(lambda x: np.sum(declared(x) * x))
    assert fn(np.ones(3)) == 6.0
