"""The reports of ``explain(f, cost=True)``: what a user reads, for programs of many kinds."""

from __future__ import annotations

from pathlib import Path

import cost_programs
import numpy as np
import pytest
from cost_programs import (
    branching,
    counted,
    diffusion,
    draws,
    number,
    perceptron,
    root,
    specs,
    wave,
)

import calque
from calque import cli
from calque.transpiler.costs.counting import FUNCTIONS, OPERATIONS
from calque.transpiler.costs.formulas import variable
from calque.transpiler.errors import UnsupportedFunction

HERE = Path(__file__).name
PROGRAMS = Path(cost_programs.__file__).name

AT = wave.__code__.co_firstlineno
REPORT = f"""\
Cost of wave_grad, beside wave, for n = u.shape[0] = 1,000,000; steps = 100

                         wave  wave_grad  ratio
  operations            9.0e8      2.4e9    2.7
    of exp, sin, ...    1.0e8      3.0e8    3.0
  bytes moved         20.8 GB    54.4 GB    2.6
  bytes saved               -    1.61 GB

formulas
  operations   wave       9*n*steps + 2*n - 6*steps
               wave_grad  24*n*steps + 2*n - 16*steps
  bytes moved  wave       208*n*steps + 24*n - 160*steps
               wave_grad  544*n*steps + 48*n - 368*steps
  bytes saved  wave_grad  16*n*steps + 8*n

saved for the reverse phase
  u_saved            8*n*steps  800 MB  {PROGRAMS}:{AT + 5}  u, before = 2 * u - before + c * lap...
  c_times_lap_saved  8*n*steps  800 MB  {PROGRAMS}:{AT + 5}  u, before = 2 * u - before + c * lap...
  u                  8*n        8 MB    {PROGRAMS}:{AT + 2}  for t in range(steps):
  calque.checkpoint(wave, every="sqrt") would save 16*every*n + 16*n*steps/every = 321 MB (every =
    11), with 1.4 times the operations

lines that cost most in wave_grad
  operations  moved  saved
         67%    62%   100%  {PROGRAMS}:{AT + 5}  u, before = 2 * u - before + c * lap * np.sin(u), u
         33%    34%     0%  {PROGRAMS}:{AT + 4}  lap[1:-1] = u[2:] - 2 * u[1:-1] + u[:-2]"""


def test_the_report_of_a_time_loop() -> None:
    text = calque.explain(calque.grad(wave), calque.spec("f8[1000000]"), 0.1, 100, cost=True)
    assert text == REPORT


def test_the_plain_function_stands_alone() -> None:
    text = calque.explain(diffusion, *draws((10,)), 0.1, 5, cost=True)
    assert text.startswith("Cost of diffusion, for n = u.shape[0] = 10; steps = 5\n")
    assert "  ratio" not in text and "saved" not in text


def test_types_without_sizes_have_formulas_alone() -> None:
    text = calque.explain(calque.grad(wave), *specs("f8[n], float, int"), cost=True)
    assert "  ratio" not in text and " GB" not in text
    assert "bytes saved         wave_grad  16*n*steps + 8*n" in text
    assert "Shares are for sizes of 1000 where they are not known." in text


def test_iterations_of_a_while_loop_are_a_symbol() -> None:
    text = calque.explain(calque.value_and_grad(root), np.ones(10), 0.1, cost=True)
    at = root.__code__.co_firstlineno + 1
    assert f"m: the iterations of the while loop at {PROGRAMS}:{at}" in " ".join(text.split())
    cost, symbols = counted(calque.value_and_grad(root), *specs("f8[n], float"))
    (iterations,) = cost.bytes_saved().symbols() - {"n"}
    assert cost.bytes_saved() == 8 * variable("n") * variable(iterations)
    assert symbols.entries[iterations].value is None


def test_a_loop_over_parts_of_unknown_lengths() -> None:
    def product(data, columns, starts, x):
        y = np.zeros(x.size)
        for i in range(x.size):
            for j in range(starts[i], starts[i + 1]):
                y[i] += data[j] * x[columns[j]]
        return np.sum(y)

    text = calque.explain(product, *specs("f8[n], i8[n], i8[k], f8[m]"), cost=True)
    assert "operations   product  2*m*p + m\n" in text
    assert "p: the iterations of the loop at" in text and "on\n  average" in text


def test_the_larger_arm_counts() -> None:
    cost, _ = counted(branching, *specs("f8[n], float"))
    assert str(cost.total(OPERATIONS)) == "5*n + 1"
    assert str(cost.total(FUNCTIONS)) == "2*n"
    text = calque.explain(branching, np.ones(3), 1.0, cost=True)
    at = branching.__code__.co_firstlineno + 1
    assert text.endswith(f"Of a branch the arm that costs more counts: {PROGRAMS}:{at}.")


def long_statement(x):
    y = np.where(
        x > 0.0,
        np.exp(x),
        np.trapezoid(x),
    )
    return y


def test_a_statement_of_several_lines_is_one_line_of_the_report() -> None:
    """Also what calque computes for a function of NumPy's that it writes in simpler ones."""
    cost, _ = counted(long_statement, *specs("f8[n]"))
    first = long_statement.__code__.co_firstlineno + 1
    assert {(line.number, line.text) for line in cost.tally.lines(OPERATIONS)} == {
        (first, "y = np.where(")
    }


def test_elements_that_a_mask_chooses() -> None:
    def positive(x):
        return np.sum(x[x > 0.0])

    text = calque.explain(positive, np.ones(100), cost=True)
    assert "operations   positive  2*n" in text  # a comparison and a sum
    at = positive.__code__.co_firstlineno + 1
    assert text.endswith(f"Of what a mask chooses all elements count: {HERE}:{at}.")


def test_slices_with_computed_ends() -> None:
    def blocks(x, k):
        total = 0.0
        for i in range(k):
            total += np.sum(x[i * k : (i + 1) * k] ** 2)
        return total

    cost, symbols = counted(blocks, np.ones(25), 5)
    assert number(cost.total(OPERATIONS), symbols) == 2 * 25 + 5


def test_a_list_that_a_loop_fills() -> None:
    def filled(x, n):
        found = []
        for _ in range(n):
            x = np.sin(x)
            found.append(x)
        return sum(np.sum(y) for y in found)

    cost, symbols = counted(calque.grad(filled), np.ones(10), 7)
    assert number(cost.bytes_saved(), symbols) == 8 * 10 * 7


def test_tangents_have_the_sizes_of_their_arguments() -> None:
    types = specs("f8[30], float, f8[30], float")
    text = calque.explain(calque.jvp(branching), *types, cost=True)
    assert text.startswith("Cost of branching_jvp, beside branching, for n = x.shape[0] = 30\n")


def test_what_is_not_counted_is_said() -> None:
    text = calque.explain(lambda x: np.median(x), np.ones(5), cost=True)
    assert "Operations not counted: np.median" in text


def test_checkpoint_by_segments() -> None:
    cost, symbols = counted(
        calque.grad(calque.checkpoint(diffusion, every="sqrt")), *specs("f8[n], float, int")
    )
    names = {s: e.name for s, e in symbols.entries.items() if e.name}
    assert cost.bytes_saved().text(names) == "8*every*n + 8*n*steps/every"


def test_checkpointed_calls_save_one_call_at_a_time() -> None:
    @calque.checkpoint
    def layer(h, W):
        a = np.tanh(W @ h)
        return np.tanh(W @ a)

    def layers(h, W, n):
        for _ in range(n):
            h = layer(h, W)
        return np.sum(h)

    cost, _ = counted(calque.grad(layers), *specs("f8[k], f8[k,k], 10"))
    (count,) = cost.bytes_saved().symbols() - {"k"}
    assert str(cost.bytes_saved().at({count: 10})) == "96*k"  # ten h, and two arrays of one layer


def test_a_jitted_function_is_counted_as_written() -> None:
    text = calque.explain(
        calque.jit(calque.grad(diffusion)), *specs("f8[n], float, int"), cost=True
    )
    assert text.endswith("jit fuses statements, so that its kernels move fewer bytes than this.")
    plain = calque.explain(calque.grad(diffusion), *specs("f8[n], float, int"), cost=True)
    assert text.startswith(plain)


def test_a_batch_stands_beside_the_batched_function() -> None:
    batched = calque.vmap(calque.grad(perceptron), in_axes=(None, None, None, 0, 0))
    types = specs("f8[k,h], f8[h], f8[h,m], f8[b,n,k], f8[b,n,m]")
    text = calque.explain(batched, *types, cost=True)
    assert text.startswith("Cost of perceptron_grad_vmap, beside perceptron_vmap")


def test_a_pullback_stands_beside_the_function() -> None:
    text = calque.explain(calque.vjp(diffusion), *draws((10,)), 0.1, 5, 1.0, cost=True)
    assert text.startswith("Cost of diffusion_vjp, beside diffusion")


def test_functions_over_devices_are_refused() -> None:
    mapped = calque.pmap(lambda x: np.sum(x), "i")
    with pytest.raises(UnsupportedFunction, match="the program of one device"):
        calque.explain(mapped, np.ones((2, 3)), cost=True)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.py"
    file.write_text("import numpy as np\n\ndef loss(x):\n    return np.sum(np.exp(x) * x)\n")
    assert cli.main(["explain", f"{file}:loss", "--cost", "--args", "f8[1000]"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Cost of loss_grad, beside loss, for n = x.shape[0] = 1,000\n")
    assert "model.py:4" in text
    assert cli.main(["explain", f"{file}:loss", "--cost", "--parallel"]) == 2
    with pytest.raises(ValueError, match="one of cost, parallel and why"):
        calque.explain(diffusion, *draws((10,)), 0.1, 5, cost=True, why="all")
