"""One file from a server: gone on with where it broke off, never longer than promised, verified."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import httpx
from tqdm import tqdm

from app.pull.source import PullError
from multifold.bundle import file_hash

TRIES = 5  # without a single new byte
PARTIAL = ".partial"


@dataclass(frozen=True)
class Promised:
    """A file as its repository lists it. `blob` is git's own hash, which small files have instead."""

    name: str
    size: int
    sha256: str | None
    blob: str | None = None


def fetch(client: httpx.Client, url: str, promised: Promised, path: Path) -> None:
    """Download into `path`, unless the very file is there; what was begun before is finished."""
    if path.is_file() and _is(promised, path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    _check_room(partial, promised)
    with tqdm(total=promised.size, unit="B", unit_scale=True, desc=promised.name) as bar:
        _persist(client, url, promised, partial, bar)
    if not _is(promised, partial):
        partial.unlink()
        raise PullError(
            f"{promised.name} came damaged: its hash is not the listed one. It is gone; pull again"
        )
    partial.replace(path)


def _persist(client: httpx.Client, url: str, promised: Promised, partial: Path, bar: "tqdm[None]") -> None:
    """Ask again after each break, as long as anything comes."""
    tries = TRIES
    while (before := _size(partial)) < promised.size or not partial.exists():
        try:
            _go_on(client, url, promised, partial, bar)
            failure = "the server ended early"
        except httpx.HTTPError as error:
            failure = str(error) or type(error).__name__
        tries = TRIES if _size(partial) > before else tries - 1
        if not tries:
            raise PullError(
                f"{promised.name} broke off ({failure}); pull again to go on from {before:,} bytes"
            )


def _go_on(client: httpx.Client, url: str, promised: Promised, partial: Path, bar: "tqdm[None]") -> None:
    have = _size(partial)
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with client.stream("GET", url, headers=headers) as answer:
        goes_on = _goes_on(answer, have, promised)
        with open(partial, "ab" if goes_on else "wb") as file:
            bar.n = have if goes_on else 0
            for piece in answer.iter_raw():  # as it comes: a break loses nothing that came
                if file.tell() + len(piece) > promised.size:
                    raise PullError(f"{promised.name} is longer than the promised {promised.size:,} bytes")
                file.write(piece)
                bar.update(len(piece))


def _goes_on(answer: httpx.Response, have: int, promised: Promised) -> bool:
    """Whether the rest comes, or all of it again."""
    if answer.status_code == 200:
        return False
    if answer.status_code == 206 and answer.headers.get("content-range", "").startswith(f"bytes {have}-"):
        return True
    raise PullError(f"{promised.name} cannot be had: the server answers {answer.status_code}")


def _is(promised: Promised, path: Path) -> bool:
    if path.stat().st_size != promised.size:
        return False
    if promised.sha256 is not None:
        return file_hash(path) == promised.sha256
    return promised.blob is None or _blob(path) == promised.blob


def _blob(path: Path) -> str:
    """The name that git gives a file's content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check_room(path: Path, promised: Promised) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < promised.size - _size(path):
        raise PullError(
            f"{promised.name} has {promised.size:,} bytes, but only {free:,} are free in {path.parent}"
        )
