"""The page on which a derivative is reviewed: its text, without a browser."""

from __future__ import annotations

import linecache
import os
import pickle
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import page_programs as programs
import pytest
import test_golden

import calque
from calque import cli
from calque.runtime.pages.review_ticks import ticks_of
from calque.runtime.pages.reviews import review_of
from calque.runtime.saving.viewing import page_text
from calque.targets import load_function, resolve

ROOT = Path(calque.__file__).resolve().parent
N, M = calque.spec("f8[n]"), calque.spec("f8[n,4]")
SETTLE = (N, 0.1, 5)
VOID = {"meta", "link", "input", "br", "img"}
CASES = {
    "grad": (lambda: calque.grad(programs.settle), SETTLE, None),
    "while": (lambda: calque.value_and_grad(programs.newton), (2.0,), None),
    "functions": (lambda: calque.jit(calque.grad(programs.net)), (M, [calque.spec("f8[4,4]")] * 6), None),
    "batch": (lambda: calque.vmap(calque.grad(programs.newton)), (N,), None),
    "jit": (lambda: calque.jit(calque.grad(programs.settle)), SETTLE, "cuda"),
    "plain": (lambda: programs.weighted, (N, N), None),
    "lambda": (lambda: calque.grad(programs.squared), (1.0,), None),
    "method": (lambda: calque.grad(programs.spring.energy), (N,), None),
    "devices": (lambda: calque.pmap(programs.squared), (calque.spec("f8[2,n]"),), None),
}


class Page(HTMLParser):
    """A page as its elements, checked while they are read."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.texts: dict[str, str] = {}  # of lines, by ids
        self.line = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute is given twice: {attrs}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "li" and "id" in dict(attrs):
            self.line = dict(attrs)["id"]
            self.texts[self.line] = ""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} closes another element"

    def handle_data(self, data: str) -> None:
        if "code" in self.open and self.line:
            self.texts[self.line] += data

    def of(self, tag: str) -> list[dict[str, Any]]:
        return [attrs for name, attrs in self.elements if name == tag]


def page(fn: Callable[..., Any], *args: Any, **options: Any) -> tuple[str, Page]:
    text = page_text(fn, *args, **options)
    return text, Page(text)


def checked(text: str) -> Page:
    """A page that stands alone, whose links lead somewhere, and whose lines are linked."""
    read = Page(text)
    ids = [attrs["id"] for _, attrs in read.elements if "id" in attrs]
    assert not [i for i, count in Counter(ids).items() if count > 1]
    for tag, attrs in read.elements:
        assert "src" not in attrs and tag not in ("img", "iframe", "object", "embed")
        assert not any(name.startswith("on") for name in attrs), attrs
    assert all(a["href"].startswith("#") and a["href"][1:] in ids for a in read.of("a"))
    assert [link["href"] for link in read.of("link")] == ["data:,"]
    style, script = (re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1] for tag in ("style", "script"))
    assert not re.search(r"https?:|//\w|@import|url\(", style + script.replace("// ", ""))
    keys = {key for li in read.of("li") for key in (li.get("data-s"),) if key}
    for li in read.of("li"):
        for key in (li.get("data-to") or "").split():
            assert key in keys and key in ids
    return read


@pytest.mark.parametrize("name", CASES)
def test_a_page_stands_alone_and_its_links_lead_somewhere(name: str) -> None:
    fn, args, stage = CASES[name]
    checked(page_text(fn(), *args, stage=stage))


@pytest.mark.parametrize("name", test_golden.CASES)
def test_pages_of_the_golden_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the derivative is linked, and every text is shown as it is."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    file, function, transform, *types = test_golden.CASES[name]
    fn, args = resolve(f"{file}:{function}", transform, types[0] if types else None)
    read = checked(page_text(fn, *args))
    source = calque.source(fn, *args, stage="numpy").rstrip("\n").split("\n")
    assert [read.texts[f"d{k}"] for k in range(1, len(source) + 1)] == source
    lines = {li["id"]: li for li in read.of("li") if li.get("id", "").startswith("d")}
    for k, text in enumerate(source, 1):
        said = text.strip().lstrip("# ")
        if said and said not in ("forward", "reverse", "first derivative"):
            assert lines[f"d{k}"].get("data-to"), text


def test_the_users_lines_are_those_of_the_file() -> None:
    _, read = page(calque.grad(programs.settle), *SETTLE)
    file = Path(programs.__file__).read_text(encoding="utf-8").splitlines()
    shown = {int(i.partition("-")[2]): text for i, text in read.texts.items() if i.startswith("u0-")}
    assert shown and all(file[number - 1] == text for number, text in shown.items())
    assert {"def settle", "def flux"} <= {text.partition("(")[0] for text in shown.values()}


def test_a_reverse_statement_says_which_it_answers() -> None:
    _, read = page(calque.grad(programs.settle), *SETTLE)
    labels = {a["aria-label"] for a in read.of("a") if "aria-label" in a}
    assert any(re.fullmatch(r"line \d+, reverse, answers settle line \d+", label) for label in labels)
    assert any(re.fullmatch(r"line \d+, reverse, answers flux line \d+, settle line \d+", label) for label in labels)
    assert any(re.fullmatch(r"line \d+, answered by \d+ lines", label) for label in labels)


def test_all_lines_of_a_statement_are_one() -> None:
    _, read = page(calque.grad(programs.weighted), N, N)
    scaled = [li["data-s"] for li in read.of("li") if "data-s" in li and read.texts[li["id"]].strip() in ("scaled = (", "x * w", "+ np.exp(-x)", ")")]
    assert len(scaled) == 4 and len({*scaled}) == 1


def test_an_attribute_is_no_name() -> None:
    text, _ = page(calque.grad(programs.attribute_like), N)
    assert re.search(r'<span title="[^"]*float64 \(n,\)">shape</span> ', text)
    assert "u_bar.shape" not in text and not re.search(r"\.<span title", text)


def test_text_of_the_users_cannot_become_elements() -> None:
    text, read = page(calque.grad(programs.marked_up), N)
    assert "<b>bold</b>" not in text and "</script><b>" not in text
    assert any("<b>bold</b>" in line for line in read.texts.values())


def test_panes_follow_the_stage() -> None:
    for fn, stage, expected in (
        (calque.grad(programs.settle), None, ["derivative"]),
        (calque.grad(programs.settle), "kernels", ["derivative", "kernels"]),
        (calque.jit(calque.grad(programs.settle)), None, ["derivative", "kernels"]),
        (calque.jit(calque.grad(programs.settle)), "cuda", ["derivative", "kernels", "cuda"]),
        (calque.grad(programs.settle), "cuda", ["derivative", "cuda"]),
    ):
        _, read = page(fn, *SETTLE, stage=stage)
        assert [s["id"] for s in read.of("section")] == ["user", *expected]


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_pass_wcag_aa() -> None:
    """Each colour of text on each background behind it: 4.5 to 1, in the light and in the dark."""
    sheet = (ROOT / "runtime" / "pages" / "page.css").read_text(encoding="utf-8")
    themes = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    assert len(themes) == 2
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w{6});", theme))
        texts = ["text", "quiet", "accent", "keyword", "string", "number", "builtin", "comment"]
        lines = ["forward", "reverse", "edge"]
        for behind in {*colours} - {*texts, *lines}:
            for text in texts:
                light, dark = sorted((luminance(colours[c]) for c in (text, behind)), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, behind)


def test_view_writes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = calque.view(calque.grad(programs.newton), 2.0, path=tmp_path / "page.html")
    assert path == tmp_path / "page.html" and not opened
    assert path.read_text(encoding="utf-8") == page_text(calque.grad(programs.newton), 2.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = calque.view(calque.grad(programs.newton), 2.0)
    assert opened == [made.as_uri()] and made.parent == tmp_path and made.suffix == ".html"


def test_view_refuses_with_the_users_line() -> None:
    with pytest.raises(calque.transpiler.errors.ImpureFunction, match="line"):
        calque.view(calque.grad(programs.drawing), 1.0, path=os.devnull)
    with pytest.raises(ValueError, match="core"):
        calque.view(calque.grad(programs.newton), 1.0, path=os.devnull, stage="core")


def test_source_in_a_notebook_opens_the_page() -> None:
    text = calque.source(calque.grad(programs.settle), *SETTLE)
    assert type(text + "") is str and text.startswith("def settle_grad")
    shown = text._repr_html_()
    frame = re.search(r'srcdoc="([^"]*)"', shown)
    assert frame and "<script" not in shown.replace(frame[0], "")
    copied = pickle.loads(pickle.dumps(text))
    assert copied == text and "srcdoc" not in copied._repr_html_()


def test_a_file_that_has_changed_is_linked_nowhere(tmp_path: Path) -> None:
    """A program of an older text than the file's: no line is said to answer what it does not."""
    program = tmp_path / "edited_program.py"
    program.write_text("import numpy as np\n\n\ndef f(x):\n    y = np.sin(x)\n    return y * y\n")
    slope = calque.grad(load_function(f"{program}:f"))
    slope(1.0)
    assert any("data-to" in li for li in page(slope, 1.0)[1].of("li"))
    program.write_text("import numpy as np\n\n\ndef f(x):\n    z = np.cos(x)\n    return z * x\n")
    linecache.checkcache(str(program))
    lines = [li for li in page(slope, 1.0)[1].of("li") if li.get("id", "").startswith("d")]
    assert lines and {li.get("data-to") for li in lines} <= {None, "u0-4"}  # the head is as it was


# the command


def show(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    types = ["--args", "f8[n], float, int"]
    code = cli.main(["show", "page_programs.py:settle", "--transform", "grad(f)", *types, *options])
    return code, *capsys.readouterr()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the programs in it, where the command runs."""
    text = Path(programs.__file__).read_text(encoding="utf-8")
    (tmp_path / "page_programs.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return tmp_path


def test_the_command_writes_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(capsys, "--html", "-o", "page.html")[0] == 0
    written = (folder / "page.html").read_text(encoding="utf-8")
    code, out, _ = show(capsys, "--html")
    assert code == 0 and out == written
    checked(out)


def test_a_page_is_the_same_each_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = show(capsys, "--html")[1]
    assert "tmp" not in re.sub(r"<(style|script)>.*?</\1>", "", first, flags=re.DOTALL)
    command = [sys.executable, "-m", "calque", "show", "page_programs.py:settle", "--transform", "grad(f)"]
    paths = {"PYTHONPATH": str(ROOT.parent), "PYTHONHASHSEED": "7"}
    done = subprocess.run([*command, "--args", "f8[n], float, int", "--html"], capture_output=True, text=True, env={**os.environ, **paths})
    assert done.stdout == first, done.stderr


def test_wrong_usage_of_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, said in (
        (["--against", "saved.py"], "write --html"),
        (["--html", "--stage", "core"], "has no page"),
        (["--html", "--against", "nowhere.py"], "nowhere.py cannot be read"),
    ):
        code, _, error = show(capsys, *options)
        assert code == 2 and said in error


# against a committed module


def test_no_difference_from_a_committed_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(capsys, "-o", "saved.py")
    _, out, _ = show(capsys, "--html", "--against", "saved.py")
    assert "No difference from saved.py." in out
    read = checked(out)
    committed = (folder / "saved.py").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert [read.texts[f"d{k}"] for k in range(1, len(committed) + 1)] == committed


def test_a_difference_from_a_committed_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(capsys, "-o", "saved.py")
    saved = folder / "saved.py"
    saved.write_text(saved.read_text().replace("u_bar[1:-1] *= 0.5", "u_bar[1:-1] *= 0.25"))
    _, out, _ = show(capsys, "--html", "--against", "saved.py")
    assert "Compared with saved.py: 1 line is new, 1 is gone." in out
    read = checked(out)
    marked = {c: li for li in read.of("li") for c in (li.get("class") or "").split() if c in ("added", "removed")}
    assert read.texts[marked["added"]["id"]].strip() == "u_bar[1:-1] *= 0.5"
    assert "id" not in marked["removed"] and "u_bar[1:-1] *= 0.25" in re.sub("<[^>]*>", "", out)


def ticks(out: str) -> dict[str, bool]:
    boxes = [a for a in Page(out).of("input") if a.get("class") == "tick"]
    return {box["data-k"]: "checked" in box for box in boxes}


def test_ticks_stay_with_what_was_reviewed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tick is kept where the lines and their statement are the same, and only there."""
    show(capsys, "-o", "saved.py")
    first = ticks(show(capsys, "--html", "--against", "saved.py")[1])
    assert first and not any(first.values())
    listed = "# reviewed\n" + "".join(f"{key}  some words\n" for key in first)
    (folder / "saved.py.reviewed").write_text(listed)
    assert all(ticks(show(capsys, "--html", "--against", "saved.py")[1]).values())
    program = folder / "page_programs.py"
    program.write_text("import math\n" + program.read_text().replace("u[1:-1] *= 0.5", "u[1:-1] *= 0.75"))
    command = [sys.executable, "-m", "calque", "show", "page_programs.py:settle", "--transform", "grad(f)", "--args", "f8[n], float, int"]
    done = subprocess.run([*command, "--html", "--against", "saved.py"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT.parent)})
    after = ticks(done.stdout)
    assert "Ticks of lines that have changed since: 2." in done.stdout
    lost = [key for key, checked in after.items() if not checked]
    assert len(lost) == 2 and len(after) == len(first)  # forth and back


def test_verify_takes_no_notice_of_ticks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(capsys, "-o", "saved.py")
    (folder / "saved.py.reviewed").write_text("00ff  a line\n")
    assert cli.main(["verify", "saved.py"]) == 0


def test_a_tick_is_of_the_generated_lines_too() -> None:
    lines = review_of(calque.grad(programs.settle), SETTLE).panes[0].lines
    changed = [replace(line, text=line.text.replace("2.0 * u", "3.0 * u")) for line in lines]
    before, after = ({tick.key for tick in ticks_of(each, {}).values()} for each in (lines, changed))
    assert len(before - after) == len(after - before) == 1


def test_equal_lines_have_ticks_of_their_own() -> None:
    review = review_of(calque.grad(programs.net), (M, [calque.spec("f8[4,4]")] * 6))
    keys = [tick.key for tick in ticks_of(review.panes[0].lines, {}).values()]
    assert len(keys) == len({*keys}) > 10


@pytest.mark.parametrize("name", ["logistic_regression", "gauss_seidel", "halo_exchange", "adjoint_heat"])
def test_pages_of_what_examples_show(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs of which examples show the source have pages, too."""
    asked: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    source = calque.source

    def noted(fn: Any, *args: Any, **options: Any) -> Any:
        asked.append((fn, args, options))
        return source(fn, *args, **options)

    monkeypatch.setattr(calque, "source", noted)
    monkeypatch.chdir(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert asked
    for fn, args, options in asked:
        checked(page_text(fn, *args, **options))


# the numbers of a check


def test_a_check_needs_values_and_the_functions_own_arguments() -> None:
    with pytest.raises(ValueError, match="arguments of a call"):
        calque.view(calque.grad(programs.settle), *SETTLE, path=os.devnull, check=True)
    with pytest.raises(ValueError, match=r"vmap\(f\) has other arguments"):
        calque.view(calque.vmap(programs.newton), calque.random.uniform(calque.random.key(0), (3,)), path=os.devnull, check=True)
    with pytest.raises(TypeError, match="check"):
        calque.view(calque.grad(programs.newton), 2.0, path=os.devnull, check="yes")  # type: ignore[arg-type]


def test_the_command_checks_at_random_arguments(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = show(capsys, "--html", "--check")
    assert code == 0 and "np.sum agrees: forward" in out
    checked(out)


# the command in a module's header


def test_the_header_of_a_module_stands_for_the_function(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    show(capsys, "-o", "saved.py")
    expected = show(capsys, "--html", "--against", "saved.py")[1]
    assert cli.main(["show", "--html", "--against", "saved.py"]) == 0
    assert capsys.readouterr().out == expected
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert cli.main(["show", "--html", "--against", "../saved.py", "-o", "page.html"]) == 0
    assert (folder / "below" / "page.html").read_text(encoding="utf-8") == expected


def test_a_header_outside_of_the_checkout_is_not_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(capsys, "-o", "saved.py")
    text = (folder / "saved.py").read_text().replace("page_programs.py:settle", "/elsewhere/page_programs.py:settle")
    (folder / "saved.py").write_text(text)
    assert cli.main(["show", "--html", "--against", "saved.py"]) == 2
    assert "not in this checkout" in capsys.readouterr().err
    for words in (["show"], ["show", "--html"], ["show", "--check"]):
        assert cli.main(words) == 2


# the documents


def test_the_workflow_that_the_page_shows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its commands run, but for the installation."""
    text = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    workflow = re.search(r"```yaml\nname: derivatives\n(.*?)```", text, re.DOTALL)
    assert workflow is not None
    commands = re.findall(r"run: (?!\|)(.+)", workflow[1]) + [
        "\n".join(line.strip() for line in block.splitlines()) for block in re.findall(r"run: \|\n((?: {10}.+\n)+)", workflow[1])
    ]
    assert len(commands) == 3 and commands[0].startswith("pip install")
    show(capsys, "-o", "settle_grad.py")
    shim = folder / "bin" / "calque"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m calque "$@"\n')
    shim.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent), "PATH": f"{shim.parent}:{os.environ['PATH']}"}
    for command in commands[1:]:
        done = subprocess.run(["bash", "-e", "-c", command], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    checked((folder / "pages" / "settle_grad.html").read_text(encoding="utf-8"))


def test_pictures_of_the_documents_are_small() -> None:
    shown = re.findall(r"!\[[^]]+\]\((pictures/[^)]+)\)", (ROOT / "docs" / "review.md").read_text(encoding="utf-8"))
    kept = {f"pictures/{path.name}" for path in (ROOT / "docs" / "pictures").iterdir()}
    assert {*shown} == kept and all((ROOT / "docs" / name).stat().st_size < 200_000 for name in kept)
