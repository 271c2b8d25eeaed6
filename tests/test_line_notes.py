"""The notes of a page on the user's lines: shades, costs, types, calls, and numbers of a check."""

from __future__ import annotations

import re

import numpy as np
import page_programs as programs
import pytest
from test_pages import SETTLE, M, N, page

import calque
from calque.runtime.pages.coloured_code import code_html, tokens_of
from calque.runtime.pages.line_notes import COSTS
from calque.runtime.pages.reviews import Review, review_of
from calque.runtime.saving.viewing import page_text


def shown_kinds(review: Review) -> dict[str, str]:
    return {line.text.strip(): line.kind for f in review.functions for line in f.lines}


def test_shades_say_what_explain_says() -> None:
    review = review_of(calque.grad(programs.settle), SETTLE)
    kinds = shown_kinds(review)
    assert kinds["return k * np.diff(u)"] == "saved"
    assert kinds["if q[0] > 1.0:"] == "recomputed"
    assert kinds["u[1:-1] *= 0.5"] == "hand"
    notes = {n.text for f in review.functions for line in f.lines for n in line.notes if n.kind != COSTS}
    told = calque.explain(calque.grad(programs.settle), *SETTLE)
    for note in notes:
        assert note.partition(": ")[2] in told
    jitted = shown_kinds(review_of(calque.jit(calque.grad(programs.net)), *[(M, [calque.spec("f8[4,4]")] * 6)]))
    assert jitted["h = np.tanh(x @ w)"] == "call"


def test_costs_of_lines_are_those_of_the_report() -> None:
    fn = calque.grad(programs.settle)
    review = review_of(fn, (np.ones(100_000), 0.1, 500))
    costs = {line.text.strip(): n for f in review.functions for line in f.lines for n in line.notes if n.kind == COSTS}
    assert sum(n.share for n in costs.values()) == pytest.approx(1.0)
    told = calque.explain(fn, np.ones(100_000), 0.1, 500, cost=True)
    for text, note in costs.items():
        found = re.search(rf"^ +(\d+)% .*{re.escape(text)}$", told, re.M)
        assert found is None or note.share == pytest.approx(int(found[1]) / 100, abs=0.01)
    saved = costs["return k * np.diff(u)"]  # 99,999 numbers in each of 500 steps
    assert "400 MB saved for the reverse phase" in saved.text
    squares = costs["return np.sum(u * u)"]  # the derivative is 2 * u, and needs no sum
    assert squares.text.startswith("1.0e5 operations (2.0e5 without the derivative)")
    text, _ = page(fn, *SETTLE)
    assert re.search(r'data-more="n operations \(2\*n without the derivative\), 16\*n B moved; n = u\.shape\[0\]"', text)


def inverted(a: np.ndarray) -> np.ndarray:
    z = np.linalg.slogdet(a)[1]
    return z + np.sum(np.linalg.inv(a))


def test_parts_of_costs_are_fractions_of_small_numbers() -> None:
    text, _ = page(inverted, calque.spec("f8[n,n]"))
    assert re.findall(r'data-more="(.*?) operations', text) == ["2*n**3/3", "2*n**3 + n**2 + 1 more term"]


def test_a_program_whose_cost_is_not_counted_has_a_page() -> None:
    review = review_of(calque.pmap(programs.squared), (calque.spec("f8[2,n]"),))
    assert not [n for f in review.functions for line in f.lines for n in line.notes if n.kind == COSTS]


def test_a_loop_that_stays_in_python_says_why() -> None:
    text, _ = page(calque.jit(programs.printing), N)
    assert "the loop is Python&#x27;s: no kernel has print" in text


def test_remarks_of_passes_stand_at_their_loops() -> None:
    fn = calque.jit(calque.grad(programs.settle))
    review = review_of(fn, SETTLE)
    told = {line.text.strip(): [n.text for n in line.notes if n.kind == "passes"] for f in review.functions for line in f.lines}
    every = calque.explain(fn, *SETTLE, why="all")
    assert told["for t in range(steps):"] and all(text in every for texts in told.values() for text in texts)
    assert not told["q = flux(u, k)"] and "Passes of the kernels" in page_text(fn, *SETTLE)
    assert "Passes of the kernels" not in page_text(calque.grad(programs.settle), *SETTLE)


def test_a_keyword_of_a_call_is_no_name() -> None:
    found = [code_html(line, {"k": "int"}) for line in tokens_of(["def f(x, k=k):", "    g(x.k, k=k)", "    k=3"])]
    assert [text.count("title") for text in found] == [2, 1, 1] and found[1].endswith('k=<span title="int">k</span>)')


def test_names_say_what_they_are() -> None:
    text, _ = page(calque.grad(programs.settle), *SETTLE)
    assert '<span title="cotangent of q, float64 (n - 1,)">q_bar</span>' in text
    assert '<span title="cotangent of u, float64 (n,)">u_bar</span>' in text
    assert 'title="values of diff_u, saved for the reverse phase, float64 (..., n - 1)"' in text


def test_names_of_saved_values_are_those_of_the_values() -> None:
    text, _ = page(calque.grad(programs.stored_twice), calque.spec("f8[n,m]"), 3)
    assert '<span title="values of u, saved for the reverse phase, float64 (..., n, m)">second_u_saved</span>' in text


def test_names_of_the_users_have_their_types() -> None:
    review = review_of(calque.grad(programs.settle), SETTLE)
    types = {f.name: f.names for f in review.functions}
    assert types["settle"] == {"u": "float64 (n,)", "k": "float", "steps": "int", "t": "int", "q": "float64 (n - 1,)"}
    text, _ = page(calque.grad(programs.settle), *SETTLE)
    assert '<span title="float64 (n - 1,)">q</span>[<span class="m">0' in text


def test_a_call_is_answered_by_all_that_its_function_does() -> None:
    """A call on its own line, within a loop or a call, whose function has several statements."""
    review = review_of(calque.grad(programs.composed), (N,))
    lines = {line.text.strip(): line.key for f in review.functions for line in f.lines}
    answers = {line.text.strip(): line.keys for line in review.panes[0].lines}
    for text in ("y = damped(x)", "y = twice(y)"):
        assert lines[text] in answers["low = np.exp(-x)" if "x)" in text else "low_with_y = np.exp(-y)"], text
    assert lines["return damped(damped(x))"] in answers["low_with_y = np.exp(-y)"]


def test_numbers_of_a_check_stand_at_their_statements() -> None:
    x = calque.random.normal(calque.random.key(0), (8,)) * 3.0
    review = review_of(calque.grad(programs.settle), SETTLE, values=(x, 0.1, 5))
    told = {line.text.strip(): [n.text for n in line.notes if n.kind == "right"] for f in review.functions for line in f.lines}
    assert re.match(r"np.sum agrees: forward \S+, reverse \S+, differences \S+; 1 more agree", told["return np.sum(u * u)"][0])
    assert told["return k * np.diff(u)"] and not told["def settle(u: \"f8[n]\", k: float, steps: int):"]
    assert told["u[1:-1] += np.sin(q[1:]) - q[:-1]"] == []  # that arm is not taken here
    assert told["u[1:-1] *= 0.5"]


def test_a_wrong_rule_is_marked_at_its_statement() -> None:
    review = review_of(calque.grad(programs.wrong_by_rule), (N,), values=(calque.random.normal(calque.random.key(1), (4,)),))
    found = [(line.text.strip(), line.kind, n.text) for f in review.functions for line in f.lines for n in line.notes if n.kind == "wrong"]
    assert [(text, kind) for text, kind, _ in found] == [("y = wrong_cube(x)", "wrong")]
    assert "disagree" in found[0][2] and "differences" in found[0][2]
