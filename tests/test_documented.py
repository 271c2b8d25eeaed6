"""Every public function and class says what each of its parameters is, and shows a call that runs.

The examples themselves run in ``test_doctests.py``.
"""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import calque

NAMESPACES = [calque, calque.random, calque.sparse, calque.tree]
QUOTED = re.compile(r"``(.+?)``", re.DOTALL)


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for namespace in NAMESPACES:
        for name in namespace.__all__:
            found = getattr(namespace, name)
            if callable(found) and not isinstance(found, ModuleType):
                yield f"{namespace.__name__}.{name}", found


def lacks(documented: Callable[..., Any]) -> list[str]:
    """List what a docstring lacks: parameters that it should quote, an example that runs."""
    text = inspect.getdoc(documented) or ""
    examples = doctest.DocTestParser().get_examples(text)
    words = {word for quoted in QUOTED.findall(text) for word in re.findall(r"\w+", quoted)}
    made_by_python = isinstance(documented, type) and issubclass(documented, Warning)
    parameters = () if made_by_python else inspect.signature(documented).parameters
    lacking = [name for name in parameters if name not in words]
    if not any(not example.options.get(doctest.SKIP) for example in examples):
        lacking.append("an example")
    return lacking


@pytest.mark.parametrize(("name", "documented"), [*public()])
def test_parameters_are_said_and_a_call_is_shown(name: str, documented: Any) -> None:
    assert not lacks(documented), f"{name} lacks {', '.join(lacks(documented))}"


def test_what_lacks_is_found() -> None:
    def undocumented(x: float, axis: int = 0) -> float:
        """Twice ``x`` along axis.

        >>> undocumented(1.0)  # doctest: +SKIP
        """
        return x

    assert lacks(undocumented) == ["axis", "an example"]


def test_submodules_are_all_that_have_functions() -> None:
    """A submodule that ``calque`` offers is among those that are looked at; bridges have modules."""
    offered = [getattr(calque, name) for name in calque.__all__ if name != "bridges"]
    assert [m for m in offered if isinstance(m, ModuleType)] == NAMESPACES[1:]
