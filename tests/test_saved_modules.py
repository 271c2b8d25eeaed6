"""Saved modules: what they import, how much they carry, and what they compute where no calque is.

To write the golden files anew: `CALQUE_GOLDEN=write pytest tests/test_saved_modules.py`.
"""

from __future__ import annotations

import ast
import fcntl
import functools
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import test_golden
import test_golden_kernels
from sampling import sampled
from saved_programs import CASES, REFUSED

import calque
from battery.registry import load
from calque.runtime.saving.reading import module_source
from calque.runtime.spec import Spec
from calque.runtime.version import NUMBA_TRIED
from calque.targets import resolve
from calque.transpiler.codegen.numba.called_functions import FILE_OF

ROOT = Path(calque.__file__).resolve().parent
GOLDEN = Path(__file__).resolve().parent / "golden" / "saved"
PINNED = ("selu", "logistic", "seidel", "newton_batch")
# lines beside the header, the kernels and their launcher, at most
CARRIED = {"selu": 125, "logistic": 115, "seidel": 37, "newton_batch": 40, "cross_entropy": 157}
SIZES = {"n": 6, "m": 5, "d": 3, "k": 4}
BATTERY = (
    *("algorithms:viterbi_with_back_pointers", "branches:short_circuit_guards", "exits:while_else"),
    *("growing:append_recurrence", "iterators:counted_rows", "learning:attention", "physics:n_body"),
    *("linalg:gauss_with_pivoting", "loops:run_time_range_with_step", "stores:overlapping_augmented"),
)

RUN_ALONE = """
import importlib.util, pickle, sys, warnings
sys.modules["calque"] = None
warnings.simplefilter("ignore")
modules = {}  # by their texts: what is refused is often a text that other arguments have, compiled by then
for name, function, args, captured in pickle.load(open("jobs.pickle", "rb")):
    text = open(f"{name}.py", encoding="utf-8").read()
    if text not in modules:
        spec = importlib.util.spec_from_file_location(name, f"{name}.py")
        modules[text] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[text])
    module = modules[text]
    try:
        found = getattr(module, function)(*args, **captured)
    except Exception as error:
        found = error
    pickle.dump(found, open(f"{name}.pickle", "wb"))
loaded = {name.split(".")[0] for name, module in sys.modules.items() if module is not None}
assert "calque" not in loaded, loaded
"""


Job = tuple[str, str, tuple[Any, ...], dict[str, Any]]  # module, function, arguments, captured


def run_alone(folder: Path, jobs: list[Job]) -> None:
    """Call functions of modules in a process that has no calque; results are files beside them."""
    (folder / "jobs.pickle").write_bytes(pickle.dumps(jobs))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", RUN_ALONE]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]


def result_of(folder: Path, name: str) -> Any:
    """Return the result of a module, or raise the error that it raised."""
    found = pickle.loads((folder / f"{name}.pickle").read_bytes())
    if isinstance(found, Exception):
        raise found
    return found


def copies(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def parts(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [part for item in value for part in parts(item)]
    return [np.asarray(value)]


def assert_same(found: Any, wanted: Any, tolerance: float) -> None:
    """Dtypes alike, integers equal, and floats within a part of themselves."""
    assert len(parts(found)) == len(parts(wanted))
    for mine, plain in zip(parts(found), parts(wanted)):
        assert mine.dtype == plain.dtype
        if plain.dtype.kind in "fc":
            np.testing.assert_allclose(mine, plain, rtol=tolerance, atol=1e-13)
        else:
            np.testing.assert_array_equal(mine, plain)


# each program, what it is called, and arguments


@functools.cache
def golden(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The function of a golden file of kernels, and arguments for it."""
    file, function, transform, *types = test_golden_kernels.CASES[name]
    fn, args = resolve(str(ROOT / f"{file}:{function}"), transform, *(types or [None]))
    rng = np.random.default_rng(1)

    def made(a: Any) -> Any:
        if not isinstance(a, Spec):
            return a
        shape = [SIZES[d] if isinstance(d, str) else d for d in a.dims]
        return rng.uniform(0.1, 0.6, shape) if shape else 0.5

    return fn, tuple(map(made, args))


def own() -> dict[str, tuple[Any, Any, tuple[Any, ...]]]:
    found = {}
    for k, (function, args) in enumerate(CASES):
        found[f"{function.__name__}_{k}"] = (calque.jit(function), function, args)
    function, args = CASES[-1]
    found["on_threads"] = (calque.jit(function, parallel=True), function, args)
    found["in_order"] = (calque.jit(function, reassociate=False), function, args)
    for name in dict.fromkeys([*CARRIED, *sampled(list(test_golden_kernels.CASES), 4)]):
        fn, args = golden(name)
        found[f"golden_{name}"] = (fn, fn.function, args)
    chosen = sampled(BATTERY, 60)
    for program in load():
        if program.id in chosen:
            gradient = calque.value_and_grad(program.scalar(), argnums=program.diff)
            found[program.name] = (calque.jit(gradient), gradient, program.fresh())
    return found


PROGRAMS = own()
each = pytest.mark.parametrize("name", PROGRAMS)


def known(transformed: Any) -> dict[str, Any]:
    """The globals of the user's function."""
    while hasattr(transformed, "function"):
        transformed = transformed.function
    return dict(transformed.__globals__)


def captured_by(file: Path) -> list[str]:
    """The arrays that a saved function takes by name."""
    launcher = [n for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef)]
    return [a.arg for n in launcher for a in n.args.kwonlyargs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules of all programs, and what each gave: made once for all workers of pytest."""
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "saved_modules"
    made.mkdir(exist_ok=True)
    with (made / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "done").exists():
            make(made)
            (made / "done").touch()
    return made


def make(made: Path) -> None:
    """Save all programs, and run each in a process without calque."""
    jobs = []
    for name, (jitted, _, args) in PROGRAMS.items():
        calque.save(jitted, made / f"{name}.py", *copies(args))
        captured = {n: known(jitted)[n] for n in captured_by(made / f"{name}.py")}
        jobs.append((name, jitted.generated_name(), args, captured))
    for k, (function, args) in enumerate(REFUSED):
        jitted = calque.jit(function)
        calque.save(jitted, made / f"refused_{k}.py", *copies(args))
        jobs.append((f"refused_{k}", jitted.generated_name(), args, {}))
    run_alone(made, jobs)


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_errors_without_calque(folder: Path, case: int) -> None:
    function, args = REFUSED[case]
    with np.errstate(all="ignore"), pytest.raises(Exception) as wanted:
        function(*copies(args))
    with pytest.raises(wanted.type):
        result_of(folder, f"refused_{case}")


@each
def test_numbers_without_calque(folder: Path, name: str) -> None:
    _, plain, args = PROGRAMS[name]
    with np.errstate(all="ignore"):
        wanted = plain(*copies(args))
    single = any(part.dtype in (np.float32, np.complex64) for part in parts(args))
    assert_same(result_of(folder, name), wanted, 2e-5 if single else 1e-11)


EXTENDING = (
    *("llvmlite", "numba.core", "numba.core.typing.templates"),
    *("numba.extending", "numba.np.numpy_support", "scipy.special"),
)


def assert_plain(text: str) -> None:
    """Nothing of calque, and of Numba only what its manual begins with, or SciPy's functions need."""
    taken, calls_scipy = set(), "in_kernels(" in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules = {str(node.module)}
            taken |= {a.name for a in node.names} if node.module == "numba" else set()
        else:
            continue
        known = {"numpy", "numba", "scipy", *sys.stdlib_module_names}
        known |= {*EXTENDING} if calls_scipy else set()
        assert modules <= known, modules
    assert taken <= {"njit", "prange", *(["types"] if calls_scipy else [])}
    assert calls_scipy or not re.search(r"\b(calque\.|numba\.|llvmlite|intrinsic|overload)", code_of(text))


def code_of(text: str) -> str:
    """Without docstrings and comments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


@each
def test_a_module_takes_njit_and_prange_of_numba(folder: Path, name: str) -> None:
    text = (folder / f"{name}.py").read_text(encoding="utf-8")
    assert "njit" in text
    assert_plain(text)


@pytest.mark.parametrize("name", test_golden.CASES)
def test_golden_programs_compiled(name: str) -> None:
    file, function, transform, *types = test_golden.CASES[name]
    fn, args = resolve(str(ROOT / f"{file}:{function}"), f"jit({transform})", *(types or [None]))
    assert_plain(module_source(fn, *args))


def test_each_function_is_called(folder: Path) -> None:
    text = "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in PROGRAMS)
    kernels = {"kernel_part"}  # of kernels longer than these
    rare = {"array_max", "array_min"}  # where no loop that the rows go through is written out
    rare |= {"complex_cholesky_factor", "complex_sign_and_logdet"}  # of small complex matrices
    unseen = {n for n in set(FILE_OF) - kernels if not re.search(rf"\b{n}\b", text)}
    assert unseen == rare


@pytest.mark.parametrize("name", PINNED)
def test_pinned_text(name: str) -> None:
    fn, _ = golden(name)
    file, function, transform, *types = test_golden_kernels.CASES[name]
    types = types or [None]
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        text = module_source(*[fn, *resolve(f"{file}:{function}", transform, *types)[1]])
    finally:
        os.chdir(before)
    path = GOLDEN / f"{name}.py"
    if os.environ.get("CALQUE_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
    assert_plain(text)


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.py")} == set(PINNED)


@pytest.mark.parametrize(("name", "most"), CARRIED.items())
def test_how_much_is_carried(folder: Path, name: str, most: int) -> None:
    """Lines beside the header, the kernels and their launcher: most are an exponential's."""
    fn, args = golden(name)
    text = (folder / f"golden_{name}.py").read_text(encoding="utf-8")
    body = text[text.index('"""', 3) + 4 :]
    own = calque.source(fn, *args).strip()
    assert 0 < len(body.splitlines()) - len(own.splitlines()) <= most


# versions


def test_the_header_says_which_numba_was_tried() -> None:
    fn, args = golden("selu")
    text = module_source(fn, *args)
    first, last = NUMBA_TRIED
    assert f"Kernels need Numba alone; they were tried with {first} to {last}.\n" in text
    installed = tuple(map(int, numba.__version__.split(".")[:2]))
    oldest, newest = (tuple(map(int, v.split("."))) for v in NUMBA_TRIED)
    assert oldest <= installed <= newest, "try saved modules with this Numba, and say so"
    assert "tried" not in calque.source(fn, *args)


# integers that nobody dispatches


def doubled(x: Any, n: int) -> Any:
    total = 0.0
    for i in range(3):
        if n > 0 and 2 * n < x.shape[0]:
            total += x[2 * n] * i
    return total


def summed(x: Any, n: int) -> Any:
    for i in range(2):
        if n > 0 and n + n < x.shape[0]:
            x[n + n] = 7.0 + i
    return np.sum(x)


@pytest.mark.parametrize("function", [doubled, summed], ids=lambda f: f.__name__)
def test_integers_larger_than_sums_were_taken_to_be(function: Any, tmp_path: Path) -> None:
    calque.save(calque.jit(function), tmp_path / "large.py", np.ones(4), 1)
    numbers = [1, *(2**k + d for k in (31, 32, 61, 62, 63, 70) for d in (-1, 0, 3)), -(2**40)]
    code = (
        "import numpy as np\nfrom large import *\n"
        f"for n in {numbers}:\n"
        "    around = np.full(64, 100.0)\n"
        "    x = around[30:34]\n"
        "    x[:] = [1.0, 2.0, 4.0, 8.0]\n"
        "    try:\n"
        f"        print(float({function.__name__}_jit(x, n)))\n"
        "    except ValueError as error:\n"
        "        assert ' <= n <= ' in str(error)\n"
        "        print('refused')\n"
        "    assert np.all(np.delete(around, range(30, 34)) == 100.0), n\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    given = done.stdout.split()
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert given[:2] == [str(float(function(x.copy(), n))) for n in numbers[:2]]
    assert set(given[2:]) == {"refused"}


def test_a_parameter_that_is_called_like_a_function_of_kernels(tmp_path: Path) -> None:
    def convolved(signal: Any, exp: Any) -> Any:
        return np.sum(np.exp(signal * exp))

    x = np.linspace(0.0, 1.0, 5)
    calque.save(calque.jit(convolved), tmp_path / "named.py", x, 2.0 * x)
    run_alone(tmp_path, [("named", "convolved_jit", (x, 2.0 * x), {})])
    assert_same(result_of(tmp_path, "named"), convolved(x, 2.0 * x), 1e-13)


NAMED = """
from typing import Any, NamedTuple

import numpy as np


class vector(NamedTuple):
    low: Any
    high: Any


def both(x):
    return vector(np.exp(-x), np.exp(x))
"""


def test_a_class_that_is_called_like_what_a_module_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_vectors.py").write_text(NAMED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    both = __import__("of_vectors").both
    x = np.linspace(-1.0, 1.0, 5)
    calque.save(calque.jit(both), tmp_path / "clash.py", x)
    assert "from of_vectors import vector\n" in (tmp_path / "clash.py").read_text()
    code = "import numpy as np, clash; print(*np.ravel(clash.both_jit(np.linspace(-1.0, 1.0, 5))))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    np.testing.assert_allclose(list(map(float, done.stdout.split())), np.ravel(both(x)), rtol=1e-14)
