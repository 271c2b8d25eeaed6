"""Questions about an argument's memory (`base`, `flags`) have plain Python's answers."""

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError, UnsupportedFunction


def arrays():
    whole = np.arange(12.0).reshape(3, 4).copy()
    locked = np.ones((3, 4))
    locked.flags.writeable = False
    return [
        *(whole, whole[:], whole.T.copy().T, np.ones((6, 4))[::2], locked, np.ones((4, 3)).T),
        np.asfortranarray(whole),
    ]


QUESTIONS = {
    "base": lambda x: x.base is None,
    "not none": lambda x: x.base is not None,
    "getattr": lambda x: getattr(x, "base", None) is None,
    "hasattr": lambda x: hasattr(x, "base") and hasattr(x, "flags"),
    "owndata": lambda x: x.flags.owndata,
    "by name": lambda x: x.flags["OWNDATA"],
    "contiguous": lambda x: x.flags.c_contiguous,
    "contiguous by name": lambda x: x.flags["C_CONTIGUOUS"] and not x.flags["F"],
    "fortran": lambda x: x.flags.f_contiguous and x.flags.fnc,
    "writeable": lambda x: x.flags.writeable,
    "another name": lambda x: np.asarray(x).flags.c_contiguous,
    "after a store": lambda x: stored(x).base is None,
}


def stored(x):
    if x.flags.writeable:
        x[0, 0] = 0.0
    return x


def asks(question):
    return lambda x: np.sum(x) * 2.0 if question(x) else np.sum(x * x)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("compiled", [False, True])
def test_as_in_python(name, compiled):
    function = asks(QUESTIONS[name])
    gradient = calque.value_and_grad(function)
    gradient = calque.jit(gradient) if compiled else gradient
    for _ in range(2):  # by turns: no program serves the arrays of another one
        for x in arrays():
            value, slope = gradient(x)
            assert value == function(x)
            expected = np.full(x.shape, 2.0) if QUESTIONS[name](x) else 2.0 * x
            if name != "after a store":
                np.testing.assert_array_equal(slope, expected)


def test_arrays_without_axes_and_numbers():
    function = asks(lambda x: getattr(x, "base", None) is None)
    whole = np.array([1.5])
    for x in (1.5, np.float64(1.5), np.array(1.5), whole[0, ...], whole.reshape(())):
        assert calque.value_and_grad(function)(x)[0] == function(x)
        assert calque.jit(function)(x) == function(x)


def test_one_of_several_arguments_and_a_tree():
    def function(p, x):
        scale = 2.0 if p["w"].base is None else 3.0
        return scale * np.sum(p["w"] * x) + (1.0 if x.flags.c_contiguous else 0.0)

    compiled = calque.jit(function)
    for w in arrays()[:4]:
        for x in arrays()[:4]:
            assert compiled({"w": w}, x) == function({"w": w}, x)


def test_programs_that_do_not_ask_are_shared():
    for question, count in ((lambda x: True, 1), (QUESTIONS["base"], 2)):
        gradient = calque.grad(asks(question))
        owned, view = np.ones((3, 4)), np.ones((3, 4))[:]
        assert len({gradient.program(x) for x in (owned, view, owned, view)}) == count


COMPUTED = {
    "itself": lambda x: x,
    "slice": lambda x: x[:],
    "ellipsis": lambda x: x[...],
    "reshaped": lambda x: x.reshape(x.shape),
    "transposed": lambda x: np.ravel(x).T,
    "ravel": lambda x: np.ravel(x),
    "view": lambda x: x.view(),
    "squeezed": lambda x: np.squeeze(x),
    "copy": lambda x: x.copy(),
    "np.array": lambda x: np.array(x),
    "astype": lambda x: x.astype(float),
    "astype without copy": lambda x: x.astype(float, copy=False),
    "contiguous": lambda x: np.ascontiguousarray(x),
    "fortran": lambda x: np.asfortranarray(x),
    "require": lambda x: np.require(x, requirements="C"),
    "asarray of an order": lambda x: np.asarray(x, order="C"),
    "asarray": lambda x: np.asarray(x),
    "atleast": lambda x: np.atleast_2d(x),
    "real": lambda x: np.real(x),
    "broadcast": lambda x: np.broadcast_to(x, x.shape),
    "product": lambda x: x * 1.0,
    "positive": lambda x: +x,
    "conj": lambda x: np.conj(x),
    "sum": lambda x: np.sum(x, axis=()),
    "transpose": lambda x: np.transpose(x, (0, 1)),
    "swapped": lambda x: np.swapaxes(x, 0, 0),
    "nan_to_num": lambda x: np.nan_to_num(x, copy=False),
    "clip": lambda x: np.clip(x, None, 100.0),
    "round": lambda x: np.round(x, 3),
    "first": lambda x: np.broadcast_arrays(x, x)[0],
    "stacked": lambda x: np.concatenate([x]),
    "roll": lambda x: np.roll(x, 0),
    "tile": lambda x: np.tile(x, 1),
    "repeat": lambda x: np.repeat(x, 1, axis=0),
    "chosen": lambda x: x if np.sum(x) > -1.0 else x * 2.0,
    "argument of a call": lambda x: (lambda y: y)(x),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_is_right_or_refused(name):
    made = COMPUTED[name]
    for question in (lambda y: y.base is None, lambda y: y.flags.c_contiguous):
        function = asks(lambda x: question(made(x)))  # noqa: B023
        for x in arrays():
            if name == "nan_to_num" and not x.flags.writeable:
                continue
            try:
                value = calque.value_and_grad(function)(x)[0]
            except UnsupportedFunction as error:
                assert "line" in str(error)
                assert name not in ("itself", "asarray", "argument of a call")
            else:
                assert value == function(x), (name, x.flags)


def test_examples_of_vmap_are_computed():
    with pytest.raises(UnsupportedFunction):
        calque.vmap(lambda x: np.sum(x) * (2.0 if x.base is None else 3.0))(np.ones((2, 3)))


@pytest.mark.parametrize(
    "asked",
    [
        lambda x: x.base is x,
        lambda x: isinstance(x.base, np.ndarray),
        lambda x: bool(x.base),
        lambda x: x.base.ndim == 2,
        lambda x: type(x.base) is np.ndarray,
    ],
)
def test_more_of_a_base_is_refused(asked):
    with pytest.raises(CalqueError, match="base"):
        calque.grad(asks(asked))(np.ones((2, 3))[:])


def test_a_type_cannot_tell():
    with pytest.raises(CalqueError, match="must be known"):
        calque.source(calque.grad(asks(QUESTIONS["base"])), calque.spec("f8[n,3]"))
