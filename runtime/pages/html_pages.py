"""A review as one HTML file: it loads nothing, and can be read without scripts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby

from calque.runtime.pages.coloured_code import Tokens, code_html, tokens_of
from calque.runtime.pages.line_notes import COSTS, KINDS, PASSES, READ_AGAIN, RECOMPUTED
from calque.runtime.pages.review_ticks import ticks_of
from calque.runtime.pages.reviews import PageLine, Pane, Review, ShownFunction, UserLine
from calque.runtime.pages.text_differences import ADDED, REMOVED
from calque.runtime.version import __version__
from calque.transpiler.diagnostics.line_sources import BLANK, CODE, COMMENT, HEAD, OTHER, PHASE
from calque.transpiler.errors import file_name

_MOST_RULES = 400  # for partners without a script: more would be slow
_FEW_LINKS = 3
_QUIET = (RECOMPUTED, READ_AGAIN, COSTS)  # notes that are read when a line is pointed at
_LONG = 46  # letters of a line whose tags stand below it
_LEAST_SHARE = 0.005  # of operations, that is shown as a number
_FEW = 12  # lines of what kernels call that are shown unasked
_LEGEND = {
    "wrong": "the derivative of an operation differs from differences",
    "loop": "runs as a loop in Python",
    "saved": "a value is saved for the reverse phase",
    "restored": "stores are undone by the reverse phase",
    "call": "runs as a call of NumPy's or SciPy's",
    "recomputed": "a value is computed again by the reverse phase",
    "again": "a value is read again where it still stands",
    "kernel": "runs in a kernel",
    "hand": "the reverse phase has what it needs at hand",
    "right": "derivatives agree with differences, at the values of the check",
}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@cache
def _part(name: str) -> str:
    """The text of the style sheet or of the script, which stand beside this file."""
    return files("calque.runtime.pages").joinpath(name).read_text(encoding="utf-8")


def page_html(review: Review) -> str:
    """The text of a page."""
    names = _Anchors(review)
    body = [
        *_header(review, names),
        "<main>",
        *_user_pane(review, names),
        *(line for pane in review.panes for line in _pane(pane, review, names)),
        "</main>",
        '<p id="status" role="status" data-script hidden></p>',
    ]
    title = escape(f"{review.title} - calque")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="calque {__version__}">',
            '<link rel="icon" href="data:,">',
            f"<title>{title}</title>",
            f"<style>\n{_part('page.css')}</style>",
            f"<noscript><style>\n{_rules_without_scripts(review, names)}\n</style></noscript>",
            "</head>",
            f'<body data-name="{escape(_file_name(review))}">',
            *body,
            f"<script>\n{_part('page.js')}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def framed(page: str, height: int = 560) -> str:
    """A page to open below the text in a notebook, whose own styles it leaves alone."""
    told = "Beside the functions that it is made from"
    style = f"width:100%;height:{height}px;border:1px solid #8884"
    frame = f'<iframe title="{told}" style="{style}" srcdoc="{escape(page)}"></iframe>'
    return f"<details><summary>{told}</summary>{frame}</details>"


class _Anchors:
    """The ids to which links lead, both ways, and words for places."""

    def __init__(self, review: Review):
        self.words: dict[str, str] = {}  # by keys of statements: ``settle line 12``
        self.numbers: dict[str, int] = {}
        for function in review.functions:
            for key in dict.fromkeys(line.key for line in function.lines):
                self.numbers[key] = int(key.partition("-")[2])
                self.words[key] = f"{function.name} line {self.numbers[key]}"
        self.answers: dict[str, list[str]] = {}  # by keys: the ids of lines that answer, code first
        lines = [(pane, line) for pane in review.panes for line in pane.lines if line.keys]
        for pane, line in sorted(lines, key=lambda found: found[1].source.kind != CODE):
            for key in line.keys:
                self.answers.setdefault(key, []).append(line_id(pane, line))


def line_id(pane: Pane, line: PageLine) -> str:
    """The id of a line of a generated text, ``d12``."""
    return f"{pane.key[0]}{line.number}"


def _file_name(review: Review) -> str:
    if review.against is not None:
        return os.path.basename(review.against.name)
    last = [s for s in (line.source for line in review.panes[0].lines) if s.function]
    return last[-1].function if last else "review"


def _rules_without_scripts(review: Review, names: _Anchors) -> str:
    """Rules that do without a script what it does: panes, remarks, ticks, and partners' light."""
    shown = [f"body:has(#show-{p.key}:not(:checked)) #{p.key}" for p in review.panes]
    shown += ["body:has(#remarks:not(:checked)) .notes", "body:has(#ticks:not(:checked)) .tick"]
    made = [f"{selector} {{ display: none; }}" for selector in shown]
    made.append("body:has(#ticks:checked) .generated .no { width: 8.2rem; }")
    if len(names.answers) > _MOST_RULES:
        return "\n".join(made)
    for key in names.answers:
        user, generated = f'[data-s="{key}"]', f'[data-to~="{key}"]'
        pairs = ((user, generated), (generated, user))
        lit = ", ".join(f"main:has({one}:hover) {other}" for one, other in pairs)
        made.append(f"{lit} {{ background: var(--lit) !important; }}")
    return "\n".join(made)


# what stands above the panes


def _header(review: Review, names: _Anchors) -> Iterator[str]:
    yield f"<header>\n<h1>{escape(review.title)}</h1>"
    yield f"<p>{escape(review.subtitle)}</p>"
    if review.against is not None:
        yield f"<p>{escape(_compared(review, names))}</p>"
    yield '<div class="bar">'
    if len(review.panes) > 1:
        yield "<fieldset aria-label='Text shown'>"
        for k, pane in enumerate(review.panes):
            checked = " checked" * (k == 0)
            kind = f'<input type="radio" name="pane" id="show-{pane.key}"{checked}>'
            yield f"<label>{kind}{escape(pane.title)}</label>"
        yield "</fieldset>"
    notes = [n for f in review.functions for line in f.lines for n in line.notes]
    if any(n.text and n.kind != COSTS for n in notes):
        yield '<label><input type="checkbox" id="remarks" checked>Remarks</label>'
    checked = " checked" * (review.against is not None)
    yield f'<label><input type="checkbox" id="ticks"{checked}>Review</label>'
    yield '<span id="count" data-script hidden></span>'
    yield '<button type="button" id="copy" data-script hidden>Save reviewed copy</button>'
    yield '<button type="button" id="list" data-script hidden>Save list of ticks</button>'
    if review.kinds:
        yield '<details class="legend"><summary>Legend and keys</summary><ul>'
        for kind in review.kinds:
            yield f'<li><span class="tag {kind}">{KINDS[kind]}</span>{_LEGEND[kind]}</li>'
        phases = {line.source.phase for pane in review.panes for line in pane.lines}
        for phase in ("forward", "reverse"):
            if phase in phases:
                yield f'<li><span class="swatch {phase}"></span>{phase} phase</li>'
        if any(n.kind == COSTS for n in notes):
            yield '<li><span class="tag cost">40%</span>share of operations, without kernels</li>'
        yield "<li>arrows or j, k: lines; left, right, Enter: partner; t: tick; Escape: none</li>"
        yield "</ul></details>"
    yield "</div>\n</header>"


def _compared(review: Review, names: _Anchors) -> str:
    against = review.against
    assert against is not None
    marks = [line.mark for pane in review.panes for line in pane.lines]
    added, removed = marks.count(ADDED), marks.count(REMOVED)
    now = {tick.key for tick in ticks_of(review.panes[0].lines, names.words).values()}
    lost = len(against.reviewed - now)
    said = f" Ticks of lines that have changed since: {lost}." if lost else ""
    if not added and not removed:
        return f"No difference from {against.name}.{said}"
    new, gone = ("is" if count == 1 else "are" for count in (added, removed))
    lines = _counted(added, "line")
    return f"Compared with {against.name}: {lines} {new} new, {removed} {gone} gone.{said}"


# the user's functions


def _user_pane(review: Review, names: _Anchors) -> Iterator[str]:
    yield '<section class="pane user" id="user" aria-labelledby="user-title">'
    yield '<h2 id="user-title">Your functions</h2>'
    for function in review.functions:
        place = escape(file_name(function.file))
        yield f"<h3>{escape(function.name)} <small>{place}</small></h3>\n<ol>"
        tokens = tokens_of([line.text for line in function.lines])
        for line, found in zip(function.lines, tokens):
            yield _user_line(line, found, function, names)
        yield "</ol>"
    yield "</section>"


def _user_line(line: UserLine, tokens: Tokens, function: ShownFunction, names: _Anchors) -> str:
    own = line.key.partition("-")[0]
    partners = names.answers.get(line.key, [])
    classes = f' class="{line.kind}"' * bool(line.kind)
    quiet = [n for n in line.notes if n.kind in _QUIET]
    more = escape(" · ".join(dict.fromkeys(n.text for n in quiet if n.text)))
    more = f' data-more="{more}"' * bool(more)
    head = f'<li id="{own}-{line.number}"{classes} data-s="{line.key}"{more}>'
    if partners:
        said = f"line {line.number}, answered by {_counted(len(partners), 'line')}"
        number = f'<a class="no" href="#{partners[0]}" aria-label="{said}">{line.number}</a>'
    else:
        number = f'<span class="no">{line.number}</span>'
    tags = "".join(_tags(line))
    if len(line.text) > _LONG and tags:
        tags = f'<div class="notes row">{tags}</div>'
    told = _paragraphs(n.text for n in line.notes if n.kind not in (PASSES, *_QUIET))
    passes = _paragraphs(n.text for n in line.notes if n.kind == PASSES)
    if passes:
        told += f"<details><summary>Passes of the kernels</summary>{passes}</details>"
    notes = f'<div class="notes">{told}</div>' if told else ""
    return f"{head}{number}<code>{code_html(tokens, function.names)}</code>{tags}{notes}</li>"


def _tags(line: UserLine) -> Iterator[str]:
    """The kinds of a line's notes, and its share in all operations; quiet notes are titles."""
    texts = {kind: [n.text for n in line.notes if n.kind == kind] for kind in (*KINDS, COSTS)}
    for kind in KINDS:
        if texts[kind] or (line.is_first and kind == line.kind):
            why = escape("; ".join(filter(None, texts[kind]))) if kind in _QUIET else ""
            title = f' title="{why}"' * bool(why)
            yield f'<span class="tag {kind}"{title}>{KINDS[kind]}</span>'
    for note in line.notes:
        if note.kind == COSTS:
            shown = f"{note.share:.0%}" if note.share >= _LEAST_SHARE else "·"
            yield f'<span class="tag cost" title="{escape(note.text)}">{shown}</span>'


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text)}.</p>" for text in dict.fromkeys(texts) if text)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


# generated texts


def _pane(pane: Pane, review: Review, names: _Anchors) -> Iterator[str]:
    title = f"{pane.key}-title"
    yield f'<section class="pane generated" id="{pane.key}" aria-labelledby="{title}">'
    yield f'<h2 id="{title}">{escape(pane.title)}{_jumps(pane)}</h2>\n<ol>'
    ticks = ticks_of(pane.lines, names.words) if pane is review.panes[0] else {}
    shown = zip(pane.lines, _tokens(pane))
    for is_other, run in groupby(shown, key=lambda found: _is_added(found[0])):
        lines = list(run)
        folded = is_other and len(lines) > _FEW
        if folded:
            count = len(lines)
            told = f"{count} lines: imports, and functions that the text calls"
            yield f'<li><details class="more"><summary>{told}</summary><ol>'
        for line, tokens in lines:
            tick = ticks.pop(line.block, None) if line.source.kind in (CODE, COMMENT) else None
            box = ""
            if tick is not None:
                checked = " checked" * bool(review.against and tick.key in review.against.reviewed)
                text = escape(tick.text)
                about = f'data-k="{tick.key}" data-t="{text}" aria-label="reviewed: {text}"'
                box = f'<input type="checkbox" class="tick" {about}{checked}>'
            yield _line(line, tokens, box, pane, names)
        if folded:
            yield "</ol></details></li>"
    yield "</ol>\n</section>"


def _jumps(pane: Pane) -> str:
    """Links to the functions of a text, if it has several."""
    heads = {s.function: line for line in reversed(pane.lines) if (s := line.source).kind == HEAD}
    if len(heads) < 2:
        return ""
    links = "".join(
        f'<a href="#{line_id(pane, line)}">{escape(name)}</a>'
        for name, line in reversed(heads.items())
    )
    if len(heads) <= _FEW_LINKS:
        return links
    return f"<details><summary>{len(heads)} functions</summary>{links}</details>"


def _is_added(line: PageLine) -> bool:
    """True for an unchanged line that calque adds to a text."""
    return line.source.kind in (OTHER, BLANK) and not line.source.function and not line.mark


def _tokens(pane: Pane) -> list[Tokens]:
    """The tokens of a text; those of lines that are gone, and of kernels in C, by themselves."""
    texts = [line.text for line in pane.lines]
    found = iter(tokens_of([line.text for line in pane.lines if line.mark != REMOVED]))
    made = [[("", line.text)] if line.mark == REMOVED else next(found) for line in pane.lines]
    start = next((k for k, text in enumerate(texts) if text.startswith('code = r"""')), None)
    if start is not None:
        end = next((k for k in range(start + 1, len(texts)) if texts[k].startswith('"""')), None)
        made[start + 1 : end] = tokens_of(texts[start + 1 : end], "cuda")
    return made


def _line(line: PageLine, tokens: Tokens, box: str, pane: Pane, names: _Anchors) -> str:
    source = line.source
    classes = [c for c in (_phase_class(source.phase),) if c]
    classes += ["phase"] if source.kind == PHASE else []
    classes += {ADDED: ["added"], REMOVED: ["removed"]}.get(line.mark, [])
    attributes = f' id="{line_id(pane, line)}"' if line.number else ""
    attributes += f' class="{" ".join(classes)}"' if classes else ""
    attributes += f' data-to="{" ".join(line.keys)}"' if line.keys else ""
    attributes += f' data-b="{line.block}"' if line.block >= 0 else ""
    number = str(line.number or "")
    if line.keys:
        said = f"line {number}, {_said(line, names)}"
        to = f'<span class="to">{names.numbers[line.keys[0]]}</span>'
        href = line.keys[0]
        number = f'<a class="no" href="#{href}" aria-label="{escape(said)}">{number}{to}</a>'
    else:
        number = f'<span class="no">{number}<span class="to"></span></span>'
    code = code_html(tokens, pane.names.get(source.function, {}))
    return f"<li{attributes}>{box}{number}<code>{code}</code></li>"


def _phase_class(phase: str) -> str:
    if phase == "forward":
        return "forward"
    return "reverse" if phase else ""


def _said(line: PageLine, names: _Anchors) -> str:
    """``reverse, answers settle line 12, called at settle line 3``."""
    first, *others = (names.words[key] for key in line.keys)
    told: Sequence[str] = [line.source.phase, f"answers {first}", *others]
    return ", ".join(filter(None, told))
