"""Arguments from files, and of dataclasses and named tuples: read, refused, and written in headers."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from calque import cli
from calque.argument_files import file_args
from calque.runtime.spec import annotated_args, format_args, parse_args, sample_args, spec
from calque.transpiler.errors import SpecError

MODEL = '''
from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Layer(NamedTuple):
    w: np.ndarray
    b: "f8[n]" = 0.0


@dataclass
class Params:
    layers: list[Layer]
    scale: float = 1.0
    name: str = "tanh"
    power: int = field(default=2, metadata={"static": True})


@dataclass(frozen=True)
class Rod:
    length: float
    heat: "f8[n]"


def loss(p: Params, x):
    for layer in p.layers:
        x = np.tanh(x @ layer.w + layer.b)
    return p.scale * np.sum(x**p.power)


def energy(rod: Rod, k: float = 1.0):
    return k * rod.length * np.sum(rod.heat**2)


def power(x: "f8[n]", k: int, *, factor=2.0):
    return factor * np.sum(x**k)


def jumping(x, y):
    return np.sum(np.sign(x)) + y
'''

W = [[1.0, 0.5], [0.25, 1.0]]
PARAMS = {"layers": [{"w": W, "b": [1, 2]}, {"w": W}], "scale": 3}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with parametric.py, made the current one."""
    (tmp_path / "parametric.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "parametric", raising=False)
    return tmp_path


def written(folder: Path, values: Any) -> str:
    (folder / "args.json").write_text(json.dumps(values), encoding="utf-8")
    return "args.json"


# the command


TEXT = "Params([Layer(w=f8[2,2], b=f8[2]), Layer(f8[2,2])], scale=float), f8[n,2]"


@pytest.mark.parametrize("name", ["json", "npz", "text"])
def test_all_commands_take_a_dataclass(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, {"p": PARAMS, "x": [[1, 2], [3, 4.5], [0, 1]]})
    np.savez("rod.npz", **{"rod.length": 2.0, "rod.heat": np.arange(3.0)})
    target, types = {
        "json": ("parametric.py:loss", "@args.json"),
        "npz": ("parametric.py:energy", "@rod.npz"),
        "text": ("parametric.py:loss", TEXT),
    }[name]
    assert cli.main(["check", target, "--args", types]) == 0
    out = capsys.readouterr().out
    assert out.count("yes") == (1 if name == "npz" else 2) and "all zero" not in out
    assert cli.main(["explain", target, "--args", types]) == 0
    assert cli.main(["explain", target, "--cost", "--args", types]) == 0
    assert cli.main(["show", target, "--transform", "grad(f)", "--args", types]) == 0
    saved = ["show", target, "--transform", "grad(f)", "--args", types, "-o", "saved.py"]
    assert cli.main(saved) == 0
    text = (folder / "saved.py").read_text(encoding="utf-8")
    assert f"calque show {target} " in text and "@" not in text.partition('"""\n')[0]
    capsys.readouterr()
    assert cli.main(["verify", "saved.py"]) == 0
    assert capsys.readouterr().out == "saved.py: up to date\n"
    page = [*saved[:-2], "--html", "--check", "-o", "page.html"]
    assert cli.main(page) == 0
    assert cli.main(["show", "--html", "--against", "saved.py", "-o", "page.html"]) == 0


def test_check_takes_values_as_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A derivative that is zero at the given values is not looked for at others."""
    written(folder, {"x": [1.0, 2.0], "y": 3.5})
    assert cli.main(["check", "parametric.py:jumping", "--args", "@args.json"]) == 0
    out = capsys.readouterr().out
    assert "By x nothing was checked" in out and "draws" not in out
    assert cli.main(["check", "parametric.py:jumping", "--args", "f8[n], 3.5"]) == 0
    assert "8 draws of arguments" in capsys.readouterr().out


@pytest.mark.parametrize("positive", [False, True])
def test_samples_leave_values_alone(positive: bool) -> None:
    types = (spec("f8[3]"), 10.0, np.ones(2), spec("i8"))
    one = sample_args(types, positive=positive)
    ten = sample_args(types, positive=positive, factor=10.0)
    assert np.allclose(ten[0], 10.0 * one[0]) and ten[3] == one[3]
    assert ten[1] == 10.0 and np.array_equal(ten[2], np.ones(2))


def test_a_header_that_names_a_file_is_not_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = '"""F.\n\nregenerate with\n    calque show parametric.py:power --args "@args.json"\n"""\n'
    (folder / "saved.py").write_text(header, encoding="utf-8")
    assert cli.main(["verify", "saved.py"]) == 2
    assert "reads another file: --args @args.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"x": [1, 2], "k": 3', "args.json cannot be read: Expecting ',' delimiter: line 1"),
        ("[1, 2]", "args.json: Arguments are given by their names."),
        ('{"x": [1.0], "power": 3}', "args.json: The function has no positional parameter power."),
        ('{"x": [1.0], "factor": 3}', "The function has no positional parameter factor."),
        ('{"k": 3}', "args.json: The argument x is missing."),
        ('{"x": "f9[3]", "k": 3}', "args.json: x: 'f9' is not a dtype."),
        ('{"x": "three", "k": 3}', "args.json: x: 'three' is not a dtype."),
        ('{"x": "f8(3)", "k": 3}', "args.json: x: 'f8' is no dataclass and no named tuple"),
        ('{"x": [[1, 2], [3]], "k": 3}', "x is no array of numbers, and annotated as f8[n]."),
        ('{"x": [1.0, null], "k": 3}', "x is no array of numbers, and annotated as f8[n]."),
        ('{"x": [1.0], "x": [2.0]}', "args.json cannot be read: 'x' stands twice"),
        ('{"x": [1.0], "k": 1.5}', "args.json: k is float64, and annotated as int64."),
        ('{"x": [1.0], "k": null}', "args.json: k is null, and annotated as int64."),
        ('{"x": [1e999, 1' + "0" * 400 + "]}", "x has a number that fits no int64 and no float64"),
        ('{"x": {"dtype": "f8", "shape": [1.5]}}', "args.json: x: '1.5' is not a dim."),
        ('{"x": {"dtype": [], "shape": 3}}', "args.json: x: "),
        ("[" * 100_000, "args.json cannot be read: it is nested too deeply"),
        ('{"x": ' + "[" * 900 + "]" * 900 + "}", None),
        ("\udcff", "args.json cannot be read: 'utf-8' codec"),
        ("", "args.json cannot be read: Expecting value"),
    ],
)
def test_wrong_json(
    folder: Path, text: str, message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "args.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert cli.main(["show", "parametric.py:power", "--args", "@args.json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("calque: ") and (message or "") in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2, 3]", 'x holds whole numbers: write 1.0 for 1, or annotate it, as in x: "f8[n]"\n'),
        ("2", "x is a whole number: write 1.0 for 1, or annotate it, as in x: float\n"),
        ("[[1.0, 2.0], [3.0]]", "x became a list, not an array: its lists differ in length\n"),
        ("null", "x is null, which is None in Python\n"),
        ("[1.0, null]", "x[1] is null, which is None in Python\n"),
    ],
)
@pytest.mark.parametrize("command", ["check", "explain"])
def test_an_error_names_the_doubtful_argument(
    folder: Path, command: str, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plain.py").write_text("import numpy as np\ndef f(x):\n    return np.sum(x * x)\n")
    (folder / "args.json").write_text(f'{{"x": {text}}}')
    assert cli.main([command, "plain.py:f", "--args", "@args.json"]) in (1, 2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["args.json", "folder/args.npz"])
def test_a_file_without_its_mark(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "parametric.py:power", "--args", name]) == 2
    said = f"calque: --args {name} names a file: did you mean @{name}?\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layers": [], "scal": 1.0}, "p: Params has no field scal; did you mean scale?"),
        ({"scale": 1.0}, "p: Params needs layers, too."),
        ({"layers": [{"b": 1.0}]}, "p.layers[0]: Layer needs w, too."),
        ({"layers": [[1.0]]}, "p.layers[0] must be an object with the fields of Layer."),
        ({"layers": [], "power": "i8"}, "p.power is static: write its value, not its type."),
        ([1.0, 2.0], "p must be an object with the fields of Params."),
    ],
)
def test_wrong_objects(
    folder: Path, values: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, {"p": values, "x": "f8[n,2]"})
    assert cli.main(["show", "parametric.py:loss", "--args", "@args.json"]) == 2
    assert capsys.readouterr().err.startswith(f"calque: args.json: {message}\n")


def test_wrong_npz(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = folder / "ran"

    class Runs:
        def __reduce__(self) -> Any:
            return Path.touch, (ran,)

    np.savez("pickled.npz", x=np.array([Runs()], dtype=object), k=2)
    np.save("array.npy", np.ones(3))
    Path("array.npy").rename("array.npz")
    Path("empty.npz").write_bytes(b"")
    np.savez("broken.npz", x=np.ones(1000), k=2)
    whole = Path("broken.npz").read_bytes()
    Path("broken.npz").write_bytes(whole[:300] + bytes(20) + whole[320:])
    np.savez("both.npz", **{"x": np.ones(3), "x.y": np.ones(3)})
    Path("args.txt").write_text("f8[3]", encoding="utf-8")
    Path("folder.json").mkdir()
    for name, message in {
        "pickled.npz": "pickled.npz cannot be read: it holds pickled objects, which may run code",
        "array.npz": "array.npz cannot be read: it holds an array without a name",
        "empty.npz": "empty.npz cannot be read: ",
        "broken.npz": "broken.npz cannot be read: ",
        "both.npz": "both.npz cannot be read: x.y is a part of x, which is an array",
        "nowhere.npz": "nowhere.npz cannot be read: No such file or directory",
        "folder.json": "folder.json cannot be read: Is a directory",
        "args.txt": "args.txt is neither a .json nor a .npz file.",
    }.items():
        assert cli.main(["show", "parametric.py:power", "--args", f"@{name}"]) == 2, name
        assert capsys.readouterr().err.startswith(f"calque: {message}")
    assert cli.main(["show", "parametric.py:power", "--args", "@"]) == 2
    assert capsys.readouterr().err.startswith("calque: @ is neither a .json nor a .npz file.")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("types", "message", "caret"),
    [
        ("Params([], scal=float), f8", "Params has no field scal; did you mean scale?", "scal=float"),
        ("Params(scale=float), f8", "Params needs layers, too.", "Params(scale=float)"),
        ("Param([]), f8", "'Param' is no dataclass and no named tuple; the module's are ", "Param"),
        ("np.array([]), f8", "'np.array' is no dataclass and no named tuple.", "np.array"),
        ("Params([Layer(f9)]), f8", "'f9' is not a dtype.", "f9"),
        ("Params([], power=int), f8", "Params.power is static: write its value", "int"),
        ("Params([], layers=[]), f8", "Params is given layers twice.", "layers=[]"),
        ("Layer(1, 2, f8), f8", "Layer takes 2 fields by position at most.", "f8"),
        ("Layer(**{}), f8", "Fields are written out, without **.", "{}"),
        ("{'é': Layer(z=f8)}, f8", "Layer has no field z", "z=f8"),
    ],
)
def test_a_wrong_constructor_is_pointed_at(
    folder: Path, types: str, message: str, caret: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", "parametric.py:loss", "--args", types]) == 2
    first, text, carets, hint, more = capsys.readouterr().err.splitlines()
    assert more == "more: calque help SpecError"
    assert first.startswith(f"calque: {message}")
    assert text == f"    {types}" and hint.startswith("Instead: ")
    assert text[carets.index("^") : len(carets)] == caret and set(carets) == {" ", "^"}


# values


class Point(NamedTuple):
    x: float
    y: "f4[3]" = 2.0


@dataclass
class Checked:
    size: int
    made: float = field(init=False)

    def __post_init__(self):
        if self.size < 0:
            raise ValueError("size is below 0")
        self.made = 2.0 * self.size


@dataclass
class Chain:
    next: "Chain"


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (None, 2, 2),
        (float, 2, 2.0),
        ("f4", 2, np.float32(2.0)),
        (None, True, True),
        (float, True, True),
        (None, "tanh", "tanh"),
        (None, "f8[3]", spec("f8[3]")),
        (str, "f8", "f8"),
        (None, {"dtype": "float32", "shape": [3, "n"]}, spec("f4[3,n]")),
        (None, {"dtype": "float32"}, spec("f4")),
        (None, {"dtype": "float32", "w": 1}, {"dtype": spec("f4"), "w": 1}),
        (None, [1, 2], np.array([1, 2])),
        (None, [1, 2.5], np.array([1.0, 2.5])),
        ("f8[2]", [1, 2], np.array([1.0, 2.0])),
        ("f4[n]", [1, 2], np.array([1, 2], "f4")),
        (None, [[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        (None, [True, False], np.array([True, False])),
        (None, [], np.zeros(0)),
        (None, [[1.0], [1.0, 2.0]], [np.ones(1), np.array([1.0, 2.0])]),
        (None, [1, "tanh", None], [1, "tanh", None]),
        (list, [1, 2], [1, 2]),
        (list[float], [1, 2], [1.0, 2.0]),
        (tuple[float, int], [1, 2], (1.0, 2)),
        (tuple[float, ...], [1, 2, 3], (1.0, 2.0, 3.0)),
        ("[f8, f8[2]]", [1, [1, 2]], [np.float64(1.0), np.array([1.0, 2.0])]),
        ("{'w': f8[2]}", {"w": [1, 2], "k": 1}, {"w": np.array([1.0, 2.0]), "k": 1}),
        (dict[str, float], {"w": 1}, {"w": 1.0}),
        (Point, {"x": 1, "y": [1, 2, 3]}, Point(1.0, np.array([1, 2, 3], "f4"))),
        ("Point", {"x": "float"}, Point(spec("float"), 2.0)),
        (Point | None, {"x": 1}, Point(1.0, 2.0)),
        (Point | None, None, None),
        (float | None, 2, 2.0),
        (float | str, "tanh", "tanh"),
        (float | str, "f8", spec("f8")),
        (list[Point], [{"x": 1}], [Point(1.0)]),
        (Checked, {"size": 3}, Checked(3)),
    ],
)
def test_values_of_json(folder: Path, annotation: Any, value: Any, expected: Any) -> None:
    def f(value): ...

    if annotation is not None:
        f.__annotations__["value"] = annotation
    (found,) = file_args(written(folder, {"value": value}), f)
    same(found, expected)


def same(found: Any, expected: Any) -> None:
    """Assert that two trees are equal, with their types and dtypes."""
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, two in zip(found, expected):
            same(one, two)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, part in expected.items():
            same(found[key], part)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    else:
        assert found == expected


def test_arrays_of_npz_are_used_as_they_are(folder: Path) -> None:
    def f(x, k: int, h, mode="", s: float = 1.0): ...

    x = np.asfortranarray(np.ones((3, 2), ">f4"))
    np.savez("args.npz", x=x, k=2, h=np.float32(0.5), mode="tanh", s=np.float64(3.0))
    found = file_args("args.npz", f)
    same(found, (x, 2, np.float32(0.5), "tanh", 3.0))


def test_defaults_stand_between(folder: Path) -> None:
    def f(x, k=3, y=None, z=4): ...

    assert file_args(written(folder, {"x": 1, "y": 2}), f) == (1, 3, 2)
    assert file_args(written(folder, {}), lambda: None) == ()


def test_an_instance_is_made_by_its_class(folder: Path) -> None:
    def f(c: Checked): ...

    with pytest.raises(SpecError, match="Checked raises ValueError: size is below 0"):
        file_args(written(folder, {"c": {"size": -1}}), f)
    with pytest.raises(SpecError, match="Checked.made is set when an instance is made"):
        file_args(written(folder, {"c": {"size": "int"}}), f)
    with pytest.raises(SpecError, match="Checked has no field made"):
        file_args(written(folder, {"c": {"size": 1, "made": 2.0}}), f)


# texts and annotations


@pytest.mark.parametrize(
    "text",
    ["Point(x=float, y=f4[3])", "[Point(x=f8, y=2.0)], {'a': Point(x=1, y=None)}", "Checked(size=3)"],
)
def test_constructors_are_written_as_they_are_read(text: str) -> None:
    assert format_args(parse_args(text, globals())) == text


def test_a_class_is_read_by_its_annotations() -> None:
    def f(p: Point, q: "Point"): ...

    assert annotated_args(f) == parse_args("Point, Point", globals()) == (
        (Point(spec("float"), spec("f4[3]")),) * 2
    )
    with pytest.raises(SpecError, match=r"Chain.next: Chain holds itself"):
        parse_args("Chain", globals())


def test_random_texts_are_read_or_refused() -> None:
    draws = random.Random(0)
    seeds = ["Point(x=f8[n,3], y={'a': [f4, (1,)]}), Chain(i8), 'é', -2.5", "f8[3], {'W': f8[n]}"]
    pieces = ["(", ")", "[", "]", "{", "}", ",", "=", "*", ":", "'", "\n", "#", "é", "\0", ".", "0", "lambda"]
    read = 0
    for _ in range(4000):
        text = draws.choice(seeds)
        for _ in range(draws.randint(1, 4)):
            at = draws.randrange(len(text))
            text = text[:at] + draws.choice([*pieces, "", draws.choice(seeds)]) + text[at + draws.randint(0, 2) :]
        try:
            found = parse_args(text, globals())
        except SpecError as error:
            assert error.hint and str(error)
            continue
        read += 1
        assert parse_args(format_args(found), globals()) == found
    assert 100 < read < 3900


@pytest.mark.parametrize("text", ["-" * 50_000 + "1", "f8" + ".a" * 5000, "(" * 5000, "1" * 9999])
def test_endless_texts_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_args(text)


def test_random_objects_are_read_or_refused(folder: Path) -> None:
    draws = random.Random(0)

    def tree(depth: int) -> Any:
        kind = draws.randrange(9 if depth else 7)
        if kind == 7:
            return [tree(depth - 1) for _ in range(draws.randint(0, 3))]
        if kind == 8:
            names = draws.sample(["x", "y", "dtype", "shape", "size"], draws.randint(0, 3))
            return {name: tree(depth - 1) for name in names}
        return (1, 2.5, True, None, "f8[n]", "f9[", 10**30)[kind]

    def f(a: Point, b: "f8[n]", c: list[Point], d, e: Checked | None): ...

    read = 0
    for _ in range(1500):
        values = {name: tree(3) for name in "abcde"}
        values["a"] = draws.choice([values["a"], {"x": tree(1)}])
        values["c"] = draws.choice([values["c"], [{"x": tree(2)}]])
        values["e"] = draws.choice([values["e"], None, {"size": tree(0)}])
        try:
            assert len(file_args(written(folder, values), f)) == 5
            read += 1
        except SpecError as error:
            assert str(error).startswith("args.json: ")
    assert read > 50
