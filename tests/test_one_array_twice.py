"""One array as two arguments: right where nothing of the caller's is stored into, else refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import AliasUndecided

X = np.array([0.7, 1.4, -0.6, 2.0])


def by_method(a, b):
    v = a.copy()
    v[0] = 2.0 * v[0]
    return np.sum(v * b)


def by_function(a, b):
    v, w = np.copy(a), np.array(b)
    v[1:] *= w[:-1]
    w[0] = v[3]
    return np.sum(v * b) + np.sum(w * a)


def by_arithmetic(a, b):
    a = a * 1.0
    a[0] = 3.0 * b[1]
    a += b
    return np.sum(a * b)


def of_a_part(a, b):
    v = a[1:].copy()
    v[:2] *= b[:2]
    return np.sum(v) * b[0]


def in_a_loop(a, b):
    v = a.copy()
    for i in range(1, len(a)):
        v[i] = v[i - 1] * b[i] + a[i]
    return v[-1]


def on_a_path(a, b):
    v = a.copy() if a[0] > 0 else b.copy()
    v[1] = 0.5 * a[2]
    if b[0] > 1.0:
        v = b.copy()
    v[2] += a[0]
    return np.sum(v * v)


def sorted_first(a, b):
    v = np.sort(a)
    v[0] = b[0]
    w = a.astype(np.float64)
    w.fill(2.0)
    return np.sum(v * b) + np.sum(w)


def flattened(a, b):
    v = a.reshape(2, 2).flatten()
    v[3] = b[0] * b[1]
    return np.sum(v * a)


def in_a_helper(a, b):
    def changed(v):
        v[0] = v[1] * b[1]
        return np.sum(v * b)

    return changed(a.copy()) + changed(b + 1.0)


COPYING = [
    *(by_method, by_function, by_arithmetic, of_a_part, in_a_loop, on_a_path, sorted_first),
    *(flattened, in_a_helper),
]


def slope(fn: Callable[..., Any], *args: Any, of: tuple[int, ...] = (0,)) -> np.ndarray:
    """By differences, of the arguments that are named."""
    found = []
    for e in 1e-6 * np.eye(X.size):
        ends = [[v + s * e if k in of else v for k, v in enumerate(args)] for s in (1.0, -1.0)]
        found.append((fn(*ends[0]) - fn(*ends[1])) / 2e-6)
    return np.array(found)


def check(fn: Callable[..., Any], a: np.ndarray, b: np.ndarray) -> None:
    before = X.copy()
    want, first, second = fn(a, b), slope(fn, a, b), slope(fn, a, b, of=(1,))
    close = lambda found, expected: np.testing.assert_allclose(
        found, expected, rtol=1e-6, atol=1e-8
    )
    for _ in range(2):  # the second time by the table of calls
        close(calque.jit(fn)(a, b), want)
        close(calque.grad(fn)(a, b), first)
        close(calque.jit(calque.value_and_grad(fn, argnums=(0, 1)))(a, b)[1], (first, second))
        close(calque.jvp(fn, (a, b), (a, b))[1], first @ a + second @ b)
        close(calque.vjp(fn, a, b)[1](1.0), (first, second))
        close(calque.jacfwd(fn)(a, b), first)
        close(calque.jacrev(fn, argnums=1)(a, b), second)
        close(calque.jit(lambda x, y: calque.grad(fn)(x, y))(a, b), first)
        close(calque.jit(lambda x: calque.grad(fn)(x, x))(a), slope(fn, a, a))
        close(calque.jit(lambda x: calque.vjp(fn, x, x)[1](1.0)[0])(a), slope(fn, a, a))
        pushed = calque.jit(lambda x: calque.linearize(fn, x, x)[1](x, x))(a)
        close(pushed, slope(fn, a, a, of=(0, 1)) @ a)
    np.testing.assert_array_equal(X, before)


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


@pytest.mark.parametrize("fn", COPYING, ids=lambda fn: fn.__name__)
def test_a_copy_is_stored_into(fn: Callable[..., Any]) -> None:
    check(fn, X, X)
    check(fn, X, X[::-1])
    rows = np.stack([X, 1.5 * X])
    for axes in (0, (0, None), (None, 0)):
        other = [rows if axes == 0 or axes[k] == 0 else X for k in range(2)]
        want = [
            fn(*(x[i] if x is rows else x for x in other))
            for i in range(2)  # type: ignore[misc]
        ]
        np.testing.assert_allclose(calque.vmap(fn, axes)(*other), want, rtol=1e-12)
        found = calque.jit(calque.vmap(calque.grad(fn), axes))(*other)
        for i in range(2):
            args = [x[i] if x is rows else x for x in other]
            np.testing.assert_allclose(found[i], slope(fn, *args), rtol=1e-6, atol=1e-8)
    both = {"a": X, "b": X}
    of_dict = lambda p: fn(p["a"], p["b"])
    np.testing.assert_allclose(calque.jit(of_dict)(both), fn(X, X), rtol=1e-12)
    np.testing.assert_allclose(
        calque.grad(of_dict)(both)["a"], slope(fn, X, X), rtol=1e-6, atol=1e-8
    )


def test_parts_of_one_array_that_overlap() -> None:
    whole = np.array([0.7, 1.4, -0.6, 2.0, 0.3, 1.1])
    for fn in COPYING:
        a, b = whole[1:5], whole[2:6]
        np.testing.assert_allclose(calque.jit(fn)(a, b), fn(a, b), rtol=1e-12)
        np.testing.assert_allclose(calque.grad(fn)(a, b), slope(fn, a, b), rtol=1e-6, atol=1e-8)


def test_second_derivatives() -> None:
    for fn in (by_method, by_arithmetic, in_a_loop):
        gradient = lambda x, y, f=fn: calque.grad(f)(x, y)
        ends = [
            (calque.grad(fn)(X + e, X) - calque.grad(fn)(X - e, X)) / 2e-6 for e in 1e-6 * np.eye(4)
        ]
        along = np.array(ends).T @ X
        found = calque.jvp(gradient, (X, X), (X, np.zeros(4)))[1]
        np.testing.assert_allclose(found, along, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(calque.hvp(fn, (X, X), (X, X))[0].shape, (4,))
        np.testing.assert_allclose(calque.hessian(fn)(X, X), np.array(ends), rtol=1e-5, atol=1e-6)


def test_one_that_is_captured_too() -> None:
    for fn in COPYING:
        of_one = lambda a, f=fn: f(a, X)
        np.testing.assert_allclose(calque.jit(of_one)(X), fn(X, X), rtol=1e-12)
        np.testing.assert_allclose(calque.grad(of_one)(X), slope(fn, X, X), rtol=1e-6, atol=1e-8)


def stored_element(a, b):
    a[0] = 2.0 * b[1]
    return np.sum(a * b)


def stored_slice(a, b):
    a[1:] = b[:-1] + a[1:]
    return np.sum(a * b)


def through_a_view(a, b):
    v = a[1:3]
    v[0] = b[2] * b[1]
    return np.sum(a * b)


def through_a_shape(a, b):
    v = a.reshape(2, 2)
    v[1, 0] = b[2] * b[1]
    return np.sum(a * b)


def in_place(a, b):
    a *= b
    return np.sum(a * b)


def by_out(a, b):
    np.add(a, b, out=a)
    return np.sum(a * b)


def by_a_method(a, b):
    a.sort()
    a.fill(b[0])
    return np.sum(a * b)


def by_copyto(a, b):
    np.copyto(a, 2.0 * b)
    return np.sum(a * b)


def added_at(a, b):
    np.add.at(a, [0, 0, 1], b[:3])
    return np.sum(a * b)


def under_a_test(a, b):
    if b[0] > 0:
        a[0] = 2.0 * b[1]
    return np.sum(a * b)


def at_each_iteration(a, b):
    for i in range(1, len(a)):
        a[i] = a[i - 1] * b[i]
    return np.sum(a * b)


def the_second(a, b):
    v = a.copy()
    b[0] = v[1]
    v[2] = b[0]
    return np.sum(a * b) + v[2]


def by_a_helper(a, b):
    def change(v):
        v[0] = b[1]

    change(a)
    return np.sum(a * b)


STORING = [
    *(stored_element, stored_slice, through_a_view, through_a_shape, in_place, by_out),
    *(by_a_method, by_copyto, added_at, under_a_test, at_each_iteration, the_second, by_a_helper),
]
FORMS: dict[str, Callable[..., Any]] = {
    "jit": lambda fn, a, b: calque.jit(fn)(a, b),
    "grad": lambda fn, a, b: calque.grad(fn)(a, b),
    "jit of grad": lambda fn, a, b: calque.jit(calque.grad(fn))(a, b),
    "jvp": lambda fn, a, b: calque.jvp(fn, (a, b), (a, b)),
    "vjp": lambda fn, a, b: calque.vjp(fn, a, b)[1](1.0),
    "jacfwd": lambda fn, a, b: calque.jacfwd(fn, argnums=(0, 1))(a, b),
    "hessian": lambda fn, a, b: calque.hessian(fn)(a, b),
    "within": lambda fn, a, b: calque.jit(lambda x, y: calque.grad(fn)(x, y))(a, b),
    "rows": lambda fn, a, b: calque.vmap(fn)(np.stack([a, a])[:1], np.stack([b, b])[:1]),
    "one row": lambda fn, a, b: calque.vmap(fn, (0, None))(a[None], b),
}


@pytest.mark.parametrize("fn", STORING, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("form", [f for f in FORMS if f != "rows"])
def test_what_is_stored_into_is_no_other_argument(fn: Callable[..., Any], form: str) -> None:
    run = FORMS[form]
    run(fn, X.copy(), X.copy())
    for _ in range(2):
        whole = X.copy()
        with pytest.raises(AliasUndecided, match="shares memory with another argument"):
            run(fn, whole, whole)
        np.testing.assert_array_equal(whole, X)
    wide = np.append(X, 1.0)
    with pytest.raises(AliasUndecided, match="shares memory with another argument"):
        run(fn, wide[1:], wide[:-1])


@pytest.mark.parametrize("fn", STORING, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize(
    "transform",
    [
        *(calque.grad, calque.jacfwd, calque.vmap),
        lambda f: lambda a, b: calque.vjp(f, a, b)[1](1.0),
        lambda f: lambda a, b: calque.linearize(f, a, b)[1](a, b),
    ],
    ids=["grad", "jacfwd", "vmap", "vjp", "linearize"],
)
def test_nor_where_a_transformed_function_calls(fn: Callable[..., Any], transform: Any) -> None:
    """Stores that plain Python would see through another name are refused."""
    whole = np.stack([X, X]) if transform is calque.vmap else X
    transform(fn)(whole.copy(), whole.copy())
    with pytest.raises(AliasUndecided):
        calque.jit(lambda x: transform(fn)(x, x))(whole.copy())


@pytest.mark.parametrize(
    "fn", [f for f in STORING if f is not the_second], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("transform", [calque.grad, calque.jacfwd])
def test_nor_one_that_a_transformed_function_captured(
    fn: Callable[..., Any], transform: Any
) -> None:
    other = X.copy()
    inside = calque.jit(lambda x, y: transform(lambda a: fn(a, y))(x))
    np.testing.assert_allclose(
        inside(X.copy(), other), slope(lambda a: fn(a.copy(), X), X), rtol=1e-6
    )
    with pytest.raises(AliasUndecided):
        calque.jit(lambda x: transform(lambda a: fn(a, x))(x))(X.copy())
    copied = calque.jit(lambda x: transform(lambda a: fn(a.copy(), x))(x))(X.copy())
    np.testing.assert_allclose(copied, slope(lambda a: fn(a.copy(), X), X), rtol=1e-6)
