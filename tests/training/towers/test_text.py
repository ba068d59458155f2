"""The text tower that is a bag of words: `depth = 0` in [text]."""

from pathlib import Path

import numpy as np
import pytest
import torch

from multifold.bundle.tokenizer import Tokenizer
from tests.training import small
from training.export.graphs import write_graph
from training.towers import text_spec, tokenizer_for
from training.towers.base import TowerError
from training.towers.text import BagTower

TEXTS = ("a red square", "square red a", "a blue square", "red", "")


def bag() -> tuple[BagTower, Tokenizer]:
    recipe = small.recipe({"text": {"depth": 0}})
    trained = tokenizer_for(recipe.text, TEXTS)
    tower = small.model(recipe).text
    assert isinstance(tower, BagTower)
    torch.nn.init.normal_(tower.log_weight)
    return tower, Tokenizer(trained.definition, text_spec(recipe.text, trained))


def test_it_is_the_weighted_mean_of_the_words_between_start_and_end() -> None:
    tower, reader = bag()
    ids = torch.from_numpy(reader(TEXTS).ids)
    read = tower.tokens(ids)[0][:, 0]
    for row, found in zip(ids, read, strict=True):
        words = row[1 : int(row.argmax())]
        weight = tower.log_weight[words].exp()
        mean = (tower.embed(words) * weight[:, None]).sum(0) / weight.sum().clamp(min=1e-6)
        torch.testing.assert_close(found, tower.norm(mean))


def test_neither_order_nor_pads_matter_and_every_word_learns() -> None:
    tower, reader = bag()
    ids = torch.from_numpy(reader(TEXTS).ids)
    features = tower(ids)
    assert torch.isfinite(features).all()
    alone = torch.from_numpy(reader(["red"]).ids)
    torch.testing.assert_close(tower(alone[:, : int(alone.argmax()) + 1])[0], features[3])
    assert not torch.allclose(features[0], features[2])
    features[0].pow(2).sum().backward()
    inside = ids[0, 1 : int(ids[0].argmax())]
    assert tower.embed.weight.grad is not None
    assert (tower.embed.weight.grad[inside].abs().sum(1) > 0).all()
    assert tower.embed.weight.grad[ids[0].max()].abs().sum() == 0  # the end of a text is no word


def test_its_graph_computes_the_same_for_any_length(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    tower, reader = bag()
    dims = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("length", min=1, max=8)}
    example = {"tokens": torch.ones(2, 6, dtype=torch.int64)}
    write_graph(tower, "forward", example, [dims], tmp_path / "text.onnx")
    session = ort.InferenceSession(tmp_path / "text.onnx", providers=["CPUExecutionProvider"])
    ids = reader(TEXTS).ids
    with torch.inference_mode():
        expected = tower(torch.from_numpy(ids)).numpy()
    np.testing.assert_allclose(session.run(None, {"tokens": ids})[0], expected, atol=1e-5)


def test_a_bag_has_no_several_tokens() -> None:
    with pytest.raises(TowerError, match="bag of words"):
        small.model(small.recipe({"text": {"depth": 0, "tokens": 2}}))
