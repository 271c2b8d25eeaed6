"""Tables of benchmarks/results, read as rows of cells, and times as seconds."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results"
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def seconds(text: str) -> float:
    """Read a time as the tables write it.

    >>> seconds("1.5 ms")
    0.0015
    """
    number, unit = text.split()
    return float(number) * UNITS[unit]


def table_rows(text: str) -> list[dict[str, str]]:
    """Return the rows of all tables of a page, each by the headings of its columns.

    >>> table_rows("| a | b |\\n| --- | --- |\\n| 1 | 2 |\\n")
    [{'a': '1', 'b': '2'}]
    """
    found = []
    for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.M):
        lines = [line.strip("|").split("|") for line in table.splitlines()]
        heading, _, *rows = [[cell.strip() for cell in line] for line in lines]
        found += [dict(zip(heading, row)) for row in rows]
    return found


def results(name: str) -> list[dict[str, str]]:
    """Return the rows of all tables of a file of results.

    >>> results("first_calls")[0]["gradient of"]
    'forty statements'
    """
    return table_rows((RESULTS / f"{name}.md").read_text(encoding="utf-8"))
