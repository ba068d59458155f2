"""A folder of one's own as a data set with splits; files that don't open are left out."""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from multifold.bundle.preprocess import decode
from multifold.errors import MultifoldError
from multifold.files import folder, tar_shards, textfile
from multifold.machine import cores
from multifold.manifest import ManifestEntry
from renderers.contracts import MeshError
from renderers.mesh.formats.mesh_file import find_companions
from renderers.mesh.formats.table import EXTENSIONS
from renderers.orders import MeshSource, ViewOrder
from renderers.sandbox import Sandbox
from training.data.sources.imported import ImportedDataset, split_of


def read_folder(root: Path, percentages: Sequence[int], *, use_names: bool = True) -> ImportedDataset:
    """Every item below a folder; those with the very same texts go into the same split.

    Where there are no captions, the words of names, folders and `info.json` are used, unless told otherwise.
    """
    read = folder.read(root, folder.FolderLayout(EXTENSIONS, find_companions))
    lonely = [path for path in read.others if path.suffix.lower() == ".txt"]
    infos = {path.parent: _texts_of_info(path) for path in read.others if path.name == INFO}
    entries = [
        replace(one, texts=_texts_of_names(one, infos)) if use_names and not one.texts else one
        for one in read.entries
    ]
    silent = [entry.id for entry in entries if not entry.texts]
    named = sum(1 for one, other in zip(entries, read.entries, strict=True) if one.texts != other.texts)
    problems = [
        *map(str, read.problems),
        *(f"left out {path}: no mesh or picture has its name" for path in lonely),
        *(f"{name} has no captions: it can be searched, not learned from" for name in silent[:NAMED]),
    ]
    if silent[NAMED:]:
        problems.append(f"{len(silent) - NAMED} more have no captions")
    if named:
        problems.append(
            f"{named} items without captions: words of names, folders and {INFO} are used instead"
        )
    keys = ["\n".join(sorted(entry.texts)) or entry.id for entry in entries]
    splits = [split_of(key, percentages) for key in keys]
    pairs = zip(entries, splits, strict=True)
    return ImportedDataset([replace(entry, split=entry.split or split) for entry, split in pairs], problems)


NAMED = 8  # items without captions that are listed
INFO = "info.json"
INFO_KEYS = ("name", "title", "caption", "captions", "description", "tags")
WORD = re.compile(r"[^\W\d_]{2,}")
NO_WORDS = frozenset(
    ("img", "dsc", "image", "photo", "picture", "scan", "model", "mesh", "scene", "untitled")
)


def _texts_of_names(entry: ManifestEntry, infos: Mapping[Path, tuple[str, ...]]) -> tuple[str, ...]:
    """What an item is called, alone and with its folder, and what the nearest `info.json` says."""
    *folders, name = entry.id.split("/")
    own, above = _words(name), _words(folders[-1] if folders else "")
    texts = [own, f"{own}, {above}" if own and above else above]
    (file, *_) = folder.files_of(entry)
    info = next((infos[parent] for parent in file.parents if parent in infos), ())
    return tuple(dict.fromkeys(text for text in (*texts, *info) if text))


def _words(name: str) -> str:
    words = (word.lower() for word in WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)))
    return " ".join(word for word in words if word not in NO_WORDS)


def _texts_of_info(path: Path) -> tuple[str, ...]:
    try:
        content = json.loads(textfile.read(path))
    except ValueError:
        return ()
    values = [content.get(key) for key in INFO_KEYS] if isinstance(content, dict) else []
    joined = [", ".join(map(str, value)) if isinstance(value, list) else value for value in values]
    return tuple(" ".join(text.split()) for text in joined if isinstance(text, str) and text.strip())


CHECK_SIZE = 32


def leave_out_broken(dataset: ImportedDataset) -> ImportedDataset:
    """Open every picture and draw every mesh once, small; items with a broken file are left out."""
    files = (entry.mesh for entry in dataset.entries)
    meshes = [mesh for mesh in files if mesh is not None and not tar_shards.is_tar_member(mesh)]
    pictures = [path for entry in dataset.entries for path in entry.images]
    broken: dict[Path, str] = {}
    if meshes:
        with Sandbox(cores()) as sandbox:
            drawn = sandbox.draw_many(map(MeshSource, meshes), ViewOrder("ring1", CHECK_SIZE))
            results = tqdm(drawn, total=len(meshes), desc="meshes", unit="file", disable=None)
            pairs = zip(meshes, results, strict=True)
            broken = {mesh: str(result) for mesh, result in pairs if isinstance(result, MeshError)}
    with ThreadPoolExecutor(cores()) as pool:
        checks = pool.map(_problem_of, pictures)
        problems = tqdm(checks, total=len(pictures), desc="pictures", unit="file", disable=None)
        broken |= {path: problem for path, problem in zip(pictures, problems, strict=True) if problem}
    checked = ImportedDataset([], [*dataset.problems])
    for entry in dataset.entries:
        bad = next((path for path in (entry.mesh, *entry.images) if path in broken), None)
        if bad is None:
            checked.entries.append(entry)
            if entry.mesh is None and not entry.images:
                checked.problems.append(f"{entry.id} has no picture: it can be searched, not learned from")
        else:
            checked.leave_out(entry.id, f"{bad}: {broken[bad]}")
    return checked


def _problem_of(path: Path) -> str | None:
    try:
        decode(tar_shards.read_bytes(path))
    except (MultifoldError, OSError) as error:
        return str(error)
    return None
