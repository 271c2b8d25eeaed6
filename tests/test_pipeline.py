"""The passes in order: what a statement is labelled with, and what the passes may take for granted."""

from __future__ import annotations

import numpy as np
import pytest

import calque
from calque.transpiler import kernel_passes, pipeline
from calque.transpiler.autodiff import reverse
from calque.transpiler.errors import CoreError
from calque.transpiler.ir import core, debug
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.pass_manager import Pass, Work
from calque.transpiler.ir.types import symbol


def recurrence(x):
    y = x.copy()
    for i in range(1, x.size):
        if y[i] > 0.1:
            y[i] = np.sin(y[i]) * y[i - 1]
    return np.sum(y * y)


def phases(fn, *args) -> list[str]:
    """Of every statement of a program, in order."""
    function = calque.jit(fn).program(*args).traced.function
    return [s.phase for s in core.walk(function.body)]


# the phase of a statement


def test_all_statements_of_a_gradient_have_a_phase() -> None:
    found = phases(calque.grad(recurrence), np.ones(5))
    assert set(found) == {"forward", "reverse"}
    assert found.index("reverse") > 3


def test_where_no_sweep_came_there_is_none() -> None:
    assert set(phases(recurrence, np.ones(5))) == {""}


def test_a_tangent_is_of_the_phase_of_its_primal() -> None:
    def product(x):
        return calque.jvp(calque.grad(recurrence), (x,), (x,))[1]

    assert set(phases(product, np.ones(5))) == {"forward", "reverse"}


def test_an_inner_sweep_is_a_phase_of_its_own() -> None:
    def slope(x):
        return calque.grad(lambda v: np.sum(calque.grad(recurrence)(v)))(x)

    assert set(phases(slope, np.ones(5))) == {"forward", "first derivative", "reverse"}


def test_the_last_gradient_is_the_one_whose_phases_are_told() -> None:
    def both(x):
        return calque.grad(recurrence)(x), calque.grad(lambda v: np.sum(np.tanh(v) ** 3))(x)

    text = calque.source(both, np.ones(5))
    assert text.count("# forward") == text.count("# reverse") == 1
    assert text.index("x_bar[i] +=") < text.index("# forward")


def test_clones_keep_the_phase() -> None:
    function = calque.grad(recurrence).program(np.ones(5)).traced.function
    copied = core.clone(function.body, {})
    for old, new in zip(core.walk(function.body), core.walk(copied), strict=True):
        assert old is not new and old.phase == new.phase != ""


# what is asked of a size, and what is taken for granted of it


def summed(x):
    s = 0.0
    for i in range(3, x.size):
        s += np.sin(x[i]) * x[i]
    return s


def carried(x):
    y = x.copy()
    for i in range(3, x.size):
        y[i] = 0.5 * y[i] + y[i - 1] * x[i]
    return np.sum(y * y)


def ahead(x):
    s = 0.0
    for i in range(x.size - 4):
        s += np.sin(x[i]) * x[i + 4]
    return s


def nested(x):
    s = 0.0
    for i in range(3, len(x)):
        for j in range(i, len(x)):
            s += np.sin(x[i]) * x[j]
    return s


@pytest.mark.parametrize("of", [calque.jit, lambda f: calque.jit(calque.grad(f))], ids=["value", "grad"])
@pytest.mark.parametrize("loss", [summed, carried, ahead, nested])
def test_short_arrays_need_no_program_of_their_own(loss, of) -> None:
    fn = of(loss)
    for n in (10, 2, 0, 20):
        x = np.linspace(0.1, 1.0, n)
        wanted = loss(x) if of is calque.jit else calque.grad(loss)(x)
        np.testing.assert_allclose(fn(x), wanted, rtol=1e-13)
    assert fn.cache_info().programs == 1


def test_to_ask_assumes_nothing() -> None:
    dims, n, m = Dims({"n", "m"}), symbol("n"), symbol("m")
    assert not dims.nonnegative(n - 3)
    assert not dims.assume_nonnegative(n - 3, -1 * m - 1)
    assert not dims.assumptions
    assert dims.assume_nonnegative(n - 3, m - 2)
    assert dims.nonnegative(n - 2) and dims.nonnegative(m - 2)


def test_what_fits_no_call_is_not_asked_of_all() -> None:
    def product(W, x):
        for t in range(3, len(x)):
            W = W + np.outer(x[t], x[t])
        return W

    fn = calque.jit(product)
    for n in (6, 2):
        W, x = np.eye(3), np.linspace(0.0, 1.0, 3 * n).reshape(n, 3)
        np.testing.assert_allclose(fn(W, x), product(W, x), rtol=1e-14)


# what is printed, and verified, after a pass

# of a jitted function on cores: the others run for a grid, or where threads are explained
KERNEL_PASSES = sorted(
    {
        each.name
        for each in kernel_passes.KERNEL_PASSES
        if each.name not in ("estimate_parallel_work", "sort_scatters") and each.when is not kernel_passes._on_grid
    }
)


@pytest.mark.parametrize("name", KERNEL_PASSES)
def test_the_program_is_printed_after_any_pass(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALQUE_PRINT_AFTER", name)
    calque.source(calque.jit(calque.grad(carried)), np.ones(5))
    said = capsys.readouterr().err
    lists = (reverse.BEFORE_SWEEP, reverse.AFTER_SWEEP, pipeline.CORE_PASSES, kernel_passes.KERNEL_PASSES)
    times = [each.name for passes in lists for each in passes].count(name)
    assert said.count(f"# after {name}\ncarried") == times > 0


def test_a_pass_that_breaks_core_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(work: Work) -> None:
        del work.function.body.statements[0]

    broken = (*kernel_passes.KERNEL_PASSES[:4], Pass("lose", lose), *kernel_passes.KERNEL_PASSES[4:])
    monkeypatch.setattr(kernel_passes, "KERNEL_PASSES", broken)
    assert debug.verifies()
    with pytest.raises(CoreError, match="after lose: "):
        calque.jit(carried)(np.ones(5))


def test_core_is_verified_under_debug_alone_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "verifying", False)
    assert not debug.verifies()
    monkeypatch.setenv("CALQUE_DEBUG", "1")
    assert debug.verifies()
