"""State of the process that a program reads when it is translated, and compares at each call."""

from __future__ import annotations

import logging
import os
import platform
import sys

import numpy as np
import pytest

import calque
from calque.transpiler.errors import ImpureFunction

log = logging.getLogger("calque.tests.process_state")
NAME = "CALQUE_TEST_FACTOR"


def by_recursion_limit(x):
    return x * x * sys.getrecursionlimit()


def by_module(x):
    return x * x * (2.0 if "calque_test_module" in sys.modules else 3.0)


def by_module_found(x):
    found = sys.modules.get("calque_test_module")
    return x * x * (1.0 if found is None else found.getrecursionlimit())


def by_own_module(x):
    return sys.modules[__name__].by_module(x)


def by_environment(x):
    return x * x * float(os.environ.get(NAME, "2"))


def by_getenv(x):
    return x * x * float(os.getenv(NAME, default="2")) * (1.0 + (NAME in os.environ))


def by_level(x):
    return x * x * (2.0 if log.isEnabledFor(logging.DEBUG) else 3.0)


def by_platform(x):
    return x * x * (1.0 if platform.system() == "Linux" and os.cpu_count() else 4.0)


PROGRAMS = [
    *(by_recursion_limit, by_module, by_module_found, by_own_module, by_environment, by_getenv),
    *(by_level, by_platform),
]


def check(fn) -> None:
    x, h = 1.5, 1e-6
    assert calque.jit(fn)(x) == fn(x)
    assert calque.grad(fn)(x) == pytest.approx((fn(x + h) - fn(x - h)) / (2 * h))
    assert calque.jvp(fn, (x,), (1.0,))[1] == pytest.approx(calque.grad(fn)(x))
    np.testing.assert_allclose(calque.vmap(fn)(np.array([x, 2.0])), [fn(x), fn(2.0)])


@pytest.mark.parametrize("fn", PROGRAMS)
def test_a_change_is_seen(fn, monkeypatch: pytest.MonkeyPatch) -> None:
    check(fn)
    limit = sys.getrecursionlimit()
    monkeypatch.setenv(NAME, "5")
    monkeypatch.setitem(sys.modules, "calque_test_module", sys)
    try:
        sys.setrecursionlimit(limit + 100)
        log.setLevel(logging.DEBUG)
        check(fn)
    finally:
        sys.setrecursionlimit(limit)
        log.setLevel(logging.NOTSET)


def counts_names(x):
    return x * len(os.environ)


def goes_through(x):
    return x * sum(1.0 for name in sys.modules)


def takes_values(x):
    return x * sum(len(v) for v in os.environ.values())


def sets_one(x):
    os.environ["CALQUE_TEST_SCALE"] = "2"
    return x


@pytest.mark.parametrize("fn", [counts_names, goes_through, takes_values, sets_one])
def test_refused(fn) -> None:
    with pytest.raises(ImpureFunction, match=rf"test_process_state.py, line \d+, in {fn.__name__}"):
        calque.grad(fn)(1.5)
