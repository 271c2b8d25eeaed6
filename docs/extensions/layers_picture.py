"""A picture of the package's layers, drawn from the table that tests/test_layers.py enforces.

A box is a folder or a module; it may import from those below it, and from those to its left.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

from drawing import WIDTH, box, figure, text

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "tests" / "test_layers.py"
NAMES = ("TRANSPILER", "RUNTIME", "LAYERS")  # the assignments that make the table
LETTER = 7.0  # the width of a letter
HIGH, GAP = 24, 5  # of a box, between boxes
TITLES = {
    "commands": "The package's face and its command",
    "runtime": "runtime: calls, kernels, devices, saving",
    "transpiler": "transpiler: from source to source",
}


class Layer(NamedTuple):
    """One place in the order of imports: its part of the package, its name, its first sentence."""

    part: str
    name: str
    summary: str


def table() -> list[str]:
    """Return the layers in the order of imports, as the test has them.

    >>> table()[:2]
    ['transpiler.late', 'transpiler.errors']
    """
    tree = ast.parse(TABLE.read_text(encoding="utf-8"))
    kept: list[ast.stmt] = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in NAMES
    ]
    names: dict[str, tuple[str, ...]] = {}
    exec(compile(ast.Module(kept, []), str(TABLE), "exec"), names)
    return list(names["LAYERS"])


def layer(name: str) -> Layer:
    """Return a layer with what its docstring says first.

    >>> layer("transpiler.ir.dims").part, layer("cli").part
    ('transpiler', 'commands')
    """
    part, _, rest = name.partition(".")
    file = ROOT.joinpath(*name.split(".")) if name else ROOT
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    summary = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]
    return Layer(part, rest, summary) if rest else Layer("commands", name or "calque", summary)


def in_rows(layers: list[Layer]) -> list[list[tuple[float, float, Layer]]]:
    """Return rows of boxes, each box with its left edge and its width, the first row lowest."""
    rows: list[list[tuple[float, float, Layer]]] = [[]]
    left = 0.0
    for each in layers:
        width = 14 + LETTER * len(each.name)
        if left + width > WIDTH:
            rows.append([])
            left = 0.0
        rows[-1].append((left, width, each))
        left += width + GAP
    return rows


def picture() -> str:
    """Return the picture, the part that others import lowest."""
    layers = [layer(name) for name in table()]
    parts, top = [], 0.0
    for part, title in TITLES.items():
        rows = in_rows([each for each in layers if each.part == part])
        parts.append(text(0, top + 16, title))
        top += 24
        for row in reversed(rows):
            for left, width, each in row:
                parts.append(box(left, top, width, HIGH, f"layer {part}", each.summary))
                middle = left + width / 2
                parts.append(text(middle, top + 16, each.name, "name", "middle"))
            top += HIGH + GAP
        top += 12
    return figure("layers", top - 12, alt(), "".join(parts))


def alt() -> str:
    """Return the order in words."""
    return f"The order of imports, from the first to the last: {', '.join(filter(None, table()))}"


def layers(argument: str, body: str, plain: bool) -> str:
    """Return the part of a page that shows the layers."""
    return f"{alt()}." if plain else picture()
