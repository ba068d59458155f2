"""Every direction on a gallery that is worked by hand, and the definitions of others on random features.

Three items, two views and two captions each, features of two numbers, scores their products:

    A  views (4,0) (2,2)  captions (1,0) (0,1)       means: A (3,1)  B (0,3)  C (2,2)
    B  views (0,2) (0,4)  captions (0,1) (1,1)       captions' means: A (½,½)  B (½,1)  C (0,-½)
    C  views (1,3) (3,1)  captions (1,-1) (-1,0)     the second caption of A and the first of B are one text

A right answer stands behind every wrong one of equal score. For instance text → shape by means, caption by
caption against (A, B, C): 3 0 2 → 1; 1 3 2 → 3; 1 3 2 → 1; 4 3 4 → 3; 2 -3 0 → 2; -3 0 -2 → 2. With equal
texts B answers A's second caption too: rank 1.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Float32, Float64

from multifold.bundle.encoder import EncodedTexts
from multifold.manifest import ManifestEntry
from multifold.metrics import ranks, recall_at_k
from multifold.scores import index_scores
from multifold.types import Features, Metric, PixelBatch, Vector, Vectors
from tests.training import small
from training.evaluate import protocols
from training.retrieval import directions
from training.retrieval.directions import (
    Key,
    RetrievalDirection,
    available_directions,
    direction,
    numbers,
    tells_nothing,
)
from training.retrieval.features import NO_FEATURES, HeldOutFeatures, make_bank, make_text_bank

VIEWS = [(4, 0), (2, 2), (0, 2), (0, 4), (1, 3), (3, 1)]
CAPTIONS = [(1, 0), (0, 1), (0, 1), (1, 1), (1, -1), (-1, 0)]
TEXTS = [["a", "Tall  one"], ["tall one", "b"], ["c", "d"]]
OWN: dict[Key, list[int]] = {
    ("text_to_shape", "mean"): [1, 3, 1, 3, 2, 2],
    ("text_to_shape", "max"): [1, 3, 1, 3, 2, 2],
    ("text_to_shape", "hero"): [1, 3, 2, 3, 3, 2],
    ("shape_to_text", "each"): [2, 2, 5],
    ("shape_to_text", "mean"): [2, 1, 3],
    ("shape_to_text", "max"): [2, 2, 3],
    ("text_to_image", "each"): [1, 4, 1, 5, 2, 3],
    ("image_to_text", "each"): [3, 3, 2, 2, 5, 3],
    ("image_to_text", "mean"): [2, 2, 1, 1, 3, 3],
    ("image_to_text", "max"): [3, 2, 2, 2, 3, 3],
    ("agg_text_to_image", "each"): [4, 1, 2],
    ("agg_text_to_image", "mean"): [2, 2, 2],
    ("agg_text_to_image", "max"): [3, 1, 2],
    ("image_to_shape", "mean"): [2, 1, 3],
    ("image_to_shape", "max"): [2, 1, 3],
    ("image_to_shape", "hero"): [2, 1, 3],
    ("shape_to_shape", "mean"): [2, 1, 3],
    ("shape_to_shape", "max"): [2, 1, 3],
    ("shape_to_shape", "hero"): [2, 1, 3],
}
EQUAL: dict[Key, list[int]] = {
    ("text_to_shape", "mean"): [1, 1, 1, 3, 2, 2],
    ("shape_to_text", "each"): [2, 1, 5],
    ("text_to_image", "each"): [1, 1, 1, 5, 2, 3],
    ("image_to_shape", "mean"): [2, 1, 3],
}


class Plain:
    """Features are index vectors already."""

    metric: Metric = "ip"
    query_signs: Vector | None = None
    rescores = False

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        raise AssertionError

    def pixels(self, batch: PixelBatch) -> Features:
        raise AssertionError

    def texts(self, texts: Sequence[str]) -> EncodedTexts:
        raise AssertionError

    def vectors(self, features: Features) -> Vectors:
        return features


def toy() -> HeldOutFeatures:
    views, said = np.array(VIEWS, np.float32), np.array(CAPTIONS, np.float32)
    return HeldOutFeatures(
        TEXTS, make_text_bank(said, TEXTS), make_bank(NO_FEATURES, [0, 0, 0]), make_bank(views, [2, 2, 2])
    )


def places(asked: RetrievalDirection) -> list[int]:
    return [int(rank) for rank in ranks(asked.scores, asked.relevant)]


@pytest.mark.parametrize("key", OWN, ids=lambda key: "-".join(key))
def test_a_direction_ranks_as_worked_by_hand(key: Key) -> None:
    assert places(direction(Plain(), toy(), *key)) == OWN[key]


@pytest.mark.parametrize("key", EQUAL, ids=lambda key: "-".join(key))
def test_an_equal_text_may_count_as_right(key: Key) -> None:
    assert places(direction(Plain(), toy(), *key, equal_texts=True)) == EQUAL[key]


def test_all_that_can_be_asked_is_worked_by_hand() -> None:
    assert set(available_directions(toy())) == set(OWN)


def test_shapes_alone_and_texts_alone_are_not_asked() -> None:
    none = make_text_bank(NO_FEATURES, [[], [], []])
    views = make_bank(np.array(VIEWS, np.float32), [2, 2, 2])
    only = HeldOutFeatures([[], [], []], none, make_bank(NO_FEATURES, [0, 0, 0]), views)
    assert {name for name, _ in available_directions(only)} == {"image_to_shape", "shape_to_shape"}


def test_a_query_whose_item_lacks_the_side_is_left_out() -> None:
    whole = toy()
    views = make_bank(np.array(VIEWS[:4], np.float32), [2, 2, 0])
    asked = direction(
        Plain(), HeldOutFeatures(TEXTS, whole.text, whole.image, views), "text_to_shape", "mean"
    )
    assert asked.scores.shape == (4, 2)
    assert places(asked) == [1, 2, 1, 2]


def test_the_numbers_of_a_direction() -> None:
    told = numbers(direction(Plain(), toy(), "text_to_shape", "mean"))
    assert (told["queries"], told["gallery"], told["median_rank"]) == (6, 3, 2.0)
    assert told["R@1"][0] == pytest.approx(2 / 6, abs=1e-4)
    # ranks 1, 3, 1, 3, 2, 2 with one right item each: (1 + .5 + 1 + .5 + 2 · .6309) / 6
    assert told["chance of R@10"] == 1.0  # of three
    assert tells_nothing(told)
    assert not tells_nothing(told | {"R@10": [0.5, 0.4, 0.6], "chance of R@10": 0.3})
    assert told["NDCG@5"] == pytest.approx((3 + 2 / np.log2(3)) / 6, abs=1e-4)


@torch.no_grad()
def test_a_model_is_compared_by_the_similarity_that_it_learned_with() -> None:
    live = small.encoder({"geometry": {"name": "oblique_geodesic", "params": {"m": 4}}})
    views, captions = small.pictures()
    observed = directions.encode(live, views, captions)
    asked = direction(live, observed, "text_to_shape", "mean")
    shapes = torch.from_numpy(observed.shape.pooled().features)
    expected = live.model.geometry.similarity(torch.from_numpy(observed.text.features), shapes)
    np.testing.assert_allclose(asked.scores, expected, atol=1e-5)
    sums = index_scores(live.vectors(observed.text.features), live.vectors(shapes.numpy()), "ip")
    assert (sums.argsort(1) != asked.scores.argsort(1)).any()  # no index ranks so


def test_a_protocol_says_how_its_gallery_differs() -> None:
    for name in ("own", "equal-texts"):
        assert protocols.gallery_differences(protocols.find_protocol(name), []) == []
    (items, texts) = protocols.gallery_differences(protocols.find_protocol("text2shape-1492"), [])
    assert "0 items" in items
    assert "1,492" in items
    assert "7,452" in texts
    assert len(protocols.gallery_differences(protocols.find_protocol("text2shape-1434"), [])) == 1
    (items, texts) = protocols.gallery_differences(protocols.find_protocol("coco-5k"), [])
    assert "5,000" in items
    assert "25,010" in texts
    for protocol in protocols.PROTOCOLS.values():
        assert set(protocol.keys) <= set(protocols.EVERYTHING)


@pytest.mark.parametrize("name", ["mxm-image", "flickr30k-1k", "coco-5k"])
def test_a_protocol_of_pictures_asks_both_ways(name: str) -> None:
    """Pictures that look for one text of an item, or for all of its texts as one, and the other way round."""
    keys = set(protocols.find_protocol(name).keys)
    assert {("text_to_image", "each"), ("image_to_text", "each")} <= keys
    assert (("agg_text_to_image", "each") in keys) == (("image_to_text", "mean") in keys)
    measured = protocols.measure_retrieval(
        protocols.find_protocol(name),
        [ManifestEntry(str(item), texts=tuple(texts)) for item, texts in enumerate(TEXTS)],
        lambda name, pool: direction(Plain(), toy(), name, pool),
        None,
    )
    assert {(name, pool) for name, pools in measured.items() for pool in pools} == keys


def benchmark_recall(
    scores: Float32[np.ndarray, "q g"], positive: Bool[np.ndarray, "q g"], k: int
) -> Float64[np.ndarray, " q"]:
    """CLIP_benchmark's recall_at_k: true positives among the top k, over the number of positives."""
    top = np.argsort(-scores, axis=1)[:, :k]
    return np.asarray(np.take_along_axis(positive, top, axis=1).sum(axis=1) / positive.sum(axis=1))


def test_recalls_are_those_of_clip_benchmark() -> None:
    """Flickr30K's protocol in small: 40 photos, five captions each; its number is mean(recall_at_k > 0)."""
    rng = np.random.default_rng(5)
    captions = [[f"{photo} {place}" for place in range(5)] for photo in range(40)]
    photos, said = (rng.standard_normal((count, 8)).astype(np.float32) for count in (40, 200))
    seen = HeldOutFeatures(
        captions,
        make_text_bank(said, captions),
        make_bank(photos, [1] * 40),
        make_bank(NO_FEATURES, [0] * 40),
    )
    scores = said @ photos.T
    positive = np.repeat(np.eye(40, dtype=bool), 5, axis=0)
    theirs = {"text_to_image": (scores, positive), "image_to_text": (scores.T, positive.T)}
    for name, pool in protocols.find_protocol("flickr30k-1k").keys:
        asked = direction(Plain(), seen, name, pool)
        for k in (1, 5, 10):
            ours = recall_at_k(ranks(asked.scores, asked.relevant), k)
            np.testing.assert_array_equal(ours, benchmark_recall(*theirs[name], k) > 0)


def test_training_watches_the_same_implementation() -> None:
    watched = directions.directions(Plain(), toy())
    assert {name: places(asked) for name, asked in watched.items()} == {
        name: OWN[name, pool] for name, pool in directions.STANDARD
    }
