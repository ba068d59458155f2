"""STEP files."""

from pathlib import Path

import numpy as np
import pytest

from renderers.contracts import MeshError, MeshModel
from renderers.mesh.load import load_model
from tests.renderers import made
from tests.renderers.seeing import front, seen_at


def saved(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def extent(model: MeshModel) -> list[float]:
    """Width, height and depth, the largest of them 1."""
    size = np.ptp(model.vertices, axis=0)
    return [round(float(one), 3) for one in size / size.max()]


def reddish(color: tuple[int, int, int]) -> bool:
    return color[0] > 100 > 60 > max(color[1:])


class TestStep:
    def test_a_colored_box(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "m.step", made.step_box(1, 2, 4, (1, 0, 0)))
        model = load_model(path)
        assert extent(model) == [0.25, 1, 0.5]
        assert (model.up, len(model.faces)) == ("z", 12)
        assert reddish(seen_at(front(path), 0, 0))

    def test_the_caller_knows_better(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "m.stp", made.step_box(1, 2, 4, (1, 0, 0)))
        assert extent(load_model(path, up="y")) == [0.25, 0.5, 1]

    def test_what_is_no_step_file(self, tmp_path: Path) -> None:
        with pytest.raises(MeshError, match="not a STEP file"):
            load_model(saved(tmp_path, "m.step", b"a poem about boxes"))
        with pytest.raises(MeshError, match="no surfaces"):
            load_model(saved(tmp_path, "m.step", made.step_box(1, 2, 4, (1, 0, 0))[:400]))
