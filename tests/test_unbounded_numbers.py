"""Indices of carried Python integers that outgrow 64 bits: no stray cell, no signal, right or an error.

A number that a loop doubles, squares or shifts wraps around behind the user's own test. The expected
value is that of the same program on NumPy's integers of 64 bits, or where no kernel is needed that
of plain Python; an error may stand where they differ. Each batch runs in a process of its own.
"""

import random

import numpy as np
import pytest

import calque
from calque.tests.guarded_programs import ran
from calque.tests.sampling import EVERYTHING

BATCH = 12
COUNT = 600 if EVERYTHING else 24

COMPARE = """
class Integer(np.int64):
    '''What ``int`` gives where numbers are NumPy's: as large as 64 bits hold.'''
    large = False
    def __new__(cls, x):
        if not isinstance(x, float):
            return np.int64(x)
        most = 2**63 - 1
        Integer.large |= abs(int(x)) > most
        return np.int64(min(max(int(x), -most), most))

plain, numbers = {"np": np}, {"np": np, "int": Integer}
for names in (plain, numbers):
    exec(path.read_text(), names)
k = np.array([3, 2**62, 1, 2**63 - 1, -(2**63), -5, 2**61, 0])
for name in [name for name in vars(module) if name.startswith("f")]:
    Integer.large = False
    wanted = [outcome(names[name], k) for names in (plain, numbers)]
    f = getattr(module, name)
    for way in ({}, {"boundscheck": True}):
        got = outcome(calque.jit(f, **way), k)
        differ = Integer.large or wanted[0] != wanted[1]
        if got not in wanted and not (got[:2] == ("error", False) and differ):
            print("WRONG", name, way, "expected", wanted, "got", got)
"""

STARTS = ["0", "1", "2", "3", "-1", "-3", "2**31", "3037000500", "2**62"]
CHANGES = [
    "2 * a",
    "a + a",
    "a * a",
    "a * 3 + 1",
    "a - b",
    "a + b",
    "b",
    "a * b",
    "a * 5 - i",
    "-a",
]
CHANGES += [
    "a * 65536",
    "a << 1",
    "b << 3",
    "a + 2**60",
    "b - 2**61",
    "a + int(k[i % 8])",
    "int(k[i % 8])",
    "a + 1",
    "a - 1",
]
CHANGES += [
    "int(x[i % 4] * 1e300)",
    "int(x[i % 4] * -4e18)",
    "int(x[i % 4] * 1e18) + b",
    "a * (i + 2)",
]
CHANGES += [
    "max(a, b) * 2",
    "min(2 * a, int(2**62))",
    "abs(a) * 2",
    "a // 2 + b",
    "(a + b) // 2",
    "2 * b + 1",
]


def expression(random_numbers: random.Random) -> str:
    """An index that is affine in what is carried, with a counter now and then."""
    terms = [
        "{n} * a",
        "{n} * b",
        "a",
        "b",
        "a + b",
        "a - b",
        "a + i",
        "a + i - {n}",
        "{n} * (a + b)",
    ]
    terms += [
        "a + {n}",
        "a - {n}",
        "{n} * a + i",
        "-a",
        "a // 2 + b",
        "a * b",
        "abs(a)",
        "2**63 - 1 - a",
    ]
    return random_numbers.choice(terms).format(n=random_numbers.choice([1, 2, 3, 4, 2**20, 2**27]))


def program(number: int, random_numbers: random.Random) -> str:
    """Return a loop whose iterations change two numbers, and read or store if tests allow it."""
    choose = random_numbers.choice
    place = expression(random_numbers)
    low = choose(["a > 0", "a >= 0 and b >= 0", f"{place} > -3", f"{place} >= 0", "b < 9", "a > b"])
    if choose([True, False]):
        place = f"({place}) + {choose([-1, 1, 2, 'b'])}"
    high = choose(
        ["{} < x.shape[0]", "{} <= x.shape[0] - 1", "{} < 4", "0 <= {} < 4", "x.size > {}"]
    )
    uses = [
        "s += x[{}]",
        "x[{}] = 1.0",
        "x[{}] += 2.0",
        "s += np.sum(x[{}:{} + 2])",
        "s += np.sum(x[a:{}])",
    ]
    uses += ["s += np.sum(x[b:{}])", "x[{}:] += 1.0", "for j in range({}):\n    s += x[j]"]
    uses += ["if b > -9:\n    for j in range(b, {}):\n        s += x[j] * i"]
    uses += ["if {} > -9:\n    for j in range({}, x.shape[0]):\n        x[j] += 1.0"]
    use = choose(uses)
    named = "j" if choose([True, False]) and "for" not in use else f"({place})"
    high, use = high.replace("{}", named), use.replace("{}", named)
    body = [f"a = {choose(CHANGES)}"]
    if choose([True, False]):
        body.append(f"b = {choose(CHANGES)}")
    if choose([True, False]):
        body = [
            f"if {choose(['a > 0', 'i != 2', 'x[0] > 0.5', '2 * a < 2**40'])}:",
            *indented(body),
        ]
    squares = any(" * a" in line.replace("2 * a", "") or "a * b" in line for line in body)
    if choose([True, False, False]) and not squares:
        body = ["for _ in range(3):", *indented(body)]
    used = [f"if {high}:", *indented(use.split("\n"))]
    if named == "j":
        used = [f"j = {place}", *used]
    used = [f"if {low}:", *indented(used)]
    count = 8 if squares else 70  # plain Python's numbers would be long
    iterations = choose([*4 * [[f"for i in range({count}):"]], ["i = 0", f"while i < {count}:"]])
    lines = body + used if choose([True, False]) else used + body
    if len(iterations) == 2:
        lines.append("i += 1")
    starts = [f"a = int({choose(STARTS)})", f"b = int({choose(STARTS)})", "s = 0.0"]
    lines = [*starts, *iterations, *indented(lines), "return s"]
    return "\n".join([f"\ndef f{number}(x, k):", *indented(lines)]) + "\n"


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@pytest.mark.parametrize("seed", range(COUNT // BATCH))
def test_random_programs(seed, tmp_path):
    random_numbers = random.Random(seed)
    ran(tmp_path, "".join(program(k, random_numbers) for k in range(BATCH)), COMPARE)


HOLES = """
def f0(x, k):
    a, s = int(1), 0.0
    for i in range(70):
        a = 2 * a
        if 2 * a + 1 < x.shape[0]:
            s += x[2 * a + 1]
    return s


def f1(x, k):
    a = int(1)
    for i in range(70):
        if 0 <= a and 4 * a < x.shape[0]:
            x[4 * a] += 1.0
        a = a + 2**60
    return x[0]


def f2(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = int(k[i])
        if 0 < a and a + 1 < x.shape[0]:
            s += x[a + 1]
        if a - 1 < x.shape[0] and a < 0:
            s += 1.0
    return s


def f3(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = int(k[i])
        if a < 5:
            for j in range(2, a):
                s += x[j]
    return s


def f4(x, k):
    a, b, s = int(1), int(1), 0.0
    for i in range(100):
        a, b = b, a + b
        if a > 0 and a + b < x.shape[0]:
            s += x[a + b]
    return s


def f5(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = max(int(k[i]), 0)
        if a + 1 < x.shape[0]:
            s += np.sum(x[a + 1 :]) + x[a + 1]
    return s
"""


def test_known_holes(tmp_path):
    ran(tmp_path, HOLES, COMPARE)


def sifted(x):
    k = 0
    while 2 * k + 2 < x.shape[0]:
        x[2 * k + 1] = x[2 * k + 2] + x[k]
        k += 1
    return x


def spread(x):
    k = 5
    for i in range(x.shape[0]):
        for j in range(i):
            k += 3
            if 3 * k + 1 < x.shape[0]:
                x[3 * k + 1] = x[j] + 1.0
    return x


def around(x):
    k, s = 0, 0.0
    for i in range(3 * x.shape[0]):
        k = (5 * k + 1) % x.shape[0]
        if k + 1 < x.shape[0]:
            s += x[k + 1]
    return s


def of_narrow(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = int(k[i])
        if a > 0 and 3 * a < x.shape[0]:
            s += x[3 * a] + x[a - 1]
    return s


def of_tested(x, k):
    s = 0.0
    for i in range(k.shape[0]):
        a = int(k[i])
        if 0 <= a < x.shape[0] - 2:
            s += x[a] + x[a + 2]
    return s


@pytest.mark.parametrize(
    "function, more",
    [
        *((sifted, ()), (spread, ()), (around, ()), (of_narrow, (np.arange(5, dtype=np.int32),))),
        (of_tested, (np.arange(5),)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_numbers_with_bounds_are_not_checked(function, more):
    compiled = calque.jit(function)
    assert "checked_index" not in compiled.source(np.ones(9), *more)
    for n in (3, 9, 40):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(compiled(x.copy(), *more), function(x, *more))
