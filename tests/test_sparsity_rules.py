"""The inputs that every primitive's results reach: all that its derivative says, by unit tangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_primitives import EVERY, Derivative, derivatives, is_float, outputs
from tracing import trace

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.primitives.base import apply
from calque.transpiler.sparsity.detection import Detection
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, numbered


def jacobian(d: Derivative) -> list[Any]:
    """For each result, its derivative by each number of the moving inputs, by unit tangents."""
    sizes = [np.size(d.inputs[i]) for i in d.moving]
    columns: list[list[Any]] = []
    for place, size in enumerate(sizes):
        for k in range(size):
            dots = [np.zeros_like(np.asarray(d.inputs[i])) for i in d.moving]
            dots[place].reshape(-1)[k] = 1.0
            dots = [dot[()] if not dot.ndim else dot for dot in dots]
            found = d.jvp(dots)
            columns.append([np.asarray(f).reshape(-1) for f in found])
    if not columns:  # of empty arrays
        return [np.zeros((np.size(out), 0)) for out in d.outs]
    return [np.stack([c[r] for c in columns], axis=1) for r in range(len(columns[0]))]


def pattern(d: Derivative) -> list[Any]:
    """For each result, what its elements reach of the moving inputs, as a boolean matrix."""

    def call(*values: Any) -> Any:
        return outputs(apply(d.primitive, *d.rebuild(values), **d.params))

    program = trace(call, *d.inputs, concrete=True)
    inputs = sum(np.size(d.inputs[i]) for i in d.moving)
    first, values = 1, {}
    for i, var in enumerate(program.params):
        if i not in d.moving:
            values[var] = d.inputs[i]
            continue
        values[var] = numbered(np.shape(d.inputs[i]), first, inputs)
        first += np.size(d.inputs[i])
    detection = Detection(inputs)
    detection.follow(program, values)
    found: list[Any] = []
    for atom in program.body.results:
        value = detection.read(atom)
        reach = value if isinstance(value, ReachedInputs) else none(np.shape(value), inputs)
        if reach.open:  # its size depends on values; all its elements have one set
            reach = reach.broadcast(np.shape(d.outs[len(found)]))
        starts, indices = reach.sparse()
        matrix = np.zeros((reach.size, inputs), bool)
        matrix[np.repeat(np.arange(reach.size), np.diff(starts)), indices] = True
        found.append(matrix)
    return found


@pytest.mark.parametrize("name", EVERY)
def test_patterns_hold_every_slope(name: str) -> None:
    for d in derivatives(name):
        try:
            found = jacobian(d)
        except NotDifferentiable:
            continue
        for k, (have, slopes) in enumerate(zip(pattern(d), found, strict=True)):
            if not is_float(d.outs[k]):
                continue
            rounding = 16 * np.finfo(np.asarray(d.outs[k]).dtype).eps  # of spectra in float32
            missed = (np.abs(slopes) > max(1e-12, rounding)) & ~have
            assert not missed.any(), f"{name} {d.params}: result {k} at {np.argwhere(missed)[:5]}"


EXACT = """np.add np.multiply np.sum np.mean np.max np.concatenate np.stack np.transpose np.reshape np.roll
np.diff np.diag np.trace np.tril np.repeat np.tile np.where getitem update update_add add_at np.matmul
np.cumsum np.outer np.inner np.pad np.einsum np.sort np.linalg.solve np.prod np.take_along_axis
np.meshgrid np.bincount np.broadcast_to np.squeeze np.kron np.tensordot np.cross np.convolve np.dot np.linalg.multi_dot
ndimage.correlate1d signal.convolve signal.convolve2d""".split()


@pytest.mark.parametrize("name", EXACT)
def test_patterns_are_not_larger_than_a_derivative_can_be(name: str) -> None:
    """A pattern has no entry where the derivative, at random numbers, has none."""
    for d in derivatives(name):
        for have, slopes, out in zip(pattern(d), jacobian(d), d.outs, strict=True):
            if not is_float(out) or name in ("np.max", "np.sort"):
                continue
            extra = have & (slopes == 0.0)
            assert not extra.any(), f"{name} {d.params}: {np.argwhere(extra)[:5]}"
