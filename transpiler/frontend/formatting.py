"""Formatting of texts: of known values by Python, of run-time values where a text is used."""

from __future__ import annotations

import re
import string
from typing import Any

import gast

from calque.transpiler.frontend.guarding import guard_native
from calque.transpiler.frontend.interpreter import State
from calque.transpiler.frontend.machine import Args, Kwargs
from calque.transpiler.frontend.methods import method_of
from calque.transpiler.frontend.values.containers.container_kinds import all_within
from calque.transpiler.frontend.values.strings import (
    RuntimeCall,
    RuntimeHole,
    RuntimeText,
    as_it_is,
    has_run_time_values,
)
from calque.transpiler.ir.builder import Array

_FIELD = re.compile(r"\.([^.\[]+)|\[([^\]]+)\]")  # what follows the first name
_CONVERSIONS = {114: "r", 115: "s", 97: "a"}
_CONVERTERS: dict[str, Any] = {"r": repr, "s": str, "a": ascii}
_OWN_METHODS = {"": ("format", "str", "repr"), "s": ("str", "repr"), "r": ("repr",), "a": ("repr",)}


class Texts(State):
    """f-strings, ``%`` and ``str.format``."""

    def eval_JoinedStr(self, node: Any) -> Any:
        """An f-string: text, or a piece of text with run-time holes."""
        return _joined([self.evaluate(v) for v in node.values])

    def eval_FormattedValue(self, node: Any) -> Any:
        """``{value!r:spec}``."""
        value = self.evaluate(node.value)
        spec = "" if node.format_spec is None else self.evaluate(node.format_spec)
        return self.formatted(value, _CONVERSIONS.get(node.conversion, ""), spec, node)

    def formatted(self, value: Any, conversion: str, spec: Any, node: Any) -> Any:
        """``format(value, spec)`` of a value, or of its ``str``, ``repr`` or ``ascii``."""
        own = self._by_own_method(value, conversion, spec, node)
        if own is not None:
            return own
        if not has_run_time_values(value) and isinstance(spec, str):
            guard_native(self, [value], node)
            return format(_CONVERTERS[conversion](value) if conversion else value, spec)
        if isinstance(value, RuntimeText) and conversion in ("", "s") and spec == "":
            return value
        return RuntimeText([RuntimeHole(as_it_is(value), conversion, spec)])

    def _by_own_method(self, value: Any, conversion: str, spec: Any, node: Any) -> Any:
        """The text of an instance by a method of its class; None if the class has none."""
        for name in _OWN_METHODS[conversion]:
            method = method_of(value, name)
            if method is None or not has_run_time_values(value):
                continue
            if spec != "" and conversion == "" and name != "format":
                kind = type(value).__name__
                raise TypeError(f"unsupported format string passed to {kind}.__format__")
            text = self.call_value(method, [value, *[spec] * (name == "format")], {}, node)
            laid_out = conversion in ("r", "a") or name == "format"
            return text if laid_out and spec == "" else self.formatted(text, "", spec, node)
        return None

    # operators and methods

    def text_operator(self, kind: type, left: Any, right: Any) -> Any:
        """``left op right`` where one is a text and one is not known; else NotImplemented."""
        texts = (str, RuntimeText)
        if kind is gast.Mod and isinstance(left, texts) and has_run_time_values((left, right)):
            return RuntimeText([RuntimeCall("({0} % {1})", left, as_it_is(right))])
        if not isinstance(left, RuntimeText) and not isinstance(right, RuntimeText):
            return NotImplemented
        if kind is gast.Add and isinstance(left, texts) and isinstance(right, texts):
            return RuntimeText([left, right])
        if kind is gast.Mult and (type(left) is int or type(right) is int):
            return RuntimeText([RuntimeCall("({0} * {1})", left, right)])
        return NotImplemented

    def text_method(self, owner: Any, name: str, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A method that makes a text of a text, where some of it only the run knows."""
        if name == "format" and isinstance(owner, str):
            return self._format(owner, args, kwargs, node)
        if name == "join" and isinstance(owner, str) and len(args) == 1:
            items = args[0]
            if all(isinstance(item, (str, RuntimeText)) for item in items):
                between = [piece for item in items for piece in (owner, item)]
                return _joined(between[1:])
        given = [*map(as_it_is, args), *map(as_it_is, kwargs.values())]
        slots = [f"{{{k + 1}}}" for k in range(len(given))]
        for k, key in enumerate(kwargs):
            slots[len(args) + k] = f"{key}={slots[len(args) + k]}"
        return RuntimeText([RuntimeCall(f"{{0}}.{name}({', '.join(slots)})", owner, *given)])

    def _format(self, pattern: str, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """``pattern.format(*args, **kwargs)``, as an f-string."""
        count = iter(range(len(args)))

        def made(text: str) -> Any:
            parts: list[Any] = []
            for literal, field, spec, conversion in string.Formatter().parse(text):
                parts.append(literal)
                if field is None:
                    continue
                value = self._field(field, count, args, kwargs, node)
                parts.append(self.formatted(value, conversion or "", made(spec or ""), node))
            return _joined(parts)

        return made(pattern)

    def _field(self, field: str, count: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """The value that a replacement field names: ``0``, ``name``, ``0.size``, ``row[2]``."""
        first = re.split(r"[.\[]", field, maxsplit=1)[0]
        if first == "" or first.isdigit():
            place = next(count, len(args)) if first == "" else int(first)
            if place >= len(args):
                raise IndexError(
                    f"Replacement index {place} out of range for positional args tuple"
                )
            value = args[place]
        else:
            value = kwargs[first]
        for attribute, key in _FIELD.findall(field[len(first) :]):
            if attribute:
                value = self.attribute(value, attribute, node)
            else:
                value = self.subscript(value, int(key) if key.isdigit() else key, node)
        return value

    def settled(self, value: Any, node: Any) -> Any:
        """A string that must be known; asks for the sizes and integers in it to be static."""
        if isinstance(value, RuntimeText):
            with self.at(node):
                self._ask_for_values(value)
        return value

    def _ask_for_values(self, value: Any) -> None:
        for part in all_within(value):
            if isinstance(part, Array):
                raise self.builder.needs_known(
                    part, "A string", "use the text in print, assert or raise only"
                )
            if isinstance(part, RuntimeText):
                self._ask_for_values(part.values())


def _joined(parts: list[Any]) -> Any:
    """Pieces of text one after the other."""
    if all(isinstance(p, str) for p in parts):
        return "".join(parts)
    return RuntimeText(parts)
