"""Subjects of malformed calls: public functions, each with parameters and a use."""

import dataclasses

import calque
from calque.tests.malformed_values import OMIT, Subject


def subject(name, use, words=None, **parameters):
    made = getattr(calque, name)
    return Subject(name, lambda **given: made(**given), use, parameters, words or {})


def alone(name, **parameters):
    """In plain Python."""
    public = getattr(calque, name)
    given = {n: (1.0 if d is OMIT else d, k) for n, (d, k) in parameters.items()}
    words = dict.fromkeys(given, ("axis name", *given))
    return Subject(name, public, lambda f: f, given, words)


def registered(name, **parameters):
    public = getattr(calque, name)

    def make(**given):
        if "cls" not in given:
            given["cls"] = dataclasses.make_dataclass("Record", [("a", float), ("b", float)])
        return public(**given)

    return Subject(name, make, lambda cls: cls, parameters)


def calls_of(name, transformed, **parameters):
    return Subject(
        name, lambda **given: transformed(*given.values()), lambda made: made, parameters
    )


def no_use(made):
    return made
