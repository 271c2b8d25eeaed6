"""Definitions of the functions that call back, and of those that they call, for a module's text."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator

from calque.transpiler.codegen.text.instances import helper_names, import_name
from calque.transpiler.ir import core
from calque.transpiler.primitives.function_calls import FunctionCall
from calque.transpiler.primitives.host_calls import HostCall


def define_hosts(
    function: core.Function,
    calls: Iterable[HostCall],
    taken: set[str],
    written: Callable[[core.Function], str],
) -> dict[HostCall, list[str]]:
    """The names of each call's host and callees, whose texts become helpers of the function.

    ``taken`` are names with another meaning; ``written`` gives the text of a callee.
    """
    named: dict[HostCall, list[str]] = {}
    for call in calls:
        if call in named:
            continue
        names = []
        for callee in call.callees:
            program = callee.function
            program.imports, program.helpers = function.imports, function.helpers
            names.append(_defined(function, program.name, _texts_of(program, written), taken))
        text = _host_text(function, call, taken)
        named[call] = [_defined(function, call.host.__name__, _renamings(text), taken), *names]
    return named


def define_callees(
    function: core.Function,
    calls: Iterable[FunctionCall],
    taken: set[str],
    written: Callable[[core.Function], str],
) -> dict[FunctionCall, list[str]]:
    """The name of the function that each call calls, whose text becomes a helper."""
    names: dict[int, str] = {}
    for call in calls:
        callee = call.callee
        if id(callee) not in names:
            callee.imports, callee.helpers = function.imports, function.helpers
            made = _defined(function, callee.name, _texts_of(callee, written), taken)
            names[id(callee)] = made
    return {call: [names[id(call.callee)]] for call in calls}


def _defined(
    function: core.Function, wish: str, text_as: Callable[[str], str], taken: set[str]
) -> str:
    """The name under which a text is among the function's helpers: the wish, or one like it."""
    wish = wish if wish.isidentifier() else "equation"
    for name in _candidates(wish):
        text = text_as(name)
        if function.helpers.get(name) == text:
            return name
        if name not in taken | helper_names(function) and name not in function.imports:
            function.helpers[name] = text
            return name
    raise AssertionError("names do not end")


def _candidates(wish: str) -> Iterator[str]:
    yield wish
    number = 2
    while True:
        yield f"{wish}_{number}"
        number += 1


def _texts_of(
    program: core.Function, written: Callable[[core.Function], str]
) -> Callable[[str], str]:
    def text_as(name: str) -> str:
        program.name = name
        return written(program)

    return text_as


def _renamings(text: str) -> Callable[[str], str]:
    """The text of a definition under another name."""
    return lambda name: re.sub(r"^def \w+", f"def {name}", text)


def _host_text(function: core.Function, call: HostCall, taken: set[str]) -> str:
    """The host's source without annotations; its modules as the function imports them."""
    source = textwrap.dedent(inspect.getsource(call.host))
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.returns = None
    for argument in ast.walk(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    lines = source.splitlines()[tree.body[0].lineno - 1 :]
    text = "\n".join([f"def {tree.name}({ast.unparse(tree.args)}):", *lines, ""])
    for module in call.modules:
        home = module if module in sys.stdlib_module_names else "scipy"
        name = import_name(function, home, module, taken)
        text = re.sub(rf"(?<![\w.]){module}\.", f"{name}.", text)
    return text
