"""``debug_nans``: the line, the phase and the name of what first was NaN or infinite."""

from __future__ import annotations

import importlib.util
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_programs
from sampling import sampled

import calque
from calque.runtime import debug_nans
from calque.transpiler.errors import CalqueError, NonFiniteError
from calque.transpiler.ir import pytrees


def loss(x):
    y = 2.0 * x
    z = np.log(y)  # infinite at 0
    return np.sum(z * z)


def vanishing(x):
    large = 1.0 / x  # infinite at 0
    return np.sum(1.0 / (1.0 + large))


def root(x):
    return np.sum(np.sqrt(x))  # the value is finite, the slope is not


def branches(x):
    total = 0.0
    for i in range(x.size):
        if x[i] > 1.0:
            total = total + np.sqrt(x[i])
        else:
            total = total + np.arcsin(2.0 * x[i])  # NaN above one half
    return total


def stores(x):
    y = np.zeros(x.size)
    for i in range(1, x.size):
        y[i] = y[i - 1] + np.exp(x[i])  # overflows
    return np.sum(y)


def newton(x):
    t = 1.0 + x
    while abs(t * t - x) > 1e-9:
        t = 0.5 * (t + x / (t - t))  # always 0 / 0 or x / 0
    return t


def masked(x):
    scores = np.where(x > 0.0, x, -np.inf)  # meant: not at fault
    return np.sum(np.exp(scores))


def names_everything(check_finite, place):
    check_finite_ = check_finite * place
    return np.sum(np.log(check_finite_))


def line_of(function: Callable[..., Any], mark: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(k for k, line in enumerate(lines) if mark in line)


ZERO = np.array([1.0, 0.0, 2.0])
CASES = {
    "value": (calque.value_and_grad(loss), (ZERO,), loss, "np.log", "forward", "z is -inf at [1]."),
    "vanishing": (calque.grad(vanishing), (ZERO,), vanishing, "large =", "forward", "large is inf at [1]."),
    "reverse": (calque.grad(root), (ZERO,), root, "sqrt", "reverse", "the adjoint of x is inf at [1]."),
    "branch": (
        *(calque.value_and_grad(branches), (np.array([2.0, 0.3, 0.7, 0.8]),), branches, "arcsin"),
        *("forward", "this value is nan."),
    ),
    "store": (calque.value_and_grad(stores), (np.array([0.0, 1.0, 800.0]),), stores, "exp", "forward", "is inf."),
    "while": (calque.value_and_grad(newton), (np.float64(2.0),), newton, "0.5 *", "forward", "is inf."),
    "vmap": (calque.vmap(loss), (np.stack([ZERO + 1.0, ZERO]),), loss, "np.log", "forward", "z is -inf at [1, 1]."),
    "vmap of branches": (
        *(calque.vmap(branches), (np.array([[2.0, 0.3], [0.7, 0.8], [0.2, 0.9]]),), branches, "arcsin"),
        *("forward", "this value is nan at [0]."),
    ),
    "vmap of grad": (calque.vmap(calque.grad(root)), (np.ones((2, 3)) - np.eye(2, 3),), root, "sqrt", "reverse", "inf"),
    "jacfwd": (calque.jacfwd(vanishing), (ZERO,), vanishing, "large =", "forward", "large is inf at [1]."),
    "jacrev": (calque.jacrev(loss), (ZERO,), loss, "np.log", "forward", "z is -inf at [1]."),
    "hessian": (calque.hessian(vanishing), (ZERO,), vanishing, "large =", "forward", "large is inf at [1]."),
    "captured names": (
        *(calque.grad(names_everything), (ZERO, 2.0), names_everything, "np.log"),
        *("reverse", "the adjoint of check_finite_ is inf at [1]."),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_names_the_line(name: str) -> None:
    transformed, args, function, mark, phase, text = CASES[name]
    with calque.debug_nans(), pytest.raises(NonFiniteError) as caught:
        transformed(*args)
    origin = caught.value.origin
    assert origin is not None and Path(origin.file).name == Path(__file__).name
    assert origin.line == line_of(function, mark), caught.value
    assert origin.function == function.__name__
    assert f"The {phase} phase made " in caught.value.message
    assert text in caught.value.message
    assert not debug_nans.checking() and debug_nans.threads == 0


def test_whole_message() -> None:
    with calque.debug_nans(), pytest.raises(FloatingPointError) as caught:
        calque.jvp(root, (ZERO,), (np.ones(3),))
    assert str(caught.value) == (
        f"{__file__}, line {line_of(root, 'sqrt')}, in root\n"
        "    return np.sum(np.sqrt(x))  # the value is finite, the slope is not\n"
        "                  ^^^^^^^^^^\n"
        "The forward phase made an infinity: this value is inf at [1]."
    )
    assert isinstance(caught.value, CalqueError)


def test_what_is_not_at_fault() -> None:
    """A literal infinity, and what comes in as a NaN, are meant."""
    with calque.debug_nans():
        assert np.isnan(calque.value_and_grad(loss)(np.array([1.0, np.nan]))[0])
        np.testing.assert_array_equal(calque.grad(masked)(np.array([0.0, -1.0])), [0.0, 0.0])


def test_a_nan_of_infinities_is_one() -> None:
    with calque.debug_nans(), pytest.raises(NonFiniteError, match="this value is nan at"):
        calque.vmap(lambda x: np.sum(x - x))(np.array([[np.inf, 1.0]]))


def test_pullbacks_and_linear_maps() -> None:
    with calque.debug_nans():
        with pytest.raises(NonFiniteError, match="forward phase made an infinity: z is -inf"):
            calque.vjp(loss, ZERO)
        _, pullback = calque.vjp(root, ZERO)
        with pytest.raises(NonFiniteError, match="The reverse phase"):
            pullback(1.0)
        _, push = calque.linearize(root, ZERO)
        with pytest.raises(NonFiniteError):
            push(np.ones(3))


def test_nesting_and_state() -> None:
    function = calque.grad(root)
    with np.errstate(divide="ignore"):
        assert np.isinf(function(ZERO)[1])
        with calque.debug_nans():
            with calque.debug_nans(False):
                assert np.isinf(function(ZERO)[1])
            with pytest.raises(NonFiniteError):
                function(ZERO)
            with calque.debug_nans(), pytest.raises(NonFiniteError):
                function(ZERO)
        assert np.isinf(function(ZERO)[1])
        with pytest.raises(KeyError), calque.debug_nans():
            raise KeyError
        assert np.isinf(function(ZERO)[1])


def test_as_a_decorator() -> None:
    @calque.debug_nans()
    def step(x):
        return calque.grad(root)(x)

    with pytest.raises(NonFiniteError):
        step(ZERO)


def test_other_threads_are_not_checked() -> None:
    found: list[Any] = []

    def work() -> None:
        with np.errstate(divide="ignore"):
            found.append(calque.grad(root)(ZERO))

    with calque.debug_nans():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert np.isinf(found[0][1])


def test_off_means_the_same_program() -> None:
    """The unchecked program is neither replaced nor made again."""
    function = calque.grad(loss)
    before = function.program(ZERO + 1.0)
    with calque.debug_nans():
        assert function.program(ZERO + 1.0) is not before
        assert "check_finite" in function.source(ZERO)
        np.testing.assert_array_equal(function(ZERO + 1.0), before.call(ZERO + 1.0))
    assert function.program(ZERO + 1.0) is before
    assert "check_finite" not in function.source(ZERO)


def test_saved_module(tmp_path: Path) -> None:
    """A checked module stands alone, and says the same in one line."""
    path = tmp_path / "loss_grad.py"
    with calque.debug_nans():
        calque.save(calque.grad(names_everything), path, ZERO, 2.0)
    assert "calque" not in "".join(x for x in path.read_text().splitlines(True) if "import" in x)
    spec = importlib.util.spec_from_file_location("loss_grad", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_allclose(module.names_everything_grad(ZERO + 1.0, 2.0), 1.0 / (ZERO + 1.0))
    expected = f"test_debug_nans.py, line {line_of(names_everything, 'np.log')}, reverse phase: "
    expected += "the adjoint of check_finite_ is infinite"
    with pytest.raises(FloatingPointError, match=expected), np.errstate(divide="ignore"):
        module.names_everything_grad(ZERO, 2.0)


@pytest.mark.parametrize("seed", sampled(range(20), 3))
def test_random_programs_keep_their_results(seed: int, tmp_path: Path) -> None:
    """The checked variant of a program gives the same bits."""
    path = tmp_path / f"random_program_{seed}.py"
    path.write_text(random_programs.text(seed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(seed)
    args = 0.3, rng.uniform(-1.0, 1.0, 5), rng.uniform(-1.0, 1.0, (5, 5))
    function = calque.value_and_grad(module.f, argnums=(0, 1, 2))
    expected = function(*args)
    with calque.debug_nans():
        found = function(*args)
    for a, b in zip(pytrees.flatten(found)[0], pytrees.flatten(expected)[0]):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
