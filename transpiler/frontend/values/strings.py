"""Strings with run-time values in them: only printing, asserting and raising can use them."""

from __future__ import annotations

from typing import Any

from calque.transpiler.errors import UnsupportedSyntax
from calque.transpiler.frontend.guarding import guard_native
from calque.transpiler.frontend.interpreter import State
from calque.transpiler.ir.builder import Array, known


class Texts(State):
    """f-strings."""

    def evaluate(self, node: Any) -> Any:
        """The value of an expression (see expressions)."""
        raise NotImplementedError

    def eval_JoinedStr(self, node: Any) -> Any:
        """An f-string: text, or a piece of text with run-time holes."""
        parts = [self.evaluate(v) for v in node.values]
        if all(isinstance(p, str) for p in parts):
            return "".join(parts)
        return RuntimeText([]).joined(RuntimeText(parts))

    def eval_FormattedValue(self, node: Any) -> Any:
        """``{value!r:spec}``."""
        value = self.evaluate(node.value)
        spec = "" if node.format_spec is None else self.evaluate(node.format_spec)
        if isinstance(value, RuntimeText) and node.conversion in (-1, 115) and spec == "":
            return value
        if isinstance(value, RuntimeText) or isinstance(spec, RuntimeText):
            self.settled(value, node)
            self.settled(spec, node)
            self.fail(UnsupportedSyntax, node, "A text of run-time values cannot be laid out here.")
        if known(value) and isinstance(spec, str):
            guard_native(self, [value], node)
            convert: Any = {114: repr, 115: str, 97: ascii}.get(node.conversion)
            return format(value if convert is None else convert(value), spec)
        mark = {114: "!r", 115: "!s", 97: "!a"}.get(node.conversion, "")
        return RuntimeHole(value, mark, spec)

    def settled(self, value: Any, node: Any) -> Any:
        """A string that must be known: the sizes and integers in it are asked for."""
        if isinstance(value, RuntimeText):
            with self.at(node):
                for part in value.parts:
                    if isinstance(part, RuntimeHole) and isinstance(part.value, Array):
                        raise self.builder.needs_known(
                            part.value, "A string", "use the text in print, assert or raise only"
                        )
        return value


class RuntimeHole:
    """A run-time value within an f-string."""

    def __init__(self, value: Any, conversion: str, spec: Any):
        self.value, self.conversion, self.spec = value, conversion, spec


class RuntimeText:
    """A string with run-time values in it: only printing, asserting and raising can use it."""

    def __init__(self, parts: list[Any]):
        self.parts = parts

    def joined(self, other: Any) -> RuntimeText:
        """This text and one more, with the texts within them opened."""
        parts = [*self.parts, *(other.parts if isinstance(other, RuntimeText) else [other])]
        opened = (part.parts if isinstance(part, RuntimeText) else [part] for part in parts)
        return RuntimeText([piece for pieces in opened for piece in pieces])

    def template(self, args: list[Any]) -> str:
        """The f-string's source, its values appended to ``args`` as slots."""
        text = ""
        for part in self.parts:
            if isinstance(part, str):
                text += part.replace("{", "{{").replace("}", "}}")
            else:
                spec = f":{part.spec}" if part.spec else ""
                text += "{{" + str(len(args)) + "}" + f"{part.conversion}{spec}" + "}"
                args.append(part.value)
        return "f" + repr(text)


def display(value: Any, args: list[Any]) -> str:
    """A value as source text for an Effect, its run-time parts as slots ``{0}``, ``{1}`` ..."""
    if isinstance(value, RuntimeText):
        return value.template(args)
    if isinstance(value, Array):
        args.append(value)
        return "{" + str(len(args) - 1) + "}"
    if isinstance(value, (list, tuple)) and not known(value):
        inner = ", ".join(display(v, args) for v in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)
