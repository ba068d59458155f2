"""STEP files."""

from pathlib import Path

import numpy as np
import pytest

from renderers.contracts import DEFAULT_LIMITS, MeshError
from renderers.mesh.formats import step
from renderers.mesh.formats.mesh_file import SiblingFiles
from renderers.mesh.load import load_model
from tests.files import put
from tests.renderers import made
from tests.renderers.seeing import extent, front, hue_at

RED_BOX = made.step_box(1, 2, 4, (1, 0, 0))


def test_a_colored_box(tmp_path: Path) -> None:
    path = put(tmp_path / "m.step", RED_BOX)
    model = load_model(path)
    assert (extent(model), model.up, len(model.faces)) == ([0.25, 1, 0.5], "z", 12)
    assert hue_at(front(path), 0, 0) == "red"
    assert extent(load_model(put(tmp_path / "m.stp", RED_BOX), up="y")) == [0.25, 0.5, 1]


def test_millimetres_become_metres(tmp_path: Path) -> None:
    contents = step.read(RED_BOX, ".step", SiblingFiles(tmp_path, DEFAULT_LIMITS), DEFAULT_LIMITS)
    size = np.ptp(np.concatenate([part.vertices for part in contents.parts]), axis=0)
    assert size == pytest.approx([0.001, 0.002, 0.004])
    assert contents.metres == 1.0


@pytest.mark.parametrize(
    ("data", "said"), [(b"a poem about boxes", "not a STEP file"), (RED_BOX[:400], "no surfaces")]
)
def test_what_is_no_step_file(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(MeshError, match=said):
        load_model(put(tmp_path / "m.step", data))
