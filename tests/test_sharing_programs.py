"""Random programs that hand arrays on: results share memory only where plain Python's do."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Sequence

import numpy as np
import pytest
from sampling import sampled
from sharing_programs import Sharing

import calque
from calque.transpiler.errors import CalqueError


def shared(arrays: Sequence[np.ndarray]) -> set[tuple[int, int]]:
    pairs = itertools.combinations(range(len(arrays)), 2)
    return {(i, j) for i, j in pairs if np.shares_memory(arrays[i], arrays[j])}


@pytest.mark.parametrize("seed", sampled(range(600), 8))
def test_what_shares_memory(
    seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    text, name = Sharing(seed).text, f"<sharing {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict = {"np": np}
    exec(compile(text, name, "exec"), names)
    f = names["f"]
    fn, before = calque.jit(f), []
    for k in (0, 1, 2):
        plain = [np.linspace(0.2, 0.8, 4) + 0.1 * k, np.linspace(0.9, 0.1, 4)]
        given = [a.copy() for a in plain]
        wanted = [*f(*plain, k), *plain]
        said = capsys.readouterr().out
        try:
            found = [*fn(*given, k), *given]
        except CalqueError:
            return  # refused, with a line
        assert capsys.readouterr().out == said, text
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12, err_msg=text)
        assert shared(found) <= shared(wanted), text
        for array, kept in before:
            np.testing.assert_array_equal(array, kept, err_msg=text)
        before += [(a, a.copy()) for a in found]
