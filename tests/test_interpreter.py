"""The interpreter: every method that its parts call on one another is there, by one type."""

import ast
import inspect
from pathlib import Path

import calque
from calque.transpiler.frontend import call_kinds
from calque.transpiler.frontend.library.python_builtins import Interpreter
from calque.transpiler.frontend.machine import Machine

ROOT = Path(calque.__file__).parent


def declared() -> dict[str, list[str]]:
    """The methods that ``Machine`` declares, with the names of their parameters."""
    tree = ast.parse(inspect.getsource(Machine))
    branches = [s for s in ast.walk(tree) if isinstance(s, ast.If)]
    methods = [s for branch in branches for s in branch.body if isinstance(s, ast.FunctionDef)]
    return {m.name: [a.arg for a in m.args.args] for m in methods}


def test_declared_methods_are_defined() -> None:
    assert declared()
    for name, parameters in declared().items():
        found = inspect.getattr_static(Interpreter, name)
        function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        assert function.__code__.co_varnames[: function.__code__.co_argcount] == tuple(parameters), name


def test_the_interpreter_has_a_type() -> None:
    for file in (*ROOT.glob("transpiler/**/*.py"), *ROOT.glob("runtime/**/*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg) and node.arg == "machine":
                assert node.annotation is not None and ast.unparse(node.annotation) != "Any", file


def test_no_kind_of_calls_is_twice_in_the_table() -> None:
    tree = ast.parse(inspect.getsource(call_kinds))
    (table,) = (s.value for s in tree.body if isinstance(s, ast.AnnAssign) and s.target.id == "KINDS")
    kinds, handlers = zip(*(map(ast.unparse, row.elts) for row in table.elts))
    assert len(kinds) == len(call_kinds.KINDS)
    assert len(set(kinds)) == len(set(handlers)) == len(kinds)
