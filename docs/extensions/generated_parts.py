"""Parts of pages that the build makes: references from docstrings, a derivative, a picture.

A part is a fence of a page's Markdown whose name stands in ``PARTS``::

    ```{api} calque.sparse
    jacobian hessian
    ```

It is replaced by Markdown before the page is read, so that no page can show what is no longer true.
``expanded`` needs no Sphinx: tests and the pages for language models call it, too.
"""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import first_calls_picture
import gallery_pages
import layers_picture
import sparsity_picture
import speeds_picture
import stencil_picture

import calque
from calque.help_pages import error_classes, summary
from calque.runtime.spec import format_args
from calque.transpiler import errors

PRINTED = re.compile(r"^```output\n(?=def |@kernel)", re.M)  # generated code
REFUSED = re.compile(r"^```python refused.*\n", re.M)
HOME = errors.__name__
ROOT = Path(__file__).resolve().parent.parent.parent
BRIDGES = "calque.bridges."  # whose modules need frameworks that a build does without

FENCE = re.compile(
    r"^(?P<ticks>```+)\{(?P<name>[\w-]+)\} *(?P<argument>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=ticks) *$",
    re.M | re.S,
)


def expanded(text: str, plain: bool = False) -> str:
    """Replace the parts of a page, and mark code that is refused or printed; ``plain``: no marks.

    >>> expanded("```{unknown} x\\n```\\n")
    '```{unknown} x\\n```\\n'
    """

    def replaced(found: re.Match[str]) -> str:
        part = PARTS.get(found["name"])
        if part is None:
            return found[0]
        return part(found["argument"].strip(), found["body"], plain).rstrip("\n")

    text = FENCE.sub(replaced, text)
    for pattern, name in () if plain else ((REFUSED, "refused"), (PRINTED, "printed")):
        text = pattern.sub(f"```{{code-block}} python\n:class: {name}\n\n", text)
    return text


def has_parts(text: str) -> bool:
    """Return True if the build makes some part of a page."""
    return any(found["name"] in PARTS for found in FENCE.finditer(text))


def api(namespace: str, body: str, plain: bool) -> str:
    """Return the reference of a namespace, whose names are the words of ``body``."""
    entry = plain_entry if plain else directive
    entries = "\n\n".join(entry(namespace, name) for name in body.split())
    return entries if plain else f"```{{eval-rst}}\n{entries}\n```"


def public(namespace: str, name: str) -> Any:
    """Return what a public name of calque stands for.

    >>> public("calque.tree", "map").__name__
    'tree_map'
    """
    found: Any = calque
    for part in [*namespace.split(".")[1:], name]:
        found = getattr(found, part)
    return found


def directive(namespace: str, name: str) -> str:
    """Return the directive with which Sphinx documents a public name.

    >>> directive("calque", "grad")
    '.. autofunction:: calque.grad'
    """
    if namespace.startswith(BRIDGES):
        signature, text = signature_and_text(namespace, name)
        return f".. py:function:: {signature}\n\n{textwrap.indent(text, '   ')}"
    if inspect.isfunction(public(namespace, name)):
        return f".. autofunction:: {namespace}.{name}"
    return f".. autoclass:: {namespace}.{name}\n   :members:"


def plain_entry(namespace: str, name: str) -> str:
    """Return a public name's signature and docstring as Markdown."""
    signature, text = signature_and_text(namespace, name)
    return f"### {signature}\n\n{text}"


def signature_and_text(namespace: str, name: str) -> tuple[str, str]:
    """Return a public name with its parameters, and its docstring; a bridge is read, not imported.

    >>> signature_and_text("calque.bridges.jax", "wrap")[0]
    'calque.bridges.jax.wrap(f, jit=True)'
    """
    if not namespace.startswith(BRIDGES):
        found = public(namespace, name)
        return f"{namespace}.{name}({', '.join(parameters_of(found))})", inspect.getdoc(found) or ""
    file = ROOT / "runtime" / "bridges" / f"{namespace.removeprefix(BRIDGES)}.py"
    body = ast.parse(file.read_text(encoding="utf-8")).body
    (read,) = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == name]
    for node in ast.walk(read.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    return f"{namespace}.{name}({ast.unparse(read.args)})", ast.get_docstring(read) or ""


def parameters_of(documented: Any) -> list[str]:
    """Return the parameters of a function or a class, without their types.

    >>> parameters_of(calque.fixed_point)
    ['f', 'x0', '*args', 'tolerance=1e-12', 'max_steps=1000', 'tangent_solve=None']
    """
    if isinstance(documented, type) and issubclass(documented, Warning):
        return []
    parameters = inspect.signature(documented).parameters.values()
    return [str(parameter.replace(annotation=parameter.empty)) for parameter in parameters]


def derivative(call: str, body: str, plain: bool) -> str:
    """Return a function, how it is transformed, and beside it what calque writes for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.py")
        path.write_text(f"import numpy as np\n\n\n{body}", encoding="utf-8")
        names = {**runpy.run_path(str(path)), "calque": calque}
        transformed, *args = eval(f"[{call}]", names)
        written = calque.source(transformed, *args)
    name = ast.parse(body).body[0].name  # type: ignore[attr-defined]
    asked = call.partition(",")[0]
    transform = asked.replace("calque.", "").replace(name, "f")
    command = f'calque show {name}.py:{name} --transform "{transform}" \\'
    command += f'\n  --args "{format_args(tuple(args))}"'
    blocks = [
        f"**{title}**\n\n```{kind}\n{text.strip()}\n```"
        for title, kind, text in (
            ("You write", "python", body),
            ("You call", "python", asked),
            ("or type", "text", command),
            ("calque writes", "python", written),
        )
    ]
    if plain:
        return "\n\n".join(blocks)
    parts = ["\n\n".join(blocks[:3]), blocks[3]]
    items = "\n".join(f":::{{grid-item}}\n{part}\n:::" for part in parts)
    return f"::::{{grid}} 1 1 2 2\n:gutter: 3\n:class-container: side-by-side\n\n{items}\n::::"


def error(name: str, body: str, plain: bool) -> str:
    """Return what the docstring of an error says, which errors it is a kind of, and its import."""
    found = getattr(errors, name)
    own = [f"[{b.__name__}]({b.__name__}.md)" for b in found.__bases__ if b.__module__ == HOME]
    pythons = [f"Python's `{b.__name__}`" for b in found.__bases__ if b.__module__ != HOME]
    kinds = " and of ".join(own + pythons)
    return f"*{summary(found)}*\n\nA kind of {kinds}: `from {HOME} import {name}`."


def error_table(argument: str, body: str, plain: bool) -> str:
    """Return a table of all errors, each with the first line of its docstring."""
    rows = [
        f"| [{name}](errors/{name}.md) | {summary(found)} |"
        for name, found in error_classes().items()
    ]
    return "\n".join(["| error | raised for |", "| --- | --- |", *rows])


PARTS: dict[str, Callable[[str, str, bool], str]] = {
    "api": api,
    "derivative": derivative,
    "error": error,
    "error-table": error_table,
    "first-calls": first_calls_picture.first_calls,
    "gallery": gallery_pages.gallery,
    "growth": first_calls_picture.growth,
    "layers": layers_picture.layers,
    "sparsity": sparsity_picture.sparsity,
    "speeds": speeds_picture.speeds,
    "stencil": stencil_picture.stencil,
}


def setup(app: Any) -> dict[str, bool]:
    """Expand the parts of each page as Sphinx reads it: at each build."""

    def read(app: Any, name: str, content: list[str]) -> None:
        content[0] = expanded(content[0])

    def outdated(app: Any, env: Any, *changes: set[str]) -> list[str]:
        texts = {name: Path(env.doc2path(name)).read_text("utf-8") for name in env.found_docs}
        return [name for name, text in texts.items() if has_parts(text)]

    app.connect("source-read", read)
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True}
