"""Stencils on a GPU: a step reads one array and stores into another, with no copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin
from cuda_emulator.running import ON_CARD, cuda_text, installed, on_cuda, to_device, to_host

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(9)


def line(u, steps):
    for _ in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])


def plane(u, kappa, steps):
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * (around - 4.0 * inner)
    return np.sum(u * u)


def space(u, steps):
    for _ in range(steps):
        inner = u[1:-1, 1:-1, 1:-1]
        along = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
        across = u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        deep = u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
        u[1:-1, 1:-1, 1:-1] = inner + 0.1 * (along + across + deep - 6.0 * inner)
    return np.sum(u * u)


def upwind(u, speed, steps):
    for _ in range(steps):
        u[1:] = u[1:] - speed * (u[1:] - u[:-1])
    return u


def wide(u, steps):
    for _ in range(steps):
        u[2:-2] = (u[:-4] + u[1:-3] + u[2:-2] + u[3:-1] + u[4:]) / 5.0
    return u


def walls(u, steps):
    for t in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
        u[0] = u[1]
        u[-1] = 0.25 * t
    return u


def walls_first(u, steps):
    for t in range(steps):
        u[0] = u[1] + 0.1 * t
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return u


def renamed(u, steps):
    for _ in range(steps):
        new = u.copy()
        new[1:-1] = 0.5 * (u[:-2] + u[2:])
        u = new
    return u


def renewed(u, steps):
    for _ in range(steps):
        new = np.zeros_like(u)
        new[1:-1] = 0.5 * (u[:-2] + u[2:])
        u = new
    return u


def swapped(u, steps):
    u = u.copy()
    v = u.copy()
    for _ in range(steps):
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        u, v = v, u
    return u


def compared(u, steps):
    old = u
    for _ in range(steps):
        new = u.copy()
        new[1:-1] = 0.5 * (u[:-2] + u[2:])
        u = new
    return u - old


def two_fields(u, v, steps):
    for _ in range(steps):
        du = u[:-2] + u[2:] - 2.0 * u[1:-1] - u[1:-1] * v[1:-1]
        dv = v[:-2] + v[2:] - 2.0 * v[1:-1] + u[1:-1] * v[1:-1]
        u[1:-1] += 0.1 * du
        v[1:-1] += 0.1 * dv
    return np.sum(u * v)


def with_error(u, steps):
    error = 0.0
    for _ in range(steps):
        new = 0.5 * (u[:-2] + u[2:])
        error = np.max(np.abs(new - u[1:-1]))
        u[1:-1] = new
    return error


def masked(u, steps):
    for _ in range(steps):
        around = u[:-2] + u[2:]
        u[1:-1] = np.where(around > 0.0, 0.5 * around, u[1:-1])
    return u


def red_and_black(u, steps):
    for _ in range(steps):
        u[1:-1:2] = 0.5 * (u[:-2:2] + u[2::2])
        u[2:-1:2] = 0.5 * (u[1:-2:2] + u[3::2])
    return u


def history(u, steps):
    for t in range(1, steps):
        u[t, 1:-1] = 0.5 * (u[t - 1, :-2] + u[t - 1, 2:])
    return u


def seen_through_a_view(u, steps):
    left = u[:3]
    for _ in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return left * 2.0


def by_loops(u, steps):
    n, m = u.shape
    for _ in range(steps):
        old = u.copy()
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = 0.25 * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1])
    return np.sum(u)


def vector(size):
    return RNG.standard_normal(size)


def matrix(*shape):
    return RNG.standard_normal(shape)


FAMILY: dict[Callable[..., Any], tuple[Any, ...]] = {
    line: (vector(37),),
    plane: (matrix(11, 9), abs(matrix(11, 9))),
    space: (matrix(7, 6, 5),),
    upwind: (vector(40), 0.3),
    wide: (vector(23),),
    walls: (vector(19),),
    walls_first: (vector(19),),
    renamed: (vector(31),),
    renewed: (vector(31),),
    swapped: (vector(31),),
    compared: (vector(31),),
    two_fields: (vector(29), vector(29)),
    with_error: (vector(29),),
    masked: (vector(29),),
    red_and_black: (vector(31),),
    history: (matrix(6, 13),),
    seen_through_a_view: (vector(17),),
    by_loops: (matrix(9, 8),),
}
SMALL = (2, 3, 4, 5)
DIFFERENTIABLE = (plane, space, upwind, wide, walls, renamed, renewed, two_fields, masked, by_loops)


def on_device(function, *args):
    """Run a function on the device; return its result, and its arguments as they are afterwards."""
    transformed = calque.jit(function)
    program, _ = transformed.cuda_programs().find(args, {})
    with installed():
        given = [to_device(a) for a in args]
        result = program.call(*given)
        return to_host(result), [to_host(a) for a in given]


def plainly(function, *args):
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    return function(*given), given


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("function", FAMILY, ids=lambda f: f.__name__)
def test_steps_are_numpys(function, steps):
    args = (*FAMILY[function], steps)
    if function is with_error and not steps:
        return
    result, given = on_device(function, *args)
    want, after = plainly(function, *args)
    if want is not None:
        np.testing.assert_allclose(result, want, rtol=1e-12, atol=1e-13)
    for mine, theirs in zip(given, after, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("size", SMALL)
@pytest.mark.parametrize("function", [line, walls, renamed, upwind, masked])
def test_few_cells(function, size):
    args = (vector(size), 0.3, 3) if function is upwind else (vector(size), 3)
    result, given = on_device(function, *args)
    want, after = plainly(function, *args)
    if want is not None:
        np.testing.assert_allclose(result, want, rtol=1e-12)
    np.testing.assert_allclose(given[0], after[0], rtol=1e-12)


@pytest.mark.parametrize("order", [1, 7])
@pytest.mark.parametrize("function", [plane, walls, two_fields], ids=lambda f: f.__name__)
def test_in_any_order_of_threads(function, order):
    args = (*FAMILY[function], 3)
    result = on_cuda(calque.jit(function), *args, order=order)
    np.testing.assert_allclose(result, plainly(function, *args)[0], rtol=1e-12)


@pytest.mark.parametrize("function", DIFFERENTIABLE, ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_cpu(function):
    args = (*FAMILY[function], 3)

    def loss(*given):
        u, *rest = given
        return np.sum(function(u.copy(), *rest) ** 2)

    wanted = tuple(k for k, a in enumerate(args) if isinstance(a, np.ndarray))
    gradient = calque.grad(loss, argnums=wanted)
    want = gradient(*args)
    found = on_cuda(calque.jit(gradient), *args)
    for mine, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "i8", "i4"])
def test_other_dtypes(dtype):
    u = (10 * vector(20)).astype(dtype)

    def step(u, steps):
        for _ in range(steps):
            u[1:-1] = u[:-2] + u[2:]
        return u

    result, given = on_device(step, u, 3)
    want, after = plainly(step, u, 3)
    np.testing.assert_allclose(result, want, rtol=1e-5)
    assert result.dtype == want.dtype and np.allclose(given[0], after[0], rtol=1e-5)


@pytest.mark.skipif(ON_CARD, reason="the emulator counts the bytes")
@pytest.mark.parametrize(
    "function",
    [line, plane, space, upwind, wide, walls, renamed, renewed, by_loops],
    ids=lambda f: f.__name__,
)
def test_a_step_moves_no_more_than_it_must(function):
    """Bytes of a step more: the array read and stored, and what else it reads, once each."""
    args = FAMILY[function]
    moved = []
    for steps in (4, 6):
        standin.traffic.clear()
        standin.moved_by_calls.clear()
        on_device(function, *args, steps)
        moved.append(sum(map(sum, standin.traffic)) + sum(standin.moved_by_calls))
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    least = sum(a.nbytes for a in arrays) + arrays[0].nbytes
    slack = 1.1 if function is not walls else 1.3  # cells at the ends, of few
    assert (moved[1] - moved[0]) / 2 <= slack * least


def test_where_it_must_not_apply():
    """A part of an array is stored in place: a new one would be more to move."""
    text = cuda_text(calque.jit(history), matrix(6, 13), 6)
    assert "u_after" not in text and "u_updated = u\n" in text
    text = cuda_text(calque.jit(red_and_black), vector(31), 3)
    assert "u_after" not in text


def test_a_nest_that_begins_the_chain_beside_what_it_makes():
    """The first nest stores both: it may not go with its other array."""
    x = vector(65)
    function = calque.grad(lambda x: np.sum(np.abs(x[1:] - x[:-1]) ** 2))
    np.testing.assert_allclose(on_cuda(function, x), function(x), rtol=1e-13)


def halves_exchanged(x):
    a = x * 1.0
    left, right = a[:3], a[3:]
    left[:], right[:] = right * 2.0, left + 1.0
    return a


def test_what_a_nest_stores_into_beside_is_not_read_by_the_others():
    """The loop that makes the new right half stores into the left one, which the lower half reads."""
    x = np.arange(6.0)
    np.testing.assert_array_equal(on_cuda(halves_exchanged, x), halves_exchanged(x))


def leapfrog(u, steps):
    """A step reads two arrays of earlier ones, of which one is the argument in the second step."""
    v = 1.5 * u
    before, now = u, v
    for _ in range(steps):
        after = np.empty_like(u)
        after[:] = now * 0.5
        after[1:-1] = before[:-2] + now[2:]
        before, now = now, after
    u[:] = now


def old_and_new(u, steps):
    """The argument's first values are read after the loop."""
    first = u[::2] * 1.0
    view = u
    for _ in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return np.sum(first), view[1]


def kept_beside(u, steps):
    now = u
    for _ in range(steps):
        then = np.empty_like(u)
        then[:] = u * 0.25
        then[1:-1] = now[:-2] + now[2:] - u[1:-1]
        now = then
    u[:] = now


def returned(u, steps):
    for _ in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return u, u[1:3]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("function", [line, space, leapfrog, old_and_new, kept_beside, returned])
def test_the_last_step_stores_into_the_argument(function, steps):
    u = matrix(5, 6, 7) if function is space else vector(40)
    (got, given), (want, after) = on_device(function, u, steps), plainly(function, u, steps)
    np.testing.assert_allclose(given[0], after[0], rtol=1e-12)
    pairs = zip(got, want) if isinstance(want, tuple) else [(got, want)]
    for one, other in pairs:
        np.testing.assert_allclose(to_host(one), other, rtol=1e-12) if other is not None else None
    if function is not space:  # every second element of an array: each launch copies it
        with installed():
            whole, same = to_device(np.zeros(80)), np.zeros(80)
            whole[::2], same[::2] = to_device(u), u
            call = calque.jit(function)
            call(whole[::2], steps)
            function(same[::2], steps)
            np.testing.assert_allclose(to_host(whole), same, rtol=1e-12)


@pytest.mark.skipif(ON_CARD, reason="the stand-in counts the bytes")
def test_nothing_is_copied_back():
    u = matrix(12, 12, 12)
    assert "if u_updated is not u:" in cuda_text(space, u, 2)
    for steps in (2, 3, 5):
        standin.traffic.clear()
        standin.moved_by_calls.clear()
        on_cuda(space, u.copy(), steps)
        moved = sum(map(sum, standin.traffic)) + sum(standin.moved_by_calls)
        assert moved < 1.02 * (2 * steps + 1) * u.nbytes
