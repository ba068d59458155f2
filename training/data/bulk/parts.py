"""A part of a manifest on its way to a shard: what a worker gets, does, and gives back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from multifold.canary import open_encoder
from multifold.errors import MultifoldError
from multifold.manifest import Entry
from multifold.preprocess import decode, pixels
from multifold.shardfile import Row, Shard
from multifold.types import Features, Pixels
from renderers.sandbox import Sandbox

TOGETHER = 64  # pictures that are encoded at once


@dataclass(frozen=True)
class Part:
    """Some items of a manifest, in order."""

    number: int
    entries: Sequence[Entry]

    @property
    def name(self) -> str:
        """Of its shard."""
        return f"{self.number:05d}"


@dataclass(frozen=True)
class Result:
    """A part's features, and what is wrong with items that have none."""

    number: int
    shard: Shard
    problems: Sequence[tuple[str, str]]  # id, reason


@dataclass
class _Seen:
    """Pictures that wait to be encoded."""

    rows: list[Row] = field(default_factory=list)
    pictures: list[Pixels] = field(default_factory=list)


class Extractor:
    """A bundle and a sandbox at work in one process; a broken item is told, and harms no other."""

    def __init__(self, bundle: Path) -> None:
        self.encoder = open_encoder(bundle, threads=1)
        self.sandbox = Sandbox(1)

    def __call__(self, part: Part) -> Result:
        """All features of a part."""
        rows: list[Row] = []
        features: list[Features] = [np.empty((0, self.encoder.bundle.geometry.feature_dim), np.float32)]
        problems: list[tuple[str, str]] = []
        waiting = _Seen()
        for entry in part.entries:
            try:
                seen = self._look(entry)
            except (MultifoldError, OSError) as error:
                problems.append((entry.id, str(error)))
                continue
            rows += [Row(entry.id, "caption", place, text) for place, text in enumerate(entry.texts)]
            features.append(self.encoder.texts(entry.texts).features)
            waiting.rows += seen.rows
            waiting.pictures += seen.pictures
            if len(waiting.rows) >= TOGETHER:
                rows += waiting.rows
                features.append(self.encoder.pixels(np.stack(waiting.pictures)))
                waiting = _Seen()
        if waiting.rows:
            rows += waiting.rows
            features.append(self.encoder.pixels(np.stack(waiting.pictures)))
        shard = Shard(self.encoder.vector_id, tuple(rows), np.concatenate(features))
        return Result(part.number, shard, problems)

    def close(self) -> None:
        """Stop the sandbox."""
        self.sandbox.close()

    def _look(self, entry: Entry) -> _Seen:
        """The pictures of an item, as the encoder wants them: photos, and the views of its mesh."""
        spec, image = self.encoder.bundle.views, self.encoder.bundle.image
        photos = [decode(path.read_bytes()) for path in entry.images]
        views: list[Image.Image] = []
        if entry.mesh is not None:
            drawn = self.sandbox.render(entry.mesh, None, spec.rig, spec.size, spec.background, spec.up)
            views = [Image.fromarray(view) for view in drawn]
        rows = [Row(entry.id, "photo", place) for place in range(len(photos))]
        rows += [Row(entry.id, "view", place) for place in range(len(views))]
        return _Seen(rows, [pixels(picture, image) for picture in (*photos, *views)])
