"""The samples of a primitive as programs for a GPU: its value, and both derivatives by its rules.

Each is traced on Arrays, as tests/test_primitives.py does, and evaluated from Core for what it
should give; its CUDA text runs on the stand-in for CuPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from core_eval import evaluate
from cuda_emulator.running import installed, to_device, to_host
from test_primitives import Derivative, differentiable, outputs, samples_of, split
from tracing import trace_any_and_builder

from calque.transpiler.codegen.cuda.cuda_target import CUDA
from calque.transpiler.errors import NotDifferentiable, UnsupportedFunction
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir.core import Parameter
from calque.transpiler.pipeline import to_kernels
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.record import Primitive
from calque.transpiler.texts import module_text


@dataclass
class OnCuda:
    """One program: what it is of, its text for a GPU, its arguments, and what it should give."""

    label: str
    text: str
    inputs: list[Any]
    expected: list[Any]
    refused: UnsupportedFunction | None = None

    def results(self) -> list[Any]:
        """Run the program on the stand-in for CuPy; return its results as NumPy's arrays."""
        scope: dict[str, Any] = {}
        with installed(), np.errstate(all="ignore"):
            exec(compile(self.text, f"<{self.label}>", "exec"), scope)
            found = scope["sample"](*map(to_device, map(_own, self.inputs)))
        found = found if isinstance(found, (tuple, list)) else (found,)
        return [to_host(value) for value in found]


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def programs(primitive: Primitive) -> Iterator[OnCuda]:
    """The value of each sample, and where there are derivatives, jvp and vjp."""
    rng = np.random.default_rng(3)
    for number, (args, params) in enumerate(samples_of(primitive)):
        with np.errstate(all="ignore"):
            outs = outputs(primitive.function(*args, **params))
        label = f"{primitive.name} {number}"
        inputs, rebuild = split(args, params)

        def value(*values: Any, rebuild: Any = rebuild, params: Any = params) -> Any:
            return outputs(apply(primitive, *rebuild(values), **params))

        yield _on_cuda(label, value, inputs)
        if not differentiable(primitive, inputs, outs):
            continue
        d = Derivative(primitive, args, params, outs)
        given = {d.jvp_program: d.directions(rng), d.vjp_program: d.bars(rng)}
        for program, more in given.items():
            try:
                yield _on_cuda(f"{label} {program.__name__[:3]}", program, [*inputs, *more])
            except NotDifferentiable:
                continue


def _on_cuda(label: str, program: Any, inputs: list[Any]) -> OnCuda:
    with np.errstate(all="ignore"):
        function, builder = trace_any_and_builder(program, *inputs)
    expected = evaluate(function, [_own(value) for value in inputs])
    function.signature = [Parameter(p.name or "", p) for p in function.params]
    made = OnCuda(label, "", inputs, expected)
    try:
        traced = to_kernels(Traced(function, builder), target=CUDA)
        made.text = module_text(traced, "sample", "", [])
    except UnsupportedFunction as error:
        made.refused = error
    return made
