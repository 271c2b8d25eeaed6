"""The page on which a derivative is reviewed, in a browser: pointer, keys, ticks, colours, time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import page_programs as programs
import pytest
from browser import MISSING, Browser, browser

import calque
from calque.runtime.saving.viewing import page_text
from calque.targets import load_function

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
N = calque.spec("f8[n]")
SETTLE = (N, 0.1, 5)
LIT = "return [...document.querySelectorAll('li.on')].map(li => li.id)"
HERE = "return document.querySelector('li.here')?.id"
FOCUS = "return document.activeElement.closest('li')?.id"
STATUS = "return document.getElementById('status').textContent"
# of a line: the colours of its text and its background
COLOURS = "const c = getComputedStyle(document.getElementById(arguments[0])); return [c.color, c.backgroundColor]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def seen(folder: Path) -> Iterator[Browser]:
    with browser(str(folder)) as found:
        yield found


def shown(on: Browser, folder: Path, fn: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Open the page of a function; its text."""
    text = page_text(fn, *args, **options)
    path = folder / f"page_{len([*folder.iterdir()])}.html"
    path.write_text(text, encoding="utf-8")
    on.open(path.as_uri())
    return text


def line_with(on: Browser, text: str, pane: str, number: int = 0) -> str:
    """The id of a line of a pane that begins with a text."""
    script = (
        "return [...document.querySelectorAll(`#${arguments[1]} li[id]`)]"
        ".filter(li => li.querySelector('code').textContent.trim().startsWith(arguments[0])).map(li => li.id)"
    )
    return str(on.ask(script, text, pane)[number])


def test_pointing_lights_up_partners_both_ways(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.settle), *SETTLE)
    users = line_with(seen, "u[1:-1] +=", "user")
    forth, back = (line_with(seen, t, "derivative") for t in ("u[1:-1] +=", "q_bar[1:] +="))
    seen.hover(f"#{users} code")
    assert {forth, back} <= {*seen.ask(LIT)} and seen.ask(HERE) == users
    seen.hover(f"#{back} code")
    assert seen.ask(LIT) == [users] and seen.ask(HERE) == back
    status = seen.ask(STATUS)
    assert "answers settle line" in status and "q_bar: cotangent of q, float64 (n - 1,)" in status
    seen.press("Escape")
    assert seen.ask(LIT) == []


def test_a_name_shows_its_places(seen: Browser, folder: Path) -> None:
    text = shown(seen, folder, calque.grad(programs.settle), *SETTLE)
    line = line_with(seen, "q_bar[1:] +=", "derivative")
    seen.hover(f"#{line} code span[title]")
    same = seen.ask("return [...document.querySelectorAll('.same')].map(n => n.textContent + n.closest('li').id)")
    source = calque.source(calque.grad(programs.settle), *SETTLE).split("\n")
    places = [k for k, code in enumerate(source, 1) for _ in re.findall(r"\bq_bar\b", code)]
    assert same == [f"q_bar{'d'}{k}" for k in places] and len(places) == 5
    written = [str(k) for k, code in enumerate(source, 1) if re.match(r" *q_bar(\[.*?\])? (\+|-)?= ", code)]
    read = [str(k) for k in sorted({*places}) if str(k) not in written or not re.match(r" *q_bar = ", source[k - 1])]
    status = seen.ask(STATUS)
    assert f"q_bar: cotangent of q, float64 (n - 1,), set {' '.join(written)}, read {' '.join(read)}" in status
    assert "data-more" in text and "operations" not in status
    users = line_with(seen, "u[1:-1] +=", "user")
    seen.hover(f"#{users} code")
    assert re.search(r"u: float64 \(n,\), set 12 16 18, read 14 16 18 19 · q: float64 \(n - 1,\), set 14, read 15 16 · .* is recomputed: .* operations", seen.ask(STATUS)) is not None


def places(on: Browser, text: str, pane: str = "user") -> dict[str, str]:
    """The places of the names in a line of a pane."""
    on.press("Escape")
    on.hover(f"#{line_with(on, text, pane)} code")
    found = re.findall(r"(\w+): [^·]*?(?:, (set [\d ]+))?(?:, (read [\d ]+))?(?= ·|$)", str(on.ask(STATUS)))
    return {name: " ".join(filter(None, (first.strip(), second.strip()))) for name, first, second in found}


def test_places_of_names_in_statements_of_many_kinds(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.shifted), calque.spec("f8[n,m]"), 2.0)
    at = programs.shifted.__code__.co_firstlineno

    def numbers(word: str, *lines: int) -> str:
        return " ".join([word, *(str(at + line) for line in lines)])

    assert places(seen, "def shifted")["x"] == f"{numbers('set', 0)} {numbers('read', 2)}"
    told = places(seen, "α[i, j - 1]")
    assert told["i"] == f"{numbers('set', 3)} {numbers('read', 5)}"
    assert told["j"] == f"{numbers('set', 4)} {numbers('read', 5)}"
    assert told["α"] == f"{numbers('set', 2, 5, 6, 7, 12)} {numbers('read', 3, 4, 5, 6, 8, 11, 12, 13)}"
    assert places(seen, "α = α + w")["w"] == f"{numbers('set', 11)} {numbers('read', 12)}"
    assert places(seen, "if k > 0")["k"] == f"{numbers('set', 0, 8)} {numbers('read', 2, 5, 6, 8, 11)}"


def test_places_of_names_are_those_of_one_method(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.Scale(2.0).loss), N, 3.0)
    at = programs.Scale.loss.__code__.co_firstlineno
    assert places(seen, "return y") == {"y": f"set {at + 3} read {at + 6}"}
    assert places(seen, "k = self.of")["x"] == f"set {at + 2} read {at + 5}"
    assert places(seen, "return k") == {"k": f"set {at + 9} {at + 10} read {at + 10} {at + 11}"}
    assert places(seen, "def loss_grad", "derivative")["y"] == "set 1 read 7"


def test_a_click_keeps_the_light_until_the_next(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.settle), *SETTLE)
    first, second = (line_with(seen, t, "user") for t in ("u[1:-1] +=", "u[1:-1] *="))
    seen.click(f"#{first} code")
    seen.hover(f"#{second} code")
    assert seen.ask(HERE) == first
    seen.click(f"#{first} code")
    seen.hover(f"#{second} code")
    assert seen.ask(HERE) == second


def test_partners_are_scrolled_into_view(seen: Browser, folder: Path) -> None:
    seen.size(1200, 420)
    try:
        shown(seen, folder, calque.grad(programs.settle), *SETTLE)
        back = line_with(seen, "u_bar -= np.diff", "derivative")
        view = (
            "const l = document.getElementById(arguments[0]).getBoundingClientRect(),"
            " p = document.getElementById(arguments[0]).closest('.pane').getBoundingClientRect();"
            " return l.top >= p.top && l.bottom <= p.bottom"
        )
        assert not seen.ask(view, back)
        users = line_with(seen, "return k * np.diff", "user")
        seen.ask("document.querySelector('#user').scrollTop = 1000")
        seen.click(f"#{users} code")
        lit = [i for i in seen.ask(LIT) if i.startswith("d")]
        assert any(seen.ask(view, i) for i in lit)
        seen.ask("document.querySelector('#user').scrollTop = 0; document.querySelector('#derivative').scrollTop = 10000")
        seen.click(f"#{back} code")
        assert seen.ask(view, users)
    finally:
        seen.devtools("Emulation.clearDeviceMetricsOverride")


def test_keys(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.settle), *SETTLE)
    seen.ask("document.querySelector('#user a.no').focus()")
    start = seen.ask(FOCUS)
    seen.press("Down", "j")
    assert seen.ask(FOCUS) != start and seen.ask(HERE) == seen.ask(FOCUS)
    seen.press("Up", "k")
    assert seen.ask(FOCUS) == start
    seen.press("End")
    last = seen.ask(FOCUS)
    seen.press("Home")
    assert seen.ask(FOCUS) == start != last
    back = line_with(seen, "u_bar = 2.0 * u", "derivative")
    seen.ask("document.querySelector(`#${arguments[0]} a.no`).focus()", back)
    seen.press("Enter")
    assert seen.ask(FOCUS) == line_with(seen, "return np.sum(u * u)", "user")
    seen.press("Right")
    assert str(seen.ask(FOCUS)).startswith("d")


def test_each_pane_is_one_stop_of_the_tab_key(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.settle), *SETTLE)
    seen.ask("document.querySelector('#user a.no').focus()")
    seen.press("Tab")
    assert seen.ask("return document.activeElement.closest('.pane').id") == "derivative"
    stops = "return [...document.querySelectorAll('a.no')].filter(a => a.tabIndex === 0).length"
    assert seen.ask(stops) == 2


def test_tabs_choose_the_text(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.jit(calque.grad(programs.settle)), *SETTLE, stage="cuda")
    visible = "return [...document.querySelectorAll('.generated')].filter(p => p.offsetParent).map(p => p.id)"
    assert seen.ask(visible) == ["derivative"]
    seen.click("#show-kernels")
    assert seen.ask(visible) == ["kernels"]
    seen.hover(f"#{line_with(seen, 'u[1:-1] +=', 'user')} code")
    assert {i[0] for i in seen.ask(LIT)} == {"d", "k", "c"}
    seen.press("Right")
    assert seen.ask(visible) == ["cuda"]


def test_remarks_can_be_put_away(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.settle), *SETTLE)
    visible = "return [...document.querySelectorAll('.notes p')].filter(n => n.offsetParent).length"
    assert seen.ask(visible) == 1  # of what is saved; other reasons are titles
    seen.click("#remarks")
    assert seen.ask(visible) == 0


def downloaded(folder: Path, name: str) -> str:
    for _ in range(100):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
        time.sleep(0.1)
    raise AssertionError(f"{name} was not saved: {[*folder.iterdir()]}")


def test_ticks_are_kept_in_a_copy_and_in_a_list(seen: Browser, folder: Path) -> None:
    calque.save(calque.grad(programs.settle), folder / "ticked.py", *SETTLE)
    shown(seen, folder, calque.grad(programs.settle), *SETTLE, against=folder / "ticked.py")
    seen.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    seen.click(".tick")
    seen.ask("document.querySelectorAll('#derivative a.no')[8].focus()")
    seen.press("t")
    count = "return document.getElementById('count').textContent"
    assert seen.ask(count).startswith("2 of ")
    assert seen.ask(HERE)
    seen.click("#list")
    seen.click("#copy")
    listed = downloaded(folder, "ticked.py.reviewed")
    keys = [line.split()[0] for line in listed.splitlines() if not line.startswith("#")]
    assert len(keys) == 2
    copy = downloaded(folder, "ticked.py.html")
    lines = copy.partition("<main>")[2].partition("</main>")[0]
    assert "tabindex" not in lines and not re.search(r'class="[^"]*\b(on|here|kin)\b', lines)
    (folder / "copy.html").write_text(copy, encoding="utf-8")
    seen.open((folder / "copy.html").as_uri())
    assert seen.ask(count).startswith("2 of ")
    checked = "return [...document.querySelectorAll('.tick')].filter(b => b.checked).map(b => b.dataset.k)"
    assert seen.ask(checked) == keys
    shown(seen, folder, calque.grad(programs.settle), *SETTLE, against=folder / "ticked.py")
    assert seen.ask(checked) == keys  # by the list, which now lies beside the module


def test_the_first_difference_is_in_view(seen: Browser, folder: Path) -> None:
    calque.save(calque.grad(programs.settle), folder / "changed.py", *SETTLE)
    text = (folder / "changed.py").read_text(encoding="utf-8")
    (folder / "changed.py").write_text(text.replace("return u_bar", "return 2.0 * u_bar"), encoding="utf-8")
    seen.size(1200, 420)
    try:
        shown(seen, folder, calque.grad(programs.settle), *SETTLE, against=folder / "changed.py")
        top, bottom = seen.ask("const r = document.querySelector('.removed').getBoundingClientRect(); return [r.top, r.bottom]")
        assert 0 < top < bottom < 400
    finally:
        seen.devtools("Emulation.clearDeviceMetricsOverride")


def test_it_can_be_read_without_scripts(folder: Path, tmp_path: Path) -> None:
    text = page_text(calque.jit(calque.grad(programs.settle)), *SETTLE)
    path = tmp_path / "page.html"
    path.write_text(text.replace("<script>", "<script type='text/none'>"), encoding="utf-8")
    with browser(str(tmp_path), scripts=False) as plain:
        plain.open(path.as_uri())
        users = line_with(plain, "u[1:-1] +=", "user")
        back = line_with(plain, "q_bar[1:] +=", "derivative")
        before = plain.ask(COLOURS, users)[1]
        plain.hover(f"#{back} code")
        assert plain.ask(COLOURS, users)[1] != before
        plain.click(f"#{back} a.no")
        assert plain.ask("return document.querySelector(':target').id") == users
        assert not plain.ask("return [...document.querySelectorAll('[data-script]')].some(e => e.offsetParent)")
        plain.click("#show-kernels")
        assert plain.ask("return document.getElementById('kernels').offsetParent !== null")


def test_dark(seen: Browser, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_text(calque.grad(programs.settle), *SETTLE), encoding="utf-8")
    with browser(str(tmp_path), dark=True) as dark:
        dark.open(path.as_uri())
        text, behind = dark.ask("const c = getComputedStyle(document.body); return [c.color, c.backgroundColor]")
    assert (text, behind) == ("rgb(221, 226, 232)", "rgb(21, 24, 28)")


def test_nothing_is_wider_than_a_phone(seen: Browser, folder: Path) -> None:
    seen.size(390, 800)
    try:
        shown(seen, folder, calque.grad(programs.settle), *SETTLE, stage="kernels")
        assert seen.ask("return document.documentElement.scrollWidth") <= 390
        tops = seen.ask("return ['user', 'derivative'].map(i => document.getElementById(i).getBoundingClientRect().top)")
        assert tops[0] < tops[1] < 700
    finally:
        seen.devtools("Emulation.clearDeviceMetricsOverride")


def test_printing_shows_all(seen: Browser, folder: Path) -> None:
    shown(seen, folder, calque.grad(programs.settle), *SETTLE, stage="kernels")
    seen.devtools("Emulation.setEmulatedMedia", media="print")
    try:
        heights = seen.ask("return [...document.querySelectorAll('.pane')].map(p => [p.clientHeight, p.scrollHeight])")
        assert len(heights) == 3 and all(0 < inner <= outer + 1 for outer, inner in heights)
    finally:
        seen.devtools("Emulation.setEmulatedMedia", media="")


def test_a_long_derivative_answers_at_once(seen: Browser, folder: Path, tmp_path: Path) -> None:
    """900 lines: the light follows the pointer within a frame or two, on any machine of today."""
    terms = "".join(f"    y{k} = np.sin(y{k - 1} * x) + {k}.0 * y{k - 1}\n" for k in range(1, 161))
    source = tmp_path / "long_program.py"
    source.write_text(f"import numpy as np\n\n\ndef long(x):\n    y0 = x\n{terms}    return np.sum(y160)\n")
    fn = load_function(f"{source}:long")
    text = shown(seen, folder, calque.grad(fn), N, stage="kernels")
    lines = text.count("<li")
    assert lines >= 900
    ready = seen.ask("const t = performance.getEntriesByType('navigation')[0]; return t.domContentLoadedEventEnd - t.responseEnd")
    spent = (
        "const lines = [...document.querySelectorAll('#derivative li[data-to]')]; const started = performance.now();"
        "for (const li of lines) { li.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); li.offsetTop }"
        "return (performance.now() - started) / lines.length"
    )
    assert ready < 5000 and seen.ask(spent) < 50
