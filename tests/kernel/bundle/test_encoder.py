"""What the sessions of a bundle answer."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from PIL import Image

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from tests import tiny


def test_texts_do_not_depend_on_their_batch(encoder: Encoder) -> None:
    texts = ["red", "a blue box with black legs", "", "green ball"] * 20
    together = encoder.texts(texts).features
    alone = np.concatenate([encoder.texts([text]).features for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert encoder.texts(["red", "red " * 50]).cut == (False, True)
    assert encoder.texts([]).features.shape == encoder.pictures([]).shape == (0, tiny.FEATURE)


def test_encoders_of_few_threads_work_side_by_side(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multifold.bundle.encoder.cores", lambda: 16)
    narrow = [Encoder(encoder.bundle, threads) for threads in (1, 4, 32)]
    assert [one.lanes for one in narrow] == [16, 4, 1]
    texts = ["red", "a blue box with black legs"] * 20
    for one in narrow:
        np.testing.assert_allclose(one.texts(texts).features, encoder.texts(texts).features, atol=1e-6)


def test_words_are_near_their_colour(encoder: Encoder) -> None:
    pictures = [Image.fromarray(tiny.picture(colour)) for colour in tiny.COLOURS]
    texts = encoder.vectors(encoder.texts(list(tiny.COLOURS)).features)
    scores = texts @ encoder.vectors(encoder.pictures(pictures)).T
    assert scores.argmax(1).tolist() == list(range(len(tiny.COLOURS)))
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize("asked", [None, "CUDAExecutionProvider"])
def test_cuda_is_never_replaced_in_silence(
    asked: str | None, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(ort, "preload_dlls", lambda: loaded.append(True))
    with pytest.raises(BundleError, match="CUDAExecutionProvider was asked for"):
        Encoder(encoder.bundle, provider=asked)
    assert loaded == [True]


def test_a_graph_that_reads_views_together_is_left_out(tmp_path: Path) -> None:
    """Bundles of earlier versions have one: they open, with the `vector_id` of their collections."""
    bundle = tiny.build(tmp_path / "bundle")
    (tmp_path / "bundle" / "views.onnx").write_bytes(b"nothing reads this")
    former = bundles.save(bundle)
    assert former.vector_id != bundle.vector_id
    assert open_encoder(former.folder).vector_id == former.vector_id
