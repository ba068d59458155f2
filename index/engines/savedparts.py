"""Where the parts of an engine lie on disk.

A sealed part is written once, to a file of its own under a name that nobody had before; the file that an
engine is saved to names them, and holds the fresh rows and which sealed ones are dead. Sealed files are
linked, not copied, from an engine's home to wherever it is saved.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from index.base import EngineError, Ids, Paired
from index.engines import segmentfile
from index.engines.parts import Part
from index.engines.report import Report
from index.engines.rowfile import FLOATS, IDS, array_of, as_bytes, read_blocks, rows_of, write_blocks
from index.plan import Device
from multifold.durable import make_folder, sync_folder
from multifold.types import Metric, Vectors


class Shelf:
    """Writes and reads the parts of one engine; `home` is where sealed parts go at once."""

    def __init__(self, metric: Metric, dim: int, device: Device, home: Path | None) -> None:
        self._metric, self._dim, self._device, self._home = metric, dim, device, home
        self._files = WeakKeyDictionary[Report, Path]()  # of the part that a report is about

    def keep(self, part: Part) -> Part:
        """A sealed part as it lies at home, memory-mapped; without a home it stays in memory."""
        if self._home is None:
            return part
        make_folder(self._home)
        path = self._home / _new_name()
        segmentfile.write(path, self._metric, part)
        mapped = segmentfile.read_rows(path, self._metric, self._dim)
        kept = replace(part, rows=mapped)
        self._files[part.seal] = path
        return kept

    def forget(self, parts: Sequence[Part]) -> None:
        """Remove the files at home of parts that nobody needs; saved ones keep their own links."""
        for part in parts:
            path = self._files.pop(part.seal, None) if part.report else None
            if path is not None and path.parent == self._home:
                path.unlink(missing_ok=True)

    def save(self, path: Path, parts: Sequence[Part]) -> None:
        """Write these parts, so that `load` brings them back."""
        sealed = [part for part in parts if part.report is not None]
        names = [self._beside(path, part) for part in sealed]
        loose = [part.rows.living() for part in parts if part.report is None]
        ids = np.concatenate([np.empty(0, np.int64), *(pair[0] for pair in loose)])
        vectors = np.concatenate([np.empty((0, self._dim), np.float32), *(pair[1] for pair in loose)])
        dead = np.concatenate([np.empty(0, np.int64), *(_dead(part) for part in sealed)])
        header = {"metric": self._metric, "dim": self._dim, "sealed": names}
        write_blocks(path, header, [as_bytes(ids, IDS), as_bytes(vectors, FLOATS), as_bytes(dead, IDS)])

    def load(self, path: Path) -> tuple[list[Part], Paired, Vectors]:
        """Sealed parts, and the ids and vectors of fresh rows."""
        header, blocks = read_blocks(path, self._metric, self._dim)
        if "sealed" not in header:
            raise EngineError(f"{path} was not written by this engine: delete it and it is rebuilt")
        dead, sealed = array_of(blocks[2], IDS), []
        for name in header["sealed"]:
            part = segmentfile.read(path.with_name(name), self._metric, self._dim, self._device)
            self._files[part.seal] = path.with_name(name)
            sealed.append(replace(part, rows=part.rows.without(dead)))
        return sealed, *rows_of(header, blocks)

    def _beside(self, path: Path, part: Part) -> str:
        """The name of a part's file in the folder of `path`; made there if it is not."""
        known = self._files.get(part.seal)
        if known is not None and known.parent == path.parent:
            return known.name
        name = f"{path.name}.{_new_name()}"
        if known is None or not _linked(known, path.with_name(name)):
            segmentfile.write(path.with_name(name), self._metric, part)
        if known is None or known.parent != self._home:
            self._files[part.seal] = path.with_name(name)
        return name


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        return False  # gone, or a file system without links
    sync_folder(target.parent)
    return True


def _dead(part: Part) -> Ids:
    return part.rows.ids[~part.rows.alive] if part.rows.alive is not None else np.empty(0, np.int64)


def _new_name() -> str:
    return f"{uuid4().hex}.rows"
