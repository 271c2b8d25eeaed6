"""A type checker knows the parameters and results of transformed functions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
PROGRAM = Path(__file__).parent / "typed_program.py"


def test_a_users_program_is_checked(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy comes with the extra `dev`")
    program = tmp_path / "program.py"
    text = PROGRAM.read_text(encoding="utf-8")
    program.write_text(text, encoding="utf-8")
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\npython_version = 3.11\nmypy_path = {ROOT.parent}\ncache_dir = {ROOT / '.mypy_cache'}\n"
        "[mypy-calque.*]\nfollow_imports = silent\nignore_errors = True\n"
        "[mypy-calque.transpiler.*]\nfollow_imports = skip\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    found = dict(re.findall(r"program\.py:(\d+): error: .*\[([a-z-]+)\]", done.stdout))
    lines = enumerate(text.splitlines(), 1)
    wanted = {str(n): line.split("# error: ")[1] for n, line in lines if "# error: " in line}
    assert found == wanted, done.stdout + done.stderr
