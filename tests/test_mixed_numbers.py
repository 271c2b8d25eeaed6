"""Numbers of several classes where paths meet: each keeps its value, and computes as its class.

A Python float adapts to the arrays it meets (NEP 50), a float32 does not; NumPy's truths add up to
a truth, Python's to an integer; an integer beyond 2**53 is no float. The oracle is the function.
"""

from __future__ import annotations

import mixed_programs
import numpy as np
import pytest
from programs_as_files import as_numpy, imported, outcome
from sampling import sampled

import calque
from calque.transpiler.errors import CalqueError

X, H = np.array([0.3, -1.2]), np.array([1.5, 0.1], "f4")
C, K = np.array([20, 100], "i1"), np.array([3, 2**53 + 1])


def branch(x, h):
    t = 0.1
    if x[0] < 0.0:
        t = h[0]
    return t, t * 0.3, t * h, t * x, -t, abs(t), t > 0.1, t > 0.0, np.sqrt(t), float(t)


def large(x, h):
    t = 1e300
    if x[0] < 0.0:
        t = h[0]
    return t


def conditional(x, h, w):
    t = w if x[0] < 0.0 else h[0]
    return t, t + 0.1, t * h, np.full(2, t), np.array([t, 1.0]), round(t, 3), max(t, 0.3)


def early(x, h):
    if x[0] < 0.0:
        return 0.1
    return h[0]


def integers(x, c):
    t = 1000
    if x[0] < 0.0:
        t = c[0]
    return t, t + t, t // 7, t * 1.5


def truths(x):
    t = 2
    for i in range(x.size):
        t = x[i] > -5.0
    return t + t, ~t, not t


def truths_of_both(x):
    t = not x[0] > 5.0
    if x[1] < 0.0:
        t = x[1] < 5.0
    return t + t, ~t, t & True, t * 2


def searched(k):
    best = -np.inf
    for i in range(k.size):
        if k[i] > best:
            best = k[i]
    return best > 2**53, best // 2 == 2**52, int(best) == 2**53 + 1


def summed(h):
    s = 0.0
    for i in range(h.size):
        s += h[i]
    return s, s / h.size


def summed_from(h):
    s = 0.1
    for i in range(h.size):
        s += h[i]
    return s


def averaged(h, a):
    s = 0.3
    y = np.zeros_like(h)
    for i in range(h.size):
        s = a * s + (1 - a) * h[i]
        y[i] = s
    return y, s


def first_iteration(x, h):
    s, y = 1.0, np.zeros_like(x)
    for i in range(x.size):
        y[i] = s / 3
        s = h[i]
    return y, s


def stored(x, h, c):
    t = 0.1
    if x[0] < 0.0:
        t = h[1]
    y, g, m = np.zeros(2), np.zeros(2, "f4"), np.zeros(2, "i8")
    y[0], g[0], m[0] = t, t, 10 * t
    y[1] += t
    g[1] -= t
    return y, g, m


def by_match(n, h):
    match n:
        case 0:
            t = 0.1
        case 1:
            t = h[1]
        case _:
            t = 3
    return t, t * 0.7, t + h


def two_of_them(x, h):
    t, u = 0.1, 0.7
    if x[0] < 0.0:
        t = h[0]
    if x[1] < 0.0:
        u = h[1]
    return t + u, t * u - t, t > u


def in_containers(x, h):
    d = {"a": 0.1}
    items = [0.1, (0.7, h[0])]
    if x[0] < 0.0:
        d["a"] = h[0]
        items[0] = h[1]
    return d["a"] * 0.3, items[0] + items[1][0], items[1][1] * items[0]


def nested(x, h):
    t = 0.1
    for i in range(x.size):
        if x[i] < 0.0:
            t = h[i]
        elif x[i] > 0.2:
            t = t * 0.7
    return t, t * 0.3


def while_loop(x, h):
    t, i = 0.1, 0
    while i < x.size and t < 1.0:
        t = t * 3.0 if x[i] > 0.0 else h[i]
        i += 1
    return t, t * 0.3


def list_of_pythons_floats(h, n):
    out = [0.1]
    for _ in range(n):
        out.append(out[-1] + 0.1)
    return h * out[2], out[-1] * h[0], np.array(out)


def list_of_both(h, n):
    out = [0.1]
    for i in range(h.size):
        out.append(out[-1] * h[i])
    return np.array(out), out[-1]


def list_that_must_tell(h, n):
    out = [0.1]
    for i in range(h.size):
        out.append(out[-1] * 0.3 if h[i] > 0 else h[i])
    return np.array(out)


def list_of_integers(h, n):
    out, t = [], 1.0
    for i in range(n):
        out.append(i * 2)
    for k in out:
        t = t * 2 ** (-k)
    return t, out[1] * h


def lists_of_truths(h, n):
    ours, theirs = [], []
    for _ in range(n):
        ours.append(not h[0] > 0)
        theirs.append(h[1] > 0)
    return ours[0] + ours[1], theirs[0] + theirs[1]


def list_of_tuples(h, n):
    out = []
    for i in range(n):
        out.append((i * 0.1, h[0]))
    a, b = out[1]
    return a * h, b * a, a * a


def zero_of_either_sign(x):
    t = 0.0
    if x[0] < 0.0:
        t = -0.0
    return np.copysign(1.0, t)


CASES = [
    *[(f, (s * X, H)) for f in (branch, large, early, two_of_them, in_containers) for s in (1, -1)],
    *[(f, (s * X, H)) for f in (first_iteration, nested, while_loop) for s in (1, -1)],
    *[(conditional, (s * X, H, 0.7)) for s in (1, -1)],
    *[(integers, (s * X, C)) for s in (1, -1)],
    *[(f, (s * X,)) for f in (truths, truths_of_both, zero_of_either_sign) for s in (1, -1)],
    *[(searched, (k,)) for k in (K, K[::-1].copy(), K[:0], C, C.astype("i8"))],
    *[(f, (h,)) for f in (summed, summed_from) for h in (H, H[:1])],
    *[(summed_from, (H[:0],)), (averaged, (H, 0.25)), (averaged, (H, 0.3))],
    *[(stored, (s * X, H, C)) for s in (1, -1)],
    *[(by_match, (n, H)) for n in (0, 1, 2)],
    *[(f, (s * H, 3)) for f in (list_of_both, list_that_must_tell, lists_of_truths) for s in (1, -1)],
    *[(f, (H, 3)) for f in (list_of_pythons_floats, list_of_integers, list_of_tuples)],
]


def parts(value):
    return [p for v in value for p in parts(v)] if isinstance(value, (tuple, list)) else [value]


def exact(value):
    """A number, or the elements of an array, such that equal values are equal.

    The dtype is not part of it: what arms give in two dtypes has the wider one.
    """
    value = np.asarray(value)
    if value.ndim:
        return (value.shape, [exact(v) for v in value.ravel()])
    found = value.item()
    whole = isinstance(found, int) or (np.isfinite(found) and found == int(found))
    return int(found) if whole else repr(found)


def assert_exact(found, wanted):
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), (found, wanted)
        return
    if isinstance(found, Exception):
        raise found
    assert list(map(exact, parts(found))) == list(map(exact, parts(wanted)))


def assert_close(found, wanted):
    """Equal but for the last bits of each number's own precision: kernels contract."""
    for f, w in zip(parts(found), parts(wanted), strict=True):
        f, w = np.asarray(f), np.asarray(w)
        rtol = 3e-7 if w.dtype in (np.float32, np.float16) else 1e-14
        np.testing.assert_allclose(f.astype(float), w.astype(float), rtol=rtol, atol=1e-30)


@pytest.mark.parametrize("f, args", CASES, ids=lambda v: getattr(v, "__name__", None))
def test_numbers_keep_their_classes(f, args):
    wanted = outcome(f, args)
    assert_exact(outcome(as_numpy(f), args), wanted)
    found = outcome(calque.jit(f), args)
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        assert_exact(found, wanted)
    else:
        assert_close(found, wanted)


def test_common_code_says_nothing_of_classes():
    text = calque.source(calque.jit(summed), H) + calque.source(calque.jit(calque.grad(energy)), X, 2.0)
    assert "_is_" not in text and "_class" not in text
    assert "s += h[i]" in text


def energy(x, k):
    s = 0.0
    for i in range(x.size):
        s += k * x[i] ** 2
    return s / 2


def test_an_integer_that_a_float_does_not_hold_is_refused():
    def largest(k):
        best = -np.inf
        for i in range(k.size):
            if k[i] > best:
                best = k[i]
        return best

    for form in (as_numpy(largest), calque.jit(largest)):
        assert form(np.array([3, 2**53])) == 2**53
        assert form(K[:0]) == -np.inf
        with pytest.raises(OverflowError, match="loses digits"):
            form(K)


def test_gradients_and_batches():
    def f(x, h):
        t = 0.1
        if x[0] < 0.0:
            t = h[0]
        return x[1] * t * 0.3

    for form in (calque.grad(f), calque.jit(calque.grad(f))):
        np.testing.assert_array_equal(form(X, H), [0.0, 0.1 * 0.3])
        np.testing.assert_array_equal(form(-X, H), [0.0, float(H[0]) * 0.3])
    batched = calque.vmap(f, in_axes=(0, None))
    for form in (batched, calque.jit(batched)):
        found = form(np.array([X, -X]), H)
        np.testing.assert_allclose(found, [f(X, H), f(-X, H)], rtol=1e-15)


def floors(x):
    s = 0.0
    for v in x:
        s += max(v, 0.1) * v
    return s


def clamps(x):
    s = 0.0
    for v in x:
        if v < 0.1:
            v = 0.1
        s += np.log(max(v, 1e-9)) + v * v
    return s


def the_last_large_one(x):
    t = 0.1
    for v in x:
        if v > 0.5:
            t = v
    return t * 2


def the_least(x):
    least = 0.7
    for v in x:
        if v < least:
            least = v
    return least


def of_a_few(x):
    return max(0.1, x[0], 0.2) * min(x[1], 0.7) + sum(v if v > 0.1 else 0.1 for v in x)


@pytest.mark.parametrize("f", [floors, clamps, the_last_large_one, the_least, of_a_few])
def test_gradients_of_float32_beside_numbers_that_it_does_not_hold(f):
    x = np.array([1.0, 0.05, 0.6], np.float32)
    wide, steps = x.astype(float), 1e-6 * np.eye(3)
    slopes = [(f(wide + step) - f(wide - step)) / 2e-6 for step in steps]
    batched = lambda x: calque.vmap(calque.grad(f))(np.stack([x, x]))[1]
    for form in (calque.grad(f), calque.jit(calque.grad(f)), calque.jacrev(f), batched):
        found = form(x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, slopes, rtol=1e-5)


def truths(x):
    found = x > 1.0
    if x > 0.0:
        found = True
    made = np.asarray(found), np.array(found), np.bool_(found)
    return made[0] + made[0], ~made[0], made[1] + made[1], made[2] + made[2], 1.0 * ~made[2]


@pytest.mark.parametrize("x", [2.0, 0.5, -1.0])
def test_conversions_make_a_truth_numpys_on_all_paths(x):
    for form in (as_numpy(truths), calque.jit(truths)):
        assert_exact(form(np.float64(x)), truths(np.float64(x)))


SEEDS = range(1500)


def program(seed, folder):
    f = imported(mixed_programs.text(seed), folder / f"mixed_program_{seed}.py")
    args = mixed_programs.arguments(seed)
    wanted = outcome(f, args)
    if isinstance(wanted, Exception):
        pytest.skip("what Python raises may stand in code that no result needs")
    return f, args, wanted


def is_refused(found):
    """Refused with a line, or at run time where a class would lose digits of the other's."""
    return isinstance(found, CalqueError) or "loses digits" in str(found)


@pytest.mark.parametrize("seed", sampled(SEEDS, 8))
def test_random_programs_in_numpy_source(seed, tmp_path):
    f, args, wanted = program(seed, tmp_path)
    found = outcome(as_numpy(f), args)
    if not is_refused(found):
        assert_exact(found, wanted)


def test_few_random_programs_are_refused(tmp_path):
    found = []
    for seed in range(0, 60):
        f = imported(mixed_programs.text(seed), tmp_path / f"mixed_program_{seed}.py")
        args = mixed_programs.arguments(seed)
        if not isinstance(outcome(f, args), Exception):
            found.append(is_refused(outcome(as_numpy(f), args)))
    assert sum(found) < len(found) // 8
