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


def wide_bundle(folder: Path, length: int, provenance: Mapping[str, Any], **changes: Any) -> Bundle:  # noqa: ANN401
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
    description = replace(tiny.SPEC, folder=folder, geometry=spec, provenance=provenance, **changes)
    encoder = Encoder(replace(description, files=bundles.hash_files(folder)), threads=1)
    canary.record(encoder, ["a red box"], [tiny.picture("red"), tiny.picture("blue")])
    tiny.probe(encoder, folder / "probe.npz")
    return bundles.save(description)


def weights(path: Path, clip: str = "vit-b-32") -> Path:
    torch.save(published(clip), path)
    return path


@pytest.mark.parametrize(
    ("clip", "length", "stated"),
    [
        ("vit-b-32", 512, CLIP),
        pytest.param(
            "vit-l-14", 768, {"weights": "open_clip:ViT-L-14/openai"}, marks=pytest.mark.slow, id="vit-l-14"
        ),
    ],
)
def test_points_beside_a_bundle(tmp_path: Path, clip: str, length: int, stated: Mapping[str, Any]) -> None:
    original = wide_bundle(tmp_path / "clip", length, stated)
    before = {name: (original.path(name).read_bytes()) for name in original.files}
    path = weights(tmp_path / "model.pt", clip)
    assert main(["export", f"openshape:{path}", "--beside", str(tmp_path / "clip")]) == 0
    encoder = open_encoder(tmp_path / "clip-points")
    assert encoder.vector_id != original.vector_id
    assert {name: original.path(name).read_bytes() for name in original.files} == before
    assert bundles.load(original.folder).vector_id == original.vector_id
    assert np.array_equal(
        encoder.texts(["a red box"]).features, open_encoder(original.folder).texts(["a red box"]).features
    )
    assert encoder.bundle.provenance["source" if "source" in stated else "weights"]
    assert "ShapeNet" in encoder.bundle.provenance["points"]["terms"]
    spec = encoder.bundle.points
    assert spec is not None
    cloud = made_clouds(spec.points)[0]
    places = cloud[:, POSITION] - cloud[:, POSITION].mean(0)
    places /= np.linalg.norm(places, axis=1).max()
    coloured = torch.from_numpy(np.concatenate([places, cloud[:, 6:]], axis=1))
    plain = plain_pointbert(published(clip), clip, coloured).numpy()
    np.testing.assert_allclose(encoder.points([cloud])[0], plain, atol=1e-3 * np.abs(plain).max())


def test_bundles_of_other_spaces_are_refused(tmp_path: Path) -> None:
    path, out = weights(tmp_path / "model.pt"), tmp_path / "out"

    def refused(beside: Path, said: str, folder: Path = out) -> None:
        with pytest.raises(BundleError, match=said):
            add_published_points(f"openshape:{path}", beside, folder)
        assert not out.exists()

    tiny.build(tmp_path / "tiny")
    refused(tmp_path / "tiny", "for 512 or 768 numbers of CLIP; tiny has 16 numbers")
    laion = wide_bundle(tmp_path / "laion", 512, {"weights": "open_clip:ViT-B-32/laion2b_s34b_b79k"})
    refused(laion.folder, "does not state that its towers are OpenAI's CLIP vit-b-32")
    large = wide_bundle(tmp_path / "336", 768, {"source": {"repository": "x/clip-vit-large-patch14-336"}})
    refused(large.folder, "does not state that its towers are OpenAI's CLIP vit-l-14")
    clip = wide_bundle(tmp_path / "clip", 512, CLIP)
    refused(clip.folder, "write the new bundle elsewhere", clip.folder)
    added = add_published_points(f"openshape:{path}", laion.folder, tmp_path / "forced", force=True)
    assert added.points is not None


def test_files_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    clip = wide_bundle(tmp_path / "clip", 512, CLIP)
    for source, said in (
        (tmp_path / "none.pt", "there is no file"),
        (weights(tmp_path / "large.pt", "vit-l-14"), "it lacks"),
    ):
        with pytest.raises(TowerError, match=said):
            add_published_points(f"openshape:{source}", clip.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_that_need_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "openshape:model.pt", str(tmp_path / "out")]) != 0
    assert main(["export", "runs/x.pt", str(tmp_path / "out"), "--beside", "bundles/demo"]) != 0
    assert main(["export", "runs/x.pt"]) != 0
    said = capsys.readouterr().err
    assert said.count("goes with openshape:FILE") == 2
    assert "name the folder" in said
