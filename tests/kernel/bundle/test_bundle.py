"""A bundle is served whole and right, or refused with the reason."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import Bundle, BundleError, GeometrySpec, Tolerance
from multifold.bundle.canary import open_encoder
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from tests import tiny


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "tiny"
    tiny.build(folder)
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "tiny"))


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None], *, reseal: bool) -> None:
    """Change bundle.json by hand; `reseal` also recomputes the hashes and both ids."""
    path = folder / bundles.DESCRIPTION_FILE
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    if reseal:
        reseal_bundle(folder)


def reseal_bundle(folder: Path) -> None:
    raw = json.loads((folder / bundles.DESCRIPTION_FILE).read_text())
    bundles.save(bundles._parse(folder, raw))


def test_a_whole_bundle_opens(folder: Path) -> None:
    encoder = open_encoder(folder)
    assert encoder.bundle.name == "tiny"
    assert encoder.dim == tiny.FEATURE
    assert encoder.metric == "ip"
    assert encoder.query_signs is None
    assert encoder.vector_id == encoder.bundle.vector_id


def test_every_file_that_lies_there_is_listed(folder: Path) -> None:
    assert set(bundles.load(folder).files) == {path.name for path in folder.iterdir()} - {"bundle.json"}


@pytest.mark.parametrize("name", bundles.REQUIRED_FILES)
def test_one_flipped_bit_is_found(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(BundleError, match=f"{name} of bundle tiny is damaged"):
        open_encoder(folder)


@pytest.mark.parametrize("name", bundles.REQUIRED_FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BundleError, match=f"lacks its file {name}"):
        open_encoder(folder)


@pytest.mark.parametrize("name", bundles.REQUIRED_FILES)
def test_a_file_that_is_not_listed_is_missed(folder: Path, name: str) -> None:
    rewrite(folder, lambda raw: raw["files"].pop(name), reseal=False)
    with pytest.raises(BundleError, match=f"lists no {name}"):
        open_encoder(folder)


def test_a_folder_without_description_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is no bundle"):
        open_encoder(tmp_path)


def test_an_absent_folder_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is no bundle"):
        open_encoder(tmp_path / "nowhere")


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_an_unknown_format_version_is_refused(folder: Path, version: object) -> None:
    rewrite(folder, lambda raw: raw.update(format=version), reseal=False)
    with pytest.raises(BundleError, match=r"bundle format .*; this version reads format 1"):
        open_encoder(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", "null", '"words"'])
def test_a_description_that_is_no_json_object_is_refused(folder: Path, text: str) -> None:
    (folder / bundles.DESCRIPTION_FILE).write_text(text)
    with pytest.raises(BundleError, match=r"damaged|bundle format"):
        open_encoder(folder)


def test_a_description_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / bundles.DESCRIPTION_FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BundleError, match="damaged"):
        open_encoder(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.pop("geometry"),
        lambda raw: raw.update(geometry="sphere"),
        lambda raw: raw["geometry"].update(curvature=1),
        lambda raw: raw["image"].pop("size"),
        lambda raw: raw["image"].update(size=0),
        lambda raw: raw["image"].update(size="large"),
        lambda raw: raw["text"].update(context=0),
        lambda raw: raw["text"].update(cleaning="soap"),
        lambda raw: raw["geometry"].update(metric="cosine"),
        lambda raw: raw["geometry"].update(query_signs=[1.0]),
        lambda raw: raw["geometry"].update(root=[0.0]),
        lambda raw: raw["views"].update(speed=2),
        lambda raw: raw["views"].update(background="pink"),
        lambda raw: raw["views"].update(up="x"),
        lambda raw: raw["views"].update(views=0),
        lambda raw: raw.update(tolerances={"fp32/*": 1}),
        lambda raw: raw.update(tolerances=[]),
        lambda raw: raw.update(files=[]),
        lambda raw: raw.update(files=dict.fromkeys(raw["files"], 1)),
    ],
)
def test_a_description_of_something_else_is_refused(folder: Path, change: Callable[[Any], None]) -> None:
    rewrite(folder, change, reseal=False)
    with pytest.raises(BundleError):
        open_encoder(folder)


@pytest.mark.parametrize("name", ["../image.onnx", "/etc/passwd", "", ".."])
def test_a_listed_name_never_leaves_the_folder(folder: Path, name: str) -> None:
    rewrite(folder, lambda raw: raw["files"].update({name: "0" * 64}), reseal=False)
    with pytest.raises(BundleError, match="not a plain file name"):
        open_encoder(folder)


@pytest.mark.parametrize("key", ["name", "about", "provenance", "evaluation", "calibration"])
def test_a_hand_edited_description_is_refused(folder: Path, key: str) -> None:
    rewrite(
        folder,
        lambda raw: raw.update({key: "edited" if key in ("name", "about") else {"a": 1}}),
        reseal=False,
    )
    with pytest.raises(BundleError, match="changed by hand: its bundle_id"):
        open_encoder(folder)


@pytest.mark.parametrize("section", ["image", "text", "views"])
def test_a_hand_edited_preprocessing_is_refused(folder: Path, section: str) -> None:
    numbers = {"image": ("size", 16), "text": ("context", 6), "views": ("size", 64)}
    name, value = numbers[section]
    rewrite(folder, lambda raw: raw[section].update({name: value}), reseal=False)
    with pytest.raises(BundleError, match="changed by hand: its vector_id"):
        open_encoder(folder)


def test_a_wrong_geometry_graph_is_refused(folder: Path) -> None:
    onnx.save(tiny.geometry_graph(scale=1.5), folder / "geometry.onnx")
    with pytest.raises(BundleError, match=r"geometry\.onnx of bundle tiny is damaged"):
        open_encoder(folder)


def test_a_wrong_geometry_graph_is_refused_even_when_resealed(folder: Path) -> None:
    onnx.save(tiny.geometry_graph(scale=1.5), folder / "geometry.onnx")
    reseal_bundle(folder)
    with pytest.raises(BundleError, match="the geometry differs in its scores"):
        open_encoder(folder)


@pytest.mark.parametrize(
    "change",
    [{"metric": "l2"}, {"query_signs": [-1.0] * tiny.FEATURE}],
)
def test_a_wrong_geometry_description_is_refused_even_when_resealed(
    folder: Path, change: dict[str, Any]
) -> None:
    rewrite(folder, lambda raw: raw["geometry"].update(change), reseal=True)
    with pytest.raises(BundleError, match="the geometry differs"):
        open_encoder(folder)


@pytest.mark.parametrize("change", [{"dim": 8}, {"feature_dim": 8, "root": None}])
def test_a_wrong_length_is_refused_even_when_resealed(folder: Path, change: dict[str, Any]) -> None:
    rewrite(folder, lambda raw: raw["geometry"].update(change), reseal=True)
    with pytest.raises(BundleError, match="8"):
        open_encoder(folder)


def test_a_picture_size_that_the_graph_does_not_take_is_refused_even_when_resealed(folder: Path) -> None:
    rewrite(folder, lambda raw: raw["image"].update(size=16), reseal=True)
    with pytest.raises(BundleError, match="fails at its canaries"):
        open_encoder(folder)


def swap(folder: Path) -> None:
    (folder / "image.onnx").rename(folder / "held")
    (folder / "text.onnx").rename(folder / "image.onnx")
    (folder / "held").rename(folder / "text.onnx")


def test_swapped_towers_are_refused(folder: Path) -> None:
    swap(folder)
    with pytest.raises(BundleError, match=r"image\.onnx of bundle tiny is damaged"):
        open_encoder(folder)


def test_swapped_towers_are_refused_even_when_resealed(folder: Path) -> None:
    swap(folder)
    reseal_bundle(folder)
    with pytest.raises(BundleError, match=r"image\.onnx of bundle tiny takes \['tokens'\]"):
        open_encoder(folder)


@pytest.mark.parametrize(("name", "stage"), [("image.onnx", "image tower"), ("text.onnx", "text tower")])
def test_another_tower_is_refused_even_when_resealed(folder: Path, name: str, stage: str) -> None:
    rng = np.random.default_rng(5)
    noisy = onnx.load(folder / name)
    for tensor in noisy.graph.initializer:
        if tensor.name in ("weights", "embedding"):
            array = onnx.numpy_helper.to_array(tensor)
            shaken = (array + 0.3 * rng.standard_normal(array.shape)).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(shaken, tensor.name))
    onnx.save(noisy, folder / name)
    reseal_bundle(folder)
    with pytest.raises(BundleError, match=f"the {stage} differs in a cosine of"):
        open_encoder(folder)


def test_another_tokenizer_is_refused_even_when_resealed(folder: Path) -> None:
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(
        text.replace('"red": 3', '"red": 4').replace('"green": 4', '"green": 3')
    )
    reseal_bundle(folder)
    with pytest.raises(BundleError, match="the tokenizer differs in its token ids"):
        open_encoder(folder)


def test_another_preprocessing_is_refused_even_when_resealed(folder: Path) -> None:
    rewrite(folder, lambda raw: raw["image"].update(interpolation="bicubic"), reseal=True)
    with pytest.raises(BundleError, match="the image preprocessing differs in its pixels"):
        open_encoder(folder)


@pytest.mark.parametrize("key", ["text_features", "image_features", "scores", "tokens", "pixels"])
def test_wrong_canaries_are_refused(folder: Path, key: str) -> None:
    with np.load(folder / canary.CANARY_FILE) as stored:
        arrays: dict[str, Any] = dict(stored)
    arrays[key] = np.roll(arrays[key], 1, axis=0)
    np.savez(folder / canary.CANARY_FILE, **arrays)
    reseal_bundle(folder)
    with pytest.raises(BundleError, match="answers its canaries wrongly"):
        open_encoder(folder)


@pytest.mark.parametrize("key", ["text_features", "image_features"])
def test_canaries_that_are_not_numbers_are_refused(folder: Path, key: str) -> None:
    with np.load(folder / canary.CANARY_FILE) as stored:
        arrays: dict[str, Any] = dict(stored)
    arrays[key] = np.full_like(arrays[key], np.nan)
    np.savez(folder / canary.CANARY_FILE, **arrays)
    reseal_bundle(folder)
    with pytest.raises(BundleError, match="answers its canaries wrongly"):
        open_encoder(folder)


@pytest.mark.parametrize("drop", ["texts", "pixels", "picture_0", "scores"])
def test_incomplete_canaries_are_refused(folder: Path, drop: str) -> None:
    with np.load(folder / canary.CANARY_FILE) as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored if name != drop}
    np.savez(folder / canary.CANARY_FILE, **arrays)
    reseal_bundle(folder)
    with pytest.raises(BundleError, match="holds no canaries"):
        open_encoder(folder)


@pytest.mark.parametrize("junk", [b"", b"junk", b"PK\x03\x04junk"])
def test_a_canary_file_of_another_kind_is_refused(folder: Path, junk: bytes) -> None:
    (folder / canary.CANARY_FILE).write_bytes(junk)
    reseal_bundle(folder)
    with pytest.raises(BundleError, match="holds no canaries"):
        open_encoder(folder)


@pytest.mark.parametrize("name", ["image.onnx", "text.onnx", "geometry.onnx"])
def test_a_graph_that_is_none_is_refused_even_when_resealed(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"not a graph")
    reseal_bundle(folder)
    with pytest.raises(BundleError, match=f"{name} of bundle tiny cannot be loaded"):
        open_encoder(folder)


def test_a_tokenizer_that_is_none_is_refused_even_when_resealed(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    reseal_bundle(folder)
    with pytest.raises(BundleError, match="tokenizer"):
        open_encoder(folder)


def test_a_machine_without_stated_tolerance_is_refused(folder: Path) -> None:
    rewrite(folder, lambda raw: raw.update(tolerances={"fp16/*": raw["tolerances"]["fp32/*"]}), reseal=True)
    with pytest.raises(BundleError, match="states no tolerance for fp32 on CPUExecutionProvider"):
        open_encoder(folder)


def test_the_tolerance_of_a_provider_goes_before_the_general_one(folder: Path) -> None:
    strict, lax = Tolerance(1.0, 0.0, 1.0), Tolerance(0.5, 0.5, 0.5)
    both = replace(bundles.load(folder), tolerances={"fp32/*": lax, "fp32/CPUExecutionProvider": strict})
    assert both.tolerance("CPUExecutionProvider") == strict
    assert both.tolerance("CUDAExecutionProvider") == lax


def sealed(pristine: Path, **changes: Any) -> Bundle:  # noqa: ANN401 (any field)
    return replace(bundles.load(pristine), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"calibration": {"text/shape": {"a": 1.0}}},
        {"evaluation": {"R@10": 0.7}},
        {"provenance": {"seed": 3}},
        {"about": "other words"},
        {"name": "another"},
        {"tolerances": {"fp32/*": Tolerance(0.9, 0.1, 0.9)}},
    ],
)
def test_what_decides_no_vector_changes_the_bundle_id_alone(pristine: Path, changes: dict[str, Any]) -> None:
    before, after = bundles.load(pristine), sealed(pristine, **changes)
    assert after.vector_id == before.vector_id
    assert after.bundle_id != before.bundle_id


@pytest.mark.parametrize(
    "changes",
    [
        {"views": replace(tiny.SPEC.views, rig="ring12")},
        {"views": replace(tiny.SPEC.views, size=96)},
        {"views": replace(tiny.SPEC.views, renderer="software-2")},
        {"image": ImageSpec(tiny.SIZE, "shortest", "bilinear")},
        {"text": replace(tiny.SPEC.text, context=13)},
        {"text": TextSpec("bert", 12, None, 1, 0, "dynamic")},
        {"geometry": GeometrySpec("sphere", tiny.FEATURE, tiny.FEATURE, "l2")},
        {"variant": "fp16"},
    ],
)
def test_what_decides_vectors_changes_both_ids(pristine: Path, changes: dict[str, Any]) -> None:
    before, after = bundles.load(pristine), sealed(pristine, **changes)
    assert after.vector_id != before.vector_id
    assert after.bundle_id != before.bundle_id


@pytest.mark.parametrize("name", bundles.VECTOR_FILES)
def test_a_new_graph_changes_both_ids(pristine: Path, name: str) -> None:
    before = bundles.load(pristine)
    after = replace(before, files={**before.files, name: "0" * 64})
    assert after.vector_id != before.vector_id


def test_the_root_of_traversals_changes_the_bundle_id_alone(pristine: Path) -> None:
    before = bundles.load(pristine)
    rooted = replace(before.geometry, root=(0.0,) * tiny.FEATURE)
    after = replace(before, geometry=rooted)
    assert after.vector_id == before.vector_id
    assert after.bundle_id != before.bundle_id


def test_a_new_probe_changes_the_bundle_id_alone(pristine: Path) -> None:
    before = bundles.load(pristine)
    after = replace(before, files={**before.files, "probe.npz": "0" * 64})
    assert after.vector_id == before.vector_id
    assert after.bundle_id != before.bundle_id


def test_building_twice_gives_the_same_vector_id(pristine: Path, tmp_path: Path) -> None:
    assert tiny.build(tmp_path / "again").vector_id == bundles.load(pristine).vector_id


def test_the_folder_of_a_bundle_is_not_part_of_its_names(folder: Path, pristine: Path) -> None:
    assert bundles.load(folder).bundle_id == bundles.load(pristine).bundle_id
