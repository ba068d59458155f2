"""The feedback on items, as an export has it in `meta.feedback`: good texts, bad texts, rivals."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from multifold.manifest import ManifestEntry

KEY = "feedback"


def good_texts(entry: ManifestEntry) -> tuple[str, ...]:
    return _strings(entry, "good")


def bad_texts(entry: ManifestEntry) -> tuple[str, ...]:
    return _strings(entry, "bad")


def sample_places(entries: Sequence[ManifestEntry], share: float) -> Int64[np.ndarray, " p"]:
    """Every item, judged ones repeated until they are this share of the whole."""
    judged = [place for place, entry in enumerate(entries) if good_texts(entry)]
    others = len(entries) - len(judged)
    times = max(1, round(share / (1 - share) * others / len(judged))) if judged else 1
    rest = sorted(set(range(len(entries))) - set(judged))
    return np.array([*rest, *judged * times], np.int64)


def rival_places(entries: Sequence[ManifestEntry]) -> Mapping[int, Sequence[int]]:
    """For each item the places of those that were bad where it was good."""
    places = {entry.id: place for place, entry in enumerate(entries)}
    rivals = {
        place: [places[name] for name in _strings(entry, "rivals") if name in places]
        for place, entry in enumerate(entries)
    }
    return {place: others for place, others in rivals.items() if others}


def is_held_out_text(text: str, share: float) -> bool:
    """Whether a text is held out; the same on every machine."""
    plain = " ".join(text.split()).casefold()
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:8], "big") / 2**64 < share


def hold_out_texts(
    entries: Sequence[ManifestEntry], share: float
) -> tuple[list[ManifestEntry], list[tuple[str, ...]]]:
    """The items without the held-out texts, and the held-out texts of each."""
    remaining, held_out = [], []
    for entry in entries:
        out = tuple(text for text in good_texts(entry) if is_held_out_text(text, share))
        feedback: Mapping[str, Any] = entry.meta.get(KEY) or {}
        left = [text for text in good_texts(entry) if text not in out]
        meta = {**entry.meta, KEY: {**feedback, "good": left}} if feedback else entry.meta
        texts = tuple(text for text in entry.texts if text not in out)
        remaining.append(replace(entry, texts=texts, meta=meta))
        held_out.append(out)
    return remaining, held_out


def _strings(entry: ManifestEntry, name: str) -> tuple[str, ...]:
    feedback = entry.meta.get(KEY)
    values = feedback.get(name, ()) if isinstance(feedback, Mapping) else ()
    return tuple(one for one in values if isinstance(one, str)) if isinstance(values, list | tuple) else ()
