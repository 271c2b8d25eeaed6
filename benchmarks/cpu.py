"""The speed of `jit` on the CPU: calque's kernels against JAX, NumPy, and loops written for Numba.

    python benchmarks/cpu.py [--write] [--only PATTERN] [--quick]

`--only` takes a regular expression of row names, `--quick` small inputs, `--write` keeps the tables
in benchmarks/results/cpu.md. Results are compared before anything is timed. Exits 1 where one is
wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numba

import calque
import measuring
from cpu_work import first_calls, peers
from cpu_work.cases import Case, array_cases, call_cases
from cpu_work.first_calls import FirstCall
from cpu_work.loop_cases import CASES, LoopCase
from measuring import copied, shown

RESULTS = Path(__file__).resolve().parent / "results" / "cpu.md"
JIT: Callable[..., Any] | None = getattr(calque, "jit", None)
NO_JIT = "no jit yet"
PLAIN, JITTED, PEER = "calque NumPy", "calque jit", "JAX"


class Report:
    """The tables and what is wrong, as they grow."""

    def __init__(self, only: str, quick: bool):
        self.only, self.quick = re.compile(only), quick
        self.parts: list[str] = []
        self.problems: list[str] = []

    def wanted(self, name: str) -> bool:
        return bool(self.only.search(name))

    def add(self, title: str, head: list[str], rows: list[list[str]], note: str = "") -> None:
        if rows:
            text = f"## {title}\n\n{measuring.table(head, rows)}"
            self.parts.append(text + (f"\n{note}\n" if note else ""))

    def tell(self, row: list[str]) -> list[str]:
        print(" | ".join(row), file=sys.stderr, flush=True)
        return row


def measured(
    report: Report,
    name: str,
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]],
    reference: str,
    unchecked: tuple[str, ...] = (),
    stores: bool = False,
) -> dict[str, float]:
    """Times of the peers that run and agree with the reference; the rest is reported."""
    results, runs = {}, {}
    for peer, (call, args) in calls.items():
        try:
            results[peer] = call(*copied(args))
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            report.problems.append(f"{name}: {peer}: {type(error).__name__}: {first}")
    if reference not in results:
        return {}
    for peer, result in results.items():
        what = "" if peer in unchecked else measuring.difference(result, results[reference])
        if what:
            report.problems.append(f"{name}: {peer} against {reference}: {what}")
        elif calls[peer][0] is not calls[reference][0] or peer != "formula":
            runs[peer] = measuring.sampled(*calls[peer], stores)
    return measuring.times(runs)


def calls_of(case: Case) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Everyone who computes a row, the reference first."""
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    if case.jax is not None:
        calls[PEER] = (peers.compiled(case.jax, case.args), peers.on_device(case.args))
    if case.exact is not None:
        calls["formula"] = (case.exact, case.args)
    calls[PLAIN] = (case.ours, case.args)
    calls.update({peer: (call, case.args) for peer, call in case.beside.items()})
    if JIT is not None:
        calls[JITTED] = (JIT(case.ours), case.args)
    return calls


def verdict(case: Case, found: dict[str, float]) -> tuple[str, str, str]:
    """Ratio, goals and whether they are kept."""
    goals, kept = [], []
    ours = found.get(JITTED)
    ratio = found[PEER] / ours if ours is not None and PEER in found else None
    if case.goal is not None:
        goals.append(f"JAX / {case.goal:g}")
        kept.append(ratio is not None and ratio >= case.goal)
    if case.copies is not None:
        goals.append(f"{case.copies:g} copies")
        kept.append(ours is not None and ours <= case.copies * found["copy"])
    if case.limit is not None:
        goals.append(shown(case.limit))
        kept.append(ours is not None and ours <= case.limit)
    told = "" if ours is None or not goals else "yes" if all(kept) else "NO"
    return measuring.ratio(ratio) if JIT else NO_JIT, ", ".join(goals), told


HEAD = ["work", "NumPy source", "beside", "JAX", "calque jit", "JAX / jit", "goal", "kept"]


def case_rows(report: Report, cases: list[Case]) -> list[list[str]]:
    rows = []
    for case in cases:
        if not report.wanted(case.name):
            continue
        reference = PEER if case.jax is not None else "formula"
        unchecked = tuple(peer for peer in case.beside if peer == "copy")
        found = measured(report, case.name, calls_of(case), reference, unchecked)
        beside = ", ".join(f"{peer} {shown(found.get(peer))}" for peer in case.beside)
        times = [shown(found.get(PLAIN)), beside]
        times += [shown(found.get(PEER)) or "cannot", shown(found.get(JITTED))]
        rows.append(report.tell([case.name, *times, *verdict(case, found)]))
    return rows


def loop_row(report: Report, case: LoopCase) -> tuple[list[str], float | None]:
    """One gradient of loops: calque against the fastest of JAX's forms."""
    args = case.inputs(report.quick)
    ours = calque.grad(case.function, argnums=case.wrt)
    on_device = peers.on_device(args)
    forms = {form.__name__: form for form in case.forms}
    if case.library is not None:
        forms[case.library.__name__] = case.library
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {PLAIN: (ours, args)}
    for name, form in forms.items():
        calls[name] = (peers.compiled(jax.grad(form, argnums=case.wrt), args), on_device)
    if JIT is not None:
        calls[JITTED] = (JIT(ours), args)
    found = measured(report, case.name, calls, case.forms[0].__name__)
    value = numba.njit(fastmath={"reassoc", "contract", "nsz"})(case.function)
    primal = measuring.times({"primal": measuring.sampled(value, args, stores=True)})["primal"]
    known = [form.__name__ for form in case.forms if form.__name__ in found]
    best = min(known, key=found.__getitem__)
    slowest = max(known, key=found.__getitem__)
    mine = found.get(JITTED)
    ratio = None if mine is None else found[best] / mine
    same = "" if slowest == best else shown(found[slowest])
    library = shown(found.get(case.library.__name__)) if case.library is not None else ""
    cells = [shown(primal), shown(found.get(PLAIN)), shown(found[best]), same, library, shown(mine)]
    told = "" if ratio is None else "yes" if ratio >= 10.0 else "NO"
    last = measuring.ratio(ratio) if JIT is not None else NO_JIT
    return report.tell([case.name, *cells, last, told]), ratio


def loop_table(report: Report) -> None:
    rows, ratios = [], []
    for case in CASES:
        if report.wanted(case.name):
            row, ratio = loop_row(report, case)
            rows.append(row)
            if case.scalar and ratio is not None:
                ratios.append(ratio)
    note = ""
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        note = f"Geometric mean where each element needs the one before (not sweeps): {mean:.1f}."
    head = ["loops", "value, Numba", "NumPy source", "JAX, best form", "JAX, slowest form"]
    head += ["LAPACK in JAX", "calque jit", "JAX / jit", "10 or more"]
    report.add("Gradients of plain loops with stores", head, rows, note)


def told(call: FirstCall) -> str:
    return call.problem if call.seconds is None else shown(call.seconds)


def first_call_rows(report: Report) -> list[list[str]]:
    """First calls in fresh processes: cold, then with what the first one left in the cache."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work: list[tuple[str, Path | None]] = [(name, None) for name in first_calls.NAMES]
        for length in first_calls.LINES[: 2 if report.quick else None]:
            file = first_calls.line_module(length, folder)
            work += [(f"line of {length:,}", file), (f"line of {length:,}, gradient", file)]
        for name, file in work:
            if report.wanted(f"first call: {name}"):
                rows.append(report.tell(first_call_row(name, file, report.quick)))
    return rows


def first_call_row(name: str, file: Path | None, quick: bool) -> list[str]:
    times = 1 if quick or file is not None else 3
    peer, _ = first_calls.repeated(name, PEER, file, times)
    plain, _ = first_calls.repeated(name, PLAIN, file, times)
    if JIT is None:
        return [name, told(plain), told(peer), "", "", NO_JIT, "", ""]
    cold, warm = first_calls.repeated(name, JITTED, file, times)
    ratio = None
    if cold.seconds is not None and peer.seconds is not None:
        ratio = peer.seconds / cold.seconds
    goal, kept = first_call_goal(name, peer, cold, warm)
    cells = [told(plain), told(peer), told(cold), told(warm), measuring.ratio(ratio)]
    return [name, *cells, goal, kept]


def first_call_goal(
    name: str, peer: FirstCall, cold: FirstCall, warm: FirstCall
) -> tuple[str, str]:
    """The goals of the issue's table, and whether they are kept."""
    if cold.seconds is None or warm.seconds is None:
        return "", "NO"
    if name.startswith("vmap"):
        return "1 s", "yes" if cold.seconds < 1.0 else "NO"
    if name == "line of 1,000, gradient":
        return "8 s", "yes" if cold.seconds <= 8.0 else "NO"
    if name.startswith("line"):
        return "linear growth", ""
    if peer.seconds is None:
        return "", ""
    good = cold.seconds <= 2.0 * peer.seconds and warm.seconds < 0.3
    return "cold 2 x JAX, warm 0.3 s", "yes" if good else "NO"


@contextlib.contextmanager
def busy_cores(count: int = 2) -> Iterator[None]:
    """Other processes that never rest."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True:\n    pass"]) for _ in range(count)
    ]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {RESULTS.name}")
    parser.add_argument("--only", default="", help="a regular expression of row names")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    report = Report(options.only, options.quick)
    cases, small = array_cases(options.quick), call_cases()
    report.add("Arrays", HEAD, case_rows(report, cases))
    report.add("Calls", HEAD, case_rows(report, small))
    loop_table(report)
    head = ["first call", "NumPy source", "JAX", "jit, cold", "jit, warm", "JAX / cold"]
    rows = first_call_rows(report)
    report.add("First calls, in fresh processes, over the imports", [*head, "goal", "kept"], rows)
    with busy_cores():
        rows = case_rows(report, [case for case in [*cases, *small] if case.busy])
    report.add("With both cores busy elsewhere", HEAD, rows)
    by = f"By `benchmarks/cpu.py{' --quick' if options.quick else ''}`."
    heading = f"# jit on the CPU\n\n{by} {measuring.METHOD} {measuring.versions()}\n"
    if report.problems:
        lines = "".join(f"- {line}\n" for line in report.problems)
        report.parts.append(f"## Wrong or failing\n\n{lines}")
    text = "\n".join([heading, *report.parts])
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
