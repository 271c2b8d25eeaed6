"""Random programs over arrays of several lengths: Python's results, no access out of range."""

from __future__ import annotations

import ast
import linecache
import random

import numpy as np
import pytest
from access_programs import Accesses
from sampling import sampled

import calque
from calque.runtime.kernels import integer_functions, kernel_functions
from calque.transpiler.errors import CalqueError

SIZES = [(6, 9, 4, 5), (9, 5, 5, 3), (3, 6, 2, 7), (0, 3, 1, 2), (1, 5, 2, 2), (2, 2, 2, 2), (1, 1, 1, 1)]
order = random.Random(0)


class Strict(np.ndarray):
    """An array of which kernels touch only places that are there, and none from the end."""

    unchecked = False  # a kernel runs that leaves out the checks

    def _inside(self, index):
        places = index if isinstance(index, tuple) else (index,)
        if Strict.unchecked and Ellipsis not in places:
            for i, n in zip(places, self.shape):
                assert isinstance(i, slice) or 0 <= i < n, (index, self.shape)

    def __getitem__(self, index):
        self._inside(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._inside(index)
        super().__setitem__(index, value)


def kernel(function=None, *, parallel="auto", boundscheck=False):
    def run(*args):
        before, Strict.unchecked = Strict.unchecked, not boundscheck
        try:
            return function(*[a.view(Strict) if isinstance(a, np.ndarray) else a for a in args])
        finally:
            Strict.unchecked = before

    return run if function else lambda f: kernel(f, boundscheck=boundscheck)


def any_order(*bounds):
    """The iterations of a loop that may run in parallel."""
    iterations = list(range(*bounds))
    order.shuffle(iterations)
    return iterations


def poisoned(*args, **options):
    """New memory, with what is surely wrong in it."""
    made = np.empty(*args, **options).view(Strict)
    made.fill(np.nan if made.dtype.kind == "f" else 101)
    return made


class Numpy:
    """NumPy, its new arrays strict."""

    empty = staticmethod(poisoned)

    def __getattr__(self, name):
        found = getattr(np, name)
        if name in ("zeros", "ones", "full", "zeros_like", "ones_like", "full_like"):
            return lambda *args, **options: found(*args, **options).view(Strict)
        if name == "empty_like":
            return lambda x, **options: poisoned(x.shape, dtype=options.get("dtype", x.dtype))
        return found


class FromEnd(ast.NodeTransformer):
    """``x[-1]`` as ``x[x.shape[0] - 1]``: written so, as allowed."""

    def visit_Subscript(self, node):
        self.generic_visit(node)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for axis, item in enumerate(items):
            if isinstance(item, ast.UnaryOp) and isinstance(node.value, ast.Name):
                text = f"{node.value.id}.shape[{axis}] - {ast.unparse(item.operand)}"
                items[axis] = ast.parse(text, mode="eval").body
        if not isinstance(node.slice, ast.Tuple):
            node.slice = items[0]
        return node


def stepped(function, name, args):
    """The kernels and their launcher as Python."""
    known = {**vars(integer_functions), **vars(kernel_functions)}
    names = {k: v for k, v in known.items() if not k.startswith("_")}
    names |= {"np": Numpy(), "kernel": kernel, "prange": any_order, "vrange": any_order}
    text = calque.source(function, *args, stage="kernels")
    exec(compile(ast.fix_missing_locations(FromEnd().visit(ast.parse(text))), name, "exec"), names)
    return names[name]


def flat(found):
    return np.concatenate([np.ravel(part) for part in found])


def outcome(function, args):
    try:
        return flat(function(*[a.copy() for a in args]))
    except (IndexError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("seed", sampled(range(1000, 1600), 50))
def test_accesses(seed):
    text, name = Accesses(seed).text, f"<accesses {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict = {"np": np}
    exec(compile(text, name, "exec"), names)
    f = names["f"]

    def loss(x, y, A):
        return sum(np.sum(part * part) for part in f(x, y, A))

    value, gradient = calque.jit(f), calque.jit(calque.grad(loss, argnums=(0, 1, 2)))
    for n, m, p, q in SIZES:
        rng = np.random.default_rng(seed)
        args = rng.random(n), rng.random(m), rng.random((p, q))
        with np.errstate(all="ignore"):
            expected = outcome(f, args)
        if isinstance(expected, type) or not np.all(np.abs(expected) < 1e6):
            continue  # what nobody needs is not computed, nor its index checked
        try:
            found = outcome(stepped(value, "f_jit", args), args)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=text)
            found = outcome(stepped(gradient, "loss_grad_jit", args), args)
        except CalqueError:
            continue  # refused, with a line
        ways = [rng.normal(size=a.shape) for a in args]
        ends = ([a + h * w for a, w in zip(args, ways)] for h in (1e-6, -1e-6))
        slope = np.subtract(*[loss(*end) for end in ends]) / 2e-6
        along = np.sum(found * flat(ways))
        np.testing.assert_allclose(along, slope, rtol=1e-5, atol=1e-5, err_msg=text)
