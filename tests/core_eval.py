"""A reference evaluator of Core on concrete arrays: a few lines, so that passes can be judged by it."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.core import Apply, Block, Effect, For, Function, If, Var, While

_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def evaluate(function: Function, args: list[Any]) -> list[Any]:
    """The atoms of ``function.body.results`` for these values of ``function.params``."""
    if len(args) != len(function.params):
        raise TypeError(f"{len(function.params)} arguments are needed, {len(args)} were given")
    values: dict[Var, Any] = dict(zip(function.params, args, strict=True))
    with np.errstate(all="ignore"):
        return _run(function.body, values)


def _read(atom: Any, values: dict[Var, Any]) -> Any:
    return values[atom] if isinstance(atom, Var) else atom


def _define(var: Var, value: Any, values: dict[Var, Any]) -> None:
    if var.type.weak and not var.type.ndim and np.ndim(value) == 0:
        value = _PYTHON[var.type.dtype.kind](value)
    values[var] = value


def _run(block: Block, values: dict[Var, Any]) -> list[Any]:
    for s in block.statements:
        match s:
            case Apply():
                found = s.primitive.function(*[_read(a, values) for a in s.args], **s.params)
                results = found if isinstance(found, tuple) else (found,)
            case If():
                results = _run(s.then if bool(_read(s.test, values)) else s.orelse, values)
            case For():
                bounds = [int(_read(b, values)) for b in (s.start, s.stop, s.step)]
                results = [_read(i, values) for i in s.inits]
                for index in range(*bounds):
                    _define(s.index, index, values)
                    _define_all(s.phis, results, values)
                    results = _run(s.body, values)
            case While():
                results = [_read(i, values) for i in s.inits]
                while True:
                    _define_all(s.phis, results, values)
                    if not bool(_run(s.test, values)[0]):
                        break
                    results = _run(s.body, values)
            case Effect():
                names = {f"a{i}": _read(a, values) for i, a in enumerate(s.args)}
                exec(s.template.format(*names), {"np": np, **names})
                results = ()
        _define_all(s.outs, results, values)
    return [_read(a, values) for a in block.results]


def _define_all(vars: Any, results: Any, values: dict[Var, Any]) -> None:
    for var, value in zip(vars, results, strict=True):
        _define(var, value, values)
