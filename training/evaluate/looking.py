"""Items of a manifest as an encoder sees them: every caption, every photo, the views of every mesh."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from tqdm import tqdm

from multifold.manifest import Entry
from multifold.types import Features
from training.data.views import load_views, opened
from training.evaluate.observed import NOBODY, Bank, Observed, bank, text_bank
from training.evaluate.subject import Subject

AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class TestSet:
    """Items, and what the encoder makes of them."""

    __test__ = False  # no test for pytest

    entries: Sequence[Entry]
    observed: Observed
    views: UInt8[np.ndarray, "i v h w 3"] | None  # of the items with a mesh, in order


def look(subject: Subject, entries: Sequence[Entry], cache: Path) -> TestSet:
    """Encode all there is of these items; views are rendered once and kept in the cache."""
    captions = [entry.texts for entry in entries]
    meshed = [entry for entry in entries if entry.mesh is not None]
    views = load_views(meshed, subject.views, subject.image, cache) if meshed else None
    count = 0 if views is None else views.shape[1]
    shape = bank(NOBODY, [0] * len(entries))
    if views is not None:
        shape = bank(_seen(subject, views), [count if entry.mesh else 0 for entry in entries])
    said = subject.encoder.texts([text for texts in captions for text in texts]).features
    return TestSet(
        entries, Observed(captions, text_bank(said, captions), _photos(subject, entries), shape), views
    )


def _seen(subject: Subject, views: UInt8[np.ndarray, "i v h w 3"]) -> Features:
    flat = views.reshape(-1, *views.shape[2:])
    steps = range(0, len(flat), AT_ONCE)
    bar = tqdm(steps, desc="encode views", unit="batch", disable=None)
    return np.concatenate([subject.encoder.pixels(flat[start : start + AT_ONCE]) for start in bar])


def _photos(subject: Subject, entries: Sequence[Entry]) -> Bank:
    counts = [len(entry.images) for entry in entries]
    paths = [path for entry in entries for path in entry.images]
    if not paths:
        return bank(NOBODY, counts)
    steps = range(0, len(paths), AT_ONCE)
    bar = tqdm(steps, desc="encode photos", unit="batch", disable=None)
    return bank(np.concatenate([_encoded(subject, paths[s : s + AT_ONCE]) for s in bar]), counts)


def _encoded(subject: Subject, paths: Sequence[Path]) -> Features:
    return subject.encoder.pixels(np.stack([opened(path, subject.image) for path in paths]))
