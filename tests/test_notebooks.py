"""The display of calque's objects in a notebook or an interactive session."""

from __future__ import annotations

import ast
import doctest
import json
import linecache
import subprocess
import sys
from html import unescape
from re import sub
from types import FunctionType

import numpy as np
import pytest
from IPython.core.formatters import PlainTextFormatter

import calque
from calque.transpiler.errors import SourceNotFound


def scaled(x: "f8[n]", y: float):
    return np.sum(np.sin(x) * y < 2.0) + np.sum(x) * y


@pytest.mark.parametrize("stage", [None, "numpy", "kernels", "core"])
def test_source_is_text_shown_in_colour(stage: str | None) -> None:
    x = np.ones(3)
    for text in (calque.source(calque.grad(scaled), x, 2.0, stage=stage), calque.grad(scaled).source(x, 2.0, stage=stage)):
        assert isinstance(text, str) and text == "".join(text)
        shown = text._repr_html_()
        shown, page = shown.partition("<details>")[::2]
        assert "<span style=" in shown and "<script" not in shown + page
        assert unescape(sub("<[^>]*>", "", shown)).strip() == text.strip()
        assert bool(page) == (stage != "core")


def test_source_over_devices_is_shown_too() -> None:
    mapped = calque.pmap(lambda x: x * 2.0)
    assert "<span" in calque.source(mapped, np.ones((1, 3)))._repr_html_()


def test_source_loads_the_painter_when_it_is_shown(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, calque\n"
        "def f(x): return x * x\n"
        "text = calque.source(f, 1.0)\n"
        "print('pygments' in sys.modules, bool(text._repr_html_()), 'pygments' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.stdout == "False True True\n", done.stderr


def test_a_report_is_shown_as_its_table() -> None:
    class Printer:
        def text(self, shown: str) -> None:
            self.shown = shown

    report, printer = calque.check(lambda x: x * x, 2.0), Printer()
    report._repr_pretty_(printer, False)
    assert printer.shown == str(report) and printer.shown.startswith("argument  forward")


def test_source_is_shown_as_its_text_where_it_is_not_coloured() -> None:
    text = calque.source(lambda x: 2.0 * x, 1.0)
    assert PlainTextFormatter()(text) == str(text).rstrip("\n") and repr(text) == repr(str(text))
    assert "<pre style=\"font-family: monospace; white-space: pre; overflow-x: auto" in text._repr_html_()


def test_only_public_names_are_offered() -> None:
    assert dir(calque) == sorted(calque.__all__)
    for name in dir(calque):
        assert hasattr(calque, name), name


# Each cell, and what it must show: the end of its last output, or of its error.
CELLS = [
    (
        "import numpy as np\nimport calque\n\ndef loss(x):\n    return np.sum(np.sin(x) * x)\n\n"
        "calque.grad(loss)(np.zeros(2) + 1.0)[0] == np.sin(1.0) + np.cos(1.0)",
        "True",
    ),
    ("calque.jit(calque.grad(loss))(np.ones(2)).shape", "(2,)"),
    (
        "class Model:\n    def __init__(self, a):\n        self.a = a\n\n    def loss(self, x):\n"
        "        import math\n        return np.sum(self.a * x) * math.sqrt(4.0)\n\n"
        "square = lambda x: np.sum(x * x)\n"
        "calque.grad(Model(2.0).loss)(np.ones(2))[0] + calque.grad(square)(np.ones(2))[0] == 6.0",
        "True",
    ),
    (
        "import asyncio\nimport scipy.special as sp\nawait asyncio.sleep(0)\n\ndef awaited(x):\n"
        "    return np.sum(sp.expit(x))\n\ncalque.grad(awaited)(np.zeros(2))[0] == 0.25",
        "True",
    ),
    (
        "from __future__ import annotations\nimport numpy.linalg as la\n\n"
        "def annotated(x: Missing) -> Missing:\n    y: Missing = la.norm(x)\n    return y\n\n"
        "calque.grad(annotated)(np.ones(1))[0] == 1.0",
        "True",
    ),
    ("%%capture shown\nimport math\ndef captured(x):\n    return x * math.pi", None),
    ("calque.grad(captured)(1.0) == math.pi", "True"),
    ("def loss(x):\n    return np.sum(3.0 * x)\n\ncalque.grad(loss)(np.ones(2))[0] == 3.0", "True"),
    ("%%time\ndef timed(x):\n    return x * x\ncalque.grad(timed)(1.0)", "without %%time or %timeit"),
    (
        "%load_ext autoreload\n%autoreload 2\nimport os, pathlib\n"
        "file = pathlib.Path('reloaded.py')\n"
        "file.write_text('''import numpy as np\n\n\ndef f(x):\n    return np.sum(2.0 * x)\n\n\nclass C:\n"
        "    def m(self, x):\n        # a comment\n        return np.sum(2.0 * x)\n''')\n"
        "import reloaded\ncalque.grad(reloaded.f)(np.ones(2))[0] == calque.grad(reloaded.C().m)(np.ones(2))[0] == 2.0",
        "True",
    ),
    ("file.write_text(file.read_text().replace('2.0', '5.0'))\nos.utime(file, (2e9, 2e9))", None),
    ("calque.grad(reloaded.f)(np.ones(2))[0] == 5.0", "True"),
    ("calque.grad(reloaded.C().m)(np.ones(2))[0] == 5.0", "True"),
    (
        "pathlib.Path('script.py').write_text('import numpy as np\\ndef h(x): return np.sum(4.0 * x)')\n"
        "%run script.py",
        None,
    ),
    ("calque.grad(h)(np.ones(2))[0] == 4.0", "True"),
    ("'def loss_grad(x):' in calque.source(calque.grad(loss), np.ones(2))", "True"),
    ("calque.source(lambda x: x * 3.0, 1.0)", "return x * 3.0"),
    (
        "def kept(x):\n    s = 0.0\n    for i in range(x.shape[0]):\n        s = np.sin(s * x[i])\n    return s\n\n"
        "told = calque.explain(calque.grad(kept), np.ones(3))\n"
        "costs = calque.explain(calque.grad(kept), np.ones(3), cost=True)\n"
        "page = calque.source(calque.grad(kept), np.ones(3))._repr_html_()\n"
        "cell = f'In [{get_ipython().execution_count - 1}]'\n"
        "f'{cell}:3: ' in told and f'{cell}:3 ' in costs and f'kept &lt;small&gt;{cell}&lt;/small&gt;' in page",
        "True",
    ),
    (
        "def refused(x):\n    return np.sum(x) + open(x)\n\n"
        "try:\n    calque.grad(refused)(np.ones(2))\nexcept Exception as error:\n    said = str(error)\n"
        "said.splitlines()[0] == f'In [{get_ipython().execution_count - 1}], line 2, in refused'",
        "True",
    ),
    (
        "with calque.debug_nans():\n    found = calque.source(calque.grad(kept), np.ones(3))\n"
        "'In [' not in found and \"a notebook's cell, line 4\" in found",
        "True",
    ),
]
RUNNER = """
import json, sys
import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(text) for text in json.load(sys.stdin)]
client = NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=120, allow_errors=True)
client.resources = {"metadata": {"path": "."}}
client.execute()
shown = [[o.get("evalue") or o.get("text") or o["data"]["text/plain"] for o in c.outputs] for c in cells]
print(json.dumps([parts[-1].strip() if parts else None for parts in shown]))
"""


def test_cells_of_a_notebook(tmp_path) -> None:
    """IPython compiles each statement of a cell by itself: byte code is not that of the cell."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps([text for text, _ in CELLS]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for (text, wanted), shown in zip(CELLS, json.loads(done.stdout.splitlines()[-1]), strict=True):
        ended = shown is wanted or str(shown).rstrip("_").endswith(str(wanted))
        assert ended, f"{text}\n{shown}"


@pytest.mark.parametrize("mode", ["exec", "single"])
def test_a_prompt_that_compiles_statement_by_statement(mode: str) -> None:
    """As Python's own does since 3.13, and what reads cells of other notebooks."""
    text = "import numpy as np\nimport math\ndef prompted(x):\n    return np.sum(np.cos(x)) * math.sqrt(4.0)\n"
    file, space = f"<python-input-of-{mode}>", {}
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    for statement in ast.parse(text).body:
        unit = ast.Module([statement], []) if mode == "exec" else ast.Interactive([statement])
        exec(compile(unit, file, mode), space)
    np.testing.assert_array_equal(calque.grad(space["prompted"])(np.zeros(2)), [0.0, 0.0])
    other = text.replace("4.0", "9.0")
    linecache.cache[file] = (len(other), None, other.splitlines(True), file)
    again = FunctionType(space["prompted"].__code__.replace(co_consts=(None, 16.0)), space)
    with pytest.raises(SourceNotFound, match="run the cell again"):
        calque.grad(again)(np.zeros(2))


def documented() -> None:
    """
    >>> import numpy as np
    >>> def tested(x):
    ...     import math
    ...     return np.sum(x) * math.pi
    >>> calque.grad(tested)(np.ones(1))[0] == np.pi
    np.True_
    """


def test_the_examples_of_a_docstring() -> None:
    (example,) = doctest.DocTestFinder().find(documented, globs={"calque": calque})
    assert doctest.DocTestRunner().run(example).failed == 0
