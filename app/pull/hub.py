"""Files of a model hub: the revision is pinned, and each file is verified against the hub's list."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from app.pull import graphs
from app.pull.published_files import PublishedFiles, PullError, Variant, recognise_layout
from multifold.errors import needs_extra

with needs_extra("pull"):
    from httpx2 import HTTPError  # what the hub's library asks with
    from huggingface_hub import HfApi, ModelInfo
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
    from huggingface_hub.hf_api import RepoSibling
    from huggingface_hub.utils.tqdm import tqdm

COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True)
class HubRequest:
    """Which files of which repository, and no more bytes than this."""

    repository: str
    revision: str
    variant: Variant
    licence: str | None  # where it is known; else what the hub says
    most: int
    former: str | None = None  # the commit that was pulled before; another one is refused


def fetch_from_hub(
    request: HubRequest,
    folder: Path,
    pins: Mapping[str, str],
    address: str | None = None,
    wanted: Sequence[str] = (),
) -> PublishedFiles:
    """Download into a folder what a bundle needs, or the files that are wanted.

    The folder keeps the files that came if the connection breaks. A token of the user's goes to no other hub
    than the one of the environment.
    """
    api = HfApi(endpoint=address, token=None if address is None else False, library_name="multifold")
    with _hub_errors(api, request):
        info = api.model_info(request.repository, revision=request.revision, files_metadata=True)
        repository = _Repository(api, request, info, pins)
        repository.check_commit()
        missing = [name for name in wanted if name not in repository.files]
        if missing:
            raise PullError(f"{request.repository} has no {missing[0]}")
        layout = None if wanted else recognise_layout(repository.files, request.variant)
        names = [*(layout.files if layout else wanted)]
        repository.fetch(names, folder)
        for graph in (layout.image_graph, layout.text_graph) if layout else ():
            names += repository.weights_of(graph, folder)
        repository.fetch(names, folder)
        repository.verify(names, folder)
    origin = {"hub": api.endpoint, "repository": request.repository, "revision": repository.commit}
    if repository.licence is not None:
        origin["licence"] = repository.licence
    return PublishedFiles(folder, origin, request.licence or repository.licence, pins)


class _Repository:
    """One commit of a repository, as the hub describes it."""

    def __init__(self, api: HfApi, request: HubRequest, info: ModelInfo, pins: Mapping[str, str]) -> None:
        self._api = api
        self._request = request
        self._pins = pins
        self.commit = str(info.sha)
        self._count_bytes = _bounded_progress(request)
        self.files: dict[str, RepoSibling] = {one.rfilename: one for one in info.siblings or ()}
        licence = info.card_data.license if info.card_data else None
        self.licence = licence if isinstance(licence, str) else None

    def check_commit(self) -> None:
        """Refuse another commit than the one that is asked for, or that was pulled before."""
        request = self._request
        commit = self.commit
        if COMMIT.fullmatch(request.revision) and commit != request.revision:
            answered = f"the hub answers with commit {commit} of {request.repository}"
            raise PullError(f"{answered}, not {request.revision}")
        if request.former not in (None, commit):
            choice = f"--revision {request.former} pulls the former files, --revision {commit} takes the new"
            moved = f"{request.repository} is at {commit} now, and was pulled at {request.former} before"
            raise PullError(f"{moved}: {choice}")

    def fetch(self, names: Sequence[str], folder: Path) -> None:
        """Download files that are not there yet, once it is sure that they are the right ones."""
        self._check_files(names)
        for name in names:
            self._api.hf_hub_download(
                self._request.repository,
                name,
                revision=self.commit,
                local_dir=folder,
                tqdm_class=self._count_bytes,
            )

    def _check_files(self, names: Sequence[str]) -> None:
        for name in names:
            listed = self.files[name].lfs
            pinned = self._pins.get(name)
            if pinned and listed and listed.sha256 != pinned:
                known = "the file that is known: the hub lists another sha256"
                raise PullError(f"{name} of {self._request.repository} is not {known}")
        total = sum(self.files[name].size or 0 for name in names)
        if total > self._request.most:
            allowed = f"the {self._request.most:,} that are allowed; say --max-bytes"
            raise PullError(f"{self._request.repository} needs {total:,} bytes, more than {allowed}")

    def weights_of(self, graph: str, folder: Path) -> Iterator[str]:
        """The files with the weights of a graph that was fetched, which are beside it."""
        for weights in sorted(graphs.weight_files(folder / graph)):
            name = str(PurePosixPath(graph).with_name(PurePosixPath(weights).name))
            if PurePosixPath(weights).name != weights or name not in self.files:
                wanted = f"{graph} wants its weights from {weights!r}"
                raise PullError(f"{wanted}, which {self._request.repository} does not have beside it")
            yield name

    def verify(self, names: Sequence[str], folder: Path) -> None:
        """Remove files whose hashes are not the listed ones, and say so."""
        found = self._api.verify_repo_checksums(
            self._request.repository, revision=self.commit, local_dir=folder
        )
        damaged = [one["path"] for one in found.mismatches if one["path"] in names]
        for name in damaged:
            (folder / name).unlink()
        if damaged:
            reason = "its hash is not the listed one. It is gone; pull again"
            raise PullError(f"{damaged[0]} came damaged: {reason}")


def _bounded_progress(request: HubRequest) -> type[tqdm]:
    """What is told of bytes that come; more than are allowed end it, whatever the hub states."""
    came = 0

    class BoundedProgress(tqdm):
        def update(self, n: float | None = 1) -> bool | None:
            nonlocal came
            came += int(n or 0)
            if came > request.most:
                allowed = f"the {request.most:,} bytes that are allowed; say --max-bytes"
                raise PullError(f"{request.repository} sends more than it states, and than {allowed}")
            told: bool | None = super().update(n)
            return told

    return BoundedProgress


@contextmanager
def _hub_errors(api: HfApi, request: HubRequest) -> Iterator[None]:
    try:
        yield
    except PullError:
        raise
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        what = f"{request.repository} at {request.revision}"
        raise PullError(f"the hub {api.endpoint} has no public {what}") from error
    except (HTTPError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        advice = "Pull again to go on; without a network, fetch the files elsewhere and say --from FOLDER"
        raise PullError(
            f"{request.repository} cannot be had from {api.endpoint}: {reason}. {advice}"
        ) from error
