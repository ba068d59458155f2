"""KTX2 pictures."""

from pathlib import Path

import pytest

from multifold.errors import MissingExtraError
from renderers.contracts import MeshError
from renderers.mesh.load import load_model
from tests.renderers.glb import Glb, unlit
from tests.renderers.made import ktx2
from tests.renderers.seeing import front, seen_at

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def textured(glb: Glb, texture: int, **reference: object) -> int:
    return unlit(glb, pbr={"baseColorTexture": {"index": texture, **reference}})


def test_ktx2(tmp_path: Path) -> None:
    glb = Glb()
    glb.square(textured(glb, glb.basis(ktx2((*RED, 255), (*BLUE, 255)))))
    glb.tree["extensionsRequired"] = ["KHR_texture_basisu"]
    views = front(glb.save(tmp_path))
    assert seen_at(views, 0.0, 0.5) == RED
    assert seen_at(views, 0.0, -0.5) == BLUE


def test_ktx2_that_is_cut_short_is_done_without(tmp_path: Path) -> None:
    for length in (20, 90, 130, 170):
        glb = Glb()
        glb.square(textured(glb, glb.basis(ktx2((*RED, 255))[:length])))
        assert "KTX2" in load_model(glb.save(tmp_path)).notes[0]


def test_ktx2_that_boasts(tmp_path: Path) -> None:
    data = bytearray(ktx2((*RED, 255)))
    data[20:28] = (1 << 20).to_bytes(4, "little") * 2
    glb = Glb()
    glb.square(textured(glb, glb.basis(bytes(data))))
    with pytest.raises(MeshError, match="pixels in one texture"):
        load_model(glb.save(tmp_path))


def test_ktx2_without_its_decoder_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opengl_basisu", None)
    glb = Glb()
    glb.square(textured(glb, glb.basis(ktx2((*RED, 255)))))
    with pytest.raises(MissingExtraError, match="ktx2"):
        load_model(glb.save(tmp_path))
