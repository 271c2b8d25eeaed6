"""Every record of the table: value, type, forward against differences, reverse against forward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from core_eval import evaluate
from tracing import full, push_forward, trace, trace_any

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.record import PRIMITIVES, Scatter

pytest.importorskip("scipy")
# a value that is not determined: only its type is compared
UNDETERMINED = {"np.empty", "np.empty_like"}
# read one triangle of a matrix that is taken to be symmetric: only such directions are meant
SYMMETRIC = {
    *("np.linalg.cholesky", "np.linalg.eigh", "np.linalg.eigvalsh"),
    "linalg.solve_continuous_are",
}
# the other results have no derivative
FIRST_ONLY = {"np.linalg.lstsq"}
EVERY = sorted(PRIMITIVES)


def samples_of(primitive: Primitive) -> list[Any]:
    rng = np.random.default_rng(sum(map(ord, primitive.name)))
    return primitive.samples(rng)


def split(args: tuple[Any, ...], params: dict[str, Any]) -> tuple[list[Any], Any]:
    """The arguments that become run-time values, and a function that puts them back."""
    scalars = not params and all(isinstance(a, float) for a in args)

    def dynamic(a: Any) -> bool:
        return scalars or isinstance(a, (np.ndarray, np.generic))

    def rebuild(values: Any) -> list[Any]:
        values = iter(values)
        return [next(values) if dynamic(a) else a for a in args]

    return [a for a in args if dynamic(a)], rebuild


def outputs(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def is_float(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "fc"


def normal(rng: np.random.Generator, like: Any) -> Any:
    like = np.asarray(like)
    value = rng.normal(size=like.shape)
    if like.dtype.kind == "c":
        value = value + 1j * rng.normal(size=like.shape)
    return np.asarray(value, like.dtype)


def fit(value: Any, like: Any) -> np.ndarray:
    """Undo broadcasting, as the reverse pass does."""
    like = np.asarray(like)
    value = np.asarray(value)
    value = value.real if like.dtype.kind != "c" else value
    while value.ndim > like.ndim:
        value = value.sum(0)
    for axis, size in enumerate(like.shape):
        if axis < value.ndim and value.ndim == like.ndim and size == 1 and value.shape[axis] != 1:
            value = value.sum(axis, keepdims=True)
    return np.broadcast_to(value, like.shape)


def differentiable(primitive: Primitive, inputs: list[Any], outs: tuple[Any, ...]) -> bool:
    if primitive.nondifferentiable or not any(map(is_float, inputs)):
        return False
    return any(map(is_float, outs))


class Derivative:
    """jvp and vjp of one call, traced once and evaluated on concrete values."""

    def __init__(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any], outs: Any):
        self.primitive, self.params, self.outs = primitive, params, outs
        self.inputs, self.rebuild = split(args, params)
        self.moving = [i for i, a in enumerate(self.inputs) if is_float(a)]

    def directions(self, rng: np.random.Generator) -> list[Any]:
        """Random tangents of the inputs."""
        dots = [normal(rng, self.inputs[i]) for i in self.moving]
        if self.primitive.name in SYMMETRIC:
            dots = [(d + np.conj(np.swapaxes(d, -1, -2))) / 2 for d in dots]
        return dots

    def has_derivative(self, position: int) -> bool:
        """True if this result can carry a derivative."""
        if self.primitive.name in FIRST_ONLY and position:
            return False
        return is_float(self.outs[position])

    def bars(self, rng: np.random.Generator) -> list[Any]:
        """Random cotangents of the results that have derivatives."""
        return [normal(rng, o) for i, o in enumerate(self.outs) if self.has_derivative(i)]

    def _call(self, inputs: Any) -> tuple[list[Any], tuple[Any, ...]]:
        args = self.rebuild(inputs)
        return args, outputs(apply(self.primitive, *args, **self.params))

    def jvp_program(self, *values: Any) -> list[Any]:
        inputs, dots = values[: len(self.inputs)], values[len(self.inputs) :]
        given = dict(zip(self.moving, dots, strict=True))
        args, outs = self._call(inputs)
        places = iter(range(len(inputs)))
        tangents = [given.get(next(places)) if isinstance(a, Array) else None for a in args]
        found = self.primitive.jvp(tangents, outs, args, self.params)
        return [0.0 if t is None else full(t, o) for t, o in zip(found, outs, strict=True)]

    def vjp_program(self, *values: Any) -> list[Any]:
        inputs, bars = values[: len(self.inputs)], iter(values[len(self.inputs) :])
        args, outs = self._call(inputs)
        cotangents = [next(bars) if self.has_derivative(i) else None for i in range(len(outs))]
        found = self.primitive.vjp(cotangents, outs, args, self.params)
        result = []
        for arg, bar in zip(args, found, strict=True):
            if not isinstance(arg, Array):
                continue
            if isinstance(bar, Scatter):
                target = np.zeros_like(arg)
                bar.add(target)
                bar = target
            result.append(0.0 if bar is None else bar)
        return [r for i, r in enumerate(result) if i in self.moving]

    def jvp(self, dots: list[Any]) -> list[Any]:
        everything = [*self.inputs, *dots]
        return evaluate(trace_any(self.jvp_program, *everything), everything)

    def vjp(self, bars: list[Any]) -> list[Any]:
        everything = [*self.inputs, *bars]
        found = evaluate(trace_any(self.vjp_program, *everything), everything)
        return [fit(b, self.inputs[i]) for b, i in zip(found, self.moving, strict=True)]


def derivatives(name: str) -> list[Derivative]:
    primitive = PRIMITIVES[name]
    found = []
    for args, params in samples_of(primitive):
        with np.errstate(all="ignore"):
            outs = outputs(primitive.function(*args, **params))
        if differentiable(primitive, split(args, params)[0], outs):
            found.append(Derivative(primitive, args, params, outs))
    return found


def shifted(d: Derivative, dots: list[Any], step: float) -> list[Any]:
    inputs = list(d.inputs)
    for place, dot in zip(d.moving, dots, strict=True):
        inputs[place] = inputs[place] + step * dot
    return inputs


@pytest.mark.parametrize("name", EVERY)
def test_has_samples(name: str) -> None:
    assert PRIMITIVES[name].samples is not None, f"{name} has no samples"
    assert samples_of(PRIMITIVES[name])


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("concrete", [True, False])
def test_value_and_type(name: str, concrete: bool) -> None:
    primitive = PRIMITIVES[name]
    for args, params in samples_of(primitive):
        inputs, rebuild = split(args, params)

        def call(*values: Any) -> Any:
            found = outputs(apply(primitive, *rebuild(values), **params))
            dims = [current().dims.resolve(d) for f in found for d in getattr(f, "dims", ())]
            known.append(dims)
            return found

        known: list[Any] = []
        with np.errstate(all="ignore"):
            expected = outputs(primitive.function(*args, **params))
        program = trace(call, *inputs, concrete=True) if concrete else trace_any(call, *inputs)
        results = evaluate(program, inputs)
        sizes = [size for e in expected for size in np.shape(e)]
        for dim, size in zip(known[0], sizes, strict=bool(known[0])):
            assert not isinstance(dim, int) or dim == size, f"{name}: {known[0]} is {sizes}"
        for result, want, atom in zip(results, expected, program.body.results, strict=True):
            if name not in UNDETERMINED:
                np.testing.assert_array_equal(result, want, err_msg=f"{name} {params}")
            if hasattr(atom, "type"):
                assert atom.type.ndim == np.ndim(want), f"{name}: rank of {atom.type}"
                assert atom.type.dtype == np.asarray(want).dtype, f"{name}: dtype of {atom.type}"


# drawn by rejection: the slope is that of the quantile, which tests/test_random_distributions.py asks
IMPLICIT = {"random.gamma", "random.loggamma"}


@pytest.mark.parametrize("name", [n for n in EVERY if n not in IMPLICIT])
def test_forward_against_differences(name: str) -> None:
    rng = np.random.default_rng(1)
    for d in derivatives(name):
        dots = d.directions(rng)
        try:
            found = d.jvp(dots)
        except NotDifferentiable:
            continue
        if any(np.asarray(v).dtype in (np.float32, np.complex64) for v in (*d.inputs, *d.outs)):
            continue
        h = 1e-6
        with np.errstate(all="ignore"):
            high = outputs(d.primitive.function(*d.rebuild(shifted(d, dots, h)), **d.params))
            low = outputs(d.primitive.function(*d.rebuild(shifted(d, dots, -h)), **d.params))
        for i, (y_dot, a, b) in enumerate(zip(found, high, low, strict=True)):
            if d.has_derivative(i):
                want = (np.asarray(a) - b) / (2 * h)
                np.testing.assert_allclose(y_dot, want, rtol=1e-6, atol=1e-7, err_msg=f"{name} {d.params}")


@pytest.mark.parametrize("name", EVERY)
def test_reverse_against_forward(name: str) -> None:
    rng = np.random.default_rng(2)
    for d in derivatives(name):
        dots = d.directions(rng)
        bars = d.bars(rng)
        try:
            pushed = d.jvp(dots)
        except NotDifferentiable:
            with pytest.raises(NotDifferentiable):
                d.vjp(bars)
            continue
        y_dots = [t for i, t in enumerate(pushed) if d.has_derivative(i)]
        x_bars = d.vjp(bars)
        left = np.concatenate([np.ravel(b * t) for b, t in zip(bars, y_dots, strict=True)]).real
        right = np.concatenate([np.ravel(b * t) for b, t in zip(x_bars, dots, strict=True)]).real
        scale = max(np.abs(left).sum(), np.abs(right).sum(), 1.0)
        single = any(np.asarray(v).dtype in (np.float32, np.complex64) for v in (*d.inputs, *d.outs))
        assert abs(left.sum() - right.sum()) <= (1e-5 if single else 1e-12) * scale, f"{name} {d.params}"


@pytest.mark.parametrize("name", EVERY)
def test_second_order(name: str) -> None:
    """The derivative of the vjp, by the rules of the statements it is made of, against differences."""
    rng = np.random.default_rng(3)
    for d in derivatives(name):
        if any(np.asarray(v).dtype not in (np.float64, np.int64, np.bool_) for v in d.inputs):
            continue
        if any(np.asarray(o).dtype not in (np.float64, np.int64, np.int32) for o in d.outs):
            continue
        dots = d.directions(rng)
        bars = d.bars(rng)

        def second(*values: Any) -> list[Any]:
            inputs = list(values[: len(d.inputs)])
            given: list[Any] = [None] * len(d.inputs)
            for place, dot in zip(d.moving, values[len(d.inputs) + len(bars) :], strict=True):
                given[place] = dot
            middle = list(values[len(d.inputs) : len(d.inputs) + len(bars)])
            found = push_forward(first, inputs + middle, given + [None] * len(bars))
            return [0.0 if f is None else f for f in found]

        def gradient(inputs: list[Any]) -> list[Any]:
            return evaluate(first, [*inputs, *bars])

        try:
            first = trace_any(d.vjp_program, *d.inputs, *bars)
            everything = [*d.inputs, *bars, *dots]
            found = evaluate(trace_any(second, *everything), everything)
        except NotDifferentiable:
            continue
        h = 1e-6
        high, low = gradient(shifted(d, dots, h)), gradient(shifted(d, dots, -h))
        for got, a, b in zip(found, high, low, strict=True):
            want = (np.asarray(a, float) - b) / (2 * h)
            np.testing.assert_allclose(
                np.broadcast_to(got, want.shape), want, rtol=1e-5, atol=1e-6, err_msg=f"{name} {d.params}"
            )
