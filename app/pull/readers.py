"""Published text readers become a folder, or a part of a bundle."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

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


def write_reader(source: PublishedFiles, target: Path) -> TextReader:
    """Write a reader into a folder, or into a bundle if that is one; where it came from is kept beside it."""
    files = source.hashes(WANTED_FILES)
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
