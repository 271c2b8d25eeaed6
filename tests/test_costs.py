"""The counts of ``explain(f, cost=True)`` against runs of the generated source, and by hand."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cost_programs import (
    RUNS,
    branching,
    counted,
    diffusion,
    draws,
    gaussian,
    number,
    perceptron,
    specs,
    triangular,
    wave,
)

import calque
from calque.runtime.saving.cost_texts import bytes_text
from calque.transpiler.costs.counting import FUNCTIONS, MOVED, OPERATIONS
from calque.transpiler.costs.formulas import Formula, formula, variable

# counts


HAND_COUNTED = {
    "triangular": (triangular, "f8[n,n], f8[n]", "3*n**2/2 + 3*n/2"),
    "wave": (wave, "f8[n], float, int", "9*n*steps + 2*n - 6*steps"),
    "perceptron": (
        perceptron,
        "f8[k,h], f8[h], f8[h,m], f8[n,k], f8[n,m]",
        "2*h*k*n + 2*h*m*n + 2*h*n + 3*m*n + 1",
    ),
    "gaussian": (gaussian, "f8[n,n], f8[n]", "n**3 + 2*n**2 + 4*n + 1"),
    "dot": (lambda x, y: x @ y, "f8[n], f8[n]", "2*n"),
    "einsum": (lambda x, y: np.einsum("ij,jk->ik", x, y), "f8[n,m], f8[m,k]", "2*k*m*n"),
    "complex product": (lambda x, y: x * y, "c16[n], c16[n]", "6*n"),
    "qr": (lambda x: np.linalg.qr(x)[1], "f8[9,3]", "288"),
    "stacked solve": (np.linalg.solve, "f8[b,n,n], f8[b,n,k]", "2*b*k*n**2 + 2*b*n**3/3"),
    "views": (lambda x: x.T[1:, ::2], "f8[n,m]", "0"),
    "integers": (lambda i: np.sum(i * i + 1), "i8[n]", "0"),
    "fft": (lambda x: np.fft.fft(x).real, "c16[8]", "120"),
    "rows": (lambda x: np.cumsum(x, axis=0).max(axis=1), "f8[n,m]", "2*m*n"),
}


@pytest.mark.parametrize("name", HAND_COUNTED)
def test_operations_counted_by_hand(name: str) -> None:
    function, types, expected = HAND_COUNTED[name]
    cost, _ = counted(lambda *args: function(*args), *specs(types))
    names = {"#2": "steps"}
    assert cost.total(OPERATIONS).text(names) == expected
    assert not cost.uncounted


# counts against runs


class Counting(np.ndarray):
    """An array whose ufuncs and stores note their operations on floats, and the bytes they move."""

    operations = moved = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, Counting) else x for x in inputs]
        if options.get("out"):
            options["out"] = tuple(x.view(np.ndarray) for x in options["out"])
        result = getattr(ufunc, method)(*plain, **options)
        operands = {id(x): x for x in inputs if isinstance(x, np.ndarray) and x.ndim}
        Counting.moved += sum(x.nbytes for x in operands.values())
        Counting.moved += result.nbytes if np.ndim(result) else 0
        if ufunc is np.matmul:
            Counting.operations += 2 * np.size(result) * plain[0].shape[-1]
        elif any(np.asarray(x).dtype.kind == "f" for x in (*plain, result)):
            Counting.operations += np.size(plain[0]) if method == "reduce" else np.size(result)
        if options.get("out"):
            return options["out"][0].view(Counting)
        return result.view(Counting) if isinstance(result, np.ndarray) else result

    def __setitem__(self, index: Any, value: Any) -> None:
        part = self.view(np.ndarray)[index]
        if not np.shares_memory(part, value):  # as in x[1:] += y, after the sum
            Counting.moved += part.nbytes + (value.nbytes if isinstance(value, np.ndarray) else 0)
        super().__setitem__(index, value)


class CountingNumPy:
    """NumPy, whose new arrays count."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name not in ("empty", "zeros", "full", "zeros_like", "empty_like"):
            return found

        def made(*args: Any, **options: Any) -> Counting:
            array = found(*args, **options).view(Counting)
            Counting.moved += 0 if name.startswith("empty") else array.nbytes
            return array

        return made


def run_counted(fn: Any, *args: Any) -> tuple[int, int]:
    """The operations of a run of the generated NumPy source, and the bytes that it moves."""
    names: dict[str, Any] = {"np": CountingNumPy()}
    exec(calque.source(fn, *args, stage="numpy"), names)
    (function,) = (f for name, f in names.items() if name.endswith("_grad"))
    Counting.operations = Counting.moved = 0
    function(*[x.copy().view(Counting) if isinstance(x, np.ndarray) else x for x in args])
    return Counting.operations, Counting.moved


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("name", RUNS)
def test_counts_are_those_of_a_run(name: str, size: int) -> None:
    function, arguments = RUNS[name]
    args = arguments(size)
    cost, symbols = counted(calque.grad(function), *args)
    operations, moved = run_counted(calque.grad(function), *args)
    # the formulas also count operations on numbers, and sign changes that the text writes as -=
    assert operations <= number(cost.total(OPERATIONS), symbols) <= 1.05 * operations + 5
    # and take the number of segments without rounding it
    assert 0.99 * moved <= number(cost.total(MOVED), symbols) <= 1.05 * moved


def test_iterations_that_are_run_again_for_want_of_memory() -> None:
    """Their number is estimated by the schedule that repeats fewest."""
    bounded = calque.checkpoint(diffusion, memory="40kB")
    args = [*draws((100,)), 0.1, 400]
    cost, symbols = counted(calque.grad(bounded), *args)
    operations, _ = run_counted(calque.grad(bounded), *args)
    assert number(cost.total(OPERATIONS), symbols) == pytest.approx(operations, rel=0.15)
    assert number(cost.bytes_saved(), symbols) <= 40_000 + 100 * 8  # and the last state, at hand


def switching(u, steps):
    for t in range(steps):
        if t % 2 == 0:
            u = np.exp(-u * u)
        else:
            u = np.sin(u)
    return np.sum(u)


def chain(W, h):
    for _ in range(8):
        h = np.tanh(h @ W)
    return np.sum(h)


# How many times the saved bytes are in memory at most. Loops have few other arrays, and matrices
# have more. With segments, memory of the last one is given back when the next one has its own.
MEMORY: dict[str, tuple[Callable[..., Any], list[Any], float]] = {
    "wave": (wave, [*draws((20_000,)), 0.0, 200], 1.1),
    "diffusion": (diffusion, [*draws((20_000,)), 0.1, 200], 1.1),
    "a branch in a loop": (switching, [*draws((20_000,)), 200], 1.1),
    "checkpointed": (
        calque.checkpoint(diffusion, every=20),
        [*draws((20_000,)), 0.1, 400],
        1.6,
    ),
    "checkpointed by roots": (
        calque.checkpoint(diffusion, every="sqrt"),
        [*draws((20_000,)), 0.1, 400],
        1.6,
    ),
    "a given memory": (
        calque.checkpoint(diffusion, memory="8MB"),
        [*draws((20_000,)), 0.1, 400],
        1.2,
    ),
    "perceptron": (
        perceptron,
        draws((20, 100), (100,), (100, 3), (4000, 20), (4000, 3)),
        4.5,
    ),
    "chain": (chain, draws((300, 300), (300, 300)), 1.7),
}


@pytest.mark.parametrize("name", MEMORY)
def test_saved_bytes_are_in_memory(name: str) -> None:
    function, args, most = MEMORY[name]
    gradient = calque.grad(function)
    gradient(*args)
    cost, symbols = counted(gradient, *args)
    saved = number(cost.bytes_saved(), symbols)
    tracemalloc.start()
    gradient(*args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert saved <= peak <= most * saved, float(peak / saved)


# formulas against numbers


LITERAL = {
    "wave": (wave, "f8[{n}], float, int"),
    "triangular": (triangular, "f8[{n},{n}], f8[{n}]"),
    "gaussian": (gaussian, "f8[{n},{n}], f8[{n}]"),
    # not their mean: one over a known size is a factor that is multiplied with others
    "perceptron": (lambda W1, b1, W2, x, y: np.sum((np.tanh(x @ W1 + b1) @ W2 - y) ** 2), "f8[{n},7], f8[7], f8[7,2], f8[{m},{n}], f8[{m},2]"),
    "branching": (branching, "f8[{n}], float"),
    "hessian": (lambda x, y: np.sum(np.exp(x) * y), "f8[{n}], f8[{n}]"),
}


@pytest.mark.parametrize("sizes", [{"n": 12, "m": 31}, {"n": 640, "m": 17}])
@pytest.mark.parametrize("name", LITERAL)
def test_a_formula_at_sizes_is_the_count_for_these_sizes(name: str, sizes: dict[str, int]) -> None:
    function, types = LITERAL[name]
    made = calque.hessian(function) if name == "hessian" else calque.value_and_grad(function)
    general, _ = counted(made, *specs(types.format(n="n", m="m")))
    special, _ = counted(made, *specs(types.format(**sizes)))
    for measure in (OPERATIONS, FUNCTIONS, MOVED):
        found, expected = general.total(measure).at(sizes), special.total(measure)
        # of known sizes some numbers are computed before the program runs
        assert abs((found - expected).number()) <= 2 * (measure == OPERATIONS)
    assert general.bytes_saved().at(sizes) == special.bytes_saved()


@pytest.mark.parametrize("name", RUNS)
def test_numbers_of_the_report_are_its_formulas(name: str) -> None:
    function, arguments = RUNS[name]
    args = arguments(2)
    text = calque.explain(calque.grad(function), *args, cost=True)
    cost, symbols = counted(calque.grad(function), *args)
    title, table, formulas = text.split("\n\n")[:3]
    known = dict(entry.split(" = ")[:: len(entry.split(" = ")) - 1] for entry in _sizes_in(title))
    values = {name: int(value.split(" ")[0].replace(",", "")) for name, value in known.items()}
    saved = " ".join(formulas.partition("bytes saved")[2].split()[1:])
    assert Fraction(eval(saved, {k: Fraction(v) for k, v in values.items()})) == number(
        cost.bytes_saved(), symbols
    )
    assert bytes_text(float(number(cost.bytes_saved(), symbols))) in table


def _sizes_in(title: str) -> list[str]:
    return " ".join(title.partition(", for ")[2].split()).split("; ")


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_formulas(seed: int) -> None:
    """A sum in closed form is the sum of the values, for random polynomials."""
    rng = np.random.default_rng(seed)
    i, n = variable("i"), variable("n")
    terms = [
        int(a) * i ** int(p) * n ** int(q)
        for a, p, q in rng.integers(-3, 5, (4, 3))
        if p >= 0 and q >= 0
    ]
    summand = sum(terms, Formula())
    count, size = (int(k) for k in rng.integers(0, 12, 2))
    expected = sum(summand.at({"i": k, "n": size}).number() for k in range(count))
    assert summand.summed("i", variable("m")).at({"m": count, "n": size}).number() == expected


def test_quotients() -> None:
    n, every = variable("n"), variable("every")
    assert str((8 * n * n + n).divided_by(every)) == "8*n**2/every + n/every"
    assert (n * every).divided_by(every) == n
    assert n.divided_by(n + 1) is None
    assert str(n.divided_by(formula(2))) == "n/2"
