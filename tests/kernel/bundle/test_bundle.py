"""A bundle is served whole and right, or refused with the reason."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import BundleError, Tolerance
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.text_reader import TextReaderError, open_text_reader, packaged_reader
from tests import reading, tiny

Change = Callable[[Any], object]
SPEC = tiny.SPEC


def rewrite(folder: Path, change: Change) -> None:
    """Change bundle.json by hand."""
    path = folder / bundles.DESCRIPTION_FILE
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


@pytest.fixture
def reseal(bundle: Path, folder: Path) -> Callable[..., None]:
    """Compute the hashes and both ids anew, for what lies in the folder and other fields."""

    def resealed(**changes: Any) -> None:  # noqa: ANN401 (any field)
        bundles.save(replace(bundles.load(bundle), folder=folder, **changes))

    return resealed


def test_a_whole_bundle_opens(encoder: Encoder) -> None:
    bundle = encoder.bundle
    assert (bundle.name, encoder.dim, encoder.metric) == ("tiny", tiny.FEATURE, "ip")
    assert encoder.query_signs is None
    assert encoder.vector_id == bundle.vector_id
    assert set(bundle.files) == {path.name for path in bundle.folder.iterdir()} - {"bundle.json"}


@pytest.mark.parametrize("harm", ["is damaged", "lacks its file", "lists no"])
@pytest.mark.parametrize("name", bundles.REQUIRED_FILES)
def test_a_file_that_is_damaged_missing_or_not_listed_is_named(folder: Path, name: str, harm: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    if harm == "is damaged":
        (folder / name).write_bytes(data)
    elif harm == "lacks its file":
        (folder / name).unlink()
    else:
        rewrite(folder, lambda raw: raw["files"].pop(name))
    with pytest.raises(BundleError, match=rf"({name} .*)?{harm}( {name})?"):
        bundles.load(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\0", b"null", b'"words"', b"\xff\xfe\0", None])
def test_a_folder_without_a_description_is_no_bundle(folder: Path, content: bytes | None) -> None:
    path = folder / bundles.DESCRIPTION_FILE
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(BundleError, match=r"damaged|bundle format|is no bundle"):
        bundles.load(folder)
    with pytest.raises(BundleError, match="is no bundle"):
        bundles.load(folder / "nowhere")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        *((lambda raw, v=v: raw.update(format=v), "this version reads format 1") for v in (0, 2, "1", None)),
        (lambda raw: raw.pop("geometry"), "does not describe"),
        (lambda raw: raw.update(geometry="sphere"), "does not describe"),
        (lambda raw: raw["geometry"].update(curvature=1), "curvature"),
        (lambda raw: raw["image"].pop("size"), "does not describe"),
        (lambda raw: raw["image"].update(size=0), "size 0"),
        (lambda raw: raw["image"].update(size="large"), "does not describe"),
        (lambda raw: raw["text"].update(context=0), "does not describe"),
        (lambda raw: raw["text"].update(cleaning="soap"), "soap"),
        (lambda raw: raw["text"].update(length="short"), "short"),
        (lambda raw: raw["geometry"].update(metric="cosine"), "cosine"),
        (lambda raw: raw["geometry"].update(query_signs=[1.0]), "does not describe"),
        (lambda raw: raw["geometry"].update(root=[0.0]), "does not describe"),
        (lambda raw: raw.update(text_input="words"), "words"),
        (lambda raw: raw.update(text_input="sentences"), "lists no text reader"),
        (lambda raw: raw.update(sees={"smell": 1.0}), "smell"),
        (lambda raw: raw.update(sees={"image": -1.0}), "it cannot see"),
        (lambda raw: raw.update(alike={"image": float("nan")}), "nothing is alike"),
        (lambda raw: raw["views"].update(speed=2), "speed"),
        (lambda raw: raw["views"].update(background="pink"), "pink"),
        (lambda raw: raw["views"].update(up="x"), "does not describe"),
        (lambda raw: raw["views"].update(views=0), "does not describe"),
        (lambda raw: raw.update(tolerances={"fp32/*": 1}), "does not describe"),
        (lambda raw: raw.update(tolerances=[]), "does not describe"),
        (lambda raw: raw.update(files=[]), "does not describe|lists no"),
        (lambda raw: raw.update(files=dict.fromkeys(raw["files"], 1)), "does not describe|is damaged"),
        *(
            (lambda raw, name=name: raw["files"].update({name: "0" * 64}), "not a plain file name")
            for name in ("../image.onnx", "/etc/passwd", "", "..", "reader/../x", "reader/", "reader/a/b")
        ),
        *((lambda raw, key=key: raw.update({key: "edited"}), "its bundle_id") for key in ("name", "about")),
        *(
            (lambda raw, key=key: raw.update({key: {"a": 1}}), "by hand: its bundle_id")
            for key in ("provenance", "evaluation")
        ),
        (lambda raw: raw["image"].update(size=16), "by hand: its vector_id"),
        (lambda raw: raw["text"].update(context=6), "by hand: its vector_id"),
        (lambda raw: raw["views"].update(size=64), "by hand: its vector_id"),
    ],
)
def test_a_description_that_is_wrong_or_changed_by_hand_is_refused(
    folder: Path, change: Change, reason: str
) -> None:
    rewrite(folder, change)
    with pytest.raises(BundleError, match=reason):
        bundles.load(folder)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"geometry": replace(SPEC.geometry, metric="l2")}, "the geometry differs"),
        ({"geometry": replace(SPEC.geometry, query_signs=(-1.0,) * tiny.FEATURE)}, "the geometry differs"),
        ({"geometry": replace(SPEC.geometry, dim=8)}, "8"),
        ({"geometry": replace(SPEC.geometry, feature_dim=8, root=None)}, "8"),
        ({"image": replace(SPEC.image, size=16)}, "fails at its canaries"),
        (
            {"image": replace(SPEC.image, interpolation="bicubic")},
            "preprocessing differs in its pixels",
        ),
        (
            {"tolerances": {"fp16/*": SPEC.tolerances["fp32/*"]}},
            "states no tolerance for fp32 on CPUExecutionProvider",
        ),
    ],
)
def test_a_wrong_description_is_refused_even_when_resealed(
    folder: Path, reseal: Callable[..., None], changes: dict[str, Any], reason: str
) -> None:
    reseal(**changes)
    with pytest.raises(BundleError, match=reason):
        open_encoder(folder)


def swap(folder: Path) -> None:
    (folder / "image.onnx").rename(folder / "held")
    (folder / "text.onnx").rename(folder / "image.onnx")
    (folder / "held").rename(folder / "text.onnx")


def swap_words(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"red": 3', '"red": 4').replace('"green": 4', '"green": 3'))


def shake(name: str) -> Change:
    def shaken(folder: Path) -> None:
        rng, noisy = np.random.default_rng(5), onnx.load(folder / name)
        for tensor in noisy.graph.initializer:
            if tensor.name in ("weights", "embedding"):
                array = onnx.numpy_helper.to_array(tensor)
                other = (array + 0.3 * rng.standard_normal(array.shape)).astype(np.float32)
                tensor.CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
        onnx.save(noisy, folder / name)

    return shaken


def put(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def canaries(change: Callable[[dict[str, Any]], object]) -> Change:
    def changed(folder: Path) -> None:
        with np.load(folder / canary.CANARY_FILE) as stored:
            arrays: dict[str, Any] = dict(stored)
        change(arrays)
        np.savez(folder / canary.CANARY_FILE, **arrays)

    return changed


def rolled(name: str) -> Change:
    return canaries(lambda arrays: arrays.update({name: np.roll(arrays[name], 1, axis=0)}))


def no_numbers(name: str) -> Change:
    return canaries(lambda arrays: arrays.update({name: np.full_like(arrays[name], np.nan)}))


def without(name: str) -> Change:
    return canaries(lambda arrays: arrays.pop(name))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (
            lambda folder: onnx.save(tiny.geometry_graph(scale=1.5), folder / "geometry.onnx"),
            "the geometry differs in its scores",
        ),
        (swap, r"image\.onnx of bundle tiny takes \['tokens'\]"),
        (swap_words, "the tokenizer differs in its token ids"),
        (shake("image.onnx"), "the image tower differs in a cosine of"),
        (shake("text.onnx"), "the text tower differs in a cosine of"),
        *(
            (rolled(name), "answers its canaries wrongly")
            for name in ("text_features", "image_features", "scores", "tokens", "pixels")
        ),
        *((no_numbers(name), "answers its canaries wrongly") for name in ("text_features", "image_features")),
        *((without(name), "holds no canaries") for name in ("texts", "pixels", "picture_0", "scores")),
        *((put(canary.CANARY_FILE, junk), "holds no canaries") for junk in (b"", b"junk", b"PK\x03\x04junk")),
        *(
            (put(f"{name}.onnx", b"not a graph"), f"{name}.onnx of bundle tiny cannot be loaded")
            for name in ("image", "text", "geometry")
        ),
        (put("tokenizer.json", b"{}"), "tokenizer"),
    ],
)
def test_a_wrong_file_is_refused_even_when_resealed(
    folder: Path, reseal: Callable[..., None], harm: Change, reason: str
) -> None:
    harm(folder)
    with pytest.raises(BundleError, match="is damaged"):
        open_encoder(folder)
    reseal()
    with pytest.raises(BundleError, match=reason):
        open_encoder(folder)


def endless_graph() -> onnx.ModelProto:
    """The geometry's arguments, and a loop whose condition always holds."""
    float32 = onnx.TensorProto.FLOAT
    again = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Identity", ["more"], ["and_more"]),
            onnx.helper.make_node("Add", ["before", "one"], ["after"]),
        ],
        "again",
        [
            onnx.helper.make_tensor_value_info("turn", onnx.TensorProto.INT64, []),
            onnx.helper.make_tensor_value_info("more", onnx.TensorProto.BOOL, []),
            onnx.helper.make_tensor_value_info("before", float32, None),
        ],
        [
            onnx.helper.make_tensor_value_info("and_more", onnx.TensorProto.BOOL, []),
            onnx.helper.make_tensor_value_info("after", float32, None),
        ],
        [onnx.helper.make_tensor("one", float32, [], [1.0])],
    )
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Loop", ["", "true", "features"], ["vectors"], body=again)],
        "endless",
        [onnx.helper.make_tensor_value_info("features", float32, ["b", tiny.FEATURE])],
        [onnx.helper.make_tensor_value_info("vectors", float32, ["b", tiny.FEATURE])],
        [onnx.helper.make_tensor("true", onnx.TensorProto.BOOL, [], [True])],
    )
    return onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)])


def test_a_graph_that_never_ends_is_stopped(
    folder: Path, reseal: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(endless_graph(), folder / "geometry.onnx")
    reseal()
    monkeypatch.setattr(canary, "CANARY_SECONDS", 0.2)
    with pytest.raises(BundleError, match=r"within 0\.2 s; one of its graphs may never end"):
        open_encoder(folder)


def test_the_tolerance_of_a_provider_goes_before_the_general_one(encoder: Encoder) -> None:
    strict, lax = Tolerance(1.0, 0.0, 1.0), Tolerance(0.5, 0.5, 0.5)
    both = replace(encoder.bundle, tolerances={"fp32/*": lax, "fp32/CPUExecutionProvider": strict})
    assert both.tolerance("CPUExecutionProvider") == strict
    assert both.tolerance("CUDAExecutionProvider") == lax


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluation": {"R@10": 0.7}},
        {"provenance": {"seed": 3}},
        {"about": "other words"},
        {"name": "another"},
        {"tolerances": {"fp32/*": Tolerance(0.9, 0.1, 0.9)}},
        {"geometry": replace(SPEC.geometry, root=(0.0,) * tiny.FEATURE)},
        {"files": {"probe.npz": "0" * 64}},
        {"files": {"reader/model.onnx.data": "0" * 64}},
    ],
)
def test_what_decides_no_vector_changes_one_id_alone(encoder: Encoder, changes: dict[str, Any]) -> None:
    before = encoder.bundle
    after = replace(before, **{**changes, "files": {**before.files, **changes.get("files", {})}})
    assert after.vector_id == before.vector_id
    assert after.bundle_id != before.bundle_id


@pytest.mark.parametrize(
    "changes",
    [
        {"views": replace(SPEC.views, rig="ring12")},
        {"views": replace(SPEC.views, size=96)},
        {"views": replace(SPEC.views, renderer="software-2")},
        {"image": replace(SPEC.image, resize="shortest")},
        {"text": replace(SPEC.text, context=13)},
        {"text": replace(SPEC.text, cleaning="bert")},
        {"geometry": replace(SPEC.geometry, metric="l2")},
        {"variant": "fp16"},
        *({"files": {name: "0" * 64}} for name in bundles.VECTOR_FILES),
    ],
)
def test_what_decides_vectors_changes_both_ids(encoder: Encoder, changes: dict[str, Any]) -> None:
    before = encoder.bundle
    after = replace(before, **{**changes, "files": {**before.files, **changes.get("files", {})}})
    assert after.vector_id != before.vector_id
    assert after.bundle_id != before.bundle_id


def test_what_is_built_twice_or_lies_elsewhere_is_the_same(
    encoder: Encoder, folder: Path, tmp_path: Path
) -> None:
    assert tiny.build(tmp_path / "again").vector_id == encoder.vector_id
    assert bundles.load(folder).bundle_id == encoder.bundle.bundle_id


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A text reader; within a bundle it is hashed like the other files, and decides no vector."""
    return reading.write_table_reader(tmp_path / "reader")


def test_a_reader_is_a_part_that_changes_no_vector(folder: Path, reader: Path, tmp_path: Path) -> None:
    before = bundles.load(folder)
    assert before.reader_folder is None
    assert open_encoder(folder).reader is packaged_reader()
    (reader / "README.md").write_text("no part of it")
    after = bundles.add_reader(folder, reader)
    assert after == bundles.load(folder)
    assert (after.vector_id, after.bundle_id != before.bundle_id) == (before.vector_id, True)
    names = {"reader/tokenizer.json", "reader/model.safetensors", "reader/config.json"}
    assert {*after.files} - {*before.files} == names
    opened = open_encoder(folder).reader
    assert opened is not None
    assert opened.id == open_text_reader(reader).id
    with pytest.raises(TextReaderError, match="no text reader"):
        bundles.add_reader(folder, tmp_path)
    assert bundles.load(folder) == after
    another = bundles.add_reader(folder, reading.write_sentence_reader(tmp_path / "other"))
    assert another.has("reader/model.onnx")
    assert not another.has("reader/model.safetensors")
    assert {path.name for path in folder.glob("reader*")} == {"reader"}


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "config.json"])
def test_a_damaged_reader_is_found(folder: Path, reader: Path, name: str) -> None:
    bundles.add_reader(folder, reader)
    with open(folder / "reader" / name, "ab") as file:
        file.write(b" ")
    with pytest.raises(BundleError, match=f"reader/{name} of bundle tiny is damaged"):
        open_encoder(folder)


def test_what_an_earlier_version_said_beside_it_is_left_alone(tmp_path: Path) -> None:
    path = tiny.build(tmp_path / "tiny").folder / "bundle.json"
    said = json.loads(path.read_text()) | {"calibration": {"pairs": {}}}
    hashed = {name: value for name, value in said.items() if name not in ("format", "vector_id", "bundle_id")}
    canonical = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
    said["bundle_id"] = hashlib.sha256(canonical.encode()).hexdigest()[: len(said["bundle_id"])]
    path.write_text(json.dumps(said))
    assert bundles.load(path.parent).vector_id == said["vector_id"]


def test_a_description_of_nested_lists_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(BundleError, match="is damaged"):
        bundles.load(tmp_path)
