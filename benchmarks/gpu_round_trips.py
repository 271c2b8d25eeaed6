"""Count the battery's programs that wait for the GPU: ``python benchmarks/gpu_round_trips.py``.

Each program's value and gradient run as launchers on the tests' stand-in for CuPy, which needs no
GPU. A program that asks it for a number makes a round trip: the host waits for all that was
launched before, and only then launches more. ``--write`` keeps the table in
``benchmarks/results/gpu_static.md``, in the section "Programs".
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import numpy as np  # noqa: E402
from cuda_emulator import standin  # noqa: E402
from cuda_emulator.running import cuda_text, on_cuda, prepare  # noqa: E402

import calque  # noqa: E402
from battery.registry import Program, load  # noqa: E402

RESULTS = HERE / "results" / "gpu_static.md"
TITLE = "## Programs"
REASONS = (  # in a launcher's line, and what it means
    (r"^while |^if .*: *break|break$", "a loop that ends by a run-time value"),
    (r"^(if|elif) ", "a branch on a run-time value that holds more than a kernel may"),
    (r"checked_index\(", "an index, made on the GPU, of a statement that is in no kernel"),
    (r"print\(|f['\"]", "printing"),
    (r"^for ", "a loop whose trip count is a run-time value"),
    (r"raise |assert ", "an assertion"),
)


@contextmanager
def watched(lines: list[str]) -> Iterator[None]:
    """Note the launcher's line of each number that the host asks for."""
    get = standin.ndarray.get

    def noted(self: Any) -> Any:
        frame = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith("<calque "):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            lines.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())
        return get(self)

    standin.ndarray.get = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        standin.ndarray.get = get  # type: ignore[method-assign]


def reason(line: str) -> str:
    """Why the host asks for a number in this line."""
    return next((word for form, word in REASONS if re.search(form, line)), "a number as Python's")


def table(programs: list[Program]) -> str:
    """The section: how many, and which by why."""
    functions = {p.id: calque.value_and_grad(p.scalar(), argnums=p.diff) for p in programs}
    prepare(cuda_text(functions[p.id], *p.fresh()) for p in programs)
    found: dict[str, list[str]] = {}
    waiting = 0
    for program in programs:
        lines: list[str] = []
        with watched(lines), np.errstate(all="ignore"):
            on_cuda(functions[program.id], *program.fresh())
        waiting += bool(lines)
        for word in dict.fromkeys(map(reason, lines)):
            found.setdefault(word, []).append(program.id)
    wholly = len(programs) - waiting
    made = [
        TITLE,
        "",
        f"`python benchmarks/gpu_round_trips.py --write`: value and gradient of the {len(programs)}"
        " programs of `tests/battery`, as launchers on the tests' stand-in for CuPy.",
        "",
        f"- {wholly} ({wholly / len(programs):.1%}) run wholly in kernels and library calls: the"
        " host launches, and waits for nothing.",
        f"- {waiting} make a round trip: the host waits for a number, and launches by it.",
        "",
        "| why the host waits | programs | which |",
        "| --- | --- | --- |",
    ]
    for word, which in sorted(found.items(), key=lambda item: -len(item[1])):
        made.append(f"| {word} | {len(which)} | {', '.join(f'`{w}`' for w in which)} |")
    return "\n".join(made) + "\n"


def main() -> None:
    """Print the section, and keep it where asked to."""
    text = table([p for p in load() if p.refused is None])
    print(text)
    if "--write" in sys.argv:
        before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "# GPU, without one\n"
        own = re.compile(rf"^{TITLE}\n.*?(?=^## |\Z)", re.S | re.M)
        kept = own.sub("", before).rstrip("\n")
        RESULTS.write_text(f"{kept}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
