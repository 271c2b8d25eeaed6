"""Pieces of SVG from which the pictures of the site are made.

A picture stands within its page and has the colours of the theme, light or dark: docs/static
gives each class its colour. Readers without pictures have ``alt``.
"""

from __future__ import annotations

from html import escape

WIDTH = 520  # of a picture, in its own units: a page shows it as wide as there is room


def figure(kind: str, height: float, alt: str, body: str) -> str:
    """Return a picture as a figure of HTML, in one block of Markdown.

    >>> figure("speeds", 10, "Times", "<g/>")[:31]
    '<figure class="drawn speeds"><s'
    """
    return (
        f'<figure class="drawn {kind}">'
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(alt)}">{body}</svg>'
        "</figure>"
    )


def text(x: float, y: float, said: str, kind: str = "label", anchor: str = "start") -> str:
    """Write a line of text whose base is at ``y``.

    >>> text(1, 2, "a < b")
    '<text class="label" x="1.0" y="2.0" text-anchor="start">a &lt; b</text>'
    """
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(said, quote=False)}</text>'


def line(start: tuple[float, float], end: tuple[float, float], kind: str, more: str = "") -> str:
    """Draw a line.

    >>> line((0, 0), (1, 2), "same")
    '<line class="same" x1="0.0" y1="0.0" x2="1.0" y2="2.0"/>'
    """
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line class="{kind}" {ends}{more}/>'


def box(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    """Draw a rectangle; ``title`` is shown where a mouse points at it.

    >>> box(0, 0, 2, 1, "cell")
    '<rect class="cell" x="0.0" y="0.0" width="2.0" height="1.0"/>'
    """
    told = f"><title>{escape(title)}</title></rect>" if title else "/>"
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}{told}'


def circle(x: float, y: float, radius: float, kind: str) -> str:
    """Draw a circle.

    >>> circle(1, 2, 3, "dot")
    '<circle class="dot" cx="1.0" cy="2.0" r="3.0"/>'
    """
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
