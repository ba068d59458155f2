"""The command explains a pair by a bundle and by a checkpoint."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold.analysis.explanation import ExplanationError
from multifold.cli import main
from tests import tiny
from tests.training import small
from training.evaluate.explanation import explain_pair


def test_a_bundle_explains_a_pair_by_occlusion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.build(tmp_path / "tiny")
    Image.fromarray(tiny.picture("red")).save(tmp_path / "red.png")
    files = [str(tmp_path / name) for name in ("tiny", "red.png", "out.json", "out.html")]
    given = ["explain", files[0], "--image", files[1], "--json", files[2], "--html", files[3]]
    assert main([*given, "--text", "a red <box>"]) == 0
    assert "by occlusion" in capsys.readouterr().out
    told = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert max(told["words"]["shares"], key=lambda pair: pair[1])[0] == "red"
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "&lt;box&gt;" in page
    assert "data:image/webp" in page
    with pytest.raises(ExplanationError, match="not by grad-cam: explain its checkpoint"):
        explain_pair(tmp_path / "tiny", tmp_path / "red.png", "red", "grad-cam")


def test_a_checkpoint_explains_a_pair_by_gradients(trained_run: Path, tmp_path: Path) -> None:
    Image.fromarray(small.pictures()[0][0, 0]).save(tmp_path / "red.png")
    found = explain_pair(trained_run, tmp_path / "red.png", "a red square", token=0)
    assert found.heat.method == found.words.method == "grad-cam"
    assert np.isfinite(found.heat.grid).all()
    assert [word for word, _ in found.words.words] == ["a", "red", "square"]
    with pytest.raises(ExplanationError, match="no token 1 here"):
        explain_pair(trained_run, tmp_path / "red.png", "a red square", token=1)
