"""Run the programs of the gallery that have changed: ``python docs/run_gallery.py``, or with names.

For each, docs/gallery gets its picture, what it prints, and the times of its gradient in calque,
JAX and Autograd (``benchmarks/gallery_peers.py``). The command needs the extra ``test``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib
import matplotlib.pyplot as plt
from PIL import Image

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "extensions"))

import gallery_pages  # noqa: E402

PEERS = {"calque": "calque", "jax": "JAX", "autograd": "Autograd"}
LIMIT = 60  # seconds in which a peer must have compiled and run
LARGEST = 60_000  # bytes of a picture


def keep_picture(path: Path) -> None:
    """Save the figure that is open, with as many colours as the largest size of a file allows."""
    drawn = io.BytesIO()
    plt.gcf().savefig(drawn, dpi=110, bbox_inches="tight", format="png")
    plt.close("all")
    for colors in (256, 64, 24):
        Image.open(drawn).convert("RGB").quantize(colors).save(path, optimize=True)
        if path.stat().st_size < LARGEST:
            return
    raise SystemExit(f"{path.name} is larger than {LARGEST} bytes: draw less")


def printed_by(name: str) -> str:
    """Run a program in this process, keep its picture, and return what it prints."""
    printed = io.StringIO()
    shown: list[None] = []

    def show() -> None:
        keep_picture(gallery_pages.KEPT / f"{name}.png")
        shown.append(None)

    path = gallery_pages.PROGRAMS / f"{name}.py"
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    with mock.patch.object(plt, "show", show), contextlib.redirect_stdout(printed):
        exec(compile(gallery_pages.text_of(name), str(path), "exec"), names)
    assert len(shown) == 1, f"{name} shows {len(shown)} pictures"
    return printed.getvalue()


def as_text(seconds: float) -> str:
    """Write a time with two digits.

    >>> as_text(0.00123)
    '1.2 ms'
    """
    unit, scale = next((u, s) for u, s in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if seconds * s >= 1)
    number = seconds * scale
    return f"{number:.2g} {unit}" if number < 10 else f"{number:.0f} {unit}"


def times(name: str) -> dict[str, str]:
    """Measure the gradient that a program names, in a process for each peer."""
    timed = gallery_pages.TIMED.search(gallery_pages.text_of(name))
    if timed is None:
        return {}
    found = {"timed": timed[1]}
    reference = None
    for peer, label in PEERS.items():
        command = [sys.executable, str(DOCS.parent / "benchmarks" / "gallery_peers.py"), name, peer]
        environment = {**os.environ, "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=True
            )
        except subprocess.TimeoutExpired:
            found[label] = f"not compiled within {LIMIT} s"
            continue
        answer = json.loads(done.stdout.splitlines()[-1])
        reference = reference or answer
        if "refused" in answer:
            found[label] = f"refuses it: {answer['refused']}"
        elif abs(answer["gradient"] - reference["gradient"]) > 1e-6 * abs(reference["gradient"]):
            found[label] = "another result"
        else:
            found[label] = as_text(answer["seconds"])
    return found


def main() -> None:
    """Run the programs that are named, or those whose kept results are not of their text."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    matplotlib.use("Agg")
    gallery_pages.KEPT.mkdir(exist_ok=True)
    chosen = parser.parse_args().names
    for name in chosen or [n for n in gallery_pages.names() if not gallery_pages.is_current(n)]:
        printed = printed_by(name)
        head = {"program": gallery_pages.hash_of(name), **times(name)}
        text = "".join(f"{key}: {value}\n" for key, value in head.items()) + f"\n{printed}"
        (gallery_pages.KEPT / f"{name}.txt").write_text(text, encoding="utf-8")
        print(name, *(f"{key}: {value}" for key, value in head.items()), sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
