"""OpenShape's published layout beside a bundle: the same features as torch, and refusals that say why."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import Bundle, BundleError, GeometrySpec
from multifold.bundle.canary import made_clouds, open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.point_groups import POSITION
from multifold.cli import main
from tests import tiny
from tests.training.towers.test_pointbert import plain_pointbert, published
from training.export.openshape import add_published_points
from training.towers.base import TowerError

CLIP = {"source": {"repository": "Xenova/clip-vit-base-patch32"}}


def wide_bundle(folder: Path, length: int, provenance: Mapping[str, Any]) -> Bundle:
    """The tiny bundle with features of another length: zeros behind its own."""
    tiny.build(folder)
    for name in ("image.onnx", "text.onnx"):
        graph = onnx.load(folder / name)
        narrow, wide = graph.graph.output[0].name, "wide"
        pads = onnx.numpy_helper.from_array(np.array([0, 0, 0, length - tiny.FEATURE]), "pads")
        graph.graph.initializer.append(pads)
        graph.graph.node.append(helper.make_node("Pad", [narrow, "pads"], [wide]))
        del graph.graph.output[:]
        graph.graph.output.append(helper.make_tensor_value_info(wide, TensorProto.FLOAT, ["b", length]))
        onnx.save(graph, folder / name)
    geometry = onnx.load(folder / "geometry.onnx")
    for value in (geometry.graph.input[0], geometry.graph.output[0]):
        value.type.tensor_type.shape.dim[1].dim_value = length
    onnx.save(geometry, folder / "geometry.onnx")
    spec = GeometrySpec("clip", length, length, "ip")
    description = replace(tiny.SPEC, folder=folder, geometry=spec, provenance=provenance)
    encoder = Encoder(replace(description, files=bundles.hash_files(folder)), threads=1)
    canary.record(encoder, ["a red box"], [tiny.picture("red"), tiny.picture("blue")])
    tiny.probe(encoder, folder / "probe.npz")
    return bundles.save(description)


@pytest.mark.parametrize(
    ("clip", "length", "stated"),
    [
        ("vit-b-32", 512, CLIP),
        pytest.param("vit-l-14", 768, {"weights": "open_clip:ViT-L-14/openai"}, marks=pytest.mark.slow),
    ],
)
def test_points_beside_a_bundle(tmp_path: Path, clip: str, length: int, stated: Mapping[str, Any]) -> None:
    original = wide_bundle(tmp_path / "clip", length, stated)
    before = {name: original.path(name).read_bytes() for name in original.files}
    weights = published(clip)
    torch.save(weights, tmp_path / "model.pt")
    assert main(["export", f"openshape:{tmp_path / 'model.pt'}", "--beside", str(tmp_path / "clip")]) == 0
    encoder = open_encoder(tmp_path / "clip-points")
    assert encoder.vector_id != original.vector_id
    assert {name: original.path(name).read_bytes() for name in original.files} == before
    assert bundles.load(original.folder).vector_id == original.vector_id
    ours, theirs = (one.texts(["a red box"]) for one in (encoder, open_encoder(original.folder)))
    assert np.array_equal(ours.features, theirs.features)
    assert encoder.bundle.provenance["source" if "source" in stated else "weights"]
    assert "ShapeNet" in encoder.bundle.provenance["points"]["terms"]
    spec = encoder.bundle.points
    assert spec is not None
    cloud = made_clouds(spec.points)[0]
    places = cloud[:, POSITION] - cloud[:, POSITION].mean(0)
    places /= np.linalg.norm(places, axis=1).max()
    coloured = torch.from_numpy(np.concatenate([places, cloud[:, 6:]], axis=1))
    plain = plain_pointbert(weights, clip, coloured).numpy()
    np.testing.assert_allclose(encoder.points([cloud])[0], plain, atol=1e-3 * np.abs(plain).max())


def test_bundles_of_other_spaces_are_refused_unless_forced(tmp_path: Path) -> None:
    tiny.build(tmp_path / "tiny")
    wide_bundle(tmp_path / "laion", 512, {"weights": "open_clip:ViT-B-32/laion2b_s34b_b79k"})
    wide_bundle(tmp_path / "336", 768, {"source": {"repository": "x/clip-vit-large-patch14-336"}})
    for name, said in (
        ("tiny", "for 512 or 768 numbers of CLIP; tiny has 16 numbers"),
        ("laion", "does not state that its towers are OpenAI's CLIP vit-b-32"),
        ("336", "does not state that its towers are OpenAI's CLIP vit-l-14"),
    ):
        with pytest.raises(BundleError, match=said):
            add_published_points("openshape:none.pt", tmp_path / name, tmp_path / "out")
    with pytest.raises(TowerError, match="there is no file"):
        add_published_points("openshape:none.pt", tmp_path / "laion", tmp_path / "out", force=True)
    assert not (tmp_path / "out").exists()


def test_options_that_need_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["openshape:model.pt", str(tmp_path / "out")], "goes with openshape:FILE"),
        (["runs/x.pt", str(tmp_path / "out"), "--beside", "bundles/demo"], "goes with openshape:FILE"),
        (["runs/x.pt"], "name the folder"),
    ):
        assert main(["export", *words]) != 0
        assert said in capsys.readouterr().err
