"""Malformed calls of everything public: legal calls with a parameter replaced.

``calls(seed, count)`` gives the systematic ones first, then random ones: values nested in containers, and
calls made within transformed functions.
"""

import dataclasses
import os
import random
import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
from calque.tests import malformed_objects, malformed_transformations
from calque.tests.malformed_transformations import product
from calque.tests.malformed_values import LEGAL, OMIT, VALUES, Subject
from calque.transpiler.errors import CalqueError

SUBJECTS = [*malformed_transformations.SUBJECTS, *malformed_objects.SUBJECTS]
BAD, EITHER = "bad", "either"  # must be refused; may also be legal


@dataclasses.dataclass
class Call:
    """One call; ``words``: what the refusal may call the argument."""

    name: str
    run: Callable[[], Any]
    words: tuple[str, ...]
    verdict: str = BAD
    inside: bool = False  # a transformed function makes it


LEFT_OUT = {
    *(("order", "7"), ("order", "10**30")),  # right, and hours of work
    ("solve", "ufunc"),  # an error of NumPy's, as without calque
}


CALLED = {
    "class": ("Plain", "__init__"),
    "builtin": ("len", "out_specs"),
    "lambda": ("<lambda>",),
    "ufunc": ("add", "x2"),
}
DERIVED = (
    "x",
    "y",
    "x_dot",
    "y_dot",
    "tangent",
    "cotangent",
    "primals",
    "argument 0",
    "argument 1",
)
KIND_WORDS = {
    "static": ("x", "y"),
    "dropped": ("data_fields",),
    "numbers": ("y",),
    "never": ("dtype", "types"),
    "differentiated": DERIVED,
    "pair": (*DERIVED, "positional"),
    "like ones": (*DERIVED, "return_bar"),
}


def one_call(it: Subject, parameter: str, label: str, value: Callable[[], Any]) -> Call:
    """The subject's call with another value for one parameter."""
    kind = it.parameters[parameter][1]
    words = (*it.words.get(parameter, ()), parameter, *KIND_WORDS.get(kind, ()))
    words += CALLED.get(label, ())

    def run():
        ordered = {
            name: value() if name == parameter else default
            for name, (default, _) in it.parameters.items()
            if name == parameter or default is not OMIT
        }
        return it.use(it.make(**ordered))

    verdict = EITHER if label in LEGAL[kind] else BAD
    return Call(f"{it.name}, {parameter}={label}", run, words, verdict)


def systematic() -> list[Call]:
    """Every parameter with every value."""
    return [
        one_call(it, parameter, label, value)
        for it in SUBJECTS
        for parameter in it.parameters
        for label, value in VALUES.items()
        if (parameter, label) not in LEFT_OUT
    ]


KINDS = (
    "grad",
    "value_and_grad",
    "jacfwd",
    "jacrev",
    "hessian",
    "jit",
    "vmap",
    "jvp",
    "vjp",
    "hvp",
)
GIVEN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((2.0,), {}),
    ((2.0, 3.0, 4.0, 5.0), {}),
    ((2.0, 3.0, 4.0, 5.0, 6.0), {}),
    ((2.0, 3.0), {"z": 4.0}),
    ((2.0,), {"x": 4.0}),
    ((2.0,), {"z": 4.0}),
    ((), {"y": 4.0}),
    ((), {"x": 3.0, "z": 4.0}),
    ((2.0, 3.0, 4.0), {"y": 3.0}),
]


def arities() -> list[Call]:
    """Transformed functions called with too few, too many and unknown arguments."""
    words = ("x", "y", "z", "argnums", "positional", "argument", "arguments", "primals")
    return [
        Call(
            f"{kind}(f)(*{args}, **{kwargs})",
            lambda kind=kind, args=args, kwargs=kwargs: getattr(calque, kind)(product)(
                *args, **kwargs
            ),
            words,
        )
        for kind in KINDS
        for args, kwargs in GIVEN
        if kind not in ("jvp", "hvp") or len(args) != 4  # two primals, two tangents
    ]


def at_random(seed: int, count: int) -> list[Call]:
    """Values within containers, and calls within interpreted code."""
    random_numbers = random.Random(seed)
    return [_random_call(random_numbers, number) for number in range(count)]


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "[{}]": lambda v: [v],
    "({}, 0)": lambda v: (v, 0),
    "[0, [{}]]": lambda v: [0, [v]],
    "{{'x': {}}}": lambda v: {"x": v},
    "array of {}": lambda v: _array_of(v),
}


def _array_of(value):
    made = np.empty(1, object)
    made[0] = value
    return made


def _random_call(random_numbers: random.Random, number: int) -> Call:
    it = random_numbers.choice(SUBJECTS)
    while not it.parameters:
        it = random_numbers.choice(SUBJECTS)
    parameter = random_numbers.choice([*it.parameters])
    label = random_numbers.choice([*VALUES])
    value = VALUES[label]
    if random_numbers.random() < 0.5 and (parameter, label) not in LEFT_OUT:
        within = random_numbers.choice([*CONTAINERS])
        label, value = within.format(label), lambda: CONTAINERS[within](VALUES[inner]())
        inner = label if label in VALUES else next(v for v in VALUES if within.format(v) == label)
    made = one_call(it, parameter, label, value)
    made.verdict = EITHER
    made.name = f"{number}: {made.name}"
    if random_numbers.random() < 0.4 and not it.name.startswith("register"):
        kind = random_numbers.choice(["jit", "grad", "vmap"])
        run = made.run
        argument = np.ones(2) if kind == "vmap" else 2.0
        made.name = f"in {kind}, {made.name}"
        made.inside = True
        made.run = lambda: getattr(calque, kind)(lambda x: run() and x)(argument)
    return made


HERE = re.compile(r"malformed_\w+\.py, line")  # the place that an error of calque shows


def fault(call: Call) -> str | None:
    """Describe what a malformed call did instead of a proper refusal; None if it was right."""
    try:
        call.run()
    except (CalqueError, TypeError, ValueError, OverflowError) as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", [])])
        named = any(re.search(rf"(?<!\w){re.escape(w)}(?!\w)", text) for w in call.words)
        shown = HERE.search(text) and (isinstance(error, CalqueError) or call.inside)
        return None if named or shown or _is_theirs(error) else f"unnamed: {error!r}"
    except ZeroDivisionError:
        return None
    except RuntimeError as error:
        expected = ("does not converge", "no repr", "no truth")
        return None if str(error).endswith(expected) else f"from inside: {error!r}"
    except Exception as error:
        return None if _is_theirs(error) else f"from inside: {error!r}"
    return "accepted" if call.verdict == BAD else None


def _is_theirs(error: BaseException) -> bool:
    """True if the error was raised by the caller's own program, which Python ran as it stands."""
    file = traceback.extract_tb(error.__traceback__)[-1].filename
    return os.path.basename(file).startswith("malformed_")
