"""`calque help`: the pages of errors and limits as plain text, and the note of an error that leads to one."""

from __future__ import annotations

import copy
import pickle
import traceback

import numpy as np
import pytest

import calque
from calque import cli, help_pages
from calque.transpiler.errors import BranchMismatch, CalqueError, ShapeError, TagNeeded


def added(x, y):
    return np.sum(x + y)


def refusal() -> ShapeError:
    with pytest.raises(ShapeError) as caught:
        calque.grad(added)(np.ones(3), np.ones(4))
    return caught.value


def test_a_traceback_ends_with_the_command_that_shows_the_page() -> None:
    error = refusal()
    told = traceback.format_exception(error)
    assert told[-1] == "more: calque help ShapeError\n" and "calque help" not in str(error)


def test_the_note_comes_once_where_errors_travel() -> None:
    error = refusal()
    error.add_note("on device 2 of 4")
    notes = ["more: calque help ShapeError", "on device 2 of 4"]
    for again in (pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error)))), copy.copy(error)):
        assert again.__notes__ == notes and str(again) == str(error)


def test_classes_without_a_page_lead_to_that_of_their_kind() -> None:
    class OfUser(BranchMismatch):
        pass

    assert {e("").__notes__[0] for e in (OfUser, TagNeeded)} == {"more: calque help BranchMismatch"}
    assert CalqueError("").__notes__ == ["more: calque help CalqueError"]
    assert help_pages.page("TagNeeded") == help_pages.page("BranchMismatch")


def test_errors_of_python_get_no_such_note() -> None:
    def divided(x, n):
        return x / n[0]

    with pytest.raises(IndexError) as caught:
        calque.grad(divided)(1.0, [])
    assert "calque help" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", [*help_pages.error_classes(), *help_pages.topics()])
def test_each_page_is_plain_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", name.upper()]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "```" not in out and "](" not in out and "{error}" not in out
    title, line = out.splitlines()[:2]
    assert line == "=" * len(title) and (title == name or title == help_pages.topics()[name])
    prose = [text for text in out.splitlines() if not text.startswith("    ")]
    assert max(map(len, prose)) <= 80


def test_links_are_commands_or_files() -> None:
    text = "[Sizes](../jit.md#sizes), [which](../limits/python.md#loops), [support.md](../support.md)."
    told = "Sizes (docs/jit.md), which (calque help python), docs/support.md.\n"
    assert help_pages.plain(text) == told


def test_help_alone_lists_all_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help"]) == 0
    out = capsys.readouterr().out
    for name in (*help_pages.error_classes(), *help_pages.topics()):
        assert f"\n  {name} " in out
    assert cli.main(["help", "limits"]) == 0
    assert "branches" in capsys.readouterr().out


def test_a_name_without_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", "ShapeErrors"]) == 2
    assert capsys.readouterr().err == "calque: there is no page ShapeErrors; did you mean ShapeError?\n"
    assert cli.main(["help", "qqq"]) == 2
    assert capsys.readouterr().err == "calque: there is no page qqq; `calque help` lists them\n"
