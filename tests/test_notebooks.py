"""What a notebook, or an interactive session, shows of calque."""

from __future__ import annotations

import subprocess
import sys
from html import unescape
from re import sub

import numpy as np
import pytest

import calque


def scaled(x: "f8[n]", y: float):
    return np.sum(np.sin(x) * y < 2.0) + np.sum(x) * y


@pytest.mark.parametrize("stage", [None, "numpy", "kernels", "core"])
def test_source_is_text_shown_in_colour(stage: str | None) -> None:
    x = np.ones(3)
    for text in (calque.source(calque.grad(scaled), x, 2.0, stage=stage), calque.grad(scaled).source(x, 2.0, stage=stage)):
        assert isinstance(text, str) and text == "".join(text)
        shown = text._repr_html_()
        assert "<span style=" in shown and "<script" not in shown
        assert unescape(sub("<[^>]*>", "", shown)).strip() == text.strip()


def test_source_over_devices_is_shown_too() -> None:
    mapped = calque.pmap(lambda x: x * 2.0)
    assert "<span" in calque.source(mapped, np.ones((1, 3)))._repr_html_()


def test_source_loads_the_painter_when_it_is_shown(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, calque\n"
        "def f(x): return x * x\n"
        "text = calque.source(f, 1.0)\n"
        "print('pygments' in sys.modules, bool(text._repr_html_()), 'pygments' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.stdout == "False True True\n", done.stderr


def test_a_report_is_shown_as_its_table() -> None:
    class Printer:
        def text(self, shown: str) -> None:
            self.shown = shown

    report, printer = calque.check(lambda x: x * x, 2.0), Printer()
    report._repr_pretty_(printer, False)
    assert printer.shown == str(report) and printer.shown.startswith("argument  forward")


def test_only_public_names_are_offered() -> None:
    assert dir(calque) == sorted(calque.__all__)
    for name in dir(calque):
        assert hasattr(calque, name), name
