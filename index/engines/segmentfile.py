"""A sealed part as a file, and back: its rows are read where they lie, its index is checked before use."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from index.base import EngineError
from index.engines import gpu, report
from index.engines.ann import Ann, Setting
from index.engines.cells import aligned, cells_of
from index.engines.faisslib import faiss
from index.engines.parts import Part
from index.engines.reduction import Reduction
from index.engines.rowfile import FLOATS, IDS, array_of, as_bytes, read_blocks, write_blocks
from index.engines.rowview import RowView
from index.plan import Device
from multifold.types import Metric


def write(path: Path, metric: Metric, part: Part) -> None:
    """Write a sealed part durably and all at once, its dead rows too."""
    rows, ann = part.rows, part.ann
    header = {
        "metric": metric,
        "dim": rows.vectors.shape[1],
        "report": part.seal.as_json(),
        "ann": None if ann is None else _told(ann),
    }
    index = memoryview(b"") if ann is None else faiss.serialize_index(gpu.to_cpu(ann.index)).data
    arrays = as_bytes(rows.ids, IDS), as_bytes(rows.vectors, FLOATS), as_bytes(rows.lengths, FLOATS)
    write_blocks(path, header, [*arrays, index])


def read_rows(path: Path, metric: Metric, dim: int) -> RowView:
    """The rows of a part that was just written, memory-mapped."""
    return _rows(read_blocks(path, metric, dim)[1], dim)


def read(path: Path, metric: Metric, dim: int, device: Device) -> Part:
    """The part that was written; anything else is an EngineError."""
    header, blocks = read_blocks(path, metric, dim)
    if "report" not in header:
        raise EngineError(f"{path} holds no sealed rows")
    ann = None if header["ann"] is None else _ann(header["ann"], blocks[3], device)
    return Part(_rows(blocks, dim), ann, report.from_json(header["report"]))


def _rows(blocks: Sequence[memoryview], dim: int) -> RowView:
    vectors = array_of(blocks[1], FLOATS).reshape(-1, dim)
    return RowView(array_of(blocks[0], IDS), vectors, array_of(blocks[2], FLOATS))


def _told(ann: Ann) -> dict[str, Any]:
    settings = [asdict(setting) for setting in ann.settings]
    return {"type": ann.type, "reduction": asdict(ann.reduction), "settings": settings}


def _ann(told: dict[str, Any], block: memoryview, device: Device) -> Ann:
    index = faiss.deserialize_index(array_of(block, "u1"))
    settings = tuple(Setting(**setting) for setting in told["settings"])
    reduction = Reduction(**told["reduction"])
    if gpu.chosen(device):
        return Ann(told["type"], reduction, gpu.to_gpu(index), settings)
    return Ann(told["type"], reduction, index, settings, cells_of(reduction, aligned(index)))
