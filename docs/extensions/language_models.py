"""The whole site as text for language models: llms.txt, which lists the pages, and llms-full.txt.

Pages are Markdown, in the order of the navigation. Parts that the build makes are written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated_parts import FENCE, expanded

SUMMARY = (
    "calque writes the derivative of a NumPy function as source code that you can read, review "
    "and commit."
)


def plain(text: str) -> str:
    """Return a page without directives that only place things on a screen.

    >>> plain("# Title\\n\\n```{toctree}\\na\\n```\\n\\n:::{card} One\\ntext\\n:::\\n")
    '# Title\\n\\nOne\\ntext\\n'
    """
    text = expanded(text, plain=True)
    text = FENCE.sub("", text)
    text = re.sub(r"^:{3,}\{grid\}.*\n", "", text, flags=re.M)
    kept = [re.sub(r"^:{3,}\{[\w-]+\} ?", "", line) for line in text.split("\n")]
    kept = [line for line in kept if not re.fullmatch(r":{3,}|:[\w-]+:.*", line.strip())]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() + "\n"


def first_sentence(text: str) -> str:
    """Return what a page says first below its title.

    >>> first_sentence("# Title\\n\\nOne thing. Another.\\n")
    'One thing.'
    """
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")[1:]]
    sentences = [p for p in paragraphs if re.match(r"[\w`\[*]", p)]
    sentence = re.split(r"(?<=\.) ", sentences[0], maxsplit=1)[0] if sentences else ""
    sentence = re.sub(r":$", ".", sentence)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence)


def in_order(includes: dict[str, list[str]], page: str) -> Iterator[str]:
    """Yield a page and those below it, in the order of the navigation."""
    yield page
    for below in includes.get(page, ()):
        yield from in_order(includes, below)


def write(app: Any, failure: Exception | None) -> None:
    """Write both texts beside index.html."""
    if failure is not None or app.builder.name != "html":
        return
    index, texts = [f"# calque\n\n> {SUMMARY}\n"], []
    for name in in_order(app.env.toctree_includes, app.config.root_doc):
        text = plain(Path(app.env.doc2path(name)).read_text(encoding="utf-8"))
        title = app.env.titles[name].astext()
        line = f"- [{title}]({name}.html): {first_sentence(text)}".rstrip(": ")
        if name in app.env.toctree_includes and name != app.config.root_doc:
            line = f"\n## {title}\n\n{line}"
        index.append(line)
        texts.append(f"<!-- {name} -->\n\n{text}")
    folder = Path(app.outdir)
    (folder / "llms.txt").write_text("\n".join(index) + "\n", encoding="utf-8")
    (folder / "llms-full.txt").write_text("\n\n".join(texts), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Write the texts when the site is built."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
