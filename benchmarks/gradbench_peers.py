"""The tools of GradBench side by side: calque, derivatives by hand, JAX, PyTorch and CoDiPack.

    python benchmarks/gradbench_peers.py CHECKOUT [--write] [--only PATTERN]

CHECKOUT is a clone of github.com/gradbench/gradbench with `cpp/json.hpp` (`make -C cpp`) and
the tool `manual` built; its evals need pydantic and dataclasses-json. This script stands between
an eval and several tools: each message that the eval sends goes to all of them in turn, and
the eval checks calque's answers as it would in GradBench. Tools that are not installed are left
out. Exits 1 where an eval rejects an answer, or a tool's answer differs from calque's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measuring
from measuring import ratio, shown

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "gradbench.md"
SIZES = {
    "hello": "",
    "llsq": "-n 16 1024 16392",
    "lse": "-n 2500 40000 320000",
    "det": "-l 5 8 10",
    "kmeans": "-k 10 1000 -n 1000 10000 -d 16",
    "gmm": "-d 10 64 -k 5 100",
    "ode": "-n 1000 100000 -s 10 100",
    "lstm": "-l 2 6 -c 1024 8192",
    "ba": "--min 1 --max 2",
    "ht": "--min 3 --max 4",
    "saddle": "",
    "particle": "",
}
PEERS = ("calque", "manual", "JAX", "PyTorch", "CoDiPack", "finite")
SWEEPS, SECONDS, TOO_LONG = 3, 0.2, 5.0
TOLERANCE = 1e-4  # GradBench's own

REJECTED = "rejected by the eval"
ONLY_DIFFERENCES = ("saddle", "particle")  # evals that neither of the other tools has

Message = dict[str, Any]


class Peer:
    """A running tool: messages go to it as lines of JSON."""

    def __init__(self, command: list[str], checkout: Path):
        paths = [str(checkout / "python" / "gradbench"), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            command,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def response(self, message: Message) -> Message:
        """Send a message and return the response; a tool that has ended answers no success."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"id": 0, **message}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        found: Message = json.loads(line) if line else {"success": False}
        return found

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def commands(name: str, checkout: Path) -> dict[str, list[str]]:
    """Return the command of each tool for an eval; all run on one core, to which JAX's is bound."""
    python, tools = sys.executable, checkout / "python" / "gradbench" / "gradbench"
    own = HERE / "gradbench"
    found = {"calque": [python, str(own / "tool" / "run.py")]}
    found["JAX"] = [python, str(own / "waiting_jax.py"), str(tools / "tools" / "jax" / "run.py")]
    found["PyTorch"] = [python, str(tools / "tools" / "pytorch" / "run.py")]
    for folder in ("manual", "codipack", "finite"):
        title = "CoDiPack" if folder == "codipack" else folder
        found[title] = [python, str(tools / "cpp.py"), folder]
    peers = [peer for peer in PEERS if peer != "finite" or name in ONLY_DIFFERENCES]
    return {peer: ["taskset", "-c", "0", *found[peer]] for peer in peers}


def times(response: Message, kind: str) -> list[float]:
    """Return the timings of one kind in a response, in seconds."""
    entries = response.get("timings") or []
    return [entry["nanoseconds"] / 1e9 for entry in entries if entry["name"] == kind]


def compared(message: Message, peers: dict[str, Peer]) -> tuple[dict[str, float], Message, str]:
    """Return a time for each tool, calque's first response, and what is wrong.

    A tool's time is the least of its sweeps' medians; the sweep before, in which JAX compiles, does
    not count, except of a tool that takes long.
    """
    first = {name: peer.response(limited(message, 0.0)) for name, peer in peers.items()}
    first = {name: response for name, response in first.items() if response.get("success")}
    found = {name: times(response, "evaluate")[-1] for name, response in first.items()}
    patient = [name for name in first if found[name] < TOO_LONG]
    medians: dict[str, list[float]] = {name: [] for name in patient}
    orders = random.Random(38)
    for _ in range(SWEEPS):
        for name in orders.sample(patient, len(patient)):
            response = peers[name].response(limited(message, SECONDS))
            medians[name].append(statistics.median(times(response, "evaluate")))
    found |= {name: min(each) for name, each in medians.items()}
    mine = first["calque"]
    wrong = [name for name, other in first.items() if not same(mine["output"], other["output"])]
    return found, mine, ", ".join(wrong)


def limited(message: Message, seconds: float) -> Message:
    """Return a message with limits of its own; the eval hello sends a number and has none."""
    if not isinstance(message["input"], dict):
        return message
    return {**message, "input": message["input"] | {"min_runs": 1, "min_seconds": seconds}}


def numbers(output: Any) -> list[float]:
    """Return the numbers of an output, in order."""
    return [float(leaf) for leaf in measuring.leaves(output)]


def same(mine: Any, other: Any) -> bool:
    """Return True if two outputs agree to GradBench's tolerance."""
    pairs = list(zip(numbers(mine), numbers(other), strict=False))
    return len(numbers(mine)) == len(numbers(other)) and all(
        abs(a - b) <= TOLERANCE * max(1.0, abs(a) + abs(b)) for a, b in pairs
    )


def conversation(name: str, checkout: Path) -> Iterator[list[str]]:
    """Run an eval with all tools; yield the cells of each message, the last is what is wrong."""
    source = checkout / "python" / "gradbench" / "gradbench" / "evals" / name / "run.py"
    eval_process = Peer([sys.executable, str(source), *SIZES[name].split()], checkout)
    peers = {title: Peer(command, checkout) for title, command in commands(name, checkout).items()}
    assert eval_process.process.stdin and eval_process.process.stdout
    for line in eval_process.process.stdout:
        message = json.loads(line)
        answer: Message = {}
        if message["kind"] == "define":
            peers = {title: peer for title, peer in peers.items() if defined(peer, message)}
            answer = {"success": "calque" in peers}
        elif message["kind"] == "evaluate":
            found, answer, wrong = compared(message, peers)
            cells = [shown(found.get(peer)) for peer in PEERS]
            over = [
                found["calque"] / found[peer] if peer in found else None
                for peer in ("manual", "JAX")
            ]
            prepared = shown(sum(times(answer, "prepare")))
            given = message.get("description") or message["input"]
            yield [
                f"{name}, {given}, {message['function']}",
                *cells,
                *map(ratio, over),
                prepared,
                wrong,
            ]
        elif message["kind"] == "analysis" and not message["valid"]:
            yield [REJECTED, message["error"]]
        if message["kind"] == "end":
            break
        eval_process.process.stdin.write(json.dumps({**answer, "id": message["id"]}) + "\n")
        eval_process.process.stdin.flush()
    for each in (eval_process, *peers.values()):
        each.end()


def defined(peer: Peer, message: Message) -> bool:
    """Return True if a tool has the eval; one that has not is ended."""
    has = bool(peer.response(message).get("success"))
    if not has:
        peer.end()
    return has


def kept(name: str) -> list[list[str]]:
    """Return the rows of an eval that the page of results has, where it is not run again."""
    page = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    rows = [line[2:-2].split(" | ") for line in page.splitlines()]
    return [row for row in rows if row[0].startswith(f"{name}, ")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a clone of GradBench")
    parser.add_argument(
        "--only", default="", help="a regular expression of evals' names; others' rows stay"
    )
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    options = parser.parse_args()
    lines, problems = [], []
    for name in SIZES:
        if not re.search(options.only, name):
            lines += kept(name)
            continue
        for *cells, wrong in conversation(name, options.checkout.resolve()):
            print(" | ".join(cells), wrong, flush=True, file=sys.stderr)
            if cells != [REJECTED] and name != "hello":  # whose times say nothing
                lines.append(cells)
            problems += [f"{name}, {cells[0]}: {wrong}"] if wrong else []
    head = ["eval", *PEERS, "calque / manual", "calque / JAX", "calque, preparation"]
    text = "\n".join(
        [
            "# GradBench's tools\n",
            f"By `benchmarks/gradbench_peers.py`. {METHOD} {measuring.versions()}\n",
            measuring.table(head, lines),
            *[f"- {line}" for line in problems],
        ]
    )
    print(text)
    if options.write:
        measuring.keep(RESULTS, text)
    return 1 if problems else 0


METHOD = (
    "Each message of GradBench's evals goes to all tools in turn, each time in another order, on "
    "one core and one thread; a time is the least of three sweeps' medians of the timings that "
    "the tools report. JAX's calls wait for their results, unlike in GradBench. "
    "The evals have accepted calque's answers, and the tools' answers agree."
)


if __name__ == "__main__":
    sys.exit(main())
