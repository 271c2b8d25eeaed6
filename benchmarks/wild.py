"""Functions of published packages under calque: right, refused with its reason, or wrong.

    pip install ".[wild]"
    python benchmarks/wild.py [--only PATTERN] [--write]

The functions lie in benchmarks/wild_work/functions.txt, chosen before any of them was tried. Of
each, calque's value is compared with the package's own, `grad` of the sum with central
differences, `jvp` with the gradient's product, `vmap` with a loop over the package's own
function, and `jit` with the plain call. Each package has a process of its own, each function 60
seconds. `--write` writes docs/wild.md. Exits 1 where a number is wrong.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import calque

HERE = Path(__file__).resolve().parent
FUNCTIONS = HERE / "wild_work" / "functions.txt"
PAGE = HERE.parent / "docs" / "wild.md"
SECONDS = 60
SLOW = f"not done in {SECONDS} s"
NOTE = (
    "Wrong is what the differences say. Two were looked into: the frequencies of",
    "`weierstrass_func` go up to 3**20, which no difference resolves (a complex step gives",
    "calque's numbers); `Quaternion(x)` of pyquaternion normalises `x` unless its length is 1",
    "already, and there calque differentiates the path that is taken, differences the other",
    "(off it they agree).",
)
CHECKS = ("value", "grad", "jvp", "vmap", "jit")


class Package(NamedTuple):
    """A package, its field, its imports, and (expression, value of x) of each of its functions."""

    name: str
    field: str
    imports: list[str]
    functions: list[tuple[str, str]]


def packages() -> list[Package]:
    """The packages of the file of functions."""
    found: list[Package] = []
    for line in FUNCTIONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name, _, field = line[1:].partition("] ")
            found.append(Package(name, field, [], []))
        elif " | " in line and not line.startswith("#"):
            expression, _, value = line.rpartition(" | ")
            found[-1].functions.append((expression, value))
        elif line and not line.startswith("#"):
            found[-1].imports.append(line)
    return found


def loaded(package: Package, folder: str) -> Any:
    """A module with a `function_k`, a `total_k` and a `value_k` for each function."""
    lines = ["import numpy as np", *package.imports]
    for k, (expression, value) in enumerate(package.functions):
        lines += ["", f"value_{k} = {value}", "", f"def function_{k}(x):"]
        lines += [f"    return {expression}", "", f"def total_{k}(x):"]
        lines += [f"    return np.sum({expression})"]
    path = Path(folder) / f"wild_{re.sub(r'[^a-z0-9]', '_', package.name.lower())}.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


def copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def apart(found: Any, expected: Any) -> float:
    """The largest difference, beside the largest number; infinite where shapes differ."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    if found.shape != expected.shape or np.any(np.isnan(found) != np.isnan(expected)):
        return np.inf
    if not expected.size:
        return 0.0
    scale = np.nanmax(np.abs(expected), initial=0.0)
    return float(np.nanmax(np.abs(found - expected), initial=0.0) / (scale or 1.0))


def central(total: Callable[[Any], Any], x: Any, step: float) -> Any:
    """The gradient by differences of fourth order."""
    place = np.asarray(x, dtype=float)
    result = np.zeros(place.shape)
    size = step * (np.max(np.abs(place)) or 1.0)
    for index in np.ndindex(place.shape):
        at = []
        for times in (-2, -1, 1, 2):
            moved = place.copy()
            moved[index] += times * size
            at.append(float(total(moved if place.shape else float(moved))))
        result[index] = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * size)
    return result


def gradient_apart(
    total: Callable[[Any], Any], x: Any, found: Any, size: float
) -> tuple[float, Any]:
    """The difference from central differences at the step that agrees best, and those.

    Both count as zero where they are below the roundoff of a value of this size.
    """
    noise = 1e-8 * size / (np.max(np.abs(np.asarray(x))) or 1.0)
    best, kept = np.inf, None
    for step in (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-9):
        try:
            other = central(total, x, step)
        except (ValueError, ArithmeticError, IndexError, AttributeError):  # what it does not take
            continue
        tiny = np.max(np.abs(other)) <= noise and np.max(np.abs(found)) <= noise
        distance = 0.0 if tiny else apart(found, other)
        if distance < best:
            best, kept = distance, other
    return best, kept


class Slow(Exception):
    """A function that did not end in its time."""


def too_slow(number: int, frame: Any) -> None:
    raise Slow(SLOW)


def reason(error: BaseException) -> str:
    """The message of an error, with the place and text of the line that it shows."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if len(lines) < 3 or ", line " not in lines[0]:
        return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
    said = next((line for line in lines[2:] if not set(line) <= {"^", " "}), "")
    place = re.sub(r"\S*/(site-packages|calque|tmp[^/]*)/", "", lines[0])
    return f"{said} ({place}: {lines[1]})"[:400]


def said_by(check: Callable[[], str]) -> str:
    """The outcome of a check: right, wrong (with numbers) or refused (with the reason)."""
    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(SECONDS)
    try:
        return check()
    except Slow as error:
        return f"refused: {error}"
    except BaseException as error:  # (whatever a library raises is a row)
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"refused: {reason(error)}"
    finally:
        signal.alarm(0)


def judged(distance: float, found: Any, expected: Any, limit: float) -> str:
    if distance <= limit:
        return "right"
    return f"wrong: {np.ravel(found)[:4].tolist()} for {np.ravel(expected)[:4].tolist()}"


def checks(module: Any, k: int) -> dict[str, str]:
    """The outcome of each check of a function."""
    function, total = getattr(module, f"function_{k}"), getattr(module, f"total_{k}")
    x = getattr(module, f"value_{k}")
    expected = np.asarray(function(copied(x)), dtype=float)
    whole = total(copied(x))
    kept: dict[str, Any] = {}

    def value() -> str:
        found, kept["grad"] = calque.value_and_grad(total)(copied(x))
        return judged(apart(found, whole), found, whole, 1e-9)

    def grad() -> str:
        found = kept["grad"] if "grad" in kept else calque.grad(total)(copied(x))
        distance, other = gradient_apart(total, x, found, float(np.sum(np.abs(expected))))
        return judged(distance, found, other, 1e-5)

    def jvp() -> str:
        direction = np.ones_like(x) if isinstance(x, np.ndarray) else 1.0
        found, change = calque.jvp(total, (copied(x),), (direction,))
        other = np.sum(kept["grad"]) if "grad" in kept else np.sum(central(total, x, 1e-5))
        wrong = judged(apart(found, whole), found, whole, 1e-9)
        scale = np.max(np.abs(kept.get("grad", other)), initial=0.0) or 1.0
        near = abs(change - other) <= (1e-8 if "grad" in kept else 1e-4) * scale
        return wrong if wrong != "right" or near else f"wrong: {change} for {other}"

    def vmap() -> str:
        stack = np.stack([np.asarray(x, dtype=float) * by for by in (1.0, 1.001, 0.999)])
        rows = [function(copied(row) if row.shape else float(row)) for row in stack]
        found = calque.vmap(function)(stack)
        return judged(apart(found, np.stack(rows)), found, rows, 1e-8)

    def jit() -> str:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            found = calque.jit(function)(copied(x))
        outcome = judged(apart(found, expected), found, expected, 1e-9)
        fell = any(issubclass(one.category, calque.JitFallback) for one in given)
        return f"{outcome} (in NumPy)" if fell and outcome == "right" else outcome

    said: dict[str, str] = {}
    for name, check in zip(CHECKS, (value, grad, jvp, vmap, jit), strict=True):
        late = next((one for one in said.values() if SLOW in one), None)
        said[name] = late or said_by(check)
    return said


def worked(name: str) -> None:
    """Prints a line of JSON for each function of a package."""
    (package,) = (one for one in packages() if one.name == name)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        module = loaded(package, folder)
        for k, (expression, _) in enumerate(package.functions):
            start = time.perf_counter()
            row: dict[str, Any] = {"package": name, "function": expression}
            try:
                row["checks"] = checks(module, k)
            except Exception as error:  # the package itself cannot be called so
                row["unusable"] = reason(error)
            row["seconds"] = round(time.perf_counter() - start, 1)
            print("ROW " + json.dumps(row), flush=True)


def rows_of(package: Package) -> list[dict[str, Any]]:
    """The rows of a package, from a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--package", package.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 20)
    except subprocess.TimeoutExpired as error:
        text, why = (error.stdout or b"").decode(), "the process did not end"
    else:
        text, why = done.stdout, (done.stderr.strip().splitlines() or ["the process ended"])[-1]
    found = [json.loads(line[4:]) for line in text.splitlines() if line.startswith("ROW ")]
    missing = package.functions[len(found) :]
    return found + [{"package": package.name, "function": e, "unusable": why} for e, _ in missing]


def verdict(row: dict[str, Any]) -> str:
    """Right where every check is, wrong where any is, else refused; or unusable."""
    if "unusable" in row:
        return "unusable"
    said = row["checks"].values()
    if any(one.startswith("wrong") for one in said):
        return "wrong"
    return "right" if all(one.startswith("right") for one in said) else "refused"


def line_of(row: dict[str, Any]) -> str:
    """The row of the table."""
    found = verdict(row)
    if found == "unusable":
        return f"| `{shown(row['function'])}` | the package itself: {shown(row['unusable'])} |"
    said: dict[str, list[str]] = {}
    for name, one in row["checks"].items():
        if not one.startswith("right") or one != "right":
            said.setdefault(one, []).append(name)
    notes = "; ".join(f"{', '.join(names)}: {shown(one)}" for one, names in said.items())
    outcome = "**wrong**" if found == "wrong" else found
    return f"| `{shown(row['function'])}` | {outcome}{': ' if notes else ''}{notes} |"


def shown(text: str) -> str:
    """Text that a cell of a table can hold."""
    text = re.sub(r"\S*/(site-packages|tmp[^/]*)/", "", text)
    return (
        text.replace("|", "\\|").replace("`", "'")
        if "\n" not in text
        else shown(text.splitlines()[0])
    )


def page(found: list[dict[str, Any]], versions: dict[str, str]) -> str:
    """The text of docs/wild.md."""
    verdicts = [verdict(row) for row in found]
    right, refused, wrong = (verdicts.count(kind) for kind in ("right", "refused", "wrong"))
    tried = right + refused + wrong
    share = f"{right} of {tried} functions of {len(versions)} packages are right"
    rest = f"({100 * right / max(tried, 1):.0f}%), {refused} refused, {wrong} wrong"
    lines = [
        "# Functions of published packages",
        "",
        "Written by `benchmarks/wild.py`. The functions were chosen before any of them was tried,",
        "and none was dropped after. Of each: calque's value beside the package's own, `grad` of",
        "the sum beside central differences, `jvp` beside `grad`, `vmap` beside a loop, `jit`",
        "beside the plain call (`in NumPy`: `jit` warned that it compiles nothing). A function is",
        "right where all five are. Where the package itself cannot be called so, it is listed and",
        "not counted; calls that the package did not take were respelled after the first run.",
        "",
        f"**{share} {rest}.** NumPy {np.__version__}, Python {sys.version.split()[0]}.",
        "",
        *NOTE,
        "",
        "| check | right | refused | wrong |",
        "| --- | --- | --- | --- |",
    ]
    for name in CHECKS:
        said = [row["checks"][name] for row in found if "checks" in row]
        cells = [str(sum(s.startswith(k) for s in said)) for k in ("right", "refused", "wrong")]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    fields = {one.name: one.field for one in packages()}
    for name, version in versions.items():
        lines += [
            "",
            f"## {name} {version} ({fields[name]})",
            "",
            "| function | outcome |",
            "| --- | --- |",
        ]
        lines += [line_of(row) for row in found if row["package"] == name]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression of packages' names")
    parser.add_argument("--package", help="the rows of one package, as JSON")
    parser.add_argument("--write", action="store_true", help="write docs/wild.md")
    parser.add_argument("--processes", type=int, default=2, help="packages at a time")
    options = parser.parse_args()
    if options.package:
        worked(options.package)
        return 0
    found: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    chosen = [one for one in packages() if re.search(options.only, one.name)]
    with ThreadPoolExecutor(options.processes) as pool:
        for package, rows in zip(chosen, pool.map(rows_of, chosen), strict=True):
            versions[package.name] = importlib.metadata.version(package.name)
            found += rows
            for row in rows:
                print(package.name, line_of(row), row.get("seconds"), flush=True)
    text = page(found, versions)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    print(text.partition("\n## ")[0])
    return int(any(verdict(row) == "wrong" for row in found))


if __name__ == "__main__":
    sys.exit(main())
