"""An arm with an error of Python's own raises that error if it is taken, and else does nothing."""

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

TABLE = {"there": 2.0}
later_defined = None
del later_defined


def two(a, b):
    return a + b


def named(a, *, scale):
    return a * scale


def undefined(x):
    if x.sum() > 1e9:
        return undefined_name(x)  # noqa: F821
    return (x * x).sum()


def undefined_in_a_message(x):
    if x.sum() > 1e9:
        raise ValueError(f"bad {y_undefined}")  # noqa: F821
    return (x * x).sum()


def too_few_arguments(x):
    return two(x.sum()) if x.sum() > 1e9 else (x * x).sum()


def too_many_arguments(x):
    if x.sum() > 1e9:
        return two(x, x, x).sum()
    return (x * x).sum()


def a_missing_keyword(x):
    if x.sum() > 1e9:
        return named(x).sum()
    return (x * x).sum()


def an_unknown_keyword(x):
    if x.sum() > 1e9:
        return named(x, factor=2.0).sum()
    return (x * x).sum()


def no_such_method(x):
    if x.sum() > 1e9:
        return x.nonexistent()
    return (x * x).sum()


def no_such_function(x):
    if x.sum() > 1e9:
        return np.nonexistent(x)
    return (x * x).sum()


def beyond_a_list(x):
    if x.sum() > 1e9:
        return [1, 2][5] * x.sum()
    return (x * x).sum()


def no_such_key(x):
    if x.sum() > 1e9:
        return {}["k"]
    return (x * x).sum()


def no_such_captured_key(x):
    if x.sum() > 1e9:
        return TABLE["missing"] * x.sum()
    return TABLE["there"] * (x * x).sum()


def zero_division(x):
    if x.sum() > 1e9:
        return 1 / 0
    return (x * x).sum()


def no_number(x):
    y = x.sum()
    if y > 1e9:
        y = y + float("abc")
    else:
        y = y * 2
    return (x * x).sum() * y


def of_two_kinds(x):
    return (x * x).sum() if x.sum() < 1e9 else "a" + 1


def list_and_text(x):
    if x.sum() > 1e9:
        return "a" + [1]
    return (x * x).sum()


def patterns_of_another_length(x):
    if x.sum() > 1e9:
        a, b = (1, 2, 3)
        return x.sum() * a * b
    return (x * x).sum()


def known_to_fail(x):
    if x.sum() > 1e9:
        assert len([1]) == 2, "one"
    return (x * x).sum()


def in_a_loop(x):
    s = 0.0
    for v in x:
        if v > 1e9:
            s += undefined_name  # noqa: F821
        s += v * v
    return s


def in_an_inner_arm(x):
    y = x * 1.0
    if y[0] > 0.0:
        if y.sum() > 1e9:
            y = y + undefined_name  # noqa: F821
        y = y * 3.0
    else:
        y = y * 2.0
    return (y * x).sum()


def in_an_or(x):
    return (x * x).sum() if x.sum() < 1e9 or undefined_name else x.sum()  # noqa: F821


def in_a_callee(x):
    def inner(z):
        if z.sum() > 1e9:
            return two(undefined_name, z)  # noqa: F821
        return z * z

    return inner(x).sum()


def handled_in_the_arm(x):
    y = x.sum()
    if y > 1e9:
        try:
            y = y * {}["k"]
        except KeyError:
            y = y * 3.0
        try:
            y = y / (1 / 0)
        except ZeroDivisionError:
            y = y * 5.0
    return (x * x).sum() + y


def an_axis_too_many(x):
    if x.sum() > 1e9:
        return np.sum(x, axis=3)
    return (x * x).sum()


def joined_along_no_axis(x):
    y = x.sum()
    if y > 1e9:
        y = y + np.concatenate([x, x], axis=1).sum()
    return (x * x).sum() * y


def of_other_shapes(x):
    if x.sum() > 1e9:
        return (x + np.ones(3)).sum()
    return (x * x).sum()


def a_product_of_other_shapes(x):
    return (x @ np.ones((3, 3))).sum() if x.sum() > 1e9 else (x * x).sum()


def a_method_of_another_size(x):
    return x.reshape(3, 5).sum() if x.sum() > 1e9 else (x * x).sum()


def too_many_indices(x):
    return x[0, 0] if x.sum() > 1e9 else (x * x).sum()


def beyond_an_array(x):
    return x[7] if x.sum() > 1e9 else (x * x).sum()


def axes_of_a_matrix(x):
    return np.transpose(x, (1, 0)).sum() if x.sum() > 1e9 else (x * x).sum()


def a_second_axis(x):
    return np.swapaxes(x, 0, 1).sum() if x.sum() > 1e9 else (x * x).sum()


def stored_with_another_shape(x):
    y = x * 1.0
    if x.sum() > 1e9:
        y[:] = np.ones(3)
    return (y * x).sum()


def no_matrix(x):
    return np.linalg.cholesky(x).sum() if x.sum() > 1e9 else (x * x).sum()


def spread_over_another_shape(x):
    return np.broadcast_to(x, (3, 5)).sum() if x.sum() > 1e9 else (x * x).sum()


def subscripts_of_a_matrix(x):
    return np.einsum("ij->i", x).sum() if x.sum() > 1e9 else (x * x).sum()


OF_NUMPY = [
    *(an_axis_too_many, joined_along_no_axis, of_other_shapes, a_product_of_other_shapes),
    *(a_method_of_another_size, too_many_indices, beyond_an_array, axes_of_a_matrix),
    *(a_second_axis, stored_with_another_shape, no_matrix, spread_over_another_shape),
    subscripts_of_a_matrix,
]
PROGRAMS = [
    *(undefined, undefined_in_a_message, too_few_arguments, too_many_arguments),
    *(a_missing_keyword, an_unknown_keyword, no_such_method, no_such_function, beyond_a_list),
    *(no_such_key, no_such_captured_key, zero_division, no_number, of_two_kinds, list_and_text),
    *(patterns_of_another_length, known_to_fail, in_a_loop, in_an_inner_arm, in_an_or),
    *(in_a_callee, handled_in_the_arm, *OF_NUMPY),
]
SMALL, LARGE = np.array([1.0, 2.0]), np.array([1e10, 1.0])


def outcome(function, x):
    """A value, or what is raised: its class, as Python's own, and its words."""
    try:
        return float(function(x))
    except Exception as error:
        return type(error), str(error).split("\n")[0]  # pytest adds lines to an assertion's


@pytest.mark.parametrize("function", PROGRAMS)
def test_as_in_python(function):
    ways = [calque.jit(function), lambda x: calque.value_and_grad(function)(x)[0]]
    for x in (SMALL, LARGE, SMALL):
        for way in ways:
            assert outcome(way, x) == outcome(function, x)
    step = 1e-6 * np.array([1.0, 0.0])
    slope = (function(SMALL + step) - function(SMALL - step)) / 2e-6
    np.testing.assert_allclose(calque.grad(function)(SMALL)[0], slope, rtol=1e-6)


@pytest.mark.parametrize("function", [undefined, in_an_inner_arm, in_a_loop])
def test_compiled_gradients(function):
    compiled = calque.jit(calque.grad(function))
    np.testing.assert_allclose(compiled(SMALL), calque.grad(function)(SMALL))
    with pytest.raises(NameError, match="name 'undefined_name' is not defined"):
        compiled(LARGE)


def test_errors_of_shapes_are_those_of_the_call():
    compiled = calque.jit(of_other_shapes)
    three = np.array([1e10, 1.0, 2.0])
    assert outcome(compiled, LARGE) == outcome(of_other_shapes, LARGE)
    assert compiled(three) == of_other_shapes(three)
    assert outcome(compiled, np.ones(5) * 1e10) == outcome(of_other_shapes, np.ones(5) * 1e10)
    with pytest.raises(IndexError):  # an AxisError is one
        calque.grad(an_axis_too_many)(LARGE)


def test_without_an_arm_the_error_shows_the_line():
    with pytest.raises(CalqueError, match=r"np.sum\(x, axis=3\)"):
        calque.grad(lambda x: np.sum(x, axis=3))(SMALL)


def test_what_was_computed_before_stays(capsys):
    def tells(x):
        if x.sum() > 1e9:
            print("on the way")
            x[0] = 7.0
            return x.sum() + undefined_name  # noqa: F821
        return (x * x).sum()

    x = LARGE.copy()
    with pytest.raises(NameError, match="name 'undefined_name' is not defined"):
        calque.jit(tells)(x)
    assert capsys.readouterr().out == "on the way\n"
    assert calque.jit(tells)(SMALL) == 5.0


def test_a_name_that_is_defined_later():
    def waits(x):
        return later_defined * x.sum() if x.sum() > 1e9 else (x * x).sum()  # noqa: F821

    compiled = calque.jit(waits)
    assert compiled(SMALL) == 5.0
    with pytest.raises(NameError):
        compiled(LARGE)
    globals()["later_defined"] = 2.0
    try:
        assert compiled(LARGE) == 2.0 * LARGE.sum()
        assert compiled(SMALL) == 5.0
    finally:
        del globals()["later_defined"]


def test_a_key_that_is_there_later():
    compiled = calque.jit(no_such_captured_key)
    assert compiled(SMALL) == 10.0
    TABLE["missing"] = 3.0
    try:
        assert compiled(LARGE) == 3.0 * LARGE.sum()
    finally:
        del TABLE["missing"]
    with pytest.raises(KeyError):
        compiled(LARGE)


def not_supported(x):
    if x.sum() > 1e9:
        return np.sum(x.newbyteorder()) if hasattr(x, "newbyteorder") else x.dumps()
    return (x * x).sum()


def changes_a_global(x):
    if x.sum() > 1e9:
        TABLE["there"] = 1.0
    return (x * x).sum()


@pytest.mark.parametrize("function", [not_supported, changes_a_global])
def test_what_calque_does_not_translate_is_refused(function):
    with pytest.raises(CalqueError, match="line"):
        calque.grad(function)(SMALL)


def test_every_path_raises_at_once():
    def always(x):
        return undefined_name(x)  # noqa: F821

    with pytest.raises(NameError, match="Instead"):
        calque.grad(always)(SMALL)


def test_under_vmap_as_an_explicit_raise():
    def explicit(x):
        if x.sum() > 1e9:
            raise ValueError("large")
        return (x * x).sum()

    rows = np.stack([SMALL, 2.0 * SMALL])
    for function in (explicit, undefined, no_such_key):
        expected = outcome_of_rows(explicit, rows)
        assert outcome_of_rows(function, rows) == expected


def outcome_of_rows(function, rows):
    try:
        return calque.vmap(function)(rows).tolist()
    except CalqueError as error:
        return type(error)
