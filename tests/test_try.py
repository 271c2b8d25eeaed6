"""``try``: the handler that plain Python runs is the one whose derivative is taken."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

MATRIX = np.array([[3.0, 1.0], [1.0, 2.0]])
VECTOR = np.array([0.3, 0.9, 1.7])


class Unconverged(Exception):
    """An error of the user's own."""


def halves(x, y):
    for _ in range(60):
        if abs(x - y) < 1e-9:
            return x
        x = 0.5 * (x + y)
        if x > 3.0:
            raise Unconverged("far away")
    raise Unconverged("no convergence")


def checked(x):
    if x < 0.2:
        raise ValueError("too small")
    return x * x


class Fluid:
    def __init__(self, density):
        self.density = density

    def speed(self, x):
        if x > 0.6:
            raise KeyError("fast")
        if x < 0.2:
            raise ValueError("slow")
        return self.density * x


# the body's errors are known while it is translated


def attribute(x):
    try:
        count = x.shape[0]
    except (AttributeError, IndexError):
        count, x = 1, np.array([x])
    return np.sum(x * x) / count


def iterated(x):
    try:
        iter(x)
    except TypeError:
        return 3.0 * x
    return np.sum(x)


def length(x):
    try:
        n = len(x)
    except TypeError:
        x, n = np.array([x]), 1
    return np.sum(np.sin(x)) / n


def imported(x):
    try:
        from no_such_module import fast
    except ImportError:
        fast = np.tanh
    else:
        x = 2.0 * x
    return fast(x) * x


def keyed(x):
    table = {"a": 2.0}
    try:
        c = table["b"]
    except KeyError:
        c = 3.0
    return c * x * x


def nested(x):
    try:
        try:
            c = {}["b"]
        except TypeError:
            c = 1.0
    except KeyError:
        c = 5.0
    else:
        c = 7.0
    finally:
        y = x * x
    return c * y


def suppressed(x):
    y = x
    with contextlib.suppress(TypeError, KeyError):
        y = y * x
        y = {}["b"]
    return y * x


# errors of the run


def divided(x, y):
    try:
        r = x / y
    except ZeroDivisionError:
        r = x * x
    return r * x


def divided_in_place(x, y):
    r = x
    try:
        r = x * 3.0
        r = r + 1.0 / y
    except ZeroDivisionError:
        r = r * x  # of the store before the error
    return r


def domain(x):
    try:
        y = math.sqrt(x - 0.3) + math.log(x)
    except ValueError:
        y = x**3
    return y * x


def overflow(x):
    try:
        y = math.exp(1000.0 * x)
    except OverflowError:
        y = 2.0 * x
    return y


def raised(x):
    try:
        if x > 0.5:
            raise ValueError("large")
        y = x * x
    except ValueError:
        y = 3.0 * x
    return y


def raised_of_two_classes(x):
    try:
        if x > 0.6:
            raise ValueError("large")
        if x < 0.3:
            raise KeyError("small")
        y = x * x
    except KeyError:
        y = 3.0 * x
    except (ValueError, TypeError):
        y = 5.0 * x
    else:
        y = 2.0 * y
    return y


def in_helper(x):
    try:
        return 2.0 * checked(x) + checked(2.0 * x)
    except ValueError:
        return -x


def in_loop_of_helper(x):
    try:
        r = halves(x, 0.1) + halves(3.0 * x, 8.0 * x)
    except Unconverged:
        r = 7.0 * x
    return r


def in_method(x):
    try:
        fluid = Fluid(x)
        y = fluid.speed(2.0 * x)
    except KeyError:
        y = x * x
    except ValueError:
        y = -2.0 * x
    return y


def try_in_loop(x):
    total = 0.0
    for i in range(4):
        try:
            total += checked(x * i) * 2.0
        except ValueError:
            total += x
            continue
        total += 0.5 * x * i
    return total


def break_in_try(x):
    total = x
    for i in range(6):
        try:
            if total > 2.0:
                raise ValueError("enough")
            total = total * (1.0 + x)
        except ValueError:
            break
        finally:
            total = total + 0.25 * x
    return total


def return_in_try(x):
    for i in range(5):
        try:
            if x * i > 1.0:
                return x * i
        except ValueError:
            return 0.0
        finally:
            x = x * 1.5
    return x


def while_test(x):
    k, y = 0, x
    try:
        while checked(y) < 2.0:
            y = y * 1.5 - 0.1
            k += 1
    except ValueError:
        y = 10.0 * y
    return y


def wrapped(x):
    try:
        return checked(x)
    except ValueError as error:
        raise KeyError("no value") from error


def again(x):
    try:
        return checked(x)
    except ValueError:
        x = x * 2.0
        raise


def other_class(x):
    try:
        return checked(x)
    except KeyError:
        return 0.0 * x


def outer_takes(x):
    try:
        try:
            y = checked(x)
        except KeyError:
            y = 0.0
        finally:
            x = 2.0 * x
    except ValueError:
        y = 3.0 * x
    return y


def handler_raises(x):
    try:
        try:
            y = checked(x)
        except ValueError:
            if x < 0.1:
                raise KeyError("tiny") from None
            y = 5.0 * x
    except KeyError:
        y = 11.0 * x
    return y


def conditional(x):
    try:
        y = checked(x) if x < 0.5 else 2.0 * x
        z = 1.0 + checked(3.0 * x) if y > 0.0 else x
    except ValueError:
        z = 4.0 * x
    return z


def key_on_one_path(x):
    table = {"a": 2.0}
    try:
        if x > 0.5:
            scale = table["b"]
        else:
            scale = table["a"]
    except KeyError:
        scale = 5.0
    return scale * x


def return_before_finally(x):
    y = 2.0 * x
    try:
        if x > 0.5:
            return y
    finally:
        y = y + 1.0
    return y * x


def asserted(x):
    try:
        assert x > 0.3, "small"
        y = x * x
    except AssertionError:
        y = 3.0 * x
    return y


def tuple_of_helper(x):
    def pair(x):
        if x > 0.5:
            raise ArithmeticError
        return x, x * x

    try:
        a, b = pair(x)
    except ArithmeticError:
        a, b = x, 1.0
    return a * b


def power(x, y):
    try:
        return x**y
    except (ZeroDivisionError, OverflowError):
        return y * 2.0 + x


def index(x, shift):
    total = 0.0
    for i in range(3):
        try:
            d = x[i + shift] - x[i]
        except IndexError:
            d = x[i]
        total += d * d
    return total


def solved(a):
    try:
        y = np.linalg.solve(a, np.array([1.0, 2.0]))
    except np.linalg.LinAlgError:
        y = a[0] * a[1]
    return np.sum(y * y)


def any_error(x):
    try:
        y = 1.0 / (x - 0.5) + checked(x)
    except Exception:
        y = x
    return y


CASES = [
    *[(f, (v,)) for f in (attribute, iterated, length) for v in (0.4, VECTOR)],
    *[(f, (0.4,)) for f in (imported, keyed, nested, suppressed)],
    *[(divided, (0.7, y)) for y in (0.5, 0.0)],
    *[(divided_in_place, (0.7, y)) for y in (0.5, 0.0)],
    *[(domain, (x,)) for x in (0.2, 0.7, -0.4)],
    *[(overflow, (x,)) for x in (0.3, 0.9)],
    *[(raised, (x,)) for x in (0.3, 0.9)],
    *[(raised_of_two_classes, (x,)) for x in (0.1, 0.45, 0.9)],
    *[(in_helper, (x,)) for x in (0.05, 0.15, 0.7)],
    *[(in_loop_of_helper, (x,)) for x in (0.2, 0.7, 5.0)],
    *[(in_method, (x,)) for x in (0.09, 0.25, 0.7)],
    *[(try_in_loop, (x,)) for x in (0.05, 0.15, 0.7)],
    *[(break_in_try, (x,)) for x in (0.1, 0.5, 3.0)],
    *[(return_in_try, (x,)) for x in (0.05, 0.3, 0.7)],
    *[(while_test, (x,)) for x in (0.1, 0.21, 0.3, 2.0)],
    *[(wrapped, (0.7,)), (again, (0.7,)), (other_class, (0.7,))],
    *[(outer_takes, (x,)) for x in (0.1, 0.7)],
    *[(handler_raises, (x,)) for x in (0.05, 0.15, 0.7)],
    *[(conditional, (x,)) for x in (0.05, 0.15, 0.4, 0.7)],
    *[(f, (x,)) for f in (key_on_one_path, return_before_finally) for x in (0.3, 0.7)],
    *[(asserted, (x,)) for x in (0.1, 0.7)],
    *[(tuple_of_helper, (x,)) for x in (0.3, 0.7)],
    *[(power, args) for args in ((2.0, 3.0), (0.0, -1.0), (1e200, 2.0))],
    *[(index, (VECTOR, shift)) for shift in (0, 1, 5, -2)],
    *[(solved, (a,)) for a in (MATRIX, np.array([[1.0, 2.0], [2.0, 4.0]]))],
    *[(any_error, (x,)) for x in (0.1, 0.5, 0.7)],
]


def difference(function, args):
    x, h = np.asarray(args[0], float), 1e-6
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * h
            moved = float(moved) if moved.ndim == 0 else moved
            ends.append(function(moved, *args[1:]))
        found[at] = (ends[0] - ends[1]) / (2 * h)
    return found


@pytest.mark.filterwarnings("ignore::calque.runtime.call.fallback.JitFallback")
@pytest.mark.parametrize("function, args", CASES)
def test_value_and_gradient(function, args):
    value = function(*args)
    np.testing.assert_allclose(calque.jit(function)(*args), value, rtol=1e-12)
    singular = function is solved and np.linalg.matrix_rank(args[0]) < 2
    if singular or (function is any_error and args[0] == 0.5) or function is power:
        wanted = None  # the test itself moves with x
    else:
        wanted = difference(function, args)
    for run in (calque.grad(function), calque.jit(calque.grad(function))):
        slope = run(*args)
        if wanted is not None:
            np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("function", [raised, in_helper, in_loop_of_helper, in_method, conditional])
def test_examples_take_ways_of_their_own(function):
    xs = np.array([0.05, 0.15, 0.25, 0.4, 0.7])
    values = [function(float(x)) for x in xs]
    slopes = [difference(function, (float(x),)) for x in xs]
    np.testing.assert_allclose(calque.vmap(function)(xs), values)
    np.testing.assert_allclose(calque.vmap(calque.grad(function))(xs), slopes, rtol=1e-4)
    np.testing.assert_allclose(
        calque.jit(calque.vmap(calque.grad(function)))(xs), slopes, rtol=1e-4
    )


@pytest.mark.parametrize(
    "function, kind, text",
    [(wrapped, KeyError, "no value"), (again, ValueError, "too small")]
    + [(other_class, ValueError, "too small")],
)
def test_an_error_that_no_handler_takes(function, kind, text):
    for run in (calque.jit(function), calque.grad(function)):
        with pytest.raises(kind, match=text):
            run(0.1)


def test_zero_of_numpy_is_no_error():
    x, y = np.float64(0.7), np.float64(0.0)
    with np.errstate(divide="ignore"):
        assert calque.jit(divided)(x, y) == divided(x, y) == np.inf


def comprehended(x):
    try:
        return sum([checked(x * k) for k in (1.0, 2.0)])
    except ValueError:
        return 0.0 * x


def factored(a):
    try:
        return np.sum(np.linalg.eigvalsh(a))
    except np.linalg.LinAlgError:
        return 0.0


@pytest.mark.parametrize("function, x", [(comprehended, 0.1), (factored, -MATRIX)])
def test_what_no_test_protects_is_refused(function, x):
    with pytest.raises(CalqueError, match="handler for it"):
        calque.jit(function)(x)
