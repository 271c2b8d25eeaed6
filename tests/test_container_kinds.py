"""A kind of values that hold others is one class: snapshots, branches and loops ask it alone."""

import numpy as np
import pytest

import calque
from calque.transpiler.frontend.values.containers.container_kinds import (
    KINDS,
    Container,
    kind,
    kind_of,
)
from calque.transpiler.frontend.values.heap import Snapshot


class Register:
    """A container that nothing in the transpiler knows: its value is no attribute."""

    __slots__ = ("held",)

    def __init__(self):
        self.held = {"value": 0.0}


class Traced:
    """A function that the interpreter runs itself."""

    def __init__(self, function):
        self.__calque_trace__ = lambda machine, args, kwargs, node: function(*args)


make = Traced(Register)
put = Traced(lambda register, value: register.held.__setitem__("value", value))
get = Traced(lambda register: register.held["value"])


@pytest.fixture
def registered():
    @kind(Register)
    class RegisterKind(Container):
        """The kind of registers."""

        def now(self, value):
            return value.held

        def copy(self, value, parts):
            new = Register()
            new.held = parts
            return new

    yield
    del KINDS[Register]


def joined_and_carried(x):
    register = make()
    if x[0] > 0.0:
        put(register, x[1])
    else:
        put(register, x[2] * x[2])
    for k in range(x.shape[0]):
        put(register, get(register) + x[k] * get(register))
    return get(register)


def test_a_new_kind_is_joined_and_carried(registered):
    fn, text = calque.jit(joined_and_carried), calque.source(joined_and_carried, np.ones(4))
    assert "for " in text and "Register" not in text
    for first in (0.5, -0.5):
        x = np.array([first, 0.25, 3.0, 0.125])
        expected = (0.25 if first > 0 else 9.0) * np.prod(1.0 + x)
        assert abs(fn(x) - expected) < 1e-14 * abs(expected)


def test_a_snapshot_restores_a_new_kind(registered):
    register = Register()
    before = Snapshot([(register,)], {})
    register.held["value"] = 2.0
    assert before.differs(Snapshot([register], {}))
    assert before.frozen((register,))[0].held == {"value": 0.0}
    before.restore()
    assert register.held == {"value": 0.0} and not before.differs(Snapshot([register], {}))


def test_the_kind_of_a_subclass_is_that_of_its_base():
    class Named(dict):
        pass

    assert kind_of(Named()) is KINDS[dict] and kind_of(np.float64(1.0)) is KINDS[float]
    assert kind_of(True) is KINDS[int] and kind_of([].append) is KINDS[object]
    assert kind_of(Register()) is KINDS[object]
