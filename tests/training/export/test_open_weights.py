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
from multifold.bundle.preprocess import pixels
from multifold.cli import main
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry, write
from tests.training.towers.kinds import CONFIGS, SIGLIP
from tests.training.towers.test_tokenizers import siglip_file
from training import prepare
from training.export import open_weights
from training.recipes.schema import DataSection
from training.retrieval.encoder import TorchEncoder
from training.towers import image_spec

NAME = "tiny-published"
MODEL = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
}
SEEN: dict[str, Any] = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4], "resize_mode": "squash"}
CONTEXT = 32
TEXTS = ["a red square", "", "Grün &amp; blue " * 40]


def publish(hub: Path, model: Any, described: dict[str, Any]) -> None:  # noqa: ANN401 (open_clip is not typed)
    """A folder as open_clip's hub has it."""
    hub.mkdir(exist_ok=True)
    told = {"model_cfg": described, "preprocess_cfg": {**SEEN, "interpolation": "bilinear"}}
    (hub / "open_clip_config.json").write_text(json.dumps(told), encoding="utf-8")
    torch.save(model.state_dict(), hub / "open_clip_pytorch_model.bin")


def created(folder: Path, name: str, described: dict[str, Any]) -> Any:  # noqa: ANN401
    """A random model of open_clip's."""
    (folder / f"{name}.json").write_text(json.dumps(described), encoding="utf-8")
    open_clip.add_model_config(folder / f"{name}.json")
    torch.manual_seed(3)
    return open_clip.create_model(name).eval()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model, its weights, and a manifest to measure it on."""
    folder = tmp_path_factory.mktemp("published")
    model = created(folder, NAME, MODEL)
    publish(folder / "hub", model, MODEL)
    torch.save(model.state_dict(), folder / "weights.pt")
    write(folder / "things.jsonl", [_thing(folder, shade) for shade in range(0, 250, 50)])
    return folder


def _thing(folder: Path, shade: int) -> ManifestEntry:
    path = folder / f"{shade}.png"
    noise = np.random.default_rng(shade).integers(0, 5 + shade, (48, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return ManifestEntry(str(shade), (path,), texts=(f"noise up to {shade}",), split="test")


def reference(published: Path, picture: Image.Image, **seen: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: ANN401
    """What open_clip itself makes of a picture and of the texts."""
    model = open_clip.create_model(NAME, pretrained=str(published / "weights.pt")).eval()
    transform = open_clip.image_transform(32, is_train=False, **seen)
    with torch.inference_mode():
        image = model.encode_image(transform(picture)[None])
        texts = model.encode_text(open_clip.get_tokenizer("ViT-B-32")(TEXTS))
    return normalize(image, dim=-1).numpy(), normalize(texts, dim=-1).numpy()


def test_a_model_with_a_file_of_weights(published: Path) -> None:
    source = f"open_clip:{NAME}/{published / 'weights.pt'}"
    trained = open_weights.load_published(source, None, DataSection())
    encoder = TorchEncoder(trained.model, prepare.reader(trained.recipe, trained.tokenizer))
    picture = Image.open(published / "200.png")
    image, texts = reference(published, picture)
    seen = pixels(picture, image_spec(trained.recipe.image))
    np.testing.assert_allclose(encoder.vectors(encoder.texts(TEXTS).features), texts, atol=1e-4)
    np.testing.assert_allclose(encoder.vectors(encoder.pixels(seen[None])), image, atol=2e-2)


def test_a_folder_as_the_hub_has_it(published: Path, tmp_path: Path) -> None:
    cache = ["--cache", str(tmp_path / "cache")]
    words = ["export", f"open_clip:{published / 'hub'}", str(tmp_path / "bundle"), *cache]
    assert main([*words, "--held-out", str(published / "things.jsonl")]) == 0
    encoder, picture = open_encoder(tmp_path / "bundle"), Image.open(published / "100.png")
    image, texts = reference(published, picture, interpolation="bilinear", **SEEN)
    np.testing.assert_allclose(encoder.vectors(encoder.texts(TEXTS).features), texts, atol=1e-4)
    # open_clip resizes in another order of cuts
    np.testing.assert_allclose(encoder.vectors(encoder.pictures([picture])), image, atol=2e-2)
    assert encoder.bundle.geometry.params["scale"] == pytest.approx(1 / 0.07, rel=1e-3)
    spec = encoder.bundle.image
    assert (list(spec.mean), list(spec.std), spec.resize) == tuple(SEEN.values())
    variant = [str(tmp_path / "bundle"), str(tmp_path / "half"), "--variant", "fp16", "--tolerance", "1"]
    assert main(["export", *variant, *cache]) == 0
    assert open_encoder(tmp_path / "half").bundle.variant == "fp16"


def test_a_siglip_as_the_hub_has_it(tmp_path: Path) -> None:
    """It reads with a tokenizer of its own, pads to the full length, and has a bias that ranks nothing."""
    hub = tmp_path / "hub"
    hub.mkdir()
    tokenizer = Library.from_file(str(siglip_file(hub)))
    config: Any = CONFIGS[SIGLIP]
    vision, text, dim = config
    text = {**text, "context_length": CONTEXT, "vocab_size": tokenizer.get_vocab_size()}
    described = {"embed_dim": dim, "vision_cfg": vision, "text_cfg": text}
    described |= {"custom_text": True, "init_logit_bias": -10}
    model = created(tmp_path, f"{SIGLIP}-published", described)
    publish(hub, model, described)
    trained = open_weights.load_published(f"open_clip:{hub}", None, DataSection())
    encoder = TorchEncoder(trained.model, prepare.reader(trained.recipe, trained.tokenizer))
    said = ["a red chair with four legs", "a low wooden table"]
    ids = [[*tokenizer.encode(one).ids] for one in said]
    padded = torch.tensor([[*one, *[1] * (CONTEXT - len(one))] for one in ids])
    with torch.inference_mode():
        expected = normalize(model.encode_text(padded), dim=-1).numpy()
    np.testing.assert_allclose(encoder.vectors(encoder.texts(said).features), expected, atol=1e-4)
    assert trained.model.text.length == "fixed"
    assert image_spec(trained.recipe.image).size == vision["image_size"]
    scale = trained.model.geometry.learned()["scale"]
    assert scale == pytest.approx(model.logit_scale.exp().item(), rel=1e-3)


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
