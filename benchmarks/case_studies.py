"""The programs of docs/case-studies.md in both ways: lines, and the processor time of a gradient.

    python benchmarks/case_studies.py [--write]

The programs are those of the page. `--write` puts the table into the page.
"""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import calque
from measuring import least_processor_time, shown, table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "case-studies.md"
STUDIES = {
    "a masked image": ("galaxy_misfit", "galaxy, photograph, mask", "galaxy, photograph, places"),
    "light bent by a galaxy": ("bent", "lens, source", "lens, source"),
    "a lecture's savings": (
        "value_of_saving",
        "economy, wealth, income, chances, 15",
        "economy, wealth, income, chances, 15",
    ),
    "a curve through knots": (
        "spline_misfit",
        "heights, knots, points, measured",
        "heights, knots, points, measured",
    ),
    "neutrons from films": ("film_misfit", "film, q, measured_film", "film, q, measured_film"),
}
TABLE = re.compile(r"(?:^\|.*\|\n)+", re.M)


HEAD = ("program", "lines for calque", "lines for JAX", "calque", "JAX")


def code_of_page() -> str:
    """Return the Python of the page, which is one program."""
    text = PAGE.read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))


def lines(code: str, name: str) -> int:
    """Count the lines of a function without those that are empty."""
    (found,) = [f for f in ast.parse(code).body if getattr(f, "name", "") == name]
    return len([line for line in (ast.get_source_segment(code, found) or "").splitlines() if line])


def finished(f: Callable[..., Any], *args: Any) -> None:
    """Call a function of JAX's, and wait for its result."""
    f(*args).block_until_ready()


def rows() -> Iterator[list[str]]:
    """Run the page, and measure each of its programs in both ways."""
    import jax

    code = code_of_page()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "case_studies_of_page.py")
        path.write_text(code, encoding="utf-8")
        names = runpy.run_path(str(path))
        for label, (name, ours, theirs) in STUDIES.items():
            quick = calque.jit(calque.grad(names[name]))
            f, others = names[f"{name}_jax"], eval(f"({theirs})", names)
            fixed = tuple(k for k, value in enumerate(others) if isinstance(value, int))
            fast = jax.jit(jax.grad(f), static_argnums=fixed)
            times = (
                least_processor_time(partial(quick, *eval(f"({ours})", names))),
                least_processor_time(partial(finished, fast, *others)),
            )
            counts = (str(lines(code, each)) for each in (name, f"{name}_jax"))
            yield [label, *counts, *map(shown, times)]


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    found = table(HEAD, list(rows()))
    print(found, end="")
    if write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(TABLE.sub(found, text, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
