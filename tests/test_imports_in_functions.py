"""``import`` within a function: of modules, relative to a package, and into a global."""

import importlib
import sys

import pytest

import calque

PACKAGE = {
    "__init__.py": "",
    "shapes.py": "def area(r):\n    return 3.0 * r * r\n",
    "lazy.py": """
import math

quickly = None


def relative(x):
    from . import shapes
    from .shapes import area as circle
    import math as m
    return circle(x) + shapes.area(2.0 * x) + m.sin(x)


def once(x):
    global quickly
    if quickly is None:
        from .shapes import area as quickly
    return quickly(x) * x
""",
}


@pytest.fixture
def lazy(tmp_path, monkeypatch):
    folder = tmp_path / "lazypackage"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lazypackage.lazy")
    for name in [n for n in sys.modules if n.startswith("lazypackage")]:
        del sys.modules[name]


def test_relative_imports(lazy):
    for f in (calque.jit(lazy.relative), lambda x: calque.value_and_grad(lazy.relative)(x)[0]):
        assert f(0.5) == lazy.relative(0.5)
    calque.check_grads(lazy.relative, (0.5,), order=1)


def test_a_global_is_imported_once(lazy):
    f = calque.jit(lazy.once)
    assert f(0.5) == f(0.5) == 0.375
    assert lazy.quickly is sys.modules["lazypackage.shapes"].area
    assert calque.grad(lazy.once)(0.5) == 2.25
