"""Texts that rewrite a draw from a hidden state with a key, in the words of the refused call.

Before: ``np.random.normal(0, s, (n,))``. After: ``s * calque.random.normal(key, (n,))``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

Texts = dict[str, str]

_PLAIN_ZERO, _PLAIN_ONE = ("0", "0.0", "0."), ("1", "1.0", "1.")


def keyed_call(name: str, node: Any, source: Any, sizes: dict[int | str, Any]) -> str | None:
    """The text of the equivalent call with a key; None if there is no such function.

    ``sizes`` are the values of the arguments that have one, by position or name: a size that is a
    number is written as a tuple.
    """
    rule = _RULES.get(name)
    if rule is None:
        return None
    names, write = rule
    given: Texts = {}
    for place, argument in enumerate(node.args):
        if names and names[-1].startswith("*") and place >= len(names) - 1:
            rest = [_text(a, source) for a in node.args[place:]]
            given[names[-1]] = f"({', '.join(rest)}{',' if len(rest) == 1 else ''})"
            break
        if place >= len(names):
            return None
        given[names[place]] = _sized(names[place], argument, source, sizes.get(place))
    for keyword in node.keywords:
        if keyword.arg is None:
            return None
        given[keyword.arg] = _sized(keyword.arg, keyword.value, source, sizes.get(keyword.arg))
    return write(given)


def _sized(name: str, node: Any, source: Any, value: Any) -> str:
    text = _text(node, source)
    if name == "size" and text != "None" and not isinstance(value, (tuple, list)):
        return f"({text},)"
    return text


def _text(node: Any, source: Any) -> str:
    return " ".join(source.text(node).split())


def _factor(text: str) -> str:
    """A text as an operand of a product."""
    made = ast.parse(text, mode="eval").body
    plain = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)
    return text if isinstance(made, plain) else f"({text})"


def _call(function: str, given: Texts) -> str:
    """``calque.random.function(key, size)``, the size where there is one."""
    size = given.get("size", "None")
    return f"calque.random.{function}(key{'' if size == 'None' else f', {size}'})"


def _located(function: str) -> tuple[tuple[str, ...], Callable[[Texts], str]]:
    """``loc + scale * function(key, size)``, without neutral terms and factors."""

    def write(given: Texts) -> str:
        made = _call(function, given)
        scale, loc = given.get("scale", "1"), given.get("loc", "0")
        made = made if scale in _PLAIN_ONE else f"{_factor(scale)} * {made}"
        return made if loc in _PLAIN_ZERO else f"{loc} + {made}"

    return ("loc", "scale", "size"), write


def _scaled(function: str) -> tuple[tuple[str, ...], Callable[[Texts], str]]:
    _, write = _located(function)
    return ("scale", "size"), write


def _shaped(function: str) -> tuple[tuple[str, ...], Callable[[Texts], str]]:
    return ("size",), lambda given: _call(function, given)


def _with(
    function: str, *names: str, factor: str = "", after: str = ""
) -> tuple[tuple[str, ...], Callable[[Texts], str]]:
    """``function(key, *parameters, size)``, times a factor."""

    def write(given: Texts) -> str:
        parts = ["key", *(given.get(n, "1.0") for n in names)]
        parts += [] if given.get("size", "None") == "None" else [given["size"]]
        made = f"calque.random.{function}({', '.join(parts)}){after}"
        scale = given.get(factor, "1")
        return made if scale in _PLAIN_ONE else f"{_factor(scale)} * {made}"

    return (*names, *([factor] if factor else []), "size"), write


def _uniform(given: Texts) -> str:
    low, high = given.get("low", "0"), given.get("high", "1")
    size = given.get("size", "None")
    parts = ["key", *([] if size == "None" else [size])]
    parts += [] if low in _PLAIN_ZERO else [f"minval={low}"]
    parts += [] if high in _PLAIN_ONE else [f"maxval={high}"]
    return f"calque.random.uniform({', '.join(parts)})"


def _integers(given: Texts) -> str:
    low, high = given.get("low", "0"), given.get("high", "None")
    low, high = ("0", low) if high == "None" else (low, high)
    size = given.get("size", "None")
    return f"calque.random.randint(key, {'()' if size == 'None' else size}, {low}, {high})"


def _integers_within(given: Texts) -> str:
    return f"calque.random.randint(key, (), {given.get('a')}, {given.get('b')} + 1)"


def _choice(given: Texts) -> str:
    size = given.get("size", "None")
    parts = ["key", given.get("a", "a"), *([] if size == "None" else [size])]
    parts += [f"{n}={given[n]}" for n in ("replace", "p") if given.get(n, "None") != "None"]
    return f"calque.random.choice({', '.join(parts)})"


_SEEDED = "key = calque.random.key({})"
_RULES: dict[str, tuple[tuple[str, ...], Callable[[Texts], str]]] = {
    "normal": _located("normal"),
    "laplace": _located("laplace"),
    "logistic": _located("logistic"),
    "gumbel": _located("gumbel"),
    "gauss": (("loc", "scale"), _located("normal")[1]),
    "normalvariate": (("loc", "scale"), _located("normal")[1]),
    "exponential": _scaled("exponential"),
    "standard_normal": _shaped("normal"),
    "standard_exponential": _shaped("exponential"),
    "standard_cauchy": _shaped("cauchy"),
    "random": _shaped("uniform"),
    "random_sample": _shaped("uniform"),
    "sample": _shaped("uniform"),
    "ranf": _shaped("uniform"),
    "randn": (("*size",), lambda given: _call("normal", {"size": given.get("*size", "None")})),
    "rand": (("*size",), lambda given: _call("uniform", {"size": given.get("*size", "None")})),
    "uniform": (("low", "high", "size"), _uniform),
    "randint": (("low", "high", "size"), _integers),
    "integers": (("low", "high", "size"), _integers),
    "randrange": (("low", "high"), _integers),
    "permutation": (("x",), lambda given: f"calque.random.permutation(key, {given.get('x')})"),
    "shuffle": (
        ("x",),
        lambda given: f"{given.get('x')}[:] = calque.random.permutation(key, {given.get('x')})",
    ),
    "choice": (("a", "size", "replace", "p"), _choice),
    "gamma": _with("gamma", "shape", factor="scale"),
    "standard_gamma": _with("gamma", "shape"),
    "beta": _with("beta", "a", "b"),
    "chisquare": _with("chisquare", "df"),
    "f": _with("f", "dfnum", "dfden"),
    "standard_t": _with("t", "df"),
    "pareto": _with("pareto", "a", after=" - 1"),
    "rayleigh": _with("rayleigh", "scale"),
    "triangular": _with("triangular", "left", "mode", "right"),
    "poisson": _with("poisson", "lam"),
    "binomial": _with("binomial", "n", "p"),
    "geometric": _with("geometric", "p"),
    "dirichlet": _with("dirichlet", "alpha"),
    "multivariate_normal": _with("multivariate_normal", "mean", "cov"),
    "seed": (("seed",), lambda given: _SEEDED.format(given.get("seed", "0"))),
    "default_rng": (("seed",), lambda given: _SEEDED.format(given.get("seed", "0"))),
}
# where Python's own module means something else by a name
_OF_PYTHON = {
    "randint": (("a", "b"), _integers_within),
    "choice": (("a",), _choice),
    "random": ((), _shaped("uniform")[1]),
}


def keyed_call_of_python(name: str, node: Any, source: Any) -> str | None:
    """The same for a function of Python's module ``random``."""
    rule = _OF_PYTHON.get(name) or (_RULES.get(name) if name in _SAME_IN_PYTHON else None)
    if rule is None or any(k.arg is None for k in node.keywords) or len(node.args) > len(rule[0]):
        return None
    given = dict(zip(rule[0], (_text(a, source) for a in node.args), strict=False))
    return rule[1](given | {k.arg: _text(k.value, source) for k in node.keywords})


_SAME_IN_PYTHON = ("gauss", "normalvariate", "uniform", "randrange", "shuffle")
