"""Published encoders become bundles: from a file of weights, and from a folder as the hub has it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer as Library
from torch.nn.functional import normalize

from multifold.bundle.canary import open_encoder
from multifold.cli import main
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry, write
from tests.training.towers.kinds import CONFIGS, SIGLIP
from tests.training.towers.test_tokenizers import siglip_file
from training.export import open_weights
from training.recipes.schema import DataSection

NAME = "tiny-published"
MODEL = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
}
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]
CONTEXT = 32
TEXTS = ["a red square", "", "Grün &amp; blue " * 40]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model: its description, its weights, and a manifest to measure it on."""
    folder = tmp_path_factory.mktemp("published")
    (folder / f"{NAME}.json").write_text(json.dumps(MODEL), encoding="utf-8")
    open_clip.add_model_config(folder / f"{NAME}.json")
    torch.manual_seed(3)
    model = open_clip.create_model(NAME)
    hub = folder / "hub"
    hub.mkdir()
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.save(model.state_dict(), hub / "open_clip_pytorch_model.bin")
    seen = {"mean": MEAN, "std": STD, "interpolation": "bilinear", "resize_mode": "squash"}
    (hub / "open_clip_config.json").write_text(json.dumps({"model_cfg": MODEL, "preprocess_cfg": seen}))
    write(folder / "things.jsonl", [_thing(folder, shade) for shade in range(0, 250, 50)])
    return folder


def _thing(folder: Path, shade: int) -> ManifestEntry:
    path = folder / f"{shade}.png"
    noise = np.random.default_rng(shade).integers(0, 5 + shade, (48, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return ManifestEntry(str(shade), (path,), texts=(f"noise up to {shade}",), split="test")


def reference(model: Any, picture: Image.Image, **seen: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: ANN401
    """What open_clip itself makes of a picture and of the texts."""
    transform = open_clip.image_transform(32, is_train=False, **seen)
    with torch.inference_mode():
        image = model.eval().encode_image(transform(picture)[None])
        texts = model.encode_text(open_clip.get_tokenizer("ViT-B-32")(TEXTS))
    return normalize(image, dim=-1).numpy(), normalize(texts, dim=-1).numpy()


def check(folder: Path, expected: tuple[np.ndarray, np.ndarray], picture: Image.Image) -> None:
    encoder = open_encoder(folder)
    image, texts = (
        encoder.vectors(found) for found in (encoder.pictures([picture]), encoder.texts(TEXTS).features)
    )
    np.testing.assert_allclose(texts, expected[1], atol=1e-4)
    np.testing.assert_allclose(image, expected[0], atol=2e-2)  # open_clip resizes in another order of cuts
    assert encoder.bundle.geometry.params["scale"] == pytest.approx(1 / 0.07, rel=1e-3)


def test_a_model_with_a_file_of_weights(published: Path, tmp_path: Path) -> None:
    source = f"open_clip:{NAME}/{published / 'weights.pt'}"
    words = ["export", source, str(tmp_path / "bundle"), "--held-out", str(published / "things.jsonl")]
    assert main([*words, "--cache", str(tmp_path / "cache")]) == 0
    picture = Image.open(published / "200.png")
    model = open_clip.create_model(NAME, pretrained=str(published / "weights.pt"))
    check(tmp_path / "bundle", reference(model, picture), picture)


def test_a_folder_as_the_hub_has_it(published: Path, tmp_path: Path) -> None:
    words = ["export", f"open_clip:{published / 'hub'}", str(tmp_path / "bundle")]
    words += ["--held-out", str(published / "things.jsonl"), "--cache", str(tmp_path / "cache")]
    assert main(words) == 0
    picture = Image.open(published / "100.png")
    model = open_clip.create_model(NAME, pretrained=str(published / "weights.pt"))
    seen = {"mean": MEAN, "std": STD, "interpolation": "bilinear", "resize_mode": "squash"}
    check(tmp_path / "bundle", reference(model, picture, **seen), picture)
    spec = open_encoder(tmp_path / "bundle").bundle.image
    assert (spec.mean, spec.std, spec.resize) == (tuple(MEAN), tuple(STD), "squash")
    variant = [str(tmp_path / "bundle"), str(tmp_path / "half"), "--variant", "fp16", "--tolerance", "1"]
    assert main(["export", *variant, "--cache", str(tmp_path / "cache")]) == 0
    assert open_encoder(tmp_path / "half").bundle.variant == "fp16"


def test_a_siglip_as_the_hub_has_it(published: Path, tmp_path: Path) -> None:
    """It reads with a tokenizer of its own, pads to the full length, and has a bias that ranks nothing."""
    hub = tmp_path / "hub"
    hub.mkdir()
    tokenizer = Library.from_file(str(siglip_file(hub)))
    config: Any = CONFIGS[SIGLIP]
    vision, text, dim = config
    text = {**text, "context_length": CONTEXT, "vocab_size": tokenizer.get_vocab_size()}
    described = {"embed_dim": dim, "vision_cfg": vision, "text_cfg": text}
    described |= {"custom_text": True, "init_logit_bias": -10}
    seen = {"mean": MEAN, "std": STD}
    (hub / "open_clip_config.json").write_text(json.dumps({"model_cfg": described, "preprocess_cfg": seen}))
    (tmp_path / f"{SIGLIP}-published.json").write_text(json.dumps(described), encoding="utf-8")
    open_clip.add_model_config(tmp_path / f"{SIGLIP}-published.json")
    torch.manual_seed(4)
    model = open_clip.create_model(f"{SIGLIP}-published").eval()
    torch.save(model.state_dict(), hub / "open_clip_pytorch_model.bin")
    words = ["export", f"open_clip:{hub}", str(tmp_path / "bundle")]
    words += ["--held-out", str(published / "things.jsonl"), "--cache", str(tmp_path / "cache")]
    assert main(words) == 0
    said = ["a red chair with four legs", "a low wooden table"]
    ids = [[*tokenizer.encode(one).ids] for one in said]
    padded = torch.tensor([[*one, *[1] * (CONTEXT - len(one))] for one in ids])
    with torch.inference_mode():
        expected = normalize(model.encode_text(padded), dim=-1).numpy()
    encoder = open_encoder(tmp_path / "bundle")
    np.testing.assert_allclose(encoder.vectors(encoder.texts(said).features), expected, atol=1e-4)
    spec = encoder.bundle
    assert (spec.text.length, spec.image.size) == ("fixed", vision["image_size"])
    assert spec.geometry.params["scale"] == pytest.approx(model.logit_scale.exp().item(), rel=1e-3)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("open_clip:ViT-B-99/openai", "open_clip knows no model 'ViT-B-99'; it knows: .*ViT-B-"),
        ("open_clip:ViT-B-16", "names no weights; say open_clip:MODEL/TAG"),
        (f"open_clip:{NAME}/nowhere", "'nowhere' is no file, and no weights"),
        ("open_clip:EMPTY", "holds no model as open_clip's hub has them: it lacks open_clip_config.json"),
    ],
)
def test_what_cannot_be_had_is_told(published: Path, source: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match=told):
        open_weights.load_published(source.replace("EMPTY", str(tmp_path)), None, DataSection())


def test_openais_weights_bring_their_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were trained with QuickGELU, and open_clip has a name of its own for that."""
    asked: list[object] = []

    def fetched(tag: object) -> str:
        asked.append(tag)
        raise OSError("no network")

    monkeypatch.setattr(open_clip, "download_pretrained", fetched)
    with pytest.raises(MultifoldError, match=r"the weights 'openai' of ViT-B-16-quickgelu are not here"):
        open_weights.load_published("open_clip:ViT-B-16/openai", None, DataSection())
    assert len(asked) == 1


def test_a_bundle_and_a_variant_belong_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path / "run.pt"), str(tmp_path / "b"), "--variant", "int8"]) == 2
    assert "--variant goes with a bundle as its source" in capsys.readouterr().err
