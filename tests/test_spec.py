"""Types written as text are read, written and refused as documented."""

import pickle

import numpy as np
import pytest

from calque.runtime.spec import (
    Spec,
    annotated_args,
    format_args,
    leaves,
    parse_args,
    sample_args,
    spec,
)
from calque.transpiler.errors import CalqueError, SpecError


@pytest.mark.parametrize(
    ("text", "dtype", "dims"),
    [
        ("f8", "float64", ()),
        ("f8[3]", "float64", (3,)),
        ("f8[n,3]", "float64", ("n", 3)),
        (" f4[ n , m ] ", "float32", ("n", "m")),
        ("f2[0]", "float16", (0,)),
        ("i1", "int8", ()),
        ("i8[n]", "int64", ("n",)),
        ("u2", "uint16", ()),
        ("u8", "uint64", ()),
        ("b1[n]", "bool", ("n",)),
        ("c8", "complex64", ()),
        ("c16[2,2]", "complex128", (2, 2)),
        ("float32[n]", "float32", ("n",)),
        ("uint8[n]", "uint8", ("n",)),
        ("complex128", "complex128", ()),
        ("bool_[n]", "bool", ("n",)),
        ("bool[n]", "bool", ("n",)),
        ("np.float64[n]", "float64", ("n",)),
        ("numpy.int32", "int32", ()),
        ("float[3]", "float64", (3,)),
        ("f8[()]", "float64", ()),
    ],
)
def test_read(text: str, dtype: str, dims: tuple) -> None:
    assert spec(text) == Spec(np.dtype(dtype), dims)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("float", "float64"), ("int", "int64"), ("bool", "bool"), ("complex", "complex128")],
)
def test_python_scalars_are_weak(text: str, dtype: str) -> None:
    assert spec(text) == Spec(np.dtype(dtype), (), weak=True)
    assert str(spec(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("g8", "f8[", "f8[3.5]", "f8[-1]", "f8[n+1]", "f8[True]", "f8['n']", "3", "f8, f8", ""),
        *("os.float64", "f8[:]", "[f8]", "None", "f3", "float128[n", "f8[n][m]", "f8(3)"),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(text)
    assert isinstance(caught.value, CalqueError) and isinstance(caught.value, ValueError)
    assert caught.value.hint


def test_messages() -> None:
    with pytest.raises(SpecError) as caught:
        spec("g8[3]")
    assert str(caught.value) == (
        "'g8' is not a dtype.\n"
        "    g8[3]\n"
        "    ^^\n"
        "Instead: dtypes are f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16, or NumPy's long names"
    )
    with pytest.raises(SpecError) as caught:
        spec("f8[n+1]")
    assert str(caught.value) == (
        "'n + 1' is not a dim.\n"
        "    f8[n+1]\n"
        "       ^^^\n"
        "Instead: a dim is a number or a name, as in f8[n,3]"
    )


def test_a_spec_is_a_value() -> None:
    a = spec("f8[n,3]")
    assert a == spec("float64[n, 3]") and hash(a) == hash(spec("f8[n,3]"))
    assert pickle.loads(pickle.dumps(a)) == a
    assert (a.shape, a.ndim, repr(a)) == (("n", 3), 2, "spec('f8[n,3]')")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("f8", (spec("f8"),)),
        ("f8,", (spec("f8"),)),
        ("f8[n], 3", (spec("f8[n]"), 3)),
        ("{'W': f8[3], 'b': f8}", ({"W": spec("f8[3]"), "b": spec("f8")},)),
        ("[f8, (i8, None)]", ([spec("f8"), (spec("i8"), None)],)),
        ("'relu', True, -1.5, None", ("relu", True, -1.5, None)),
        ("(f8, f8)", ((spec("f8"), spec("f8")),)),
        ("{1: f8}", ({1: spec("f8")},)),
    ],
)
def test_arguments(text: str, expected: tuple) -> None:
    assert parse_args(text) == expected
    assert parse_args(format_args(expected)) == expected


@pytest.mark.parametrize("text", ["f8[3", "f8 f8", "f8, open('x')", "{**f8}", "x=f8", "f8 + f8"])
def test_arguments_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_args(text)


def test_format() -> None:
    text = "f8[3], {'W': f8[n,3], 'b': [float, None]}, (i8,), 2"
    assert format_args(parse_args(text)) == text


def test_annotations() -> None:
    def f(a: "f8[n,3]", b: float, c: int, d: np.float32, e: "{'W': f8[3]}", g: spec("i8[n]"), k=3):
        return a

    assert annotated_args(f) == parse_args("f8[n,3], float, int, f4, {'W': f8[3]}, i8[n]")


def test_postponed_annotations() -> None:
    names: dict = {}
    code = "from __future__ import annotations\ndef f(a: 'f8[n]', b: float, c: np.float32): ...\n"
    exec(code, names)
    assert annotated_args(names["f"]) == parse_args("f8[n], float, f4")


def test_missing_annotation_says_how_to_give_types() -> None:
    def loss(w, b: float): ...

    with pytest.raises(SpecError) as caught:
        annotated_args(loss)
    assert str(caught.value) == (
        "The type of loss's argument w is unknown.\n"
        'Instead: give them with --args "f8[3], f8", or annotate: def f(w: "f8[n,3]", b: float)'
    )


def test_annotation_without_a_shape() -> None:
    def loss(w: np.ndarray): ...

    with pytest.raises(SpecError, match="ndarray says nothing about dtype and shape"):
        annotated_args(loss)


def test_samples() -> None:
    types = parse_args("f8[n,m], f4[m], i8[n], b1, float, {'a': [c16[2]]}, 'relu'")
    args = sample_args(types)
    n, m = args[0].shape
    assert n != m and args[1].shape == (m,) and args[2].shape == (n,)
    assert [np.asarray(a).dtype.str[1:] for a in args[:4]] == ["f8", "f4", "i8", "b1"]
    assert type(args[4]) is float and args[5]["a"][0].dtype == "c16" and args[6] == "relu"
    again = sample_args(types)
    assert np.array_equal(args[0], again[0]) and args[4] == again[4]
    assert np.all(sample_args(types, positive=True)[0] > 0)
    assert args[2].min() >= 0 and args[2].max() < n


def test_leaves_keep_their_order() -> None:
    tree = parse_args("{'b': f8, 'a': [f4, 1]}, i8")
    assert list(leaves(tree)) == [spec("f8"), spec("f4"), spec("i8")]
