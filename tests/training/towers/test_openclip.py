"""open_clip's models behind our interface: the same bits, weights from files, and refusals in sentences."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import open_clip
import pytest
import torch
from torch import nn

from multifold.bundle.preprocess import CLIP_MEAN
from tests.training.towers import kinds as towers
from training import checkpoint, prepare
from training.checkpoint import Checkpoint
from training.distributed import SINGLE_PROCESS
from training.objective import Teacher
from training.recipes import library
from training.recipes.schema import OpenClipImageSection, RecipeError
from training.recipes.schema import TeacherSection as TeacherOptions
from training.towers import catalogue, image_spec
from training.towers.base import TowerError
from training.towers.image import PatchTower, WholeTower
from training.towers.tokenizers import TrainedTokenizer
from training.train import RunPlace, train_recipe

pytestmark = pytest.mark.usefixtures("tiny_models")
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    towers.VIT: (towers.VIT_IMAGE, towers.VIT_TEXT, towers.CLIP),
    towers.RESNET: (towers.RESNET_IMAGE, {**towers.VIT_TEXT, "model": towers.RESNET}, towers.CLIP),
    towers.SIGLIP: (towers.SIGLIP_IMAGE, towers.SIGLIP_TEXT, {"name": "clip", "dim": 64}),
}


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(open_clip, "download_pretrained", fail)


def theirs(name: str) -> Any:  # noqa: ANN401 (open_clip is not typed)
    """open_clip's own model, its weights far from where they start, with names as it saves them."""
    torch.manual_seed(1)
    model = open_clip.CustomTextCLIP(**catalogue.config(name)).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def saved(name: str, path: Path) -> tuple[Any, str]:
    model = theirs(name)
    torch.save(model.state_dict(), path)
    return model, str(path)


def with_weights(name: str, file: str, **wishes: object) -> tuple[Any, Any, Any]:
    image, text, geometry = KINDS[name]
    return {**image, "pretrained": file, **wishes}, {**text, "pretrained": file}, geometry


@pytest.mark.parametrize("name", KINDS)
def test_without_surgery_features_are_open_clips_to_the_bit(name: str, tmp_path: Path) -> None:
    model, file = saved(name, tmp_path / "weights.pt")
    ours = towers.build(*with_weights(name, file))
    with torch.inference_mode():
        seen = ours.image.normalised(towers.pixels(KINDS[name][0]["size"]))
        assert torch.equal(ours.image(towers.pixels(KINDS[name][0]["size"])), model.encode_image(seen))
        assert torch.equal(ours.text(towers.tokens()), model.encode_text(towers.tokens()))


def test_without_surgery_gradients_are_open_clips(tmp_path: Path) -> None:
    model, file = saved(towers.VIT, tmp_path / "weights.pt")
    ours = towers.build(*with_weights(towers.VIT, file))
    model.train()
    ours.image(towers.pixels(32)).square().sum().backward()
    model.encode_image(ours.image.normalised(towers.pixels(32))).square().sum().backward()
    torch.testing.assert_close(ours.image.project.weight.grad.T, model.visual.proj.grad)
    torch.testing.assert_close(ours.image.stem.weight.grad, model.visual.conv1.weight.grad)


def test_weights_in_the_old_names_are_read_too(tmp_path: Path) -> None:
    model, _ = saved(towers.VIT, tmp_path / "weights.pt")
    old = {name.removeprefix("text."): value for name, value in model.state_dict().items()}
    torch.save({"state_dict": {f"module.{name}": value for name, value in old.items()}}, tmp_path / "old.pt")
    ours = towers.build(*with_weights(towers.VIT, str(tmp_path / "old.pt")))
    with torch.inference_mode():
        assert torch.equal(ours.text(towers.tokens()), model.encode_text(towers.tokens()))


def test_without_the_final_norm_tokens_are_projected_as_they_are(tmp_path: Path) -> None:
    model, file = saved(towers.VIT, tmp_path / "weights.pt")
    ours = towers.build(*with_weights(towers.VIT, file, final_norm=False))
    model.visual.ln_post = nn.Identity()
    with torch.inference_mode():
        seen = ours.image.normalised(towers.pixels(32))
        assert torch.equal(ours.image(towers.pixels(32)), model.encode_image(seen))


def test_a_checkpoint_needs_the_pretrained_file_no_more(tmp_path: Path) -> None:
    _, file = saved(towers.VIT, tmp_path / "weights.pt")
    wanted = towers.recipe(*with_weights(towers.VIT, file))
    model = towers.build(*with_weights(towers.VIT, file))
    tokenizer = TrainedTokenizer("{}", None, 1, 1, "canonicalize", towers.VOCABULARY)
    checkpoint.save_checkpoint(tmp_path / "checkpoint.pt", Checkpoint(wanted, tokenizer, model))
    Path(file).unlink()
    again = checkpoint.load_checkpoint(tmp_path / "checkpoint.pt")
    assert again.tokenizer == tokenizer
    with torch.inference_mode():
        assert torch.equal(again.model.image(towers.pixels(32)), model.image(towers.pixels(32)))


def test_towers_of_one_source_read_its_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, file = saved(towers.VIT, tmp_path / "weights.pt")
    read: list[str] = []
    monkeypatch.setattr(open_clip, "load_checkpoint", lambda _, path: read.append(path))
    towers.build(*with_weights(towers.VIT, file))
    assert read == [file]


def test_a_random_model_projects_to_any_length() -> None:
    dim = {"name": "clip", "dim": 7}
    model = towers.build(towers.RESNET_IMAGE, towers.VIT_TEXT, dim)
    assert model.image(towers.pixels(64)).shape == model.text(towers.tokens()).shape == (4, 7)


@pytest.mark.parametrize(
    ("model", "weights", "dim", "said"),
    [
        ("RN50-quickgelu", "openai", 1024, "'openai' of RN50-quickgelu are not here .* name it: pretrained"),
        ("RN101", "webly", 512, "'webly' is no file, and no weights of RN101; open_clip has: open"),
        ("RN101", "openai", 512, "'openai' has another activation than RN101"),
    ],
)
def test_weights_that_cannot_be_had(no_network: None, model: str, weights: str, dim: int, said: str) -> None:
    with pytest.raises(TowerError, match=said):
        catalogue.load(model, weights, dim)


def test_a_file_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("hello", encoding="utf-8")
    torch.save({"weight": torch.ones(3)}, tmp_path / "other.pt")
    for file in ("text.pt", "other.pt"):
        with pytest.raises(TowerError, match=f"{file} does not hold the weights of {towers.VIT}: "):
            catalogue.load(towers.VIT, str(tmp_path / file), towers.DIM)


@pytest.mark.parametrize(
    ("image", "text", "said"),
    [
        ({"model": "ViT-B32"}, {}, "open_clip knows no model 'ViT-B32'; it knows: ViT-B-32"),
        ({"model": "coca_ViT-B-32"}, {}, "no plain CLIP text tower"),
        ({"size": 64}, {}, "tiny-vit sees 32 pixels; set size = 32"),
        (
            {"model": towers.RESNET, "size": 64, "final_norm": False},
            {},
            "tiny-resnet is no plain vision transformer",
        ),
        ({"model": towers.RESNET, "size": 64, "tokens": 1}, {}, "tiny-resnet is no plain vision transformer"),
        ({"model": towers.RESNET, "size": 64, "checkpointing": True}, {}, "no checkpointing for tiny-resnet"),
        ({}, {"context": 77}, "tiny-vit reads 12 tokens; set context = 12"),
        ({}, {"tokens": 1, "model": towers.SIGLIP}, "appended to causal towers only"),
        ({"model": towers.SIGLIP, "size": 160}, {}, "tiny-siglip makes features of length 64, not 24"),
    ],
)
def test_what_a_model_cannot_do_is_refused(image: dict[str, Any], text: dict[str, Any], said: str) -> None:
    with pytest.raises(TowerError, match=said):
        towers.build({**towers.VIT_IMAGE, **image}, {**towers.VIT_TEXT, **text}, towers.CLIP)


def test_pretrained_features_keep_their_length(tmp_path: Path) -> None:
    _, file = saved(towers.VIT, tmp_path / "weights.pt")
    with pytest.raises(TowerError, match="tiny-vit makes features of length 24, not 16; set dim"):
        towers.build({**towers.VIT_IMAGE, "pretrained": file}, towers.VIT_TEXT, {"name": "clip", "dim": 16})


def test_a_tokenizer_with_too_many_ids_is_refused() -> None:
    with pytest.raises(TowerError, match="the tokenizer has 301 ids, tiny-vit knows 300"):
        towers.build(towers.VIT_IMAGE, towers.VIT_TEXT, towers.CLIP, towers.VOCABULARY + 1)


def test_siglip_pads_are_read_like_words() -> None:
    text = {**towers.SIGLIP_TEXT, "tokens": "all"}
    image = {**towers.VIT_IMAGE, "tokens": "all"}
    with pytest.raises(TowerError, match="set pads = 'kept'"):
        towers.build(image, text, towers.CLOUD)
    kept = towers.build(image, {**text, "pads": "kept"}, towers.CLOUD)
    assert kept.text.tokens(towers.tokens())[1].all()


def test_a_kind_that_nobody_knows_names_its_place() -> None:
    with pytest.raises(RecipeError, match=r"towers: image: .*'huge'.*'small', 'openclip'"):
        towers.recipe({"kind": "huge"}, towers.VIT_TEXT, towers.CLIP)
    with pytest.raises(RecipeError, match=r"nothing reads the key image\.width; there are: tokens"):
        towers.recipe({**towers.VIT_IMAGE, "width": 3}, towers.VIT_TEXT, towers.CLIP)


def test_pictures_are_wanted_as_the_weights_want_them() -> None:
    siglip = image_spec(OpenClipImageSection(model="ViT-B-16-SigLIP"))
    assert (siglip.mean, siglip.resize) == ((0.5, 0.5, 0.5), "squash")
    laion = OpenClipImageSection(model="ViT-L-14", pretrained="laion2b_s32b_b82k")
    assert image_spec(laion).mean == (0.5, 0.5, 0.5)
    assert image_spec(OpenClipImageSection(model="RN101", pretrained="some/file.pt")).mean == CLIP_MEAN
    assert image_spec(OpenClipImageSection(model=towers.VIT, size=32)).mean == CLIP_MEAN


@pytest.mark.slow
def test_the_real_ones_have_their_shapes() -> None:
    for name, size in (("ViT-B-32", 224), ("RN101", 224)):
        dim = {"name": "clip", "dim": 512}
        image, text = {"kind": "openclip", "model": name, "size": size}, {"kind": "openclip", "model": name}
        model = towers.build(image, text, dim, 49408)
        assert isinstance(model.image, PatchTower if name == "ViT-B-32" else WholeTower)
        ids = torch.zeros(2, 9, dtype=torch.int64)
        ids[:, 8] = 49407
        with torch.inference_mode():
            assert model.image(towers.pixels(size, 1)).shape == (1, 512)
            assert model.text(ids).shape == (2, 512)


@pytest.mark.slow
def test_a_teacher_takes_the_batch_statistics_of_a_real_resnet() -> None:
    """RN101 has BatchNorm: looking moves the student's statistics, teaching leaves the teacher's alone."""
    image = {"kind": "openclip", "model": "RN101", "size": 224}
    model = towers.build(image, {"kind": "openclip", "model": "RN101"}, {"name": "clip", "dim": 512}, 49408)
    teacher = Teacher(model, TeacherOptions(momentum=0.5))
    start = {name: buffer.clone() for name, buffer in model.named_buffers() if "running" in name}
    assert len(start) > 200
    pixels = towers.pixels(224, 2)
    with torch.no_grad():
        model.train().image(pixels)
        teacher.model.image(pixels)
    assert all(torch.equal(teacher.model.get_buffer(name), was) for name, was in start.items())
    teacher.follow(model)
    moved = dict(model.named_buffers())
    assert not any(torch.equal(moved[name], was) for name, was in start.items())
    assert all(torch.equal(teacher.model.get_buffer(name), moved[name]) for name in start)


def test_weights_are_looked_for_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not here, and their hub does not answer: that is said within ten seconds."""
    patience: list[float] = []

    def fetch(_: object) -> None:
        raise FileNotFoundError("it was never fetched")

    def ask(_url: str, timeout: float) -> None:
        patience.append(timeout)
        raise URLError("no route to host")

    monkeypatch.setattr(open_clip, "download_pretrained", fetch)
    monkeypatch.setattr(catalogue, "urlopen", ask)
    monkeypatch.setattr(prepare, "training_set", lambda *_: pytest.fail("items are drawn first"))
    recipe = library.load_recipe("finetune-folder", ["data.manifest=none.jsonl"])
    with pytest.raises(TowerError, match="are not here and could not be fetched"):
        train_recipe(recipe, RunPlace(tmp_path, tmp_path, "cpu", SINGLE_PROCESS))
    assert patience == [catalogue.HUB_TIMEOUT]
    assert catalogue.HUB_TIMEOUT < 10
