"""Files that ship with a package, and generators of a known seed: constants of the program."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import ImpureFunction, UnsupportedSyntax

PACKAGE = """
import configparser
import json
import os
from pathlib import Path

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def by_loadtxt(x):
    return np.sum(np.loadtxt(os.path.join(HERE, "data", "weights.txt")) * x * x)


def by_genfromtxt(x):
    with (Path(__file__).parent / "data" / "weights.txt").open() as file:
        return np.sum(np.genfromtxt(file) * x * x)


def by_json(x):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "c.json")) as file:
        found = json.load(file)
    return found["a"] * x * x + found["b"][1]


def by_lines(x):
    total = 0.0
    with open(os.path.join(HERE, "data", "terms.txt"), encoding="utf-8") as file:
        title = file.readline()
        for line in file:
            if line.startswith("#"):
                continue
            a, b = line.split()
            total += float(a) * x ** int(b)
    return total + len(title)


def by_load(x):
    found = np.load(Path(HERE) / "data" / "arrays.npz")
    return np.sum(found["u"] * x * x) + np.sum(found["v"])


def by_text(x):
    path = Path(__file__).resolve().parent.joinpath("data").joinpath("number.txt")
    return float(path.read_text()) * x * x + len(path.name)


def by_config(x):
    config = configparser.ConfigParser()
    config.read(os.path.join(HERE, "data", "settings.ini"))
    return config.getfloat("model", "k") * x * x + float(config["model"]["q"])


def by_whole_text(x):
    file = open(os.path.join(HERE, "data", "terms.txt"), "rb")
    try:
        return len(file.read().splitlines()) * x * x
    finally:
        file.close()


def outside(x):
    return float(open(os.sep + os.path.join("etc", "passwd")).read()) * x


def written(x):
    open(os.path.join(HERE, "data", "number.txt"), "w").write("2")
    return x


def in_a_test(x):
    file = open(os.path.join(HERE, "data", "terms.txt"))
    if x > 0.0:
        file.readline()
    return float(file.readline().split()[0]) * x
"""
NAMES = ["by_loadtxt", "by_genfromtxt", "by_json", "by_lines", "by_load", "by_text", "by_config"]


def write(folder: Path, k: float) -> None:
    """The package's files, of other numbers and of another time."""
    np.savetxt(folder / "weights.txt", np.arange(3) + k)
    (folder / "c.json").write_text(json.dumps({"a": k, "b": [1, 2.0 * k]}))
    (folder / "terms.txt").write_text(f"title\n# remark\n{k} 2\n3 1\n" + "# more\n" * int(k))
    np.savez(folder / "arrays.npz", u=np.ones(2) * k, v=np.arange(4.0))
    (folder / "number.txt").write_text(str(k * 1.5))
    (folder / "settings.ini").write_text(f"[model]\nk={k}\nq=2.5\n")
    for file in folder.iterdir():
        os.utime(file, (1e9 + k, 1e9 + k))


@pytest.fixture
def package(tmp_path: Path) -> Iterator[ModuleType]:
    folder = tmp_path / "shipping"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    write(folder / "data", 2.0)
    spec = importlib.util.spec_from_file_location("shipping", folder / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["shipping"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shipping"]


def check(fn: Callable[[float], Any]) -> float:
    x, h = 1.5, 1e-6
    assert calque.jit(fn)(x) == pytest.approx(fn(x), rel=1e-14)
    slope = (fn(x + h) - fn(x - h)) / (2 * h)
    assert calque.grad(fn)(x) == pytest.approx(slope, rel=1e-6)
    assert calque.jvp(fn, (x,), (1.0,))[1] == pytest.approx(slope, rel=1e-6)
    np.testing.assert_allclose(calque.vmap(fn)(np.array([x, 2.0])), [fn(x), fn(2.0)], rtol=1e-14)
    return fn(x)


@pytest.mark.parametrize("name", [*NAMES, "by_whole_text"])
def test_against_python(package: ModuleType, name: str) -> None:
    before = check(getattr(package, name))
    write(Path(package.HERE) / "data", 5.0)
    assert check(getattr(package, name)) != before


@pytest.mark.parametrize(
    "name, error",
    [("outside", ImpureFunction), ("written", ImpureFunction), ("in_a_test", UnsupportedSyntax)],
)
def test_refused(package: ModuleType, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"__init__.py, line \d+, in {name}"):
        calque.grad(getattr(package, name))(1.5)


def by_default_rng(x):
    rng = np.random.default_rng(3)
    assert isinstance(rng, np.random.Generator)
    rng = np.random.default_rng(rng)
    return np.sum(rng.normal(size=4) * x * x) + np.sum(rng.uniform(0, 1, (2, 2))) * x


def by_random_state(x):
    rng = np.random.RandomState(seed=3)
    return np.sum(rng.rand(3) * x * x) + rng.randn() * x + rng.randint(0, 9)


def by_python(x):
    rng = random.Random(1)
    return x * x * rng.random() + rng.gauss(0, 1) + sum(rng.sample([1.0, 2.0, 3.0], 2)) * x


def in_a_loop(x):
    rng, total = np.random.default_rng(3), 0.0
    for _ in range(70):
        total = total + rng.normal() * x * x
    return total


def on_two_paths(x):
    rng = np.random.default_rng(3)
    y = x * rng.normal() if x > 1.0 else x * rng.normal() + rng.normal()
    return y * y * rng.normal()


def by_a_helper(x):
    rng = np.random.default_rng(3)

    def draw():
        return rng.normal(size=2)

    return np.sum(draw() * x * x + draw() * x)


@pytest.mark.parametrize(
    "fn", [by_default_rng, by_random_state, by_python, in_a_loop, on_two_paths, by_a_helper]
)
def test_known_seeds(fn: Callable[[float], Any]) -> None:
    check(fn)
    assert calque.jit(fn)(0.7) == calque.jit(fn)(0.7) == pytest.approx(fn(0.7), rel=1e-14)


def of_the_size(x):
    return np.sum(np.random.default_rng(3).normal(size=x.shape) * x * x)


def test_sizes() -> None:
    for n in (2, 3):
        x = np.arange(1.0, n + 1)
        assert calque.jit(of_the_size)(x) == pytest.approx(of_the_size(x))
        expected = 2 * x * np.random.default_rng(3).normal(size=n)
        np.testing.assert_allclose(calque.grad(of_the_size)(x), expected)


def without_a_seed(x):
    return np.random.default_rng().normal() * x


def of_an_argument(x):
    return np.random.default_rng(3).normal(x, 1.0)


@pytest.mark.parametrize("fn", [without_a_seed, of_an_argument])
def test_refused_draws(fn: Callable[[float], Any]) -> None:
    with pytest.raises(ImpureFunction, match=r"(?s)draws from a hidden state.*key"):
        calque.grad(fn)(1.5)
