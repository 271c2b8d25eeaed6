"""Autograd's own test suite under calque: which tests pass, and why the others do not.

    git clone https://github.com/HIPS/autograd    # (its source is not part of this repository)
    pip install pytest autograd matplotlib xarray
    python benchmarks/autograd_suite.py ./autograd [--only test_numpy] [--write]

Each file of Autograd's `tests/` runs in a process of its own, unchanged, with `autograd.numpy`
and `autograd.scipy` replaced by plain NumPy and SciPy, and Autograd's operators by calque's
(`autograd_work/`); `check_grads` compares calque's `jvp` and `vjp`, at the orders and in the modes
that the test asks, with numerical differences. `--write` writes docs/autograd-suite.md. Exits 1
where a number is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "autograd-suite.md"
SECONDS = 120
KINDS = ("passes", "wrong", "error", "refused", "slow", "plain", "convention", "own")
MEANING = {
    "wrong": "Wrong: a number, shape or dtype that the test does not expect",
    "error": "Errors that are not calque's own",
    "refused": "Refused",
    "slow": f"Not done in {SECONDS} s of CPU time",
    "plain": "Plain NumPy or SciPy does not take the call, without calque",
    "convention": "Where calque does what JAX does, and not what Autograd does",
    "own": "Of Autograd's own machinery",
}
TRIANGLE = "`eigh` at a symmetric matrix: changes are symmetric; Autograd's are of one triangle"
WHERE = "the types that Autograd's wrapper of `np.where` returns"
DEPRECATED = "a wrapper that Autograd deprecates"
AXES = "`convolve` of SciPy has no `axes`"
COMPLEX = "`sqrtm` of a real matrix is complex where an eigenvalue is negative: `A.astype(complex)`"
REAL_IF_CLOSE = "`real_if_close`, whose dtype depends on the numbers, of complex numbers"
OTHERWISE = {  # tests of what only Autograd promises, and of what calque does as JAX does
    "test_fft.py::test_rfftn_odd_not_implemented": ("own", "must raise: calque has the derivative"),
    "test_graphs.py::test_assignment_raises_error": ("own", "must raise: calque takes stores"),
    "test_linalg.py::test_eigvalh_lower_broadcasting": ("convention", TRIANGLE),
    "test_linalg.py::test_eigvalh_upper_broadcasting": ("convention", TRIANGLE),
    "test_logic.py::test_no_vjp_def": ("own", "the error's class where a primitive has no rule"),
    "test_logic.py::test_no_jvp_def": ("own", "the error's class where a primitive has no rule"),
    "test_scalar_ops.py::test_abs": ("convention", "the derivative of `abs` at 0 is 1"),
    "test_scalar_ops.py::test_absolute": ("convention", "the derivative of `abs` at 0 is 1"),
    "test_scipy.py::test_convolve_generalization": ("plain", AXES),
    "test_scipy.py::test_sqrtm": ("refused", COMPLEX),
    "test_systematic.py::test_real_ic": ("refused", REAL_IF_CLOSE),
    "test_wrappers.py::test_custom_where": ("own", WHERE),
    "test_wrappers.py::test_custom_where_dtypes": ("own", WHERE),
    "test_wrappers.py::test_deprecated_defgrad_wrapper": ("own", DEPRECATED),
    "test_wrappers.py::test_deprecated_defvjp_wrapper": ("own", DEPRECATED),
    "test_wrappers.py::test_deprecated_defvjp_is_zero_wrapper": ("own", DEPRECATED),
    "test_wrappers.py::test_deprecated_quick_grad_check_wrapper": ("own", DEPRECATED),
    "test_wrappers.py::test_wrapped_name_and_docs": ("own", "names and docstrings of operators"),
}
NO_EXAMPLES = ("__init__.py", "data.py", "data_mnist.py")  # (what examples import)
MACHINERY = "own: it extends Autograd's nodes, boxes and vector spaces"
EXAMPLES_OTHERWISE = {
    "convnet.py": f"plain: {AXES}",
    **dict.fromkeys(("dot_graph.py", "print_trace.py", "rkhs.py"), MACHINERY),
}
LOOSE = {  # (the iterations of both end at 1e-4; both integrate the equation to 1%)
    "fixed_points.py": 1e-3,
    "ode_net.py": 1e-2,
}
EXAMPLES = ("__init__.py", "data.py", "data_mnist.py")  # (what examples import)


EXAMPLES = (
    "Each of `examples/` runs as it is, once with Autograd and once with calque, without pictures,",
    "with random numbers for MNIST, until 40 derivatives were computed; these are compared call by",
    "call.",
)


class Slow(Exception):
    """A test that did not end in its time."""


def too_slow(number: int, frame: Any) -> None:
    raise Slow


def reason(error: BaseException) -> str:
    """The message of an error, with the line that it shows."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    told = [note for note in getattr(error, "__notes__", ()) if not note.startswith("more: ")]
    notes = "".join(f" ({note})" for note in told)
    if len(lines) < 3 or ", line " not in lines[0]:
        of_ours = type(error).__module__.startswith("autograd_work")
        kind = "" if of_ours else f"{type(error).__name__}: "
        return f"{kind}{lines[0] if lines else ''}"[:300] + notes
    said = next((line for line in lines[2:] if not set(line) <= {"^", " "}), "")
    place = re.sub(r"^\S*/([^/]+/[^/]+)$", r"\1", lines[0].partition(", line ")[0])
    place += ", line " + lines[0].partition(", line ")[2]
    return f"{said} [{place}: {lines[1]}]"[:400] + notes


def kind_of(error: BaseException) -> str:
    from autograd_work.differences import PlainRefuses, Wrong
    from autograd_work.modules import OwnMachinery

    from calque.transpiler.errors import CalqueError

    if isinstance(error, AttributeError) and re.match("module '(numpy|scipy)", str(error)):
        return "plain"
    kinds = {OwnMachinery: "own", PlainRefuses: "plain", Slow: "slow", Wrong: "wrong"}
    kinds |= {CalqueError: "refused", AssertionError: "wrong"}
    return next((kind for cls, kind in kinds.items() if isinstance(error, cls)), "error")


class Reports:
    """A plugin of pytest: a line of JSON for each test, a time limit for each."""

    def __init__(self, out: Any) -> None:
        self.out = out

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool:
        names = pyfuncitem._fixtureinfo.argnames
        given = {name: pyfuncitem.funcargs[name] for name in names}
        row = {"test": f"{pyfuncitem.path.name}::{pyfuncitem.name}", "kind": "passes", "why": ""}
        signal.signal(signal.SIGPROF, too_slow)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # (of CPU time)
        try:
            pyfuncitem.obj(**given)
        except BaseException as error:  # (pytest.raises fails with a BaseException)
            if isinstance(error, KeyboardInterrupt):
                raise
            row |= {"kind": kind_of(error), "why": reason(error)}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        known = OTHERWISE.get(row["test"].partition("[")[0])
        if row["kind"] != "passes" and known:
            row |= dict(zip(("kind", "why"), known, strict=True))
        print("ROW " + json.dumps(row), file=self.out, flush=True)
        return True


def worked(path: Path, only: str) -> None:
    """Prints the rows of one file."""
    import warnings

    import pytest
    from autograd_work.modules import install

    install()
    warnings.simplefilter("ignore")
    options = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-c", os.devnull]
    options += ["--rootdir", str(path.parent), "-p", "no:warnings"]
    if only:
        options += ["-k", only]
    with os.fdopen(os.dup(1), "w") as out:  # (pytest takes the standard output)
        pytest.main([*options, str(path)], plugins=[Reports(out)])


def rows_of(path: Path, only: str) -> list[dict[str, str]]:
    """The rows of one file, from a process of its own; printed as they come unless they pass."""
    command = [sys.executable, str(Path(__file__).resolve()), "--file", str(path), "--tests", only]
    found, other = [], []
    piped = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with piped as process:
        for line in process.stdout:
            row = re.search(r"ROW (\{.*\})$", line)
            if row is None:
                other.append(line)
                continue
            found.append(json.loads(row[1]))
            if found[-1]["kind"] != "passes":
                print("{kind:12}{test}: {why}".format(**found[-1]), flush=True)
    if process.returncode or not found:
        print(*other, file=sys.stderr)
    return found


def examples(checkout: Path, only: str) -> list[tuple[str, str]]:
    """Each example with its outcome."""
    files = sorted((checkout / "examples").glob("*.py"))
    found = []
    for path in files:
        if path.name not in NO_EXAMPLES and re.search(only, path.name):
            found.append((path.name, EXAMPLES_OTHERWISE.get(path.name) or example(path)))
            print(*found[-1], flush=True)
    return found


def example(path: Path) -> str:
    """The outcome of an example: calque's derivatives in it, beside Autograd's."""
    found: dict[str, Any] = {}
    inherited = [str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, inherited))}
    with tempfile.TemporaryDirectory() as folder:
        for side in ("autograd", "calque"):
            out = Path(folder) / side
            command = [sys.executable, "-m", "autograd_work.examples", path.resolve(), side, out]
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, timeout=8 * SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                return f"slow: not done in {8 * SECONDS} s ({side})"
            if done.returncode:
                return f"{side} did not run: {done.stderr.decode()[-200:]}"
            found[side] = pickle.loads(out.read_bytes())
    return compared(found["calque"], found["autograd"], LOOSE.get(path.name, 1e-6))


def compared(ours: dict[str, Any], theirs: dict[str, Any], limit: float) -> str:
    if theirs["error"]:
        return f"Autograd itself: {theirs['error'][1]}"
    count = alike(ours["found"], theirs["found"])
    far = apart(ours["found"][:count], theirs["found"][:count])
    if count and not far < limit:
        return f"**wrong**: {far:.1e} apart in {count} derivatives"
    said = f"equal in {count} derivatives"
    if ours["error"]:
        kind, why = ours["error"]
        return f"{kind}: {why}" + (f" ({said} before)" if count else "")
    late = ours["late"] or theirs["late"]
    if count < max(len(ours["found"]), len(theirs["found"])) and not late:
        return f"{said}, after which the optimizers come to other arguments"
    if not count:
        return "slow: no derivative was done in time" if late else "it calls no derivative"
    return said


def alike(ours: list[Any], theirs: list[Any]) -> int:
    """The number of calls, from the first, at which two runs had the same arguments."""
    for k, ((a, _), (b, _)) in enumerate(zip(ours, theirs, strict=False)):
        if [x.shape for x in a] != [x.shape for x in b]:
            return k
        if not all(np.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in zip(a, b, strict=True)):
            return k
    return min(len(ours), len(theirs))


def apart(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference between two runs' derivatives; infinite where shapes differ."""
    far, largest = 0.0, 0.0
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        if [one.shape for one in a] != [one.shape for one in b]:
            return np.inf
        for x, y in zip(a, b, strict=True):
            size = np.max(np.abs(y), initial=0.0)
            largest = max(largest, size)
            # (far below what they were, an optimizer has ended: the rest is roundoff)
            scale = max(size, 1e-6 * largest) or 1.0
            far = max(far, np.max(np.abs(x - y), initial=0.0) / scale)
    return far


def shown(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").splitlines()[0] if text else ""


def template(why: str) -> str:
    """The message without the line of the test, which differs."""
    return re.sub(r" \(\d+ of \d+ combinations fail\)", "", why.partition(" [")[0])


def page(found: list[dict[str, str]], models: list[tuple[str, str]], commit: str) -> str:
    """The text of docs/autograd-suite.md."""
    lines = [*heading(found, commit), *by_file(found), *failures(found)]
    lines += ["", "## Examples", "", *EXAMPLES, "", "| example | outcome |", "| --- | --- |"]
    lines += [f"| `{name}` | {shown(outcome)} |" for name, outcome in models]
    return "\n".join(lines) + "\n"


def heading(found: list[dict[str, str]], commit: str) -> list[str]:
    counts = Counter(row["kind"] for row in found)
    of_ours = len(found) - sum(counts[kind] for kind in ("own", "plain", "convention"))
    share = f"{counts['passes']} of {of_ours} tests pass ({100 * counts['passes'] / of_ours:.0f}%)"
    return [
        "# Autograd's own test suite",
        "",
        "Written by `benchmarks/autograd_suite.py`. Autograd's tests run unchanged, with plain",
        "NumPy and SciPy under the names `autograd.numpy` and `autograd.scipy`, and calque's",
        "operators under Autograd's; `check_grads` compares calque's `jvp` and `vjp` with",
        "numerical differences, in the modes and to the order that the test asks. Integers by",
        "which a test differentiates are given as floats (calque, as JAX, has no derivative by",
        "an integer).",
        "",
        f"**{share}.** {counts['own']} more are of Autograd's own machinery,"
        f" {counts['plain']} make calls",
        "that plain NumPy or SciPy does not take, and in"
        f" {counts['convention']} calque does what JAX does.",
        f"Autograd {commit}, NumPy {np.__version__}, SciPy {scipy.__version__}.",
        "",
    ]


def by_file(found: list[dict[str, str]]) -> list[str]:
    """The table of counts."""
    lines = ["| file | " + " | ".join(KINDS) + " |", "| --- " * (1 + len(KINDS)) + "|"]
    files = sorted({row["test"].partition("::")[0] for row in found})
    for file in files:
        own = Counter(row["kind"] for row in found if row["test"].startswith(file + "::"))
        lines.append(f"| `{file}` | " + " | ".join(str(own[kind] or "") for kind in KINDS) + " |")
    return lines


def failures(found: list[dict[str, str]]) -> list[str]:
    """The tests that do not pass, by kind and reason."""
    lines: list[str] = []
    for kind, title in MEANING.items():
        rows = [row for row in found if row["kind"] == kind]
        if rows:
            lines += ["", f"## {title}", "", "| reason | tests |", "| --- | --- |"]
        groups: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(template(row["why"]), []).append(row)
        for why, members in sorted(groups.items(), key=lambda pair: -len(pair[1])):
            tests = ", ".join(f"`{shown(row['test'])}`" for row in members)
            lines.append(f"| {shown(why)} | {tests} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, help="a checkout of Autograd")
    parser.add_argument("--only", default="", help="a regular expression of the files' names")
    parser.add_argument("--tests", default="", help="of the tests, as pytest's -k")
    parser.add_argument("--file", type=Path, help="the rows of one file, as JSON")
    parser.add_argument("--examples", default="", help="a regular expression of examples' names")
    parser.add_argument("--write", action="store_true", help="write docs/autograd-suite.md")
    parser.add_argument("--rows", type=Path, help="a file of outcomes, for what is not run now")
    parser.add_argument("--processes", type=int, default=2, help="files at a time")
    options = parser.parse_args()
    if options.file:
        worked(options.file, options.tests)
        return 0
    if options.checkout is None:
        parser.error("a checkout of Autograd's source is needed")
    kept: dict[str, Any] = {"tests": [], "examples": []}
    if options.rows and options.rows.exists():
        kept = json.loads(options.rows.read_text(encoding="utf-8"))
    files = sorted((options.checkout / "tests").glob("test_*.py"))
    files = [path for path in files if re.search(options.only, path.name)]
    found: list[dict[str, str]] = []
    with ThreadPoolExecutor(options.processes) as pool:
        for rows in pool.map(lambda path: rows_of(path, options.tests), files):
            found += rows
    models = examples(options.checkout, options.examples)
    tests = {row["test"]: row for row in (*kept["tests"], *found)}
    found = sorted(tests.values(), key=lambda row: row["test"].partition("::")[0])
    models = sorted((dict(kept["examples"]) | dict(models)).items())
    if options.rows:
        text = json.dumps({"tests": found, "examples": models}, indent=1)
        options.rows.write_text(text, encoding="utf-8")
    git = ["git", "-C", str(options.checkout), "log", "-1", "--format=%h"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    if options.write:
        PAGE.write_text(page(found, models, commit or "of unknown commit"), encoding="utf-8")
    print(Counter(row["kind"] for row in found))
    return int(any(row["kind"] == "wrong" for row in found))


if __name__ == "__main__":
    sys.exit(main())
