"""Strings that contain run-time values: only print, assert and raise can use them.

A ``RuntimeText`` is kept as the expression that makes it, and written into the generated code where
it is used: ``f"{v:.2f} at {k:>3}"``, ``"%.2f" % v``, ``str(v).rjust(9)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.optional import Maybe
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.effect_texts import quoted

# the methods of a text that give another one
TEXT_METHODS = frozenset(
    """capitalize casefold center expandtabs format join ljust lower lstrip removeprefix
    removesuffix replace rjust rstrip strip swapcase title upper zfill""".split()
)
_CONVERTERS = {"r": "repr({0})", "s": "str({0})", "a": "ascii({0})", "": "{0}"}
_SLOT = re.compile(r"\{\d+\}")
_NOT_NESTED = set("'\"\\{}")  # before Python 3.12 no f-string holds these between its braces
_PLAIN = (bool, int, float, complex, bytes, type(None), type(Ellipsis), np.number, np.bool_)


class RuntimeHole:
    """A run-time value within a text: ``{value!r:spec}``."""

    def __init__(self, value: Any, conversion: str = "", spec: Any = ""):
        self.value, self.conversion, self.spec = value, conversion, spec


class RuntimeCall:
    """A text that an expression makes of run-time values: ``{0} % {1}``, its slots these values."""

    def __init__(self, template: str, *values: Any):
        self.template, self.values = template, values


class RuntimeText:
    """A string that contains run-time values: only print, assert and raise can use it."""

    def __init__(self, parts: Sequence[Any]):
        opened = (part.parts if isinstance(part, RuntimeText) else [part] for part in parts)
        self.parts: list[Any] = [piece for pieces in opened for piece in pieces]

    def values(self) -> list[Any]:
        """The values in the string, some of which are known only at run time."""
        found: list[Any] = []
        for part in self.parts:
            if isinstance(part, RuntimeHole):
                found += [part.value, part.spec]
            elif isinstance(part, RuntimeCall):
                found += part.values
        return found

    def template(self, args: list[Any]) -> str:
        """Its source, in which its values, appended to ``args``, are slots."""
        terms: list[tuple[str, bool]] = []
        for part in self.parts:
            text, inside = _term(part, args)
            if inside and terms and terms[-1][1]:
                text = terms.pop()[0] + text
            terms.append((text, inside))
        written = [f"f'{text}'" if inside else text for text, inside in terms]
        return written[0] if len(written) == 1 else f"({' + '.join(written)})"

    def written_now(self, found: Callable[[Array], Any]) -> str:
        """The text, with the values that ``found`` returns; ``UNKNOWN`` is written "..."."""
        args: list[Any] = []
        source = _SLOT.sub(lambda slot: f"given[{slot[0][1:-1]}]", self.template(args))
        given = list(map(found, args))
        try:
            return eval(source, {"np": np, "given": given, "nan": np.nan, "inf": np.inf})
        except (TypeError, ValueError):  # a format for numbers alone
            return "".join(p if isinstance(p, str) else "..." for p in self.parts)


class _Unknown:
    """A value that only the run knows, in a text that is made before."""

    def __repr__(self) -> str:
        return "..."

    def __format__(self, spec: str) -> str:
        return "..."


UNKNOWN = _Unknown()


class TextMethod:
    """A method of a text with run-time values, to be called."""

    def __init__(self, text: RuntimeText, name: str):
        self.text, self.name = text, name


def _term(part: Any, args: list[Any]) -> tuple[str, bool]:
    """A part as a piece of an f-string, if it can be one, else as an expression."""
    if isinstance(part, str):
        text = part.encode("unicode_escape").decode().replace("'", "\\'")
        return text.replace("{", "\\x7b").replace("}", "\\x7d"), True
    if isinstance(part, RuntimeCall):
        return part.template.format(*[display(v, args) for v in part.values]), False
    shown, spec = display(part.value, args), part.spec
    if isinstance(spec, str) and not _NOT_NESTED & {*_SLOT.sub("", shown), *spec}:
        mark = f"!{part.conversion}" if part.conversion else ""
        return "{" + shown + mark + (f":{spec}" if spec else "") + "}", True
    converted = _CONVERTERS[part.conversion].format(shown)
    if spec == "" and part.conversion:
        return converted, False
    return f"format({converted}, {display(spec, args)})", False


def display(value: Any, args: list[Any]) -> str:
    """A value as source text for an Effect, its run-time parts as slots ``{0}``, ``{1}`` ...

    Raises UnsupportedFunction for an object that no source text makes.
    """
    if isinstance(value, RuntimeText):
        return value.template(args)
    if isinstance(value, Array):
        args.append(value)
        return "{" + str(len(args) - 1) + "}"
    if isinstance(value, str):
        return quoted(str(value))
    if isinstance(value, np.dtype):
        return f"np.dtype({value.name if np.dtype(value.name) == value else value.str!r})"
    if type(value) is dict:
        pairs = [f"{display(k, args)}: {display(v, args)}" for k, v in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)) and rows_of(value) is None:
        if not hasattr(value, "_fields"):
            inner = ", ".join(display(v, args) for v in value)
            if isinstance(value, list):
                return f"[{inner}]"
            return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Maybe):
        return f"({display(value.value, args)} if {display(value.there, args)} else None)"
    if isinstance(value, _PLAIN):
        return repr(value)
    if hasattr(value, "calque_refuse"):
        value.calque_refuse()
    grows = isinstance(value, list)
    what = "list that grows in a loop" if grows else type(value).__name__
    raise UnsupportedFunction(
        f"A {what} in a message cannot be written in generated code.",
        hint="give np.array(it)" if grows else "give numbers, arrays and texts",
    )


def has_run_time_values(value: Any) -> bool:
    """True if the text of a value is known only at run time."""
    if isinstance(value, (Array, RuntimeText)) or hasattr(value, "calque_refuse"):
        return True
    if isinstance(value, dict):
        return any(has_run_time_values(v) for v in (*value.keys(), *value.values()))
    if isinstance(value, (list, tuple)):
        return rows_of(value) is not None or any(map(has_run_time_values, value))
    if isinstance(value, slice):
        return any(map(has_run_time_values, (value.start, value.stop, value.step)))
    fields = getattr(value, "__dict__", None)
    if isinstance(value, type) or not isinstance(fields, dict):
        return False
    return any(isinstance(v, (Array, RuntimeText)) for v in fields.values())


def holds_time(value: Any) -> bool:
    """True if a value, or a text, is made of what a clock shows."""
    if isinstance(value, RuntimeText):
        return any(map(holds_time, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(holds_time, value))
    return hasattr(value, "calque_refuse")


def as_it_is(value: Any) -> Any:
    """A value that later stores into arrays do not change: a text is made where it stands."""
    if isinstance(value, Array):
        return Array(value.atom)
    if type(value) is dict:
        return {as_it_is(k): as_it_is(v) for k, v in value.items()}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(as_it_is, value))
    if isinstance(value, list) and rows_of(value) is None:
        return list(map(as_it_is, value))
    return value
