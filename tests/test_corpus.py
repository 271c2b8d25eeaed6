"""The script that compares generated text: it writes the same bytes again, and sees what differs."""

from __future__ import annotations

from pathlib import Path

import corpus
import pytest

NAMES = ["golden/tanh_jvp", "battery/loops/array_rows_matrices", "random/branches/55"]


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setenv("CALQUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")
    folders = str(tmp_path / "one"), str(tmp_path / "other")
    assert corpus.written(NAMES, folders[0]) == corpus.written(NAMES[::-1], folders[1]) == 15
    return folders


def test_the_same_text_in_another_order(texts: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.compare(*texts) == 0
    assert capsys.readouterr().out == "0 texts differ\n"


def test_what_differs_is_shown(texts: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(texts[1], "golden/tanh_jvp/show.py")
    path.write_text(path.read_text().replace("np.exp", "np.sin"))
    Path(texts[0], "random/branches/55/jit.py").unlink()
    assert corpus.compare(*texts) == 1
    said = capsys.readouterr().out
    assert "random/branches/55/jit.py: not in" in said and "2 texts differ" in said
    assert "np.sin" in said and "+++" in said
