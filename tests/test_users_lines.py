"""An error of generated code shows the user's line of which that code is, as a note."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import calque
from calque.runtime import tracebacks
from calque.transpiler.codegen.text.origins import origin_of_line

HERE = Path(__file__).read_text(encoding="utf-8").splitlines()


def beyond(x):
    y = np.sin(x)
    return y[7] * np.sum(x)  # here: beyond


def within_a_loop(x, n):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            scaled = x[i] * 2.0 / x[i + n]  # here: loop
        else:
            scaled = x[i]
        total += scaled
    return total


def rows_of(x):
    return x.reshape(2, -1)[1]  # here: called


def calling(x):
    return np.sum(rows_of(x) ** 2)


def solved(x, matrix):
    scaled = x * 2.0
    found = np.linalg.solve(matrix, scaled)  # here: solved
    return np.sum(found)


def climbing(x, k):
    while x[k] > 0.5:  # here: while
        k += 1
    return x[k]


def refusing(x):
    if x[0] > 0.0:
        raise ValueError("positive")
    return np.sum(x)


def note_of(call, *args):
    """The notes of the error that a call raises, and the error."""
    with pytest.raises(Exception) as caught:
        call(*args)
    return "\n".join(getattr(caught.value, "__notes__", [])), caught.value


def said(word):
    """Return the location and the text that a note must show for a marked line."""
    (line,) = [k for k, text in enumerate(HERE, 1) if text.endswith(f"# here: {word}")]
    return f"line {line}, in ", HERE[line - 1].split("  # here")[0].strip()


ONES = np.ones(3)
CALLS = {
    "grad": (calque.grad(beyond), (ONES,), "beyond"),
    "value": (calque.value_and_grad(beyond), (ONES,), "beyond"),
    "vmap": (calque.vmap(beyond), (np.ones((2, 3)),), "beyond"),
    "vmap of grad": (calque.vmap(calque.grad(beyond)), (np.ones((2, 3)),), "beyond"),
    "jacfwd": (calque.jacfwd(beyond), (ONES,), "beyond"),
    "in a loop": (calque.grad(within_a_loop), (ONES, 2), "loop"),
    "in a called function": (calque.grad(calling), (np.ones(5),), "called"),
    "library": (calque.grad(solved), (ONES, np.zeros((3, 3))), "solved"),
    "library, jit": (calque.jit(calque.grad(solved)), (ONES, np.zeros((3, 3))), "solved"),
    "head of a while": (calque.value_and_grad(climbing), (ONES, 0), "while"),
    "kernel of one loop": (calque.jit(climbing), (ONES, 0), "while"),
    "pmap": (calque.pmap(beyond), (np.ones((1, 3)),), "beyond"),
}


@pytest.mark.parametrize("what", CALLS)
def test_the_line_is_shown(what: str) -> None:
    call, args, word = CALLS[what]
    place, line = said(word)
    for _ in range(2):  # the first call, and one that finds its program in a table
        note, _ = note_of(call, *args)
        assert place in note and line in note and note.count(line) == 1, note


def test_a_text_from_disk_shows_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CALQUE_CACHE", str(tmp_path / "kept"))
    found = []
    for _ in range(2):  # the second finds the text on disk
        function = calque.jit(calque.grad(solved))
        function.cache_clear()
        note, _ = note_of(function, np.ones(4), np.zeros((4, 4)))
        found.append(note)
    place, line = said("solved")
    assert found[0] == found[1] and place in found[0] and line in found[0]


def test_an_error_that_shows_a_line_gets_no_other() -> None:
    note, error = note_of(calque.jit(beyond), ONES)
    place, line = said("beyond")
    assert note == "more: calque help IndexOutOfRange" and line in str(error) and place in str(error)


def test_what_the_user_raises_is_as_in_plain_python() -> None:
    for call in (calque.grad(refusing), calque.jit(refusing)):
        with pytest.raises(ValueError, match="^positive$"):
            call(ONES)


def test_a_text_of_two_functions_shows_none() -> None:
    def make(first):
        if first:

            def twin(x, m):
                return np.sum(np.linalg.inv(m) @ x)

            return twin

        def twin(x, m):
            return np.sum(np.linalg.inv(m) @ x)

        return twin

    zero = np.zeros((3, 3))
    one, other = calque.jit(make(True)), calque.jit(make(False))
    alone, _ = note_of(one, ONES, zero)
    assert "np.linalg.inv(m) @ x" in alone
    together, _ = note_of(other, ONES, zero)
    assert not together
    assert not note_of(one, ONES, zero)[0]  # never the wrong one


def test_what_is_gone_is_forgotten() -> None:
    def passing(x):
        return x[9]

    known = set(tracebacks._written)
    function = calque.vmap(passing)
    note_of(function, np.ones((2, 3)))
    (file,) = set(tracebacks._written) - known
    function.cache_clear()
    del function
    gc.collect()  # the error held the frame
    calque.vmap(lambda x: x[0] * 3.0)(np.ones((2, 3)))  # the next one takes it away
    assert file not in tracebacks._written


def test_a_text_that_was_changed_shows_none() -> None:
    text = "def f(x):\n    y = x\n    return y\n"
    assert origin_of_line(text, 2, {"f": [None]}) is None
    assert origin_of_line(text, 2, {"g": [None, None]}) is None
