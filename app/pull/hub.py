"""Files of a model hub: the revision is pinned, each file is listed, downloaded, resumed and verified."""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import httpx
from tqdm import tqdm

from app.pull import graphs
from app.pull.layouts import Variant, recognise_layout
from app.pull.source import PublishedFiles, PullError
from multifold.bundle.bundle import file_hash

DOWNLOAD_TRIES = 5  # without a single new byte
PARTIAL_SUFFIX = ".partial"


@dataclass(frozen=True)
class ListedFile:
    """A file as its repository lists it. `blob` is git's own hash, which small files have instead."""

    name: str
    size: int
    sha256: str | None
    blob: str | None = None


def download_file(client: httpx.Client, url: str, promised: ListedFile, path: Path) -> None:
    """Download into `path`, unless the very file is there; what was begun before is finished."""
    if path.is_file() and _matches(promised, path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    _check_room(partial, promised)
    with tqdm(total=promised.size, unit="B", unit_scale=True, desc=promised.name) as bar:
        _download_with_retries(client, url, promised, partial, bar)
    if not _matches(promised, partial):
        partial.unlink()
        raise PullError(
            f"{promised.name} came damaged: its hash is not the listed one. It is gone; pull again"
        )
    partial.replace(path)


def _download_with_retries(
    client: httpx.Client, url: str, promised: ListedFile, partial: Path, bar: "tqdm[None]"
) -> None:
    """Ask again after each break, as long as anything comes."""
    tries = DOWNLOAD_TRIES
    while (before := _size_on_disk(partial)) < promised.size or not partial.exists():
        try:
            _resume(client, url, promised, partial, bar)
            failure = "the server ended early"
        except httpx.HTTPError as error:
            failure = str(error) or type(error).__name__
        tries = DOWNLOAD_TRIES if _size_on_disk(partial) > before else tries - 1
        if not tries:
            raise PullError(
                f"{promised.name} broke off ({failure}); pull again to go on from {before:,} bytes"
            )


def _resume(client: httpx.Client, url: str, promised: ListedFile, partial: Path, bar: "tqdm[None]") -> None:
    have = _size_on_disk(partial)
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with client.stream("GET", url, headers=headers) as answer:
        goes_on = _is_resumed(answer, have, promised)
        with open(partial, "ab" if goes_on else "wb") as file:
            bar.n = have if goes_on else 0
            for piece in answer.iter_raw():  # as it comes: a break loses nothing that came
                if file.tell() + len(piece) > promised.size:
                    raise PullError(f"{promised.name} is longer than the promised {promised.size:,} bytes")
                file.write(piece)
                bar.update(len(piece))


def _is_resumed(answer: httpx.Response, have: int, promised: ListedFile) -> bool:
    """Whether the rest comes, or all of it again."""
    if answer.status_code == 200:
        return False
    if answer.status_code == 206 and answer.headers.get("content-range", "").startswith(f"bytes {have}-"):
        return True
    raise PullError(f"{promised.name} cannot be had: the server answers {answer.status_code}")


def _matches(promised: ListedFile, path: Path) -> bool:
    if path.stat().st_size != promised.size:
        return False
    if promised.sha256 is not None:
        return file_hash(path) == promised.sha256
    return promised.blob is None or _git_hash(path) == promised.blob


def _git_hash(path: Path) -> str:
    """The name that git gives a file's content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _size_on_disk(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check_room(path: Path, promised: ListedFile) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < promised.size - _size_on_disk(path):
        raise PullError(
            f"{promised.name} has {promised.size:,} bytes, but only {free:,} are free in {path.parent}"
        )


HUB_ADDRESS = "https://huggingface.co"
HUB_TIMEOUT = httpx.Timeout(30.0)


@dataclass(frozen=True)
class HubRequest:
    """Which files of which repository, and no more bytes than this."""

    repository: str
    revision: str
    variant: Variant
    licence: str | None  # where it is known; else what the hub says
    most: int


@dataclass(frozen=True)
class _Repository:
    client: httpx.Client
    name: str
    commit: str
    licence: str | None
    files: Mapping[str, ListedFile]

    def fetch(self, name: str, folder: Path) -> None:
        """One of its files, at its pinned commit."""
        url = f"/{self.name}/resolve/{self.commit}/{quote(name)}"
        download_file(self.client, url, self.files[name], folder / name)


def fetch_from_hub(
    wanted: HubRequest, folder: Path, pins: Mapping[str, str], address: str = HUB_ADDRESS
) -> PublishedFiles:
    """Download what a bundle needs into a folder, which keeps what came if the line breaks."""
    with httpx.Client(base_url=address, timeout=HUB_TIMEOUT, follow_redirects=True) as client:
        found = _read_repository(client, wanted)
        layout = recognise_layout(found.files, wanted.variant)
        names = [*layout.files]
        _check_files(found, names, pins, wanted.most)
        for name in names:
            found.fetch(name, folder)
        for graph in (layout.image_graph, layout.text_graph):
            for weights in sorted(graphs.weight_files(folder / graph)):
                names.append(_weights_name(graph, weights, found))
                _check_files(found, names, pins, wanted.most)
                found.fetch(names[-1], folder)
    origin = {"hub": address, "repository": wanted.repository, "revision": found.commit}
    stated = {} if found.licence is None else {"licence": found.licence}
    return PublishedFiles(folder, {**origin, **stated}, wanted.licence or found.licence, pins)


def _read_repository(client: httpx.Client, wanted: HubRequest) -> _Repository:
    said = _get_json(client, f"/api/models/{wanted.repository}/revision/{quote(wanted.revision, safe='')}")
    try:
        commit, card = str(said["sha"]), said.get("cardData") or {}
        files = _list_files(client, f"/api/models/{wanted.repository}/tree/{commit}?recursive=true")
        licence = card.get("license")
        return _Repository(
            client, wanted.repository, commit, licence if isinstance(licence, str) else None, files
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PullError(
            f"the hub describes {wanted.repository} in a way we do not understand: {error!r}"
        ) from error


def _list_files(client: httpx.Client, url: str | None) -> dict[str, ListedFile]:
    """Every file of a commit; long lists come in pages."""
    found: dict[str, ListedFile] = {}
    while url is not None:
        answer = _get(client, url)
        for entry in answer.json():
            if entry["type"] == "file":
                large = entry.get("lfs")
                sha256 = str(large["oid"]).removeprefix("sha256:") if large else None
                size = int(large["size"] if large else entry["size"])
                found[entry["path"]] = ListedFile(
                    entry["path"], size, sha256, None if large else entry["oid"]
                )
        url = answer.links.get("next", {}).get("url")
    return found


def _check_files(found: _Repository, names: list[str], pins: Mapping[str, str], most: int) -> None:
    """Before anything large is fetched: the files are those that are pinned, and not too many bytes."""
    for name in names:
        listed, pinned = found.files[name].sha256, pins.get(name)
        if pinned and listed and listed != pinned:
            raise PullError(
                f"{name} of {found.name} is not the file that is known: the hub lists another sha256"
            )
    total = sum(found.files[name].size for name in names)
    if total > most:
        raise PullError(
            f"{found.name} needs {total:,} bytes, more than the {most:,} that are allowed; say --most"
        )


def _weights_name(graph: str, weights: str, found: _Repository) -> str:
    name = str(PurePosixPath(graph).with_name(PurePosixPath(weights).name))
    if PurePosixPath(weights).name != weights or name not in found.files:
        raise PullError(
            f"{graph} wants its weights from {weights!r}, which {found.name} does not have beside it"
        )
    return name


def _get_json(client: httpx.Client, url: str) -> dict[str, Any]:
    said: dict[str, Any] = _get(client, url).json()
    return said


def _get(client: httpx.Client, url: str) -> httpx.Response:
    try:
        answer = client.get(url)
    except httpx.HTTPError as error:
        raise PullError(
            f"the hub {client.base_url} is out of reach ({error}). Without a network: fetch the files "
            "elsewhere, and say --from FOLDER"
        ) from error
    if answer.status_code in (401, 403, 404):
        raise PullError(
            f"the hub {client.base_url} has no public {url.split('?')[0].removeprefix('/api/models/')}"
        )
    if answer.is_error:
        raise PullError(f"the hub {client.base_url} answers {answer.status_code} to {url}")
    return answer
