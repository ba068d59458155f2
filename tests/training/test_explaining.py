"""Explain graphs compute what autograd computes, for every kind of tower, and weigh little."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image
from torch import Tensor, nn

from multifold.analysis.explanation import Explainer, isolate_part
from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import Bundle, GeometrySpec
from multifold.bundle.encoder import Encoder
from multifold.cli import main
from tests import tiny
from tests.training import small
from training import prepare
from training.export.explain_graphs import explain_graph, write_explain_graphs
from training.export.gradient import GradientError, GraphGradient
from training.export.graphs import check_parity, write_graphs
from training.geometries.pointcloud import KernelCloud
from training.recipes import schema
from training.towers import TwoTowerModel, build_model
from training.towers.bert import BertTower
from training.towers.text import BagTower

VARIANTS: dict[str, dict[str, Any]] = {
    "mean of patches": {},
    "m class tokens": {
        "geometry": {"name": "oblique_multi", "dim": 16, "params": {"m": 2}},
        "image": {"tokens": 2},
        "text": {"tokens": 2},
    },
    "bert": {
        "geometry": {"name": "euclidean_squared", "dim": 16},
        "image": {"tokens": 1, "final_norm": False},
        "text": {"kind": "bert", "heads": 2, "tokens": 1},
    },
}
QUICK = "mean of patches"
CLOUDS: dict[str, dict[str, Any]] = {
    "cloud_gaussian": {"text": {"pads": "own"}},
    "cloud_imq": {"text": {"pads": "kept"}},
    "cloud_linear": {"text": {"kind": "bert", "heads": 2}},
}
QUICK_CLOUD = "cloud_gaussian"
SLOW_CLOUDS = [pytest.param(name, marks=pytest.mark.slow) for name in CLOUDS if name != QUICK_CLOUD]
SENTENCES = ["a red square left", "square, blue, bottom of it"]


def bundle_of(folder: Path, changes: dict[str, Any]) -> tuple[Bundle, TwoTowerModel]:
    """A random model of these towers, exported without ceremony."""
    plain = small.recipe().model_dump(mode="json")
    towers = {side: {**plain[side], **changes.get(side, {})} for side in ("image", "text")}
    if towers["text"].get("kind") == "bert":
        towers["text"] = {k: v for k, v in towers["text"].items() if k not in ("pads", "trainable", "words")}
    wanted = schema.parse_recipe(
        {**plain, **towers, "geometry": changes.get("geometry", plain["geometry"])}, "test"
    )
    _, captions = small.pictures()
    tokenizer = small.tokenizer(captions)
    torch.manual_seed(3)
    model = build_model(wanted, tokenizer.vocabulary).eval().requires_grad_(False)
    with torch.no_grad():  # the exporter makes one of weights that are alike, as only fresh ones are
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    made = tiny.build(folder)
    text, geometry = prepare.text_spec(wanted, tokenizer), model.geometry
    (folder / "tokenizer.json").write_text(tokenizer.definition, encoding="utf-8")
    write_graphs(model, prepare.image_spec(wanted), text, folder)
    size = geometry.feature_dim, geometry.dim
    spec = GeometrySpec(geometry.name, *size, geometry.metric, params=geometry.stated())
    image = prepare.image_spec(wanted)
    return bundles.save(replace(made, geometry=spec, image=image, text=text)), model


@pytest.fixture(
    scope="module",
    params=[QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name != QUICK)],
)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bundle, TwoTowerModel]:
    bundle, model = bundle_of(tmp_path_factory.mktemp("bundles") / "made", VARIANTS[request.param])
    assert write_explain_graphs(bundle) == {}
    return bundles.save(bundle), model


def by_autograd(model: TwoTowerModel, tower: Any, given: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """What enters the last block, and the gradient of the index score there."""
    held: list[Tensor] = []

    def hold(_block: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        held.append(arguments[0].detach().requires_grad_())
        return (held[0], *arguments[1:])

    hook = tower.blocks[-1].register_forward_pre_hook(hold)
    vectors = model.geometry.index_vectors(tower(given))
    hook.remove()
    ip = model.geometry.metric == "ip"
    score = (vectors * other).sum() if ip else -(vectors - other).square().sum()
    (gradient,) = torch.autograd.grad(score, held[0])
    return held[0].detach(), gradient


def test_pictures_agree_with_torch(exported: tuple[Bundle, TwoTowerModel]) -> None:
    bundle, model = exported
    views, _ = small.pictures()
    pixels = views[:3, 0]
    other = np.random.default_rng(0).standard_normal((3, bundle.geometry.dim)).astype(np.float32)
    seen, gradient = by_autograd(model, model.image, torch.from_numpy(pixels), torch.from_numpy(other))
    classes = 0 if model.image.classes is None else len(model.image.classes)  # type: ignore[arg-type]
    expected = (seen * gradient[:, classes:].mean(1, keepdim=True)).sum(2)[:, classes:]
    session = Encoder(bundle).session("explain_image.onnx", "pixels", "other")
    found = session.run(None, {"pixels": pixels, "other": other})[0]
    np.testing.assert_allclose(found, expected, atol=2e-6 + 1e-4 * np.abs(expected.numpy()).max())
    assert np.abs(found).max() > 0


def test_texts_agree_with_torch(exported: tuple[Bundle, TwoTowerModel]) -> None:
    bundle, model = exported
    encoder = Encoder(bundle)
    ids = encoder.tokenizer(SENTENCES).ids
    other = np.random.default_rng(0).standard_normal((2, bundle.geometry.dim)).astype(np.float32)
    places = np.zeros(ids.shape, np.float32)
    for row, sentence in enumerate(SENTENCES):
        places[row, [place for _, held in encoder.tokenizer.words(sentence) for place in held]] = 1
    seen, gradient = by_autograd(model, model.text, torch.from_numpy(ids), torch.from_numpy(other))
    first = model.text.count - 1 if isinstance(model.text, BertTower) else 0
    seen, gradient = (value[:, first : first + ids.shape[1]] for value in (seen, gradient))
    mask = torch.from_numpy(places)[:, :, None]
    slope = (gradient * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
    expected = ((seen * slope).sum(2) * mask[:, :, 0]).numpy()
    session = encoder.session("explain_text.onnx", "tokens", "other", "places")
    found = session.run(None, {"tokens": ids, "other": other, "places": places})[0]
    np.testing.assert_allclose(found, expected, atol=2e-6 + 1e-4 * np.abs(expected).max())
    assert np.abs(found).max() > 0


def test_the_words_of_a_bag_have_what_each_adds_to_the_score(tmp_path: Path) -> None:
    bundle, model = bundle_of(tmp_path / "bag", {"text": {"depth": 0}})
    assert write_explain_graphs(bundle) == {}
    encoder, tower = Encoder(bundles.save(bundle)), model.text
    assert isinstance(tower, BagTower)
    ids = torch.from_numpy(encoder.tokenizer(SENTENCES).ids)
    other = torch.randn(2, bundle.geometry.dim)
    held: list[Tensor] = []
    tower.norm.register_forward_pre_hook(lambda _, given: held.append(given[0].requires_grad_()))
    (model.geometry.index_vectors(tower(ids)) * other).sum().backward(inputs=held)
    inside = (torch.arange(ids.shape[1]) > 0) & (torch.arange(ids.shape[1]) < ids.argmax(1)[:, None])
    weights = tower.log_weight[ids].exp() * inside
    shares = weights / weights.sum(1, keepdim=True)
    expected = (tower.embed(ids) * shares[:, :, None] * held[0].grad).sum(2).numpy()
    session = encoder.session("explain_text.onnx", "tokens", "other", "places")
    given = {"tokens": ids.numpy(), "other": other.numpy(), "places": inside.float().numpy()}
    np.testing.assert_allclose(session.run(None, given)[0], expected, atol=2e-6)
    assert np.abs(expected[0]).max() > 1e-3


def test_explain_graphs_store_no_weight_twice(exported: tuple[Bundle, TwoTowerModel]) -> None:
    bundle, _ = exported
    for side in ("image", "text"):
        model = onnx.load(bundle.path(f"explain_{side}.onnx"), load_external_data=False)
        inside = [one for one in model.graph.initializer if one.data_location != TensorProto.EXTERNAL]
        assert max(len(one.raw_data) for one in inside) < 512
        assert bundle.path(f"explain_{side}.onnx").stat().st_size < 80_000


def test_explaining_changes_no_vector(tmp_path: Path) -> None:
    bundle, _ = bundle_of(tmp_path / "made", {})
    before = {name: content for name, content in bundle.files.items() if not name.startswith("explain")}
    write_explain_graphs(bundle)
    after = bundles.save(bundle)
    assert after.vector_id == bundle.vector_id != after.bundle_id
    assert {name: after.files[name] for name in before} == before


def test_the_maps_of_tokens_sum_to_the_map_of_all(tmp_path: Path) -> None:
    bundle, _ = bundle_of(tmp_path / "made", VARIANTS["m class tokens"])
    write_explain_graphs(bundle)
    encoder = Encoder(bundles.save(bundle))
    assert encoder.bundle.geometry.tokens == 2
    views, _ = small.pictures()
    other = encoder.vectors(encoder.texts(SENTENCES).features)[0]
    session = encoder.session("explain_image.onnx", "pixels", "other")

    def run(vector: np.ndarray) -> np.ndarray:
        found: np.ndarray = session.run(None, {"pixels": views[0, :1], "other": vector[None]})[0]
        return found

    np.testing.assert_allclose(
        run(isolate_part(other, 0, 2)) + run(isolate_part(other, 1, 2)), run(other), atol=1e-6
    )
    assert Explainer(encoder).picture(views[0, 0], isolate_part(other, 1, 2), "grad-cam").grid.shape == (4, 4)


@pytest.fixture(scope="module", params=[QUICK_CLOUD, *SLOW_CLOUDS])
def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bundle, TwoTowerModel]:
    name = request.param
    params = {} if name == "cloud_linear" else {"frequencies": 24}
    return bundle_of(
        tmp_path_factory.mktemp("bundles") / "cloud",
        {
            "geometry": {"name": name, "dim": 16, "params": params},
            "image": {"tokens": "all"},
            "text": {"tokens": "all", **CLOUDS[name]["text"]},
        },
    )


def test_shares_of_points_sum_to_the_similarity_of_clouds(cloud: tuple[Bundle, TwoTowerModel]) -> None:
    bundle, model = cloud
    encoder = Encoder(bundle)
    explainer = Explainer(encoder)
    views, _ = small.pictures()
    seen, ids = views[5, 0], encoder.tokenizer(SENTENCES[:1]).ids
    check_parity(model, encoder, views[:3, 0], SENTENCES)
    picture, text = model.image(torch.from_numpy(seen[None])), model.text(torch.from_numpy(ids))
    similarity = model.geometry.similarity(text, picture).item()
    of_picture, of_text = (model.geometry.index_vectors(one)[0].numpy() for one in (picture, text))

    heat = explainer.picture(seen, of_text)
    assert heat.method == "points"
    assert heat.grid.shape == (4, 4)
    assert heat.grid.sum() == pytest.approx(similarity, rel=1e-4)
    words = explainer.text(SENTENCES[0], of_picture)
    assert words.method == "points"
    said = {place for _, held in encoder.tokenizer.words(SENTENCES[0]) for place in held}
    rest = [place for place in range(ids.shape[1]) if place not in said]
    unsaid = explainer.points("text", ids)[0, rest] @ of_picture
    assert sum(share for _, share in words.words) + unsaid.sum() == pytest.approx(similarity, rel=1e-4)


def test_a_patch_has_the_share_that_the_plain_sum_over_pairs_gives_it(
    cloud: tuple[Bundle, TwoTowerModel],
) -> None:
    """Σⱼ wᵢwⱼκ(vᵢ, vⱼ) over both counts, κ by the waves that the bundle has."""
    bundle, model = cloud
    encoder = Encoder(bundle)
    views, _ = small.pictures()
    ids = encoder.tokenizer(SENTENCES[:1]).ids
    found = Explainer(encoder).picture(views[5, 0], encoder.vectors(encoder.texts(SENTENCES[:1]).features)[0])
    (patches, ours), (words, theirs) = (
        points_of(tower, torch.from_numpy(given))
        for tower, given in ((model.image, views[5, :1]), (model.text, ids))
    )
    geometry, kernel = model.geometry, patches @ words.T
    if isinstance(geometry, KernelCloud):
        seen, read = ((one @ geometry.directions.T + geometry.phases).cos() for one in (patches, words))
        share = geometry.kernel_share
        kernel = (1 - share) * kernel + share * 2 / len(geometry.phases) * seen @ read.T
    expected = (ours[:, None] * theirs * kernel).sum(1) / len(ours) / len(theirs)
    np.testing.assert_allclose(found.grid.flatten(), expected, rtol=1e-3, atol=1e-6)


def points_of(tower: Any, given: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """The unit points of one picture or text, and their weights."""
    tokens, mask = (value[0] for value in tower.tokens(given))
    raw = (tokens @ tower.project.weights)[mask, 0]
    return nn.functional.normalize((tokens @ tower.project.points)[mask], dim=1), 100 * (raw / 100).tanh()


def test_graphs_of_points_change_no_vector_and_store_no_weight_twice(
    cloud: tuple[Bundle, TwoTowerModel], tmp_path: Path
) -> None:
    bundle, _ = cloud
    shutil.copytree(bundle.folder, tmp_path / "without")
    for side in ("image", "text"):
        (tmp_path / "without" / f"points_{side}.onnx").unlink()
        model = onnx.load(bundle.path(f"points_{side}.onnx"), load_external_data=False)
        inside = [one for one in model.graph.initializer if one.data_location != TensorProto.EXTERNAL]
        assert max(len(one.raw_data) for one in inside) < 512
    without = bundles.save(replace(bundle, folder=tmp_path / "without"))
    assert without.vector_id == bundle.vector_id
    assert without.bundle_id != bundle.bundle_id


def test_what_has_no_blocks_is_refused_and_still_explained(tmp_path: Path) -> None:
    bundle = tiny.build(tmp_path / "tiny")
    refused = write_explain_graphs(bundle)
    assert set(refused) == {"image", "text"}
    assert Explainer(Encoder(bundles.save(bundle))).methods("image") == ("occlusion",)
    with pytest.raises(GradientError, match="no blocks"):
        explain_graph(bundle, "image")


OPERATIONS: dict[str, Any] = {
    "gelu": lambda x: nn.functional.gelu(x),
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "broadcast": lambda x: (x[:, :1] * x - x / (1 + x[:, :, :1].square())) @ x.transpose(1, 2),
    "gather": lambda x: torch.cat([x[:, -1], x[:, 0]], 1) * torch.cat([x.mean(1), x.sum(1)], 1),
    "norms": lambda x: nn.functional.normalize(x, dim=-1) + nn.functional.layer_norm(x, (x.shape[-1],)),
    "where": lambda x: torch.where(x > 0, x.square(), x).clamp(min=-0.5).sum(1),
    "softmax": lambda x: (x @ x.transpose(1, 2)).softmax(-1) @ x,
}


class Operation(nn.Module):
    """One of them, as a module."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        """2·x goes in, so that the value whose gradient is asked for is inside the graph."""
        out: Tensor = OPERATIONS[self.name](x * 2)
        return out


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_goes_backward(name: str) -> None:
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    program = torch.onnx.export(Operation(name).eval(), (x,), dynamo=True, opset_version=20, verbose=False)
    assert program is not None
    model = program.model_proto
    inner = next(node.output[0] for node in model.graph.node if node.input[0] == model.graph.input[0].name)
    on = GraphGradient(model.graph)
    model.graph.input.append(helper.make_tensor_value_info("seed", TensorProto.FLOAT, None))
    gradient = on.through(model.graph.output[0].name, "seed", inner)
    model.graph.output.append(helper.make_tensor_value_info(gradient, TensorProto.FLOAT, None))
    session = ort.InferenceSession(model.SerializeToString())
    doubled = (2 * x).requires_grad_()
    expected = OPERATIONS[name](doubled)
    seed = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    (ours,) = torch.autograd.grad(expected, doubled, seed)
    found = session.run(None, {session.get_inputs()[0].name: x.numpy(), "seed": seed.numpy()})
    np.testing.assert_allclose(found[0], expected.detach(), atol=1e-5)
    np.testing.assert_allclose(found[1], ours, atol=1e-5)


def test_what_has_no_backward_here_is_named() -> None:
    node = helper.make_node("Det", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [], [])
    with pytest.raises(GradientError, match=re.escape("backward of Det")):
        GraphGradient(graph).through("y", "seed", "x")


def test_the_command_explains_a_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
