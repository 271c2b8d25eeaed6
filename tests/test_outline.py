"""Kernels in Core: what is in them, what they take and give, and that equal ones are compiled once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calque
from battery.registry import load
from calque.runtime.transformed import Transformed
from calque.transpiler.codegen.numba.numba_target import NUMBA, Numba
from calque.transpiler.codegen.numpy.emit import emit_function, outlined
from calque.transpiler.diagnostics.parsing import parse
from calque.transpiler.errors import CoreError
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, For, Function, Kernel, Var
from calque.transpiler.ir.target import NUMPY
from calque.transpiler.ir.text import show
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.ir.verify import verify
from calque.transpiler.pipeline import to_kernels
from calque.transpiler.primitives.record import PRIMITIVES

SAMPLED = [p for p in load() if p.refused is None][::8]


def made(fn, *args) -> Function:
    """The Core of a jitted function with its kernels."""
    function = calque.jit(fn).program(*args).traced.function
    return outlined(function, NUMBA)


def kernels(function: Function) -> list[Kernel]:
    return [s for s in core.walk(function.body) if isinstance(s, Kernel)]


@pytest.fixture(autouse=True)
def _not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")


@pytest.mark.parametrize("program", SAMPLED, ids=lambda program: program.id)
def test_kernels_read_their_parameters_and_nothing_else(program) -> None:
    for fn in (program.fn, calque.grad(program.scalar(), argnums=program.diff)):
        function = made(fn, *program.fresh())
        verify(function)
        text = show(function)
        assert show(parse(text)[0]) == text
        for kernel in kernels(function):
            assert set(kernel.params) == set(core.free_vars(Block(kernel.body.statements)))
            inside = core.defined_vars(kernel.body)
            outside = {v for v in core.free_vars(without(function, kernel)) if v in inside}
            assert set(kernel.outs) == outside


def without(function: Function, kernel: Kernel) -> Block:
    """A program's reads, but for those of one kernel."""

    def rest(block: Block) -> Block:
        kept = []
        for s in block.statements:
            if s is kernel:
                continue
            reads = [v for b in core.blocks_of(s) for v in core.free_vars(rest(b))]
            kept.append(core.Effect("", (*core.operands(s), *reads)))
        return Block(kept, block.results)

    return rest(function.body)


def test_a_kernel_in_the_listing() -> None:
    def tangent(x):
        return np.fft.fft(np.tanh(x))

    text = show(made(tangent, np.ones(3)))
    head = next(line for line in text.splitlines() if "kernel(" in line)
    assert re.fullmatch(r"    tanh_x.* = kernel\(x, .*\):|    t.* = kernel\(x, .*\):", head)
    assert text.index("kernel(") < text.index("for ") < text.index("np.fft.fft")


def test_what_is_read_on_both_sides_is_in_both() -> None:
    def scaled(x):
        out = np.zeros(x.size)
        for i in range(x.size):
            out[i] = x[i] * 2.0
        return out, np.fft.fft(out, 2 * x.size)

    function = made(scaled, np.ones(3))
    (kernel,) = kernels(function)
    sizes = [s for s in core.walk(function.body) if isinstance(s, Apply) and s.primitive.kind == "size"]
    assert len([s for s in sizes if s in kernel.body.statements]) == 1
    assert any(s in function.body.statements for s in sizes)


def test_alike_kernels_are_one() -> None:
    def layer(x, a):
        return np.fft.ifft(np.tanh(x * a)).real

    def layers(x, a, b):
        return layer(layer(layer(x, a), b), a)

    x = np.linspace(0.1, 0.9, 5)
    text = str(calque.source(calque.jit(layers), x, x, x))
    assert text.count("@kernel") == 2  # the first is given one array less
    assert text.count("layers_kernel_2(") == 3
    np.testing.assert_allclose(calque.jit(layers)(x, x, x), layers(x, x, x), rtol=1e-14)


def test_arguments_stand_as_in_the_signature() -> None:
    def mixed(b, a, c):
        out = np.empty(a.size)
        for i in range(a.size):
            out[i] = c * a[i] + b[i]
        return out

    text = str(calque.source(calque.jit(mixed), np.ones(3), np.ones(3), 2.0))
    assert "def mixed_kernel(b, a, c, out):" in text


def test_an_array_that_grows_in_a_kernel_is_given_back() -> None:
    def evens(x):
        chosen = []
        for k in range(x.size):
            if x[k] > 0.0:
                chosen.append(x[k] * k)
        return np.sum(np.array(chosen))

    x = np.ones(40)
    assert calque.jit(evens)(x) == evens(x)


def a_kernel(reads_other: bool) -> Function:
    t = ArrayType(np.dtype(float))
    x, other, y = Var(t, "x"), Var(t, "other"), Var(t, "y")
    body = Block([Apply((y,), PRIMITIVES["np.add"], (x, other if reads_other else 1.0), {})], [y])
    return Function("f", [x, other], Block([Kernel((y,), (x,), body)], [y]), None)


def test_verify_looks_into_kernels() -> None:
    verify(a_kernel(reads_other=False))
    with pytest.raises(CoreError, match="other:float64 is read outside its scope"):
        verify(a_kernel(reads_other=True))


def test_a_clone_of_a_kernel_is_well_formed() -> None:
    function = a_kernel(reads_other=False)
    mapping: dict[Var, core.Atom] = {}
    body = core.clone(function.body, mapping)
    (kernel,) = body.statements
    assert isinstance(kernel, Kernel) and kernel.outs == (mapping[function.body.results[0]],)
    verify(Function("f", function.params, body, None))


def test_the_space_is_the_loops_whose_iterations_are_independent() -> None:
    def product(x, y):
        return x[:, None] * y

    def total(x):
        s = 0.0
        for i in range(x.size):
            s = s * 0.5 + x[i]
        return s

    (kernel,) = kernels(made(total, np.ones(3)))
    assert kernel.space == ()
    (kernel,) = kernels(made(product, np.ones(3), np.ones(2)))
    assert [type(s) for s in kernel.space] == [For]


class WithoutTanh(Numba):
    """A target that has no tanh."""

    def can_compile(self, s, looping=False):
        inner = [t for t in core.walk(Block([s])) if isinstance(t, Apply)]
        has_it = any(t.primitive.name == "np.tanh" for t in inner)
        return not has_it and super().can_compile(s, looping)


def test_what_a_kernel_may_hold_is_for_the_target_to_say() -> None:
    def two(x, y):
        return np.fft.fft(np.tanh(x)), np.fft.fft(np.exp(y))

    function = calque.jit(two).program(np.ones(3), np.ones(4)).traced.function
    with_tanh = kernels(outlined(function, NUMBA))
    without = kernels(outlined(function, WithoutTanh()))
    assert len(with_tanh) == 1 and len(without) == 1
    both = (*with_tanh, *without)
    held = [{t.primitive.name for t in core.walk(k.body) if isinstance(t, Apply)} for k in both]
    assert held[0] - held[1] >= {"np.tanh"} and "np.exp" in held[1]


def test_numpy_has_no_kernels() -> None:
    function = calque.jit(lambda x: np.fft.fft(np.tanh(x))).program(np.ones(3)).traced.function
    assert kernels(outlined(function, NUMPY)) == []
    assert "@kernel" not in emit_function(function, kernels=NUMPY)


class WithoutArrays(Numba):
    """A target whose kernels make no arrays."""

    allocates = False

    def can_compile(self, s, looping=False):
        inner = [t for t in core.walk(Block([s])) if isinstance(t, Apply)]
        return all(t.primitive.kind != "creation" for t in inner) and super().can_compile(s, looping)


def test_where_kernels_make_no_arrays_none_is_made_in_them() -> None:
    def powers(x):
        power = np.exp(x - np.max(x, axis=-1, keepdims=True))
        p = power / np.sum(power, axis=-1, keepdims=True)
        return np.sum(p * p)

    def created(target: Numba) -> list[Apply]:
        traced = to_kernels(Transformed("observed", calque.grad(powers)).program(np.ones((64, 64))).traced, target=target)
        inside = [t for k in kernels(outlined(traced.function, target)) for t in core.walk(k.body)]
        return [t for t in inside if isinstance(t, Apply) and t.primitive.kind == "creation"]

    assert created(WithoutArrays()) == []
    assert created(NUMBA) != []


def test_the_program_with_its_kernels_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALQUE_PRINT_AFTER", "outline")
    calque.source(calque.jit(lambda x: np.tanh(x)), np.ones(3))
    assert re.search(r"# after outline\n.* = kernel\(x, ", capsys.readouterr().err, re.DOTALL)
