"""Clocks that a function reads: nothing that it gives or shows may depend on them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError, ImpureFunction

log = logging.getLogger("calque.tests.clocks")
VERBOSE = False


def timed(x):
    start = time.perf_counter()
    y = x * x
    taken = (time.perf_counter() - start) * 1e3
    if VERBOSE:
        print(f"took {taken:.3f} ms")
    return y


def in_a_dict(x):
    start = perf_counter()
    found = {"y": np.sin(x), "seconds": perf_counter() - start}
    return found["y"]


def logged(x):
    start = time.monotonic()
    y = x * x
    log.debug("took %.3f s", time.monotonic() - start)
    log.info(f"took {time.monotonic() - start:.3f} s, {x}")
    return y


def in_a_loop(x):
    for _ in range(70):
        start = time.process_time()
        x = x * 0.99
        spent = time.process_time() - start  # noqa: F841
    return x


@pytest.mark.parametrize("fn", [timed, in_a_dict, logged, in_a_loop])
def test_nothing_reads_the_time(fn: Callable[[float], Any]) -> None:
    x, h = 1.5, 1e-6
    slope = (fn(x + h) - fn(x - h)) / (2 * h)
    assert calque.jit(fn)(x) == pytest.approx(fn(x), rel=1e-14)
    assert calque.grad(fn)(x) == pytest.approx(slope, rel=1e-6)
    assert calque.jvp(fn, (x,), (1.0,))[1] == pytest.approx(slope, rel=1e-6)
    np.testing.assert_allclose(calque.vmap(fn)(np.array([x, 2.0])), [fn(x), fn(2.0)], rtol=1e-14)


def multiplied(x):
    return x * time.time()


def returned(x):
    return x, time.time()


def printed(x):
    start = time.time()
    print("took", time.time() - start)
    return x


def compared(x):
    start = time.time()
    while time.time() - start < 1.0:
        x = x * 2.0
    return x


def in_an_array(x):
    return np.sum(np.array([time.time(), x]))


def rounded(x):
    return x * round(time.time(), 3)


def warned(x):
    log.warning("took %.3f s", time.time())
    return x


@pytest.mark.parametrize(
    "fn", [multiplied, returned, printed, compared, in_an_array, rounded, warned]
)
def test_refused(fn: Callable[[float], Any]) -> None:
    message = rf"(?s)test_clocks.py, line \d+, in {fn.__name__}.*clock is read.*outside"
    with pytest.raises(ImpureFunction, match=message):
        calque.jit(fn)(1.5)


def on_one_path(x):
    return time.time() if x > 0.0 else 1.0


def test_on_one_path() -> None:
    with pytest.raises(CalqueError, match="the time on one path"):
        calque.jit(on_one_path)(1.5)


def test_a_level_that_is_heard() -> None:
    compiled = calque.jit(logged)
    assert compiled(1.5) == 2.25
    log.setLevel(logging.DEBUG)
    try:
        with pytest.raises(ImpureFunction, match="clock is read"):
            compiled(1.5)
    finally:
        log.setLevel(logging.NOTSET)
