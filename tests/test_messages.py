"""Warnings and log records come when, and as often as, plain Python gives them."""

import contextlib
import logging
import warnings

import numpy as np
import pytest

import calque
from calque.cli import main
from calque.transpiler.errors import ImpureFunction

logger = logging.getLogger("calque.tests.messages {}")


class Kept(logging.Handler):
    """Keeps the texts of records."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        """Note one."""
        self.texts.append((record.levelname, record.getMessage()))


class OwnWarning(UserWarning):
    """A user's category."""


def warned(x):
    if x[0] < 0:
        warnings.warn("negative")
    return np.sum(x * x)


def warned_with_category(x):
    if x[0] < 0:
        warnings.warn(f"negative: {x[0]:.2f}", OwnWarning, stacklevel=1)
    else:
        warnings.warn(DeprecationWarning("not {negative}"))
    return np.sum(x * x)


def warned_in_loop(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] < 0:
            warnings.warn("negative", RuntimeWarning)
        total = total + x[i] * x[i]
    return total


def warned_always(x):
    warnings.warn("called")
    return np.sum(x * x)


def warned_by_helper(x):
    return warned(x) + warned(x + 2.0)


def logged(x):
    if x[0] < 0:
        logger.warning("negative %s of %d", x[0], 3)
        logger.log(logging.ERROR, "and {} more")
    logger.debug("seen")
    return np.sum(x * x)


def logged_by_name(x):
    log = logging.getLogger("calque.tests.messages {}")
    while x[0] < 0:
        log.critical("still negative")
        x = x + 1.0
    return np.sum(x * x)


def logged_to_root(x):
    if x[0] < 0:
        logging.warning("negative %s", "root")
    return np.sum(x * x)


FUNCTIONS = (
    *(warned, warned_with_category, warned_in_loop, warned_always, warned_by_helper),
    *(logged, logged_by_name, logged_to_root),
)
TRANSFORMED = {
    "grad": calque.grad,
    "jit": calque.jit,
    "jit grad": lambda f: calque.jit(calque.grad(f)),
    "jvp": lambda f: lambda x: calque.jvp(f, (x,), (x,)),
}


def messages(call, x):
    kept = Kept()
    with warnings.catch_warnings(record=True) as seen, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        for log in (logger, logging.getLogger()):
            level, log.propagate = log.level, False
            log.addHandler(kept)
            log.setLevel(logging.DEBUG)
            stack.callback(log.setLevel, level)
            stack.callback(log.removeHandler, kept)
        call(x)
    kept.texts = [t for t in kept.texts if "egative" in t[1] or t[1] in ("seen", "and {} more")]
    own = [w for w in seen if w.category is not calque.JitFallback]  # a loop that warns is no kernel
    return [(w.category, str(w.message)) for w in own], kept.texts


@pytest.mark.parametrize("kind", TRANSFORMED)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_call_says_what_plain_python_says(function, kind):
    transformed = TRANSFORMED[kind](function)
    for value in (1.0, -1.0, 1.0, -1.5, -1.5):
        x = np.array([value, 2.0])
        assert messages(transformed, x) == messages(function, x.copy())


def test_filters_are_those_of_the_call():
    gradient = calque.grad(warned)
    gradient(np.array([1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="negative"):
            gradient(np.array([-1.0]))


def test_saved_module_warns(tmp_path):
    calque.save(calque.grad(warned_with_category), tmp_path / "saved.py", np.ones(2))
    space = {}
    exec((tmp_path / "saved.py").read_text(), space)
    x = np.array([-1.0, 2.0])
    call = space["warned_with_category_grad"]
    assert messages(call, x) == messages(warned_with_category, x)


def sets_the_level(x):
    logger.setLevel(logging.DEBUG)
    return x


def filters(x):
    warnings.simplefilter("ignore")
    return x


def warns_where_warnings_are_caught(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unheard")
    return x


@pytest.mark.parametrize(
    "function", [sets_the_level, filters, warns_where_warnings_are_caught]
)
def test_what_is_handled_outside_is_refused(function):
    with pytest.raises(ImpureFunction, match=function.__name__):
        calque.grad(function)(1.0)


def test_filters_within_their_own_block_are_left_out():
    def quiet(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x * x

    assert calque.grad(quiet)(3.0) == 6.0


@pytest.mark.parametrize(
    ("text", "args", "line"),
    [("np.sin(x)", "float", "name 'np'"), ("x.sum()", "(3,)", "no attribute 'sum'")],
)
def test_the_command_shows_the_users_line(tmp_path, capsys, text, args, line):
    file = tmp_path / "user_lines.py"
    file.write_text(f"def f(x, w):\n    return w * {text}\n")
    for command in ("check", "show"):
        assert main([command, f"{file}:f", "--args", f"{args}, float"]) == 1
        said = capsys.readouterr().err
        assert line in said and text in said and len(said.splitlines()) < 8
