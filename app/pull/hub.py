"""Files of a model hub: the revision is pinned, each file is listed, downloaded, resumed and verified."""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import httpx
from tqdm import tqdm

from app.pull import graphs
from app.pull.published_files import PublishedFiles, PullError, Variant, recognise_layout
from multifold.bundle.bundle import file_hash

DOWNLOAD_TRIES = 5  # without a single new byte
PARTIAL_SUFFIX = ".partial"
HUB_ADDRESS = "https://huggingface.co"
COMMIT = re.compile("[0-9a-f]{40}")
HUB_TIMEOUT = httpx.Timeout(30.0)


@dataclass(frozen=True)
class ListedFile:
    """A file as its repository lists it. `blob` is git's own hash, which small files have instead."""

    name: str
    size: int
    sha256: str | None
    blob: str

    def matches(self, path: Path) -> bool:
        if path.stat().st_size != self.size:
            return False
        if self.sha256 is not None:
            return file_hash(path) == self.sha256
        content = path.read_bytes()
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return blob.hexdigest() == self.blob


def download_file(client: httpx.Client, url: str, listed: ListedFile, path: Path) -> None:
    """Download into `path`, unless the very file is there; what was begun before is finished."""
    if path.is_file() and listed.matches(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    free = shutil.disk_usage(path.parent).free
    if free < listed.size - _size_on_disk(partial):
        have = f"only {free:,} are free in {path.parent}"
        raise PullError(f"{listed.name} has {listed.size:,} bytes, but {have}")
    with tqdm(total=listed.size, unit="B", unit_scale=True, desc=listed.name) as bar:
        _download_with_retries(client, url, listed, partial, bar)
    if not listed.matches(partial):
        partial.unlink()
        raise PullError(f"{listed.name} came damaged: its hash is not the listed one. It is gone; pull again")
    partial.replace(path)


def _download_with_retries(
    client: httpx.Client, url: str, listed: ListedFile, partial: Path, bar: "tqdm[None]"
) -> None:
    """Ask again after each break, as long as anything comes."""
    tries = DOWNLOAD_TRIES
    while (before := _size_on_disk(partial)) < listed.size or not partial.exists():
        try:
            _resume(client, url, listed, partial, bar)
            failure = "the server ended early"
        except httpx.HTTPError as error:
            failure = str(error) or type(error).__name__
        tries = DOWNLOAD_TRIES if _size_on_disk(partial) > before else tries - 1
        if not tries:
            raise PullError(f"{listed.name} broke off ({failure}); pull again to go on from {before:,} bytes")


def _resume(client: httpx.Client, url: str, listed: ListedFile, partial: Path, bar: "tqdm[None]") -> None:
    have = _size_on_disk(partial)
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with client.stream("GET", url, headers=headers) as answer:
        rest = answer.headers.get("content-range", "").startswith(f"bytes {have}-")
        resumed = answer.status_code == 206 and rest
        if not resumed and answer.status_code != 200:  # 200: all of it comes again
            raise PullError(f"{listed.name} cannot be had: the server answers {answer.status_code}")
        with open(partial, "ab" if resumed else "wb") as file:
            bar.n = have if resumed else 0
            for piece in answer.iter_raw():  # as it comes: a break loses nothing that came
                if file.tell() + len(piece) > listed.size:
                    raise PullError(f"{listed.name} is longer than the promised {listed.size:,} bytes")
                file.write(piece)
                bar.update(len(piece))


def _size_on_disk(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@dataclass(frozen=True)
class HubRequest:
    """Which files of which repository, and no more bytes than this."""

    repository: str
    revision: str
    variant: Variant
    licence: str | None  # where it is known; else what the hub says
    most: int
    check: Callable[[str], None] = lambda _: None  # refuses a commit before anything is downloaded


@dataclass(frozen=True)
class _Repository:
    client: httpx.Client
    name: str
    commit: str
    licence: str | None
    files: Mapping[str, ListedFile]

    def fetch(self, name: str, folder: Path) -> None:
        url = f"/{self.name}/resolve/{self.commit}/{quote(name)}"
        download_file(self.client, url, self.files[name], folder / name)

    def check(self, names: Sequence[str], pins: Mapping[str, str], most: int) -> None:
        """Before anything large is fetched: the files are those that are pinned, and not too many bytes."""
        for name in names:
            listed, pinned = self.files[name].sha256, pins.get(name)
            if pinned and listed and listed != pinned:
                known = "the file that is known: the hub lists another sha256"
                raise PullError(f"{name} of {self.name} is not {known}")
        total = sum(self.files[name].size for name in names)
        if total > most:
            allowed = f"the {most:,} that are allowed; say --most"
            raise PullError(f"{self.name} needs {total:,} bytes, more than {allowed}")

    def weights_of(self, graph: str, folder: Path) -> Iterator[str]:
        """The files with the weights of a graph that was fetched, which are beside it."""
        for weights in sorted(graphs.weight_files(folder / graph)):
            name = str(PurePosixPath(graph).with_name(PurePosixPath(weights).name))
            if PurePosixPath(weights).name != weights or name not in self.files:
                wanted = f"{graph} wants its weights from {weights!r}"
                raise PullError(f"{wanted}, which {self.name} does not have beside it")
            yield name


def fetch_from_hub(
    request: HubRequest,
    folder: Path,
    pins: Mapping[str, str],
    address: str = HUB_ADDRESS,
    wanted: Sequence[str] = (),
) -> PublishedFiles:
    """Download into a folder what a bundle needs, or the files that are wanted.

    The folder keeps what came if the connection breaks.
    """
    with httpx.Client(base_url=address, timeout=HUB_TIMEOUT, follow_redirects=True) as client:
        repository = _read_repository(client, request)
        missing = [name for name in wanted if name not in repository.files]
        if missing:
            raise PullError(f"{request.repository} has no {missing[0]}")
        layout = None if wanted else recognise_layout(repository.files, request.variant)
        names = [*(layout.files if layout else wanted)]
        repository.check(names, pins, request.most)
        for name in names[:]:
            repository.fetch(name, folder)
        for graph in (layout.image_graph, layout.text_graph) if layout else ():
            for weights in repository.weights_of(graph, folder):
                names.append(weights)
                repository.check(names, pins, request.most)
                repository.fetch(weights, folder)
    origin = {"hub": address, "repository": request.repository, "revision": repository.commit}
    if repository.licence is not None:
        origin["licence"] = repository.licence
    return PublishedFiles(folder, origin, request.licence or repository.licence, pins)


def _read_repository(client: httpx.Client, request: HubRequest) -> _Repository:
    revision = quote(request.revision, safe="")
    description = _get(client, f"/api/models/{request.repository}/revision/{revision}").json()
    try:
        commit, licence = str(description["sha"]), (description.get("cardData") or {}).get("license")
        _check_commit(request, commit)
        files = _list_files(client, f"/api/models/{request.repository}/tree/{commit}?recursive=true")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        sentence = f"the hub describes {request.repository} in a way we do not understand: {error!r}"
        raise PullError(sentence) from error
    stated = licence if isinstance(licence, str) else None
    return _Repository(client, request.repository, commit, stated, files)


def _check_commit(request: HubRequest, commit: str) -> None:
    if COMMIT.fullmatch(request.revision) and commit != request.revision:
        raise PullError(
            f"the hub answers with commit {commit} of {request.repository}, not {request.revision}"
        )
    request.check(commit)


def _list_files(client: httpx.Client, url: str | None) -> dict[str, ListedFile]:
    files: dict[str, ListedFile] = {}
    while url is not None:
        answer = _get(client, url)
        for entry in answer.json():
            if entry["type"] == "file":
                name, large = entry["path"], entry.get("lfs")
                sha256 = str(large["oid"]).removeprefix("sha256:") if large else None
                size = int((large or entry)["size"])
                files[name] = ListedFile(name, size, sha256, entry["oid"])
        url = answer.links.get("next", {}).get("url")
    return files


def _get(client: httpx.Client, url: str) -> httpx.Response:
    try:
        answer = client.get(url)
    except httpx.HTTPError as error:
        advice = "Without a network: fetch the files elsewhere, and say --from FOLDER"
        raise PullError(f"the hub {client.base_url} is out of reach ({error}). {advice}") from error
    if answer.status_code in (401, 403, 404):
        name = url.split("?")[0].removeprefix("/api/models/")
        raise PullError(f"the hub {client.base_url} has no public {name}")
    if answer.is_error:
        raise PullError(f"the hub {client.base_url} answers {answer.status_code} to {url}")
    return answer
