"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import linecache
import pkgutil

import pytest

import calque

NAMES = ["calque"] + [
    found.name
    for package in ("calque.transpiler", "calque.runtime")
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
]


@pytest.mark.parametrize("name", [*NAMES, "calque.cli", "calque.targets", "calque.verifying"])
def test_docstring_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Before each docstring pdb looks at every file that a traceback has named: thousands, by then.
    monkeypatch.setattr(linecache, "checkcache", lambda filename=None: None)
    if name.startswith("calque.runtime.bridges."):
        pytest.importorskip(name, exc_type=ImportError)  # whose framework may not be installed
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0, f"{failed} examples in {name} fail; see the captured output"


def test_the_package_is_found() -> None:
    assert calque.__version__
