"""A generated collection around an encoder's features, and the queries that are sent to it."""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benches.service import load
from index.collection import Collection
from multifold.bundle.encoder import Encoder
from multifold.types import Feature, Features, Item, Observation, Target

CHUNK = 2000
QUERIES = 512


@dataclass(frozen=True)
class BenchQuery:
    """One query: for the library, and as a request over the wire."""

    content: str | bytes
    wire: bytes


def fill_collection(folder: Path, encoder: Encoder, count: int, views: int) -> None:
    """Items whose views scatter around features that this encoder made; existing ones stay."""
    rng = np.random.default_rng(0)
    features = encoder.texts([str(query.content) for query in text_queries()]).features
    spread = features.std(axis=0)
    with Collection.open(folder, encoder, probes=encoder.bundle.probes()) as collection:
        for start in range(collection.count(), count, CHUNK):
            numbers = range(start, min(count, start + CHUNK))
            collection.upsert([_item(number, features, spread, views, rng) for number in numbers])
        collection.engines.settle()
        if collection.evidence() is None:  # else the service fits it while it is measured
            collection.fit_evidence(lambda texts: encoder.texts(texts).features)


def _item(number: int, features: Features, spread: Feature, count: int, rng: np.random.Generator) -> Item:
    near = features[rng.integers(len(features))] + spread * rng.standard_normal((count + 1, len(spread)))
    near = near.astype(np.float32)
    views = [Observation("view", place, near[place], blob="0" * 64 + ".webp") for place in range(count)]
    caption = Observation("caption", 0, near[count], text=f"number {number}")
    return Item(f"item-{number}", (*views, caption), {"number": number})


def text_queries(target: Target = "item") -> list[BenchQuery]:
    colours = ("red", "blue", "oak", "black")
    things = ("chair", "table", "sofa", "shelf")
    texts = [
        f"a {colours[n % 4]} {things[n // 4 % 4]} with {2 + n % 5} {colours[n // 16 % 4]} legs, number {n}"
        for n in range(QUERIES)
    ]
    bodies = [json.dumps({"text": text, "target": target}).encode() for text in texts]
    wires = [load.post_request("/v1/search", body, "application/json") for body in bodies]
    return list(map(BenchQuery, texts, wires))


def photo_queries(encoder: Encoder, target: Target) -> list[BenchQuery]:
    """Photos of twice the size of the encoder's input."""
    rng = np.random.default_rng(1)
    photos = [noise_photo(rng, 2 * encoder.bundle.image.size) for _ in range(QUERIES // 4)]
    field = f'--b\r\ncontent-disposition: form-data; name="target"\r\n\r\n{target}\r\n'.encode()
    part = field + b'--b\r\ncontent-disposition: form-data; name="image"; filename="q.jpg"\r\n\r\n'
    bodies = [part + photo + b"\r\n--b--\r\n" for photo in photos]
    wires = [load.post_request("/v1/search", body, "multipart/form-data; boundary=b") for body in bodies]
    return list(map(BenchQuery, photos, wires))


def noise_photo(rng: np.random.Generator, size: int) -> bytes:
    coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).resize((size, size))
    out = io.BytesIO()
    coarse.save(out, "JPEG")
    return out.getvalue()
