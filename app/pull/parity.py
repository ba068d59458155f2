"""A bundle's graphs answer as the published ones do, asked by hand and one at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from app.pull.layouts import Variant
from app.pull.source import PullError
from multifold.encoder import Encoder
from multifold.errors import MultifoldError, needs_extra
from multifold.preprocess import normalise, pixels
from multifold.types import Features

with needs_extra("cpu"):
    import onnxruntime as ort

# Relative to the largest number of the features. Numbers of few bits are rounded where the graph is cut.
LIMITS: dict[Variant, float] = {"fp32": 1e-4, "fp16": 5e-3, "int8": 2e-2}
KINDS = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float16)": np.float16}


def check_pictures(
    encoder: Encoder, graph: Path, output: str, pictures: Sequence[Image.Image], limit: float
) -> None:
    """Pictures, preprocessed as the configuration says."""
    session = _session(graph)
    wanted = session.get_inputs()[0]
    found: list[Features] = []
    for picture in pictures:
        seen = pixels(picture, encoder.bundle.image)
        planes = seen if wanted.type == "tensor(uint8)" else normalise(seen, encoder.bundle.image)
        found.append(_ask(session, output, {wanted.name: planes[None]}))
    with _working("image"):
        _compare("image", encoder.pictures(pictures), np.concatenate(found), limit)


def check_texts(encoder: Encoder, graph: Path, output: str, texts: Sequence[str], limit: float) -> None:
    """Texts, each filled up to the whole context."""
    session, spec = _session(graph), encoder.bundle.text
    found = []
    for text in texts:
        ids = encoder.tokenizer([text]).ids[0]
        length = (
            1 + int(np.flatnonzero(ids == spec.end)[0])
            if spec.pad == spec.end
            else int((ids != spec.pad).sum())
        )
        row = np.full((1, spec.context), spec.pad, np.int64)
        row[0, : len(ids)] = ids
        mask = (np.arange(spec.context) < length)[None].astype(np.int64)
        given = {one.name: mask if one.name == "attention_mask" else row for one in session.get_inputs()}
        found.append(_ask(session, output, given))
    with _working("text"):
        _compare("text", encoder.texts(texts).features, np.concatenate(found), limit)
        alone = [encoder.texts([text]).features for text in texts]
        _compare("text", np.concatenate(alone), np.concatenate(found), limit)


@contextmanager
def _working(tower: str) -> Iterator[None]:
    """Graphs promise lengths that they do not take, too."""
    try:
        yield
    except MultifoldError:
        raise
    except Exception as error:  # the runtime raises many kinds
        raise PullError(f"the published {tower} graph cannot be asked in batches: {error}") from error


def _session(graph: Path) -> Any:  # noqa: ANN401 (untyped library)
    try:
        return ort.InferenceSession(graph, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises many kinds, all meaning: unusable
        raise PullError(f"{graph} cannot be run: {error}") from error


def _ask(session: Any, output: str, given: dict[str, np.ndarray]) -> Features:  # noqa: ANN401 (untyped library)
    kinds = {one.name: KINDS.get(one.type) for one in session.get_inputs()}
    answer: Features = session.run(
        [output], {name: _as(value, kinds[name]) for name, value in given.items()}
    )[0]
    return answer.astype(np.float32)


def _as(value: np.ndarray, kind: type | None) -> np.ndarray:
    return value if kind is None else value.astype(kind)


def _compare(tower: str, ours: Features, theirs: Features, limit: float) -> None:
    if ours.shape != theirs.shape:
        raise PullError(
            f"our {tower} graph answers in the shape {ours.shape}, the published one in {theirs.shape}"
        )
    difference = float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-12))
    if not difference <= limit:
        raise PullError(
            f"our {tower} graph differs from the published one by {difference:.1e}, more than {limit}"
        )
