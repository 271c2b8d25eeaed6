"""docs/support.md says what calque can do today."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("scipy")
import support
import support_examples as examples

ROW = re.compile(r"\| `([\w.]+)` \|")


def rows(text: str) -> dict[str, str]:
    """The lines of the tables by function."""
    return {found[1]: line for line in text.splitlines() if (found := ROW.match(line))}


def test_support_page_is_current() -> None:
    """Every line is what a run gives; only NumPy's own list of functions differs by version."""
    written, made = support.PAGE.read_text(encoding="utf-8"), support.page()
    then, now = rows(written), rows(made)
    changed = [now[n] for n in now if n in then and then[n] != now[n]]
    assert not changed, "run `python tests/support.py`; these lines changed:\n" + "\n".join(changed)
    if made.splitlines()[2] == written.splitlines()[2]:
        assert made == written, "run `python tests/support.py`"


def test_every_public_function_has_a_row() -> None:
    found = rows(support.PAGE.read_text(encoding="utf-8"))
    version = f"NumPy {'.'.join(np.__version__.split('.')[:2])};"
    if version in support.PAGE.read_text(encoding="utf-8"):
        wanted = {f"np.{n}" for n in support.public(np)}
        wanted |= {f"np.linalg.{n}" for n in support.public(np.linalg)}
        assert wanted <= set(found)
    assert len(found) > 400


def test_examples_are_of_the_function_they_stand_for() -> None:
    for table in (examples.NUMPY, examples.LINALG, examples.FFT, examples.SPECIAL):
        for name, call in table.items():
            assert f".{name}(" in call or name in ("matmul",), f"{name}: {call}"


def test_every_function_of_the_families_has_a_row() -> None:
    """The page of SciPy's other families is what a run gives: all names, and one family whole."""
    written = support.SCIPY_PAGE.read_text(encoding="utf-8")
    if f"SciPy {'.'.join(support.scipy.__version__.split('.')[:2])};" not in written:
        pytest.skip("the page was written with another version of SciPy")
    for name in support.support_families.TABLES:
        prefix = name.rpartition(".")[2]
        known = {f"{prefix}.{n}" for n in support.known_scipy(support.module_of(name))}
        assert known <= set(rows(written)), name
    for row in support.family("fft"):
        assert str(row) in written
