"""Python's ``max`` and ``min`` of a vector: a NaN that comes first stays, and no other counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import type_of, wrap
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, definition, elementwise, opaque
from calque.transpiler.primitives.record import rule_of
from calque.transpiler.primitives.reductions import extremum_rules, max_, min_


def _infer(x: Any) -> ArrayType:
    return ArrayType(type_of(x).dtype, ())


def _samples(rng: np.random.Generator) -> list[Any]:
    return [((rng.uniform(-2.0, 2.0, 5),), {})]


def _of_rows(numpys: Callable[..., Any], x: Any) -> Any:
    """Return the extremum along the last axis by NumPy, which takes any NaN that it meets."""
    return numpys(np.where(np.isnan(x), x[..., :1], x), axis=-1)


def _declared(
    function: Callable[..., Any], numpys: Callable[..., Any], reduction: Primitive
) -> Primitive:
    name = function.__name__
    attains = elementwise(
        lambda x, y: x == y,
        None,
        "{0} == {1}",
        spelling="{0} == {1}",
        arity=2,
        name=f"is {name} of a vector",
        suffix="equal_{1}",
    )
    jvp, vjp = extremum_rules(attains)
    primitive = opaque(
        f"{name} of a vector", function, _infer, f"{name}({{0}})", jvp, vjp,
        fresh=True,
        smooth=True,
        samples=_samples,
    )

    @rule_of("batch")(primitive)
    def _batch(args: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Any:
        return _of_rows(numpys, args[0])

    @rule_of("lowering")(primitive)
    def _lowered(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        return _of_rows(numpys, args[0])

    @rule_of("lowering")(attains)
    def _attained_again(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        """An array that is computed again has an extremum of its own: it may differ in a bit."""
        x, y = args
        return np.equal(x, y if _is_of(y, x, reduction) else _of_rows(numpys, x))

    return primitive


def _is_of(y: Any, x: Any, reduction: Primitive) -> bool:
    """True if ``y`` is the extremum of this very array, as ``_of_rows`` has written it."""
    made = definition(y)
    if made is None or made.primitive is not reduction:
        return False
    kept = definition(wrap(made.args[0]))
    return kept is not None and kept.args[-1] is x.atom


largest, smallest = _declared(max, np.max, max_), _declared(min, np.min, min_)

