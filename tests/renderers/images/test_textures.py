"""KTX2 pictures."""

import sys
from pathlib import Path

import pytest

from multifold.errors import MissingExtraError
from renderers.contracts import MeshError
from renderers.mesh.load import load_model
from tests.renderers.glb import Glb, textured
from tests.renderers.made import ktx2
from tests.renderers.seeing import BLUE, RED, front, seen_at


def square(folder: Path, picture: bytes) -> Path:
    """A file with a square that shows this KTX2 picture."""
    glb = Glb()
    glb.square(textured(glb, glb.basis(picture)))
    glb.tree["extensionsRequired"] = ["KHR_texture_basisu"]
    return glb.save(folder)


def test_ktx2(tmp_path: Path) -> None:
    views = front(square(tmp_path, ktx2((*RED, 255), (*BLUE, 255))))
    assert (seen_at(views, 0.0, 0.5), seen_at(views, 0.0, -0.5)) == (RED, BLUE)


@pytest.mark.parametrize("length", [20, 90, 130, 170])
def test_ktx2_that_is_cut_short_is_done_without(tmp_path: Path, length: int) -> None:
    assert "KTX2" in load_model(square(tmp_path, ktx2((*RED, 255))[:length])).notes[0]


def test_ktx2_that_boasts(tmp_path: Path) -> None:
    data = bytearray(ktx2((*RED, 255)))
    data[20:28] = (1 << 20).to_bytes(4, "little") * 2
    with pytest.raises(MeshError, match="pixels in one texture"):
        load_model(square(tmp_path, bytes(data)))


def test_ktx2_without_its_decoder_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opengl_basisu", None)
    with pytest.raises(MissingExtraError, match="ktx2"):
        load_model(square(tmp_path, ktx2((*RED, 255))))
