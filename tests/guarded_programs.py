"""Programs that index an array in the middle of a guarded buffer, each batch in a process of its own."""

import os
import subprocess
import sys

_START = """
import importlib.util, json, pathlib, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import calque
path = pathlib.Path(sys.argv[1])

def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module

def outcome(f, k):
    '''What is returned, or that there is an error; whether a cell outside changed; the array.'''
    buffer = np.full(96, 100.0)
    x = buffer[46:50]
    x[:] = [1, 2, 4, 8]
    try:
        said = repr(float(f(x, k)))
    except (IndexError, ValueError, OverflowError):
        said = "error"
    stray = bool((buffer[:46] != 100).any() or (buffer[50:] != 100).any())
    return said, stray, x.tolist()

module = loaded(path)
"""


def ran(folder, text: str, compare: str, *arguments: str) -> None:
    """Write the programs, and run ``compare`` on them: it prints what is wrong, and nothing else."""
    path = folder / "programs.py"
    path.write_text("import numpy as np\n" + text)
    surroundings = {**os.environ, "CALQUE_CACHE": "0"}
    command = [sys.executable, "-c", f'{_START}{compare}print("END")', str(path), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=surroundings, check=False, timeout=120
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:], text)
    assert done.stdout.strip() == "END", (done.stdout, text)
