"""A folder of one's own as a data set with splits; files that don't open are left out."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from multifold.bundle.preprocess import decode
from multifold.errors import MultifoldError
from multifold.files import folder
from multifold.machine import cores
from multifold.manifest import ManifestEntry
from renderers.contracts import MeshError
from renderers.mesh.formats.mesh_file import EXTENSIONS, find_companions
from renderers.sandbox import Sandbox
from training.data.sources.imported import ImportedDataset, split_of


def read_folder(root: Path, percentages: Sequence[int]) -> ImportedDataset:
    """Every item below a folder; those with the very same texts go into the same split."""
    read = folder.read(root, folder.FolderLayout(EXTENSIONS, find_companions))
    lonely = [path for path in read.others if path.suffix.lower() == ".txt"]
    silent = [entry.id for entry in read.entries if not entry.texts]
    problems = [
        *map(str, read.problems),
        *(f"left out {path}: it stands beside no mesh or picture of its name" for path in lonely),
        *(f"{name} has no captions: it can be searched, not learned from" for name in silent),
    ]
    return ImportedDataset([_split(entry, percentages) for entry in read.entries], problems)


def _split(entry: ManifestEntry, percentages: Sequence[int]) -> ManifestEntry:
    key = "\n".join(sorted(entry.texts)) or entry.id
    return replace(entry, split=entry.split or split_of(key, percentages))


CHECK_SIZE = 32


def leave_out_broken(found: ImportedDataset) -> ImportedDataset:
    """Open every picture and draw every mesh once, small; items with a broken file are left out."""
    wrong = {**_meshes(found.entries), **_pictures(found.entries)}
    kept = [entry for entry in found.entries if entry.id not in wrong]
    return ImportedDataset(
        kept, [*found.problems, *(f"left out {name}: {why}" for name, why in wrong.items())]
    )


def _pictures(entries: Sequence[ManifestEntry]) -> dict[str, str]:
    named = [(entry.id, path) for entry in entries for path in entry.images]
    with ThreadPoolExecutor(cores()) as pool:
        told = pool.map(_wrong, (path for _, path in named))
        listed = list(tqdm(told, total=len(named), desc="pictures", unit="file", disable=None))
    return {name: f"{path}: {wrong}" for (name, path), wrong in zip(named, listed, strict=True) if wrong}


def _wrong(path: Path) -> str | None:
    try:
        decode(path.read_bytes())
    except (MultifoldError, OSError) as error:
        return str(error)
    return None


def _meshes(entries: Sequence[ManifestEntry]) -> dict[str, str]:
    named = [(entry.id, entry.mesh) for entry in entries if entry.mesh is not None]
    if not named:
        return {}
    with Sandbox(cores()) as sandbox:
        drawn = sandbox.render_many([mesh for _, mesh in named], "ring1", CHECK_SIZE, "white", "auto")
        results = list(tqdm(drawn, total=len(named), desc="meshes", unit="file", disable=None))
    return {
        name: f"{mesh}: {result}"
        for (name, mesh), result in zip(named, results, strict=True)
        if isinstance(result, MeshError)
    }
