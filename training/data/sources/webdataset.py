"""WebDataset: items in tar shards, their files one after the other, named by a key and a suffix.

The key is a file's path up to the first dot of its name, the suffix all that follows: `a/b.0.jpg` is `0.jpg`
of `a/b`. Files of one item stand together. Reading takes `jpg`, `0.jpg`, `1.jpg` … as pictures, a mesh by its
suffix, `txt` as captions, a line each (`0.txt`, … too), and `json`: a text, a list of texts, or a table whose
`caption`, `captions`, `text` or `texts` are the captions and whose other keys are metadata.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from multifold.files import tar_shards, textfile
from multifold.files.folder import PICTURE_SUFFIXES
from multifold.manifest import ManifestEntry
from renderers.mesh.formats.mesh_file import find_companions
from renderers.mesh.formats.table import EXTENSIONS
from training.data.sources import imported
from training.data.sources.folder import leave_out_broken
from training.data.sources.imported import (
    MOST_BROKEN,
    SHARES,
    DatasetError,
    ImportedDataset,
    parse_shares,
    split_of,
)

Content: TypeAlias = bytes | Path  # a file's bytes, or where it lies in the shard

CAPTION_KEYS = ("caption", "captions", "text", "texts")
NOT_META = (*CAPTION_KEYS, "id", "split", "meta")
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class ShardSample:
    """One item of a shard: its files by their suffix."""

    key: str
    files: Mapping[str, Content]
    shard: Path = field(compare=False, default=Path())

    @property
    def name(self) -> str:
        return f"{self.key} of {self.shard.name}"


def find_shards(patterns: Sequence[str]) -> list[Path]:
    """Files by name, by `*`, or by WebDataset's `{000..123}`, in order."""
    shards = []
    for pattern in patterns:
        path = Path(pattern)
        if span := RANGE.search(pattern):
            width = len(span[1])
            numbers = range(int(span[1]), int(span[2]) + 1)
            shards += [Path(RANGE.sub(f"{number:0{width}d}", pattern, count=1)) for number in numbers]
        else:
            shards += sorted(path.parent.glob(path.name)) if "*" in path.name else [path]
    if missing := [path for path in shards if not path.is_file()]:
        raise DatasetError(f"there is no shard {missing[0]}")
    if not shards:
        raise DatasetError(f"no shard is called {' '.join(patterns)}")
    return shards


def read_samples(paths: Iterable[Path]) -> Iterator[ShardSample]:
    """Every item of every shard, one in memory at a time; the error names a truncated shard."""
    for path in paths:
        try:
            with tarfile.open(path, "r|*") as tar:
                files = ((*_name(member.name), _bytes(tar, member)) for member in tar if _counts(member))
                yield from _grouped(files, path)
                tar_shards.check_end(path, tar)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DatasetError(f"{path} is no tar file, or not a whole one: {error}") from error


def locate_samples(paths: Iterable[Path]) -> Iterator[ShardSample]:
    """The same with the positions of the files in the shards; no file is read."""
    for path in paths:
        members = (member for member in tar_shards.members(path) if _counts(member))
        files = ((*_name(member.name), tar_shards.member_path(path, member)) for member in members)
        yield from _grouped(files, path)


def _grouped(files: Iterable[tuple[str, str, Content]], shard: Path) -> Iterator[ShardSample]:
    for key, several in groupby(files, key=lambda file: file[0]):
        yield ShardSample(key, {suffix: content for _, suffix, content in several}, shard)


def unpack_shards(patterns: Sequence[str], folder: Path, percentages: Sequence[int]) -> ImportedDataset:
    """Unpack shards into a folder, item by item, as entries for a manifest."""
    return _import(read_samples(find_shards(patterns)), folder, percentages)


def index_shards(patterns: Sequence[str], percentages: Sequence[int]) -> ImportedDataset:
    """The same entries without unpacking: their files are named by their positions in the shards."""
    return _import(locate_samples(find_shards(patterns)), Path(), percentages)


def _import(stream: Iterable[ShardSample], folder: Path, percentages: Sequence[int]) -> ImportedDataset:
    dataset = ImportedDataset()
    ids = set[str]()
    for sample in stream:
        entry = _entry(sample, folder, dataset.problems)
        if entry is None or entry.id in ids:
            empty = "it has no picture, mesh or caption that is read"
            dataset.leave_out(sample.name, empty if entry is None else "its id occurs twice")
            continue
        ids.add(entry.id)
        key = "\n".join(sorted(entry.texts)) or entry.id
        dataset.entries.append(replace(entry, split=entry.split or split_of(key, percentages)))
    return dataset


def write_shards(entries: Iterable[ManifestEntry], pattern: str, items: int) -> tuple[list[Path], list[str]]:
    """Entries as shards, and what was left out; `pattern` holds a number such as %06d."""
    if "%" not in pattern or pattern % 0 == pattern % 1:
        raise DatasetError(f"{pattern} gives every shard the same name; it needs a number such as %06d")
    written, problems = list[Path](), list[str]()
    for number, some in groupby(enumerate(entries), key=lambda numbered: numbered[0] // items):
        path = Path(pattern % number)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        with tarfile.open(partial, "w") as tar:
            for place, entry in some:
                _pack(tar, entry, f"{place:09d}", problems)
        os.replace(partial, path)
        written.append(path)
    return written, problems


def _counts(member: tarfile.TarInfo) -> bool:
    """Whether WebDataset would read a file: no folder, link or device, not hidden, with a suffix."""
    name = PurePosixPath(member.name).name
    return member.isfile() and not name.startswith((".", "__")) and "." in name


def _name(path: str) -> tuple[str, str]:
    folder, _, name = path.removeprefix("./").rpartition("/")
    stem, _, suffix = name.partition(".")
    return (f"{folder}/{stem}" if folder else stem), suffix.lower()


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def _entry(sample: ShardSample, folder: Path, problems: list[str]) -> ManifestEntry | None:
    """An item; its pictures and mesh, unless they stay in the shard, are written under new names."""
    described = _read_json(sample, problems)
    texts = list[str]()
    pictures = list[Path]()
    mesh = None
    name = hashlib.sha256(sample.key.encode()).hexdigest()[:24]
    for suffix, content in sorted(sample.files.items(), key=lambda file: _suffix_order(file[0])):
        kind = f".{suffix.rpartition('.')[2]}"
        path = folder / name[:2] / f"{name}.{suffix.replace('/', '_')}"
        if kind == ".txt":
            texts += [line.strip() for line in _text(content).splitlines() if line.strip()]
        elif kind in PICTURE_SUFFIXES:
            pictures.append(_store(path, content))
        elif kind in EXTENSIONS and mesh is None:
            mesh = _store(path, content)
        elif kind != ".json":
            problems.append(f"{sample.name}: no reader for its .{suffix}")
    texts += described.texts
    if not (texts or pictures or mesh):
        return None
    return replace(described, images=tuple(pictures), mesh=mesh, texts=tuple(dict.fromkeys(texts)))


def _read_json(sample: ShardSample, problems: list[str]) -> ManifestEntry:
    """What the sample's json tells of the item."""
    content: object = None
    try:
        content = json.loads(_text(sample.files["json"])) if "json" in sample.files else None
    except ValueError:
        problems.append(f"{sample.name}: its json is damaged")
    if not isinstance(content, dict):
        return ManifestEntry(sample.key, texts=tuple(_texts(content)))
    texts = tuple(text for name in CAPTION_KEYS for text in _texts(content.get(name)))
    own = content.get("meta")
    rest = {name: value for name, value in content.items() if name not in NOT_META}
    name, split = (content.get(key) if isinstance(content.get(key), str) else None for key in ("id", "split"))
    meta = {**rest, **own} if isinstance(own, dict) else rest
    return ManifestEntry(name or sample.key, texts=texts, split=split, meta=meta)


def _texts(value: object) -> list[str]:
    several = value if isinstance(value, list) else [value]
    return [text.strip() for text in several if isinstance(text, str) and text.strip()]


def _suffix_order(suffix: str) -> tuple[int, str]:
    number = suffix.partition(".")[0]
    return (int(number) if number.isdecimal() else -1), suffix


def _text(content: Content) -> str:
    return textfile.decode(tar_shards.read_bytes(content) if isinstance(content, Path) else content)


def _store(path: Path, content: Content) -> Path:
    if isinstance(content, Path):
        return content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _pack(tar: tarfile.TarFile, entry: ManifestEntry, key: str, problems: list[str]) -> None:
    for number, picture in enumerate(entry.images):
        _add(tar, f"{key}.{number}{picture.suffix.lower()}", picture.read_bytes())
    if entry.mesh is not None and find_companions(entry.mesh, entry.mesh.parent):
        problems.append(f"left out the mesh of {entry.id}: it names other files; make it a .glb")
    elif entry.mesh is not None:
        _add(tar, f"{key}{entry.mesh.suffix.lower()}", entry.mesh.read_bytes())
    described = {"id": entry.id, "captions": entry.texts, "split": entry.split, "meta": dict(entry.meta)}
    _add(tar, f"{key}.json", json.dumps(described, ensure_ascii=False).encode())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # no user, no time: the same bytes each time
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def is_shard_pattern(manifest: str) -> bool:
    """Whether a recipe's manifest is shards instead."""
    return Path(manifest).suffix == ".tar"


def shard_manifest(pattern: str, cache: Path) -> Path:
    """The manifest of shards by name, `*` or `{000..123}`; shards that change get another one."""
    shards = [(str(path.resolve()), path.stat()) for path in find_shards([pattern])]
    states = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in shards]
    key = hashlib.sha256(json.dumps([SHARES, states]).encode()).hexdigest()[:16]
    path = cache / f"shards-{key}.jsonl"
    if not path.exists():
        print(f"indexing {len(shards):,} shards", flush=True)
        indexed = index_shards([pattern], parse_shares(SHARES))
        dataset = leave_out_broken(indexed)
        if (broken := len(indexed.entries) - len(dataset.entries)) > MOST_BROKEN * len(indexed.entries):
            raise DatasetError(f"{broken} items of {pattern} are broken. The last: {dataset.problems[-1]}")
        print("\n".join(imported.write_imported(dataset, path)), flush=True)
    return path
