"""Long lines of generated text are broken at brackets, operators and commas, and nowhere else."""

from __future__ import annotations

import ast
import textwrap

import pytest

from calque.transpiler.codegen.text.layout import wrapped


def test_long_lines_break_at_brackets_and_operators() -> None:
    line = "    value = " + " + ".join(f"weight_{c} * np.exp(argument_{c})" for c in "abcdef")
    broken = wrapped(line)
    assert all(len(one) <= 100 for one in broken)
    compile("\n".join(one.removeprefix("    ") for one in broken), "broken", "exec")


@pytest.mark.parametrize("depth", [0, 4, 8])
def test_long_lines_cut_no_name(depth: int) -> None:
    names = [f"a_name_of_{'very_' * k}many_words" for k in range(1, 16)]
    for right in (", ".join(names[::-1]), f"f({', '.join(names)})"):
        line = f"{', '.join(names)} = {right}"
        broken = "\n".join(wrapped("    " * depth + line))
        assert ast.dump(ast.parse(textwrap.dedent(broken))) == ast.dump(ast.parse(line))
