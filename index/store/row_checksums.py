"""Checksums of single rows: whether what is read is what was written.

An observation has two, so a damaged feature can be made anew from a text or a picture that is known to be
whole. An item has one. A verdict has one within its query, if it was written since there are checksums.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32


def checksums(*columns: object, feature: object = b"") -> tuple[int, int]:
    """The checksums of a row: of its feature, if it has one, and of its other columns."""
    data = feature if isinstance(feature, bytes) else b""  # damage may have made a text of it
    return crc32(data), crc32("\0".join(map(str, columns)).encode(errors="replace"))


def checksums_of(row: Sequence[Any]) -> tuple[int, int]:
    """The checksums that an observation should have."""
    number, edition, side, kind, ordinal, feature, words, blob, *_ = row
    return checksums(number, edition, side, kind, ordinal, words, blob, feature=feature)


def is_sound(row: Sequence[Any]) -> bool:
    """Whether an observation is what was written."""
    return checksums_of(row) == tuple(row[-2:])


def is_whole(row: Sequence[Any]) -> bool:
    """Whether all but the feature of an observation is what was written."""
    return bool(checksums_of(row)[1] == row[-1])


def is_whole_item(row: Sequence[Any]) -> bool:
    """Whether a row of `items` is what was written."""
    return bool(checksums(*row[:-1])[1] == row[-1])
