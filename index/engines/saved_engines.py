"""Engines on disk: derived, so they are loaded when they fit the store, and deleted when they do not.

Every save is a folder of its own; a small file names the one that counts, and is replaced once all files of
the new one are durable. A sealed segment is written once; the file of its engine names it, and holds the
fresh rows and which sealed ones are dead. Sealed files are linked, not copied, to wherever they are saved.

Vectors that are not in memory are in a file beside that of their part, of the same name but for its end."""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from index.contracts import (
    AUTO,
    Device,
    EngineKey,
    IndexEngine,
    IndexEngineError,
    IndexPlan,
    PairedIds,
    RowsOwner,
)
from index.engines import faiss_library, segments
from index.engines.exact_engine import BLOCK_ROWS, JoinedOrder, RowView, block_starts, join_rows
from index.engines.faiss_index import FaissIndex, align_centroids, shared_cells_of
from index.engines.faiss_library import Index, L2Reduction
from index.engines.row_file import (
    BYTES,
    FLOATS,
    IDS,
    ROWS,
    SUMS,
    VECTORS,
    Emit,
    Header,
    ReadCount,
    open_vectors,
    read_rows,
    release_pages,
    save_of,
    write_rows,
    write_vectors,
)
from index.engines.scoring import lengths
from index.engines.search_setting import settings_from_json
from index.engines.segments import Segment, SegmentReport
from multifold.durable import make_folder, replace_file, sync_folder, write_file
from multifold.types import ASPECTS, Metric, Vectors


def write_segment(path: Path, owner: RowsOwner, metric: Metric, part: Segment) -> None:
    """Write a sealed part durably and all at once, its dead rows too."""
    ann, index = None, partial(_give_index, None)
    if (found := part.ann) is not None:
        settings = [asdict(setting) for setting in found.settings]
        reduction = asdict(found.reduction)
        ann = {"type": found.type, "reduction": reduction, "settings": settings, "radius": found.radius}
        ann["added"] = found.added
        index = partial(_give_index, faiss_library.to_cpu(found.index))
    header = {"report": part.seal.as_json(), "ann": ann}
    ids, vectors, sizes = part.rows.ids, part.rows.vectors, part.rows.lengths
    if (file := part.rows.file) is None:
        write_rows(path, owner, metric, ids, vectors, sizes, index, **header)
    else:
        beside = path.with_suffix(VECTORS)
        if file.path is None or not _linked(file.path, beside):
            with replace_file(beside) as out:
                blocks = (vectors[start : start + BLOCK_ROWS] for start in block_starts(len(ids)))
                write_vectors(out, blocks)
        none = np.empty((0, vectors.shape[1]), np.float32)
        write_rows(path, owner, metric, ids, none, sizes, index, file.sums, apart=True, **header)


def _give_index(index: Index | None, emit: Emit) -> None:
    if index is not None:
        faiss_library.write_index(index, emit)


class SpooledRows:
    """Rows that are filled in: their vectors go to a file as they come, and the rest stays in memory."""

    def __init__(self, path: Path | None, dim: int, count: ReadCount) -> None:
        self._path, self._dim, self._count = path, dim, count
        self._file = tempfile.TemporaryFile() if path is None else open(path, "w+b")  # noqa: SIM115
        self._ids, self._lengths, self._sums = list[PairedIds](), list[np.ndarray](), list[np.ndarray]()

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Write more rows, whose ids rise and are greater than those before."""
        last = self._ids[-1][-1:] if self._ids else ids[:0]
        if not (np.diff(ids, prepend=last) > 0).all():
            raise IndexEngineError("rows that are filled in need rising ids: each once, in order")
        self._sums.append(write_vectors(self._file, [vectors]))
        self._ids.append(ids)
        self._lengths.append(lengths(vectors))

    def finish(self) -> RowView:
        """All of them, their vectors durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        ids, sizes, sums = map(np.concatenate, (self._ids, self._lengths, self._sums))
        with self._file as file:
            held = open_vectors(file, self._path, self._dim, sums, self._count)
        return RowView(ids, held.vectors, sizes, file=held)


class SegmentFiles:
    """Writes and reads the parts of one engine; `home` is the folder of sealed parts."""

    def __init__(self, owner: RowsOwner, metric: Metric, dim: int, device: Device, home: Path | None) -> None:
        self._owner = owner
        self._metric = metric
        self._dim = dim
        self._device = device
        self._home = home
        self._files = WeakKeyDictionary[SegmentReport, Path]()  # of the part that a report is about
        self.count = ReadCount()

    def spool(self) -> SpooledRows:
        """Rows to fill in, in a new file."""
        return SpooledRows(self._new_vectors(), self._dim, self.count)

    def _new_vectors(self) -> Path | None:
        if self._home is None:
            return None
        make_folder(self._home)
        return (self._home / _new_name()).with_suffix(VECTORS)

    def joined(self, views: Sequence[RowView]) -> RowView:
        """The living rows of these views together, their vectors in a file, a block at a time.

        A view that is in a file already, all of it alive, stays there.
        """
        if len(views) == 1 and views[0].file is not None and not views[0].dead:
            return views[0]
        order = JoinedOrder(views)
        path = self._new_vectors()
        if path is None:
            with tempfile.TemporaryFile() as out:
                sums = write_vectors(out, order.blocks())
                out.flush()
                kept = open_vectors(out, None, self._dim, sums, self.count)
                return order.view(kept.vectors, kept)
        with replace_file(path) as out:
            sums = write_vectors(out, order.blocks())
        with open(path, "rb") as file:
            kept = open_vectors(file, path, self._dim, sums, self.count)
            return order.view(kept.vectors, kept)

    def keep(self, part: Segment) -> Segment:
        """A sealed part as written at home, memory-mapped; without a home it stays as it is."""
        if self._home is None:
            return part
        make_folder(self._home)
        path = self._home / _new_name()
        write_segment(path, self._owner, self._metric, part)
        self._files[part.seal] = path
        if (file := part.rows.file) is None:
            ids, vectors, sizes, index, *_ = self._read(path)[1]
            release_pages(index)  # FAISS has it in memory
            return replace(part, rows=RowView(ids, vectors, sizes))
        moved = replace(file, path=path.with_suffix(VECTORS))
        if file.path is not None and not file.path.with_suffix(ROWS).exists():
            file.path.unlink()  # the name under which it was made
        return replace(part, rows=replace(part.rows, file=moved))

    def drop(self, rows: RowView) -> None:
        """Remove the file of joined rows that no part is made of."""
        if rows.file is not None and rows.file.path is not None:
            rows.file.path.unlink(missing_ok=True)

    def forget(self, parts: Sequence[Segment]) -> None:
        """Remove the files at home of parts that are replaced; saved ones keep their own links."""
        for part in parts:
            path = self._files.pop(part.seal, None) if part.report else None
            if path is not None and path.parent == self._home:
                path.unlink(missing_ok=True)
                path.with_suffix(VECTORS).unlink(missing_ok=True)

    def save(self, path: Path, parts: Sequence[Segment]) -> None:
        """Write these parts, so that `load` brings them back."""
        sealed = [part for part in parts if part.report is not None]
        names = [self._beside(path, part) for part in sealed]
        loose = join_rows([part.rows for part in parts if part.report is None])
        dead = [part.rows.ids[~part.rows.alive] for part in sealed if part.rows.alive is not None]
        dead_ids = np.concatenate([np.empty(0, np.int64), *dead])
        write_rows(path, self._owner, self._metric, loose.ids, loose.vectors, dead_ids, sealed=names)

    def load(self, path: Path) -> tuple[list[Segment], PairedIds, Vectors]:
        """Sealed parts, and the ids and vectors of fresh rows."""
        header, (ids, vectors, *others) = read_rows(path, self._owner, self._metric, self._dim, IDS)
        if "sealed" not in header:
            raise IndexEngineError(f"{path} was not written by this engine: delete it and it is rebuilt")
        sealed = []
        for name in header["sealed"]:
            part = self._segment(path.with_name(name))
            self._files[part.seal] = path.with_name(name)
            sealed.append(replace(part, rows=part.rows.without(others[0])))
        return sealed, ids, vectors

    def _segment(self, path: Path) -> Segment:
        header, (ids, vectors, sizes, index, *sums) = self._read(path)
        ann = header["ann"]
        if not header.get("apart"):
            rows = RowView(ids, vectors, sizes)
        else:
            ids, sizes, apart = (np.array(array) for array in (ids, sizes, *sums))  # all that stays in memory
            beside = path.with_suffix(VECTORS)
            with open(beside, "rb") as vectors_file:
                file = open_vectors(vectors_file, beside, self._dim, apart, self.count)
            file.check_some()
            rows = RowView(ids, file.vectors, sizes, file=file)
        found = None if ann is None else _read_index(ann, index, rows, self._device)
        release_pages(index)
        return Segment(rows, found, segments.report_from_json(header["report"]))

    def _read(self, path: Path) -> tuple[Header, list[np.ndarray]]:
        """What `write_segment` wrote: ids, vectors, lengths and the index; sums of vectors that are apart."""
        return read_rows(path, self._owner, self._metric, self._dim, FLOATS, BYTES, SUMS)

    def _beside(self, path: Path, part: Segment) -> str:
        """The name of a part's file in the folder of `path`; made there if it is not."""
        file = self._files.get(part.seal)
        if file is not None and file.parent == path.parent:
            return file.name
        name = f"{path.name}.{_new_name() if file is None else save_of(file) + ROWS}"
        if file is None or not _part_linked(part, file, path.with_name(name)):
            write_segment(path.with_name(name), self._owner, self._metric, part)
        if file is None or file.parent != self._home:
            self._files[part.seal] = path.with_name(name)
        return name


def _read_index(raw: dict[str, Any], data: np.ndarray, rows: RowView, device: Device) -> FaissIndex:
    index, cells, reduction = faiss_library.read_index(data.data), None, L2Reduction(**raw["reduction"])
    if faiss_library.uses_gpu(device):
        index = faiss_library.to_gpu(index)
    else:
        cells = shared_cells_of(reduction, align_centroids(index))
    settings = settings_from_json(raw["settings"])
    radius, added = raw.get("radius"), raw.get("added", 0)  # which earlier versions did not write
    if radius is None:
        radius = 0.0 if cells is None else cells.radius(rows)
    return FaissIndex(raw["type"], reduction, index, settings, cells, radius, added)


def _part_linked(part: Segment, source: Path, target: Path) -> bool:
    """Link the files of a part, that of its vectors first: nothing names a part that is not whole."""
    ends = [ROWS] if part.rows.file is None else [VECTORS, ROWS]
    return all(_linked(source.with_suffix(end), target.with_suffix(end)) for end in ends)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        return False  # gone, or a file system without links
    sync_folder(target.parent)
    return True


def _new_name() -> str:
    return f"{uuid4().hex}{ROWS}"


log = logging.getLogger(__name__)

CURRENT = "current.json"
SEALED = "sealed"
FORMAT = 2


class SavedEngines:
    """The saved engines of one collection, all of one version of its store."""

    def __init__(
        self, folder: Path, vector_id: str, plan: IndexPlan, former: str | None, session: str | None
    ) -> None:
        """What the store's `former` session saved is loaded, and from then on is this session's own."""
        self._folder = folder
        wanted = asdict(plan)
        if plan.memory == AUTO:  # what is saved fits wherever it was kept
            del wanted["memory"]
        self._stamp = {"format": FORMAT, "vector_id": vector_id, "plan": wanted, "session": session}
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
            self._write_current({"folder": name, "segments": list(engines)})
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
        if not is_saved(self._folder):
            return None
        try:
            save = json.loads((self._folder / CURRENT).read_bytes())
            if other := [key for key in self._fits if save[key] != self._fits[key]]:
                raise IndexEngineError(f"it was saved for another {' and '.join(other)}")
            version = int(save["folder"].partition("-")[0])
            if version > most:
                raise IndexEngineError(f"it has change {version}, and the store has {most}")
            if any(side not in ASPECTS for side, _ in save["segments"]):
                raise IndexEngineError(f"it has the sides {save['segments']}")
            for side, kind in save["segments"]:
                engines[side, kind] = make((side, kind))
                engines[side, kind].load(self._folder / save["folder"] / f"{side}-{kind}")
            if self._fits != self._stamp:
                self._write_current(save)
        except (IndexEngineError, OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the saved index in %s is rebuilt from the store: %s", self._folder, error)
            for engine in engines.values():
                engine.close()
            return None
        return version, engines


def is_saved(folder: Path) -> bool:
    return (folder / CURRENT).exists()


def remove_unlinked_segments(folder: Path) -> None:
    """Remove sealed parts that no save links to; for the writing process, before it makes engines."""
    sealed = folder / SEALED
    linked = {part.stem for part in sealed.glob(f"*{ROWS}") if part.stat().st_nlink > 1}
    for part in sealed.glob("*"):
        if part.stem not in linked:
            part.unlink()
