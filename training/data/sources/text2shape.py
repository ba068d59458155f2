"""Text2Shape: captions of ShapeNet's chairs and tables.

A shape is known by its synset and its model id together: twenty ids stand under both synsets. Meshes lie in
`SYNSET/MODEL/models/model_normalized.obj` (ShapeNetCore v2) or `SYNSET/MODEL/model.obj` (v1).
"""

import json
import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from multifold.files import textfile
from multifold.manifest import ManifestEntry
from training.data.sources.imported import SPLITS, DatasetError, ImportedDataset, split_of

SYNSETS = {"chair": "03001627", "table": "04379243"}
PUBLISHED = {"train": (11_921, 59_777), "val": (1_486, 7_435), "test": (1_492, 7_452)}
MESHES = ("models/model_normalized.obj", "model_normalized.obj", "model.obj", "models/model_normalized.glb")
SPLIT_FILES = (".p", ".pkl", ".json", ".csv", ".txt")

Key: TypeAlias = tuple[str, str]  # synset, model


def read_text2shape(
    captions: Path, shapenet: Path, splits: Path | None, percentages: Sequence[int]
) -> ImportedDataset:
    """Every captioned shape whose mesh exists; without split files, splits of our own."""
    if not shapenet.is_dir():
        raise DatasetError(f"there is no folder {shapenet}")
    captioned = _read_captions(captions)
    dataset = ImportedDataset()
    split_by_key = None if splits is None else _read_splits(splits)
    for (synset, model), (category, texts) in sorted(captioned.items()):
        name = f"{synset}/{model}"
        mesh = next((p for end in MESHES if (p := shapenet / synset / model / end).is_file()), None)
        split = split_of(name, percentages) if split_by_key is None else split_by_key.get((synset, model))
        if mesh is None or split is None:
            dataset.leave_out(name, "its mesh is missing" if mesh is None else "no split file names it")
            continue
        meta = {"category": category.lower(), "synset": synset, "model": model}
        dataset.entries.append(ManifestEntry(id=name, mesh=mesh, texts=tuple(texts), split=split, meta=meta))
    for lost in sorted(set(split_by_key or {}) - set(captioned)):
        dataset.problems.append(f"{'/'.join(lost)} is in a split, and has no captions")
    return dataset


def _read_captions(path: Path) -> dict[Key, tuple[str, list[str]]]:
    captions: dict[Key, tuple[str, list[str]]] = {}
    for row in textfile.table(path):
        model, caption = (textfile.column(row, (name,), path) for name in ("modelid", "description"))
        category = row.get("category", "")
        synset = _synset(row.get("toplevelsynsetid", ""), category)
        texts = captions.setdefault((synset, model), (category, []))[1]
        if caption:
            texts.append(caption)
    return {key: value for key, value in captions.items() if value[1]}


def _synset(number: str, category: str) -> str:
    """With its leading nought, which spreadsheets eat."""
    return number.zfill(8) if number.isdigit() else SYNSETS.get(category.lower(), number)


def _read_splits(folder: Path) -> dict[Key, str]:
    """The split of each shape, from one file a split, named after it."""
    splits: dict[Key, str] = {}
    files = sorted(p for p in folder.iterdir() if p.suffix in SPLIT_FILES) if folder.is_dir() else []
    for split in SPLITS:
        named = [path for path in files if split in path.stem.lower()]
        if len(named) != 1:
            holds = f"{folder} must hold one file a split, with {split} in its name"
            raise DatasetError(f"{holds}; it has {len(named)}")
        splits |= dict.fromkeys(_members(named[0]), split)
    return splits


def _members(path: Path) -> Iterator[Key]:
    if path.suffix in (".p", ".pkl"):
        tuples = _unpickled(path).get("caption_tuples", [])
        yield from ((SYNSETS.get(str(c).lower(), str(c)), str(model)) for _, c, model in tuples)
    elif path.suffix == ".csv":
        for row in textfile.table(path):
            synset = row.get("synset") or row.get("toplevelsynsetid") or row.get("synsetid", "")
            yield _synset(synset, row.get("category", "")), textfile.column(row, ("modelid", "model"), path)
    else:
        for name in json.loads(textfile.read(path)) if path.suffix == ".json" else textfile.lines(path):
            parts = name.replace("\\", "/").split("/") if isinstance(name, str) else name
            if not isinstance(parts, list) or len(parts) < 2:
                raise DatasetError(f"{path} names {name!r}; shapes are named SYNSET/MODEL there")
            yield _synset(str(parts[0]), str(parts[0])), str(parts[1])


class _SafeUnpickler(pickle.Unpickler):
    """An unpickler of numbers, texts and numpy arrays of them; it executes nothing."""

    ALLOWED: Mapping[str, tuple[str, ...]] = {
        "numpy": ("ndarray", "dtype"),
        "numpy.core.multiarray": ("_reconstruct", "scalar"),
        "numpy._core.multiarray": ("_reconstruct", "scalar"),
        "_codecs": ("encode",),
    }

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        if name not in self.ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"it wants {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _unpickled(path: Path) -> dict[str, Any]:
    """TriCoLo's split files, some written by Python 2."""
    try:
        with open(path, "rb") as file:
            content = _SafeUnpickler(file, encoding="latin1").load()
    except Exception as error:  # a pickle may hold anything
        raise DatasetError(f"{path} is no split file of Text2Shape: {error}") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{path} is no split file of Text2Shape: it holds no table")
    return defaultdict(list, content)
