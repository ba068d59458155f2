"""Engines on disk: derived, so they are loaded when they fit the store, and deleted when they do not.

Every save is a folder of its own; a small file names the one that counts, and is replaced once all files of
the new one are durable. A sealed segment is written once; the file of its engine names it, and holds the
fresh rows and which sealed ones are dead. Sealed files are linked, not copied, to wherever they are saved."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from index.contracts import Device, EngineKey, IndexEngine, IndexEngineError, IndexPlan, PairedIds
from index.engines import faiss_library, segments
from index.engines.exact_engine import RowView, join_rows
from index.engines.faiss_index import FaissIndex, SearchSetting, align_centroids, shared_cells_of
from index.engines.faiss_library import L2Reduction, faiss
from index.engines.row_file import BYTES, FLOATS, IDS, Header, read_rows, write_rows
from index.engines.segments import Segment, SegmentReport
from multifold.durable import make_folder, sync_folder, write_file
from multifold.types import Metric, Vectors


def write_segment(path: Path, metric: Metric, part: Segment) -> None:
    """Write a sealed part durably and all at once, its dead rows too."""
    ann, index = None, np.empty(0, np.uint8)
    if (found := part.ann) is not None:
        settings = [asdict(setting) for setting in found.settings]
        ann = {"type": found.type, "reduction": asdict(found.reduction), "settings": settings}
        index = faiss.serialize_index(faiss_library.to_cpu(found.index))
    write_rows(path, metric, *part.rows.arrays, index, report=part.seal.as_json(), ann=ann)


class SegmentFiles:
    """Writes and reads the parts of one engine; `home` is the folder of sealed parts."""

    def __init__(self, metric: Metric, dim: int, device: Device, home: Path | None) -> None:
        self._metric, self._dim, self._device, self._home = metric, dim, device, home
        self._files = WeakKeyDictionary[SegmentReport, Path]()  # of the part that a report is about

    def keep(self, part: Segment) -> Segment:
        """A sealed part as written at home, memory-mapped; without a home it stays in memory."""
        if self._home is None:
            return part
        make_folder(self._home)
        path = self._home / _new_name()
        write_segment(path, self._metric, part)
        self._files[part.seal] = path
        return replace(part, rows=RowView(*self._read(path)[1][:3]))

    def forget(self, parts: Sequence[Segment]) -> None:
        """Remove the files at home of parts that are replaced; saved ones keep their own links."""
        for part in parts:
            path = self._files.pop(part.seal, None) if part.report else None
            if path is not None and path.parent == self._home:
                path.unlink(missing_ok=True)

    def save(self, path: Path, parts: Sequence[Segment]) -> None:
        """Write these parts, so that `load` brings them back."""
        sealed = [part for part in parts if part.report is not None]
        names = [self._beside(path, part) for part in sealed]
        loose = join_rows([part.rows for part in parts if part.report is None])
        dead = [part.rows.ids[~part.rows.alive] for part in sealed if part.rows.alive is not None]
        dead_ids = np.concatenate([np.empty(0, np.int64), *dead])
        write_rows(path, self._metric, loose.ids, loose.vectors, dead_ids, sealed=names)

    def load(self, path: Path) -> tuple[list[Segment], PairedIds, Vectors]:
        """Sealed parts, and the ids and vectors of fresh rows."""
        header, (ids, vectors, *others) = read_rows(path, self._metric, self._dim, IDS)
        if "sealed" not in header:
            raise IndexEngineError(f"{path} was not written by this engine: delete it and it is rebuilt")
        sealed = []
        for name in header["sealed"]:
            part = self._segment(path.with_name(name))
            self._files[part.seal] = path.with_name(name)
            sealed.append(replace(part, rows=part.rows.without(others[0])))
        return sealed, ids, vectors

    def _segment(self, path: Path) -> Segment:
        header, (ids, vectors, sizes, index) = self._read(path)
        rows, ann = RowView(ids, vectors, sizes), header["ann"]
        found = None if ann is None else _read_index(ann, index, rows, self._device)
        return Segment(rows, found, segments.report_from_json(header["report"]))

    def _read(self, path: Path) -> tuple[Header, list[np.ndarray]]:
        """What `write_segment` wrote: ids, vectors, lengths and the index."""
        return read_rows(path, self._metric, self._dim, FLOATS, BYTES)

    def _beside(self, path: Path, part: Segment) -> str:
        """The name of a part's file in the folder of `path`; made there if it is not."""
        file = self._files.get(part.seal)
        if file is not None and file.parent == path.parent:
            return file.name
        name = f"{path.name}.{_new_name()}"
        if file is None or not _linked(file, path.with_name(name)):
            write_segment(path.with_name(name), self._metric, part)
        if file is None or file.parent != self._home:
            self._files[part.seal] = path.with_name(name)
        return name


def _read_index(raw: dict[str, Any], data: np.ndarray, rows: RowView, device: Device) -> FaissIndex:
    index, cells, reduction = faiss.deserialize_index(data), None, L2Reduction(**raw["reduction"])
    if faiss_library.uses_gpu(device):
        index = faiss_library.to_gpu(index)
    else:
        cells = shared_cells_of(reduction, align_centroids(index))
    settings = tuple(SearchSetting(**one) for one in raw["settings"])
    radius = 0.0 if cells is None else cells.radius(rows)
    return FaissIndex(raw["type"], reduction, index, settings, cells, radius)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        return False  # gone, or a file system without links
    sync_folder(target.parent)
    return True


def _new_name() -> str:
    return f"{uuid4().hex}.rows"


log = logging.getLogger(__name__)

CURRENT = "current.json"
SEALED = "sealed"
FORMAT = 1


class SavedEngines:
    """The saved engines of one collection, all of one version of its store."""

    def __init__(
        self, folder: Path, vector_id: str, plan: IndexPlan, former: str | None, session: str | None
    ) -> None:
        """What the store's `former` session saved is loaded, and from then on is this session's own."""
        self._folder = folder
        self._stamp = {"format": FORMAT, "vector_id": vector_id, "plan": asdict(plan), "session": session}
        self._fits = {**self._stamp, "session": former}

    @property
    def home(self) -> Path:
        """Where engines keep the parts that they seal between two saves."""
        return self._folder / SEALED

    def save(self, version: int, engines: Mapping[EngineKey, IndexEngine]) -> None:
        """Save all engines; a disk that is full costs no more than rebuilding one day."""
        name = f"{version}-{uuid4().hex[:8]}"
        try:
            make_folder(self._folder / name)
            for segment, engine in engines.items():
                engine.save(self._folder / name / "-".join(segment))
            self._write_current({"version": version, "folder": name, "segments": list(engines)})
            for old in self._folder.iterdir():
                if old.is_dir() and old.name not in (name, SEALED):
                    shutil.rmtree(old)
        except OSError as error:
            log.warning("the index in %s was not saved: %s", self._folder, error)

    def _write_current(self, save: Mapping[str, object]) -> None:
        write_file(self._folder / CURRENT, json.dumps({**save, **self._stamp}).encode())

    def load(
        self, most: int, make: Callable[[EngineKey], IndexEngine]
    ) -> tuple[int, dict[EngineKey, IndexEngine]] | None:
        """Version and engines of the last save, if it fits and is no newer than `most`; None: rebuild."""
        engines: dict[EngineKey, IndexEngine] = {}
        try:
            save = json.loads((self._folder / CURRENT).read_bytes())
            if {key: save[key] for key in self._fits} != self._fits or save["version"] > most:
                return None
            for side, kind in save["segments"]:
                engines[side, kind] = make((side, kind))
                engines[side, kind].load(self._folder / save["folder"] / f"{side}-{kind}")
            if self._fits != self._stamp:
                self._write_current(save)
        except FileNotFoundError:
            return None
        except (IndexEngineError, OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the saved index in %s is rebuilt from the store: %s", self._folder, error)
            for engine in engines.values():
                engine.close()
            return None
        return save["version"], engines


def remove_unlinked_segments(folder: Path) -> None:
    """Remove sealed parts that no save links to; for the writing process, before it makes engines."""
    for part in (folder / SEALED).glob("*"):
        if part.stat().st_nlink == 1:
            part.unlink()
