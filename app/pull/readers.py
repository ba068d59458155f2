"""Published text readers: the list of those that we know, and how one becomes a folder or a part of a bundle.

All are tables of static vectors in the layout of the library model2vec. The hashes are known from several
users of the files; sizes and languages are what the publisher says.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from app.pull.catalogue import align_columns
from app.pull.published_files import PublishedFiles, PullError
from multifold.bundle import bundle as bundles
from multifold.bundle.text_reader import (
    CONFIG_FILE,
    ORIGIN_FILE,
    READER_FILES,
    TABLE_FILE,
    TOKENIZER_FILE,
    TextReader,
    open_text_reader,
)

WANTED_FILES = (TOKENIZER_FILE, TABLE_FILE, CONFIG_FILE)


@dataclass(frozen=True)
class PublishedReader:
    """One text reader of the list."""

    name: str
    repository: str
    languages: str = ""
    dim: int = 0
    download: int = 0  # bytes
    revision: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    licence: str | None = None


def _hashes(table: str, tokenizer: str, config: str) -> dict[str, str]:
    return {TABLE_FILE: table, TOKENIZER_FILE: tokenizer, CONFIG_FILE: config}


PUBLISHED_READERS = (
    PublishedReader(
        name="potion-base-2M",
        repository="minishlab/potion-base-2M",
        licence="MIT",
        languages="English",
        dim=64,
        download=8_240_000,
        revision="86db093558fbced2072b929eb1690bce5272bd4b",
    ),
    PublishedReader(
        name="potion-base-8M",
        repository="minishlab/potion-base-8M",
        licence="MIT",
        languages="English",
        dim=256,
        download=30_920_628,
        revision="bf8b056651a2c21b8d2565580b8569da283cab23",
        sha256=_hashes(
            "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
            "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
            "2a6ac0e9aaa356a68a5688070db78fc3a464fefe85d2f06a1905ce3718687553",
        ),
    ),
    PublishedReader(
        name="potion-retrieval-32M",
        repository="minishlab/potion-retrieval-32M",
        licence="MIT",
        languages="English",
        dim=512,
        download=130_703_808,
        revision="6fc8051fab2a1e0ee76689cf08c853792ac285e7",
        sha256=_hashes(
            "07609e5bd33aad37900b3fd62f4ec96f6daec88ca4d46b9d8b928bfababf6ea0",
            "7d75cbc54318138807c401b0f0c9721117c628b39de8e8e0edb6cb17e0ee7d18",
            "63c00d90824c832c04ec1d02b6a983fb90489bf049f29fbff15ba481b8a432ee",
        ),
    ),
    PublishedReader(
        name="potion-multilingual-128M",
        repository="minishlab/potion-multilingual-128M",
        licence="MIT",
        languages="101",
        dim=256,
        download=530_977_962,
        revision="73908c3438cf03b6a01bcb9611d62b23d0726f08",
        sha256=_hashes(
            "14b5eb39cb4ce5666da8ad1f3dc6be4346e9b2d601c073302fa0a31bf7943397",
            "19f1909063da3cfe3bd83a782381f040dccea475f4816de11116444a73e1b6a1",
            "595e4cab2093732efd5dbe084fd5c1826b5eea693b73b4c1fd971672867d2e54",
        ),
    ),
)


def find_published_reader(name: str) -> PublishedReader | None:
    """The reader of this name, if the list has it; small letters will do."""
    return next((one for one in PUBLISHED_READERS if one.name.lower() == name.lower()), None)


def format_readers() -> str:
    """The list, for people."""
    head = ("text reader", "download", "numbers", "languages", "licence", "hashes", "repository")
    rows = [head, *(_row(one) for one in PUBLISHED_READERS)]
    return "\n".join(
        [
            *align_columns(rows),
            "",
            "A text reader compares texts with texts, beside an encoder: docs/readers.md.",
        ]
    )


def write_reader(source: PublishedFiles, target: Path) -> TextReader:
    """Write a reader into a folder, or into a bundle if that is one; where it came from is kept beside it."""
    files = {name: bundles.file_hash(source.path(name)) for name in WANTED_FILES}
    for name, pinned in source.pins.items():
        if files[name] != pinned:
            raise PullError(
                f"{name} is not the file that is known: its sha256 is {files[name]}, not {pinned}"
            )
    origin = {**source.origin, "licence": source.licence or "unknown", "files": files}
    with TemporaryDirectory() as folder:
        for name in WANTED_FILES:
            shutil.copyfile(source.path(name), Path(folder) / name)
        (Path(folder) / ORIGIN_FILE).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
        reader = open_text_reader(Path(folder))
        if (target / bundles.DESCRIPTION_FILE).is_file():
            bundles.add_reader(target, Path(folder))
        else:
            _replace_reader(target, Path(folder))
    return reader


def _replace_reader(target: Path, folder: Path) -> None:
    if target.exists() and any(path.name not in (*READER_FILES, ORIGIN_FILE) for path in target.iterdir()):
        raise PullError(f"{target} holds something that is no text reader; choose another folder")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)


def _row(one: PublishedReader) -> tuple[str, ...]:
    hashes = "known" if one.sha256 else "unverified"
    size = f"{one.download / 1e6:.0f} MB"
    return one.name, size, str(one.dim), one.languages, str(one.licence), hashes, one.repository
