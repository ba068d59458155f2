"""A repository of the model hub: its revision is pinned, its files are listed, fetched and verified."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import httpx

from app.pull import graphs
from app.pull.download import Promised, fetch
from app.pull.layouts import Variant, recognise
from app.pull.source import PullError, Source

ADDRESS = "https://huggingface.co"
TIMEOUT = httpx.Timeout(30.0)


@dataclass(frozen=True)
class Wanted:
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
    files: Mapping[str, Promised]

    def fetch(self, name: str, folder: Path) -> None:
        """One of its files, at its pinned commit."""
        url = f"/{self.name}/resolve/{self.commit}/{quote(name)}"
        fetch(self.client, url, self.files[name], folder / name)


def from_hub(wanted: Wanted, folder: Path, pins: Mapping[str, str], address: str = ADDRESS) -> Source:
    """Download what a bundle needs into a folder, which keeps what came if the line breaks."""
    with httpx.Client(base_url=address, timeout=TIMEOUT, follow_redirects=True) as client:
        found = _repository(client, wanted)
        layout = recognise(found.files, wanted.variant)
        names = [*layout.files]
        _check(found, names, pins, wanted.most)
        for name in names:
            found.fetch(name, folder)
        for graph in (layout.image_graph, layout.text_graph):
            for weights in sorted(graphs.beside(folder / graph)):
                names.append(_beside(graph, weights, found))
                _check(found, names, pins, wanted.most)
                found.fetch(names[-1], folder)
    origin = {"hub": address, "repository": wanted.repository, "revision": found.commit}
    stated = {} if found.licence is None else {"licence": found.licence}
    return Source(folder, {**origin, **stated}, wanted.licence or found.licence, pins)


def _repository(client: httpx.Client, wanted: Wanted) -> _Repository:
    said = _ask(client, f"/api/models/{wanted.repository}/revision/{quote(wanted.revision, safe='')}")
    try:
        commit, card = str(said["sha"]), said.get("cardData") or {}
        files = _listed(client, f"/api/models/{wanted.repository}/tree/{commit}?recursive=true")
        licence = card.get("license")
        return _Repository(
            client, wanted.repository, commit, licence if isinstance(licence, str) else None, files
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PullError(
            f"the hub describes {wanted.repository} in a way we do not understand: {error!r}"
        ) from error


def _listed(client: httpx.Client, url: str | None) -> dict[str, Promised]:
    """Every file of a commit; long lists come in pages."""
    found: dict[str, Promised] = {}
    while url is not None:
        answer = _get(client, url)
        for entry in answer.json():
            if entry["type"] == "file":
                large = entry.get("lfs")
                sha256 = str(large["oid"]).removeprefix("sha256:") if large else None
                size = int(large["size"] if large else entry["size"])
                found[entry["path"]] = Promised(entry["path"], size, sha256, None if large else entry["oid"])
        url = answer.links.get("next", {}).get("url")
    return found


def _check(found: _Repository, names: list[str], pins: Mapping[str, str], most: int) -> None:
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


def _beside(graph: str, weights: str, found: _Repository) -> str:
    name = str(PurePosixPath(graph).with_name(PurePosixPath(weights).name))
    if PurePosixPath(weights).name != weights or name not in found.files:
        raise PullError(
            f"{graph} wants its weights from {weights!r}, which {found.name} does not have beside it"
        )
    return name


def _ask(client: httpx.Client, url: str) -> dict[str, Any]:
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
