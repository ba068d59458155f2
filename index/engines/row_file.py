"""Checksummed files of rows, read memory-mapped.

FAISS files have no checksum and load flipped bits silently, so nothing of a file is used before its sum is
checked. A line of JSON is followed by arrays, which begin at multiples of 64 bytes: ids, vectors, others.

The header says whose the rows are, and the name of the file or of the folder that it was saved under. A file
that was put in the place of another one is not read, though all of its sums are right.

Vectors that stay on disk have a file of their own, which is not read when it is opened. It has nothing but
numbers; a sum for each row is kept beside the ids, and compared when the row is read for the first time.
A few are compared at once, so that a file in the place of another one is told.
"""

import hashlib
import json
import logging
import mmap
import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt32

from index.contracts import IndexEngineError, PairedIds, RowsLostError, RowsOwner
from multifold.durable import replace_file
from multifold.types import Metric, Vectors

log = logging.getLogger(__name__)

Header: TypeAlias = dict[str, Any]
DIGEST = hashlib.sha256().digest_size
ALIGNED = 64
ROWS, VECTORS = ".rows", ".vectors"  # how names of sealed parts end, and those of their vectors beside them
IDS, FLOATS, BYTES, SUMS = "<i8", "<f4", "u1", "<u4"
Emit: TypeAlias = Callable[[Any], object]  # takes some bytes
StreamedBytes: TypeAlias = Callable[[Emit], None]  # too many to hold at once; gives the same each time


def write_rows(
    path: Path,
    owner: RowsOwner,
    metric: Metric,
    ids: PairedIds,
    vectors: Float32[np.ndarray, "_ d"],  # none where they are in a file of their own
    *others: np.ndarray | StreamedBytes,
    **header: object,
) -> None:
    """Write rows and what belongs to them durably and all at once."""
    whose = {"of": asdict(owner), "generation": save_of(path)}
    header = {**whose, "metric": metric, "rows": len(ids), "dim": vectors.shape[1], **header}
    blocks = [one if callable(one) else partial(_give_array, one) for one in (ids, vectors, *others)]
    sizes = [_size(block) for block in blocks]
    line = json.dumps({**header, "blocks": sizes}).encode() + b"\n"
    digest = hashlib.sha256()
    with replace_file(path) as out:

        def emit(piece: bytes | memoryview) -> None:
            digest.update(piece)
            out.write(piece)

        emit(line + bytes(-len(line) % ALIGNED))
        for block, size in zip(blocks, sizes, strict=True):
            block(emit)
            emit(bytes(-size % ALIGNED))
        out.write(digest.digest())


def _give_array(array: np.ndarray, emit: Emit) -> None:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    emit(little.reshape(-1).view(np.uint8).data)


def _size(block: StreamedBytes) -> int:
    sizes: list[int] = []
    block(lambda piece: sizes.append(len(piece)))
    return sum(sizes)


def save_of(path: Path) -> str:
    """What tells a file from older and newer ones: a sealed part's own name, or the folder of a save."""
    return path.stem.rpartition(".")[2] if path.suffix == ROWS else path.parent.name


def read_rows(
    path: Path, owner: RowsOwner, metric: Metric, dim: int, *others: str
) -> tuple[Header, list[np.ndarray]]:
    """The header, ids, vectors and arrays of other kinds, in place; damaged or foreign files are errors."""
    data = _mapped(path)
    if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        raise IndexEngineError(f"{path} is damaged: delete it and it is rebuilt")
    line = bytes(data[: 1 << 16]).partition(b"\n")[0]
    header = json.loads(line)
    whose = {**asdict(owner), "generation": save_of(path)}
    found = {**header.get("of", {}), "generation": header.get("generation")}
    if wrong := [f"the {name} {found.get(name)!r}" for name in whose if found.get(name) != whose[name]]:
        raise IndexEngineError(f"{path} is another file: it names {' and '.join(wrong)}")
    if header["metric"] != metric or header["dim"] != dim:
        raise IndexEngineError(
            f"{path} holds {header['metric']} vectors of {header['dim']}, not {metric} of {dim}"
        )
    arrays, end = list[np.ndarray](), len(line) + 1
    for kind, size in zip((IDS, FLOATS, *others), header["blocks"], strict=False):
        start = end + -end % ALIGNED
        end = start + size
        arrays.append(np.frombuffer(data[start:end], kind))
    arrays[1] = arrays[1].reshape(-1, dim)
    return header, arrays


def release_pages(array: np.ndarray) -> None:
    """Let go of the memory of an array of `read_rows`; it can be read again from its file."""
    view: object = array.base
    data = view.obj if isinstance(view, memoryview) else None
    if not isinstance(data, mmap.mmap) or not hasattr(data, "madvise"):
        return
    start = array.ctypes.data - np.frombuffer(data, np.uint8).ctypes.data
    first, end = start + -start % mmap.PAGESIZE, start + array.nbytes
    if first < end:
        data.madvise(mmap.MADV_DONTNEED, first, end - first)


def _mapped(path: Path) -> memoryview:
    try:
        with open(path, "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:  # an empty file cannot be mapped
        return memoryview(b"")
    except OSError as error:
        raise IndexEngineError(f"{path} cannot be read ({error.strerror})") from error


RowSums: TypeAlias = UInt32[np.ndarray, " g"]
PAGES_BETWEEN = 4  # pages between two rows that are read together
EVICTED = 4  # waits for the disk, in one read, of rows that were read before: memory had no room for them
FLUSHED = 1 << 26  # bytes that are written before the disk has to have them: till then they take memory
COMPARED_FIRST = 8  # rows that are compared when a file is opened
COMPARED = 4096  # rows that are copied at once to compare them with their sums
AVERAGED = 64  # reads, about, that `waiting` is a mean of
ODD = 0x9E3779B1  # which a number is weighted with, so that every change of one changes the sum


def write_vectors(out: BinaryIO, blocks: Iterable[Vectors]) -> RowSums:
    """Write blocks of vectors; returns the sum of each row."""
    sums = [np.empty(0, np.uint32)]
    for block in blocks:
        little = np.ascontiguousarray(block, FLOATS)
        before = out.tell()
        out.write(little.reshape(-1).view(np.uint8).data)
        if before // FLUSHED < out.tell() // FLUSHED:
            out.flush()
            os.fsync(out.fileno())
        sums.append(row_sums(little))
    return np.concatenate(sums)


def row_sums(vectors: Vectors) -> RowSums:
    """A sum of the bits of each row, in which every place has a weight of its own."""
    words = np.ascontiguousarray(vectors).view(SUMS)
    weights = (2 * np.arange(words.shape[1], dtype=np.uint64) + 1) * ODD
    return np.asarray(words @ weights.astype(np.uint32))  # modulo 2³²


@dataclass
class ReadCount:
    """What one engine has read from files of vectors."""

    reads: int = 0  # queries, or blocks of rows
    rows: int = 0
    bytes: int = 0  # that the disk gave, where the system counts that
    waiting: float = 1.0  # the share of late reads that waited for the disk: 1 when nothing was read yet
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, rows: int, blocks: int) -> None:
        """One more read, of so many rows and blocks of 512 bytes."""
        with self._lock:
            self.reads += 1
            self.rows += rows
            self.bytes += 512 * blocks
            self.waiting += ((blocks > 0) - self.waiting) / min(self.reads, AVERAGED)


@dataclass(frozen=True, eq=False)
class VectorFile:
    """The vectors of a sealed part in a mapped file, of which only what a query needs is read."""

    path: Path | None  # None: a file without a name, which ends with the process
    data: mmap.mmap
    vectors: Vectors
    sums: RowSums
    count: ReadCount
    seen: Bool[np.ndarray, " g"]  # rows that were read and compared with their sums

    @contextmanager
    def reading(self, places: Int64[np.ndarray, "..."]) -> Iterator[None]:
        """The rows at these places are fetched together, in the order of the file, and read in the block.

        A row that does not have its sum is a RowsLostError. The system drops pages when it needs memory; if
        rows that were read before are gone, all are fetched ahead again.
        """
        wanted = np.unique(places)
        wanted = wanted[np.searchsorted(wanted, 0) :]  # -1 stands for no row
        new = wanted[~self.seen[wanted]]
        waits, blocks = _disk_reads()
        if len(new):
            self._fetch(new)
            for start in range(0, len(new), COMPARED):
                some = new[start : start + COMPARED]
                if not np.array_equal(row_sums(self.vectors[some]), self.sums[some]):
                    lost = RowsLostError(f"{self.path or 'a file of vectors'} is damaged: it is made again.")
                    log.warning("%s", lost)
                    raise lost
            self.seen[new] = True
            waits = _disk_reads()[0]
        yield
        again, read = _disk_reads()
        if again - waits > EVICTED:
            self.seen[:] = False
        self.count.note(len(wanted), read - blocks)

    def check_some(self) -> None:
        """Compare a few rows, far apart: a whole file in the place of another one differs in most."""
        count = len(self.sums)
        some = np.linspace(0, count - 1, min(COMPARED_FIRST, count)).astype(np.int64)
        if not np.array_equal(row_sums(self.vectors[some]), self.sums[some]):
            raise IndexEngineError(f"{self.path} is damaged, or another file: delete it and it is rebuilt")

    def _fetch(self, places: Int64[np.ndarray, " n"]) -> None:
        """Ask the system for the pages of rising places, all at once; it reads them side by side."""
        if not hasattr(self.data, "madvise"):
            return
        size = self.vectors.shape[1] * self.vectors.itemsize
        first, last = places * size // mmap.PAGESIZE, ((places + 1) * size - 1) // mmap.PAGESIZE
        gaps = np.flatnonzero(first[1:] - last[:-1] > PAGES_BETWEEN)
        starts, ends = first[np.r_[0, gaps + 1]], last[np.r_[gaps, len(last) - 1]] + 1
        for start, end in zip(
            (starts * mmap.PAGESIZE).tolist(), (ends * mmap.PAGESIZE).tolist(), strict=True
        ):
            self.data.madvise(mmap.MADV_WILLNEED, start, min(end, len(self.data)) - start)


def open_vectors(file: BinaryIO, path: Path | None, dim: int, sums: RowSums, count: ReadCount) -> VectorFile:
    """The vectors of a file that `write_vectors` wrote, of which nothing is read yet."""
    size = file.seek(0, 2)
    if size != np.dtype(FLOATS).itemsize * dim * len(sums):
        raise IndexEngineError(f"{path} holds {size} bytes, not {len(sums)} vectors of {dim}")
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(data, "madvise"):
        data.madvise(mmap.MADV_RANDOM)  # no more than what is asked for
    vectors = np.frombuffer(data, FLOATS).reshape(-1, dim)
    return VectorFile(path, data, vectors, sums, count, np.zeros(len(sums), np.bool_))


def _disk_reads() -> tuple[int, int]:
    """How often this thread has waited for the disk, and how many blocks were read for it."""
    used = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
    return used.ru_majflt, used.ru_inblock
