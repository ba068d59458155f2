"""Sample pictures and texts, and the check that a bundle answers them as the published graphs do."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from app.pull.published_files import PullError, Variant
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import normalise, pixels
from multifold.bundle.tokenizer import TextSpec
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Features

with needs_extra("cpu"):
    import onnxruntime as ort


COLOURS = {
    "red": (200, 30, 30),
    "green": (30, 150, 60),
    "blue": (40, 60, 200),
    "yellow": (240, 210, 40),
    "black": (10, 10, 10),
    "white": (245, 245, 245),
}
FORMS = ("circle", "square", "triangle")
BACKGROUNDS = ("white", "black", "blue", "yellow")
_STRANGE = "  Çhair &amp; table\t—\n\u200b\U0001f6cb\ufe0f "
UNUSUAL_TEXTS = ("", _STRANGE, "ein roter Stuhl", "赤い椅子", "word " * 200)
PROBE_ADJECTIVES = ("small", "large", "old", "modern", "wooden", "metal", "broken", "toy")
PROBE_NOUNS = (
    *("chair", "table", "lamp", "car", "ship", "aeroplane", "bicycle", "house", "bridge", "tree", "flower"),
    *("dog", "cat", "horse", "bird", "fish", "person", "hand", "shoe", "hat", "cup", "bottle", "knife"),
    *("book", "clock", "telephone", "computer", "guitar", "ball", "mountain", "beach", "plate of food"),
)


def canary_texts() -> list[str]:
    return [f"a {colour} {form}" for colour, form in zip(COLOURS, 2 * FORMS, strict=True)] + [*UNUSUAL_TEXTS]


def canary_pictures() -> list[Image.Image]:
    """A form of each colour, in pictures of odd sizes."""
    return [
        _draw_picture(form, colour, (150 - 7 * i, 110 + 9 * i), BACKGROUNDS[i % 4])
        for i, (colour, form) in enumerate(zip(COLOURS, 2 * FORMS, strict=True))
    ]


def probe_texts() -> list[str]:
    """Queries for an index to measure its recall with."""
    return [f"a photo of a {kind} {thing}" for kind, thing in product(PROBE_ADJECTIVES, PROBE_NOUNS)]


def _draw_picture(form: str, colour: str, size: tuple[int, int], background: str) -> Image.Image:
    """A form on a background that fades from side to side, so that resizing and cutting can be seen."""
    fade = np.linspace(0.55, 1.0, size[0])[None, :, None] * np.ones((size[1], 1, 1))
    background = background if background != colour else "green"
    picture = Image.fromarray((fade * np.array(COLOURS[background])).astype(np.uint8))
    width, height = size
    left, right = width // 4, 3 * width // 4
    top, bottom = height // 4, 3 * height // 4
    draw = ImageDraw.Draw(picture)
    fill = COLOURS[colour]
    if form == "circle":
        draw.ellipse((left, top, right, bottom), fill)
    elif form == "square":
        draw.rectangle((left, top, right, bottom), fill)
    else:
        draw.polygon([(left, bottom), (right, bottom), (width // 2, top)], fill)
    return picture


# Relative to the largest number of the features. Numbers of few bits are rounded where the graph is cut.
DIFFERENCE_LIMITS: dict[Variant, float] = {"fp32": 1e-4, "fp16": 5e-3, "int8": 2e-2}
TENSOR_TYPES = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float16)": np.float16}


def check_pictures(
    encoder: Encoder, graph: Path, output: str, pictures: Sequence[Image.Image], limit: float
) -> None:
    session = _session(graph)
    wanted = session.get_inputs()[0]
    spec = encoder.bundle.image
    published: list[Features] = []
    for picture in pictures:
        square = pixels(picture, spec)
        planes = square if wanted.type == "tensor(uint8)" else normalise(square, spec)
        published.append(_run_graph(session, output, {wanted.name: planes[None]}))
    with _batch_errors("image"):
        _compare_features("image", encoder.pictures(pictures), np.concatenate(published), limit)


def check_texts(
    encoder: Encoder, graph: Path, output: str, texts: Mapping[str, Sequence[int]], limit: float
) -> None:
    """Texts, together and one by one; the published graph gets their ids, filled up to the whole context."""
    session = _session(graph)
    spec = encoder.bundle.text
    answers = []
    for ids in texts.values():
        row = np.full((1, spec.context), spec.pad, np.int64)
        row[0, : len(ids)] = ids
        answers.append(_run_graph(session, output, _text_inputs(session, row, spec)))
    published = np.concatenate(answers)
    with _batch_errors("text"):
        _compare_features("text", encoder.texts([*texts]).features, published, limit)
        one_by_one = np.concatenate([encoder.texts([text]).features for text in texts])
        _compare_features("text", one_by_one, published, limit)


def _text_inputs(session: Any, row: np.ndarray, spec: TextSpec) -> dict[str, np.ndarray]:  # noqa: ANN401 (untyped library)
    """The inputs of a published text graph for the ids of one text, filled up to the context."""
    length = int((row[0] != spec.pad).sum())
    if spec.pad == spec.end:
        length = 1 + int(np.flatnonzero(row[0] == spec.end)[0])
    mask = (np.arange(spec.context) < length)[None].astype(np.int64)
    return {one.name: mask if one.name == "attention_mask" else row for one in session.get_inputs()}


@contextmanager
def _batch_errors(tower: str) -> Iterator[None]:
    """Some graphs declare lengths that they do not take."""
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


def _run_graph(session: Any, output: str, inputs: dict[str, np.ndarray]) -> Features:  # noqa: ANN401 (untyped library)
    types = {one.name: TENSOR_TYPES.get(one.type) for one in session.get_inputs()}
    cast = {name: value.astype(types[name] or value.dtype) for name, value in inputs.items()}
    features: Features = session.run([output], cast)[0]
    return features.astype(np.float32)


def _compare_features(tower: str, ours: Features, theirs: Features, limit: float) -> None:
    if ours.shape != theirs.shape:
        shapes = f"in the shape {ours.shape}, the published one in {theirs.shape}"
        raise PullError(f"our {tower} graph answers {shapes}")
    difference = float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-12))
    if not difference <= limit:
        by = f"by {difference:.1e}, more than {limit}"
        raise PullError(f"our {tower} graph differs from the published one {by}")
