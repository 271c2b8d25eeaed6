"""``match`` patterns."""

from __future__ import annotations

from typing import Any

import gast

from calque.transpiler.errors import UnsupportedSyntax
from calque.transpiler.frontend.machine import Machine


def match_pattern(machine: Machine, pattern: Any, subject: Any, bindings: dict[str, Any]) -> Any:
    """Match a pattern: True or False where known, else a recorded scalar; fills ``bindings``."""
    kind = type(pattern).__name__
    if kind == "MatchValue":
        return machine.compare(gast.Eq(), subject, machine.evaluate(pattern.value), pattern)
    if kind == "MatchSingleton":
        return machine.compare(gast.Is(), subject, pattern.value, pattern)
    if kind == "MatchAs":
        if pattern.pattern is not None:
            found = match_pattern(machine, pattern.pattern, subject, bindings)
            if found is False:
                return False
        else:
            found = True
        if pattern.name is not None:
            bindings[pattern.name] = subject
        return found
    if kind == "MatchOr":
        result: Any = False
        for alternative in pattern.patterns:
            found = match_pattern(machine, alternative, subject, bindings)
            if found is True:
                return True
            result = _both(machine, result, found, pattern, False)
        return result
    if kind == "MatchSequence":
        return _sequence(machine, pattern, subject, bindings)
    if kind == "MatchMapping":
        return _mapping(machine, pattern, subject, bindings)
    if kind == "MatchClass":
        return _class(machine, pattern, subject, bindings)
    return machine.fail(UnsupportedSyntax, pattern, f"The pattern {kind} is not supported.")


def _all(
    machine: Machine, pairs: list[tuple[Any, Any]], bindings: dict[str, Any], node: Any
) -> Any:
    result: Any = True
    for pattern, value in pairs:
        found = match_pattern(machine, pattern, value, bindings)
        if found is False:
            return False
        result = _both(machine, result, found, node, True)
    return result


def _both(machine: Machine, result: Any, found: Any, node: Any, is_and: bool) -> Any:
    """Two outcomes joined by ``and`` or ``or``; a neutral one is left out."""
    if found is is_and:
        return result
    return found if result is is_and else machine.short_circuit(result, lambda: found, node, is_and)


def _sequence(machine: Machine, pattern: Any, subject: Any, bindings: dict[str, Any]) -> Any:
    if not isinstance(subject, (list, tuple)):
        return False
    stars = [i for i, p in enumerate(pattern.patterns) if type(p).__name__ == "MatchStar"]
    count = len(pattern.patterns)
    if (not stars and len(subject) != count) or (stars and len(subject) < count - 1):
        return False
    items = list(subject)
    if stars:
        at, rest = stars[0], count - stars[0] - 1
        star = pattern.patterns[at]
        middle = items[at : len(items) - rest]
        if star.name is not None:
            bindings[star.name] = middle
        items = items[:at] + items[len(items) - rest :]
        patterns = pattern.patterns[:at] + pattern.patterns[at + 1 :]
    else:
        patterns = pattern.patterns
    return _all(machine, list(zip(patterns, items, strict=True)), bindings, pattern)


def _mapping(machine: Machine, pattern: Any, subject: Any, bindings: dict[str, Any]) -> Any:
    if not isinstance(subject, dict):
        return False
    keys = [machine.evaluate(k) for k in pattern.keys]
    if any(k not in subject for k in keys):
        return False
    if pattern.rest is not None:
        bindings[pattern.rest] = {k: v for k, v in subject.items() if k not in keys}
    pairs = [(p, subject[k]) for p, k in zip(pattern.patterns, keys, strict=True)]
    return _all(machine, pairs, bindings, pattern)


def _class(machine: Machine, pattern: Any, subject: Any, bindings: dict[str, Any]) -> Any:
    cls = machine.evaluate(pattern.cls)
    if not machine.call_value(isinstance, [subject, cls], {}, pattern):
        return False
    names = list(getattr(cls, "__match_args__", ()))[: len(pattern.patterns)] + list(
        pattern.kwd_attrs
    )
    if cls in (int, float, str, bool, tuple, list, dict) and pattern.patterns:
        return match_pattern(machine, pattern.patterns[0], subject, bindings)
    pairs = [
        (p, machine.attribute(subject, n, pattern))
        for p, n in zip([*pattern.patterns, *pattern.kwd_patterns], names, strict=True)
    ]
    return _all(machine, pairs, bindings, pattern)
