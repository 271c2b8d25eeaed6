"""Index programs with extreme numbers: no stray cell, no signal, NumPy's values and errors.

Each batch runs in a process of its own, on arrays in the middle of guarded buffers.
"""

import random
from typing import Any

import numpy as np
import pytest

import calque
from calque.tests.guarded_programs import ran
from calque.tests.sampling import EVERYTHING

COUNT, BATCH = 2000 if EVERYTHING else 12, 12
ENDS = [0, 1, 2, 3, -1, -4, -5, 2**31, 2**32 + 1, 3037000500, 2**61, 2**62, 2**62 + 3]
ENDS += [2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, -(2**62), -3037000500]

COMPARE = """
for number, k in enumerate(json.loads(sys.argv[2])):
    k = np.array(k, dtype=np.int64)
    f = getattr(module, f"f{number}")
    wanted = outcome(f, k)
    ways = {"jit": calque.jit(f), "checked": calque.jit(f, boundscheck=True)}
    if number % 4 == 0:
        target = path.with_name(f"saved_{number}.py")
        calque.save(ways["jit"], target, np.ones(4), k)
        ways["saved"] = getattr(loaded(target), f"f{number}_jit")
    for way, made in ways.items():
        got = outcome(made, k)
        if got != wanted:
            print("WRONG", number, way, k.tolist(), "expected", wanted, "got", got)
"""


def expression(random_numbers: random.Random, depth: int = 2) -> str:
    """Integer arithmetic on ``a``, ``b`` and the loop's counter."""
    if depth == 0:
        return random_numbers.choice(["a", "b", "i", "a", "2", "3"])
    one = expression(random_numbers, depth - 1)
    other = expression(random_numbers, depth - 1)
    known = ["({} + {})", "({} - {})", "({} * {})", "abs({} - b)", "(-(a * 1) + {})"]
    return random_numbers.choice(known).format(one, other)


def program(number: int, random_numbers: random.Random) -> str:
    """A function that reads or stores where a test lets it."""
    place = f"a * 1 + ({expression(random_numbers)})"
    low = random_numbers.choice(["a > 0", "a >= 0 and b >= 0", f"{place} > -3", "b < 9"])
    high = random_numbers.choice(["j < x.shape[0]", "j <= x.shape[0] - 1", "j < 4", "j != 5"])
    use = random_numbers.choice(
        ["s += x[j]", "x[j] = 1.0", "x[j] += 2.0", "s += np.sum(x[j:j + 2])", "s += np.sum(x[a:j])"]
    )
    return f"""
def f{number}(x, k):
    s = 0.0
    for i in range(k.shape[0] - 1):
        a = k[i]
        b = k[i + 1]
        if {low}:
            j = {place}
            if {high}:
                {use}
    return s
"""


@pytest.mark.parametrize("seed", range(COUNT // BATCH))
def test_random_programs(seed, tmp_path):
    random_numbers = random.Random(seed)
    text = "".join(program(k, random_numbers) for k in range(BATCH))
    extreme = [[random_numbers.choice(ENDS) for _ in range(4)] for _ in range(BATCH)]
    ran(tmp_path, text, COMPARE, repr(extreme))


INTEGERS = """
def f0(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = int(x[0] * np.nan)
        if abs(a) < x.shape[0]:
            s += x[abs(a)]
    return s


def f1(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = int(x[0] * np.inf)
        if a < x.shape[0]:
            s += a
    return s


def f2(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = int(x[0] * -1e300)
        if abs(a) < x.shape[0]:
            s += x[abs(a)]
    return s


def f3(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        s += int(x[i] * 0.75) + int(-x[i])
    return s
"""


def test_python_integers(tmp_path):
    ran(tmp_path, INTEGERS, COMPARE, "[[0, 0], [0, 0], [0, 0], [0, 1]]")


def doubled(x: Any, n: int) -> Any:
    total = 0.0
    for i in range(3):
        if n > 0 and 2 * n < x.shape[0]:
            total += x[2 * n] * i
    return total


def offset(x: Any, n: int) -> Any:
    total = 0.0
    for i in range(2):
        if n >= 0 and n * 4 + i < x.shape[0]:
            total += x[n * 4 + i]
    return total


def summed(x: Any, n: int) -> Any:
    for i in range(2):
        if n > 0 and n + n < x.shape[0]:
            x[n + n] = 7.0 + i
    return np.sum(x)


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # 2**63 is in no kernel
@pytest.mark.parametrize("boundscheck", [None, True])
@pytest.mark.parametrize("function", [doubled, offset, summed], ids=lambda f: f.__name__)
def test_large_integers_of_python_are_known(function: Any, boundscheck: Any) -> None:
    jitted = calque.jit(function, boundscheck=boundscheck)
    powers = [2**k + d for k in (30, 31, 32, 53, 61, 62, 63, 70) for d in (-1, 0, 3)]
    for n in (1, *powers, 0, 1):
        around = np.full(64, 100.0)
        x = around[30:34]
        x[:] = [1.0, 2.0, 4.0, 8.0]
        assert jitted(x, n) == function(x.copy(), n), n
        assert np.all(np.delete(around, range(30, 34)) == 100.0)
