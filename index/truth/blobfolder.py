"""Blobs in a folder, and files that lie elsewhere."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from index.truth.blobs import KEY, BlobError, Blobs, DamagedBlobError, checked
from index.truth.inplace import InPlace
from multifold import durable
from multifold.durable import make_folder, sync_folder


class FolderBlobs(Blobs):
    """One file a blob, in subfolders by the first two digits; what is kept in place has none."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder.parent
        self.places = InPlace(self.home)

    def write(self, key: str, data: bytes) -> None:
        """A file that is there whole or not at all; one that is there already is kept."""
        path = self.path(key)
        try:
            if path.is_file():
                sync_folder(path.parent)  # another thread may have named it a moment ago
                return
            make_folder(path.parent)
            durable.write(path, data)
        except OSError as error:
            raise BlobError(
                f"{self.folder} takes no more: {error.strerror or error}. Nothing was changed; check the "
                "disk's space and health, then try again."
            ) from error

    def read(self, key: str) -> bytes:
        """What its file holds, or the one that holds it in place."""
        try:
            return (self.file(key) or self.path(key)).read_bytes()
        except FileNotFoundError:
            if not (known := self.places.paths(key)):
                raise DamagedBlobError(f"no blob {key}") from None
        raise DamagedBlobError(
            f"the file {known[0].name}, which was not copied, is gone or holds something else: put it back, "
            "or ingest its folder again"
        )

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        return self.path(key).is_file() or self.places.knows(key)

    def path(self, key: str) -> Path:
        """Where a blob lies, or would lie; never outside the folder."""
        return self.folder / checked(key)[:2] / key

    def file(self, key: str) -> Path | None:
        """Its own, or the one that still holds it in place."""
        return path if (path := self.path(key)).is_file() else self.in_place(key)

    def in_place(self, key: str) -> Path | None:
        """Read and compared: a name alone tells nothing."""
        return self.places.find(checked(key))

    def all(self) -> Iterator[str]:
        """The names of the files, and what is kept in place."""
        names = {path.name for path in self.folder.glob("*/*") if KEY.fullmatch(path.name)}
        yield from names.union(self.places.keys())

    def remove(self, keys: Iterable[str]) -> None:
        """Unlink our own files; those in place stay, and are forgotten."""
        keys = list(keys)
        for key in keys:
            self.path(key).unlink(missing_ok=True)
        self.places.forget(keys)

    def sweep(self) -> None:
        """Remove unfinished files."""
        for folder in self.folder.glob("*/"):
            durable.sweep(folder)

    def size(self) -> int:
        """What the files take."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def blobs_at(home: Path, bucket: str | None) -> Blobs:
    """The blobs of a collection: in its folder, or in a bucket by its address."""
    if bucket is None:
        return FolderBlobs(home / "blobs")
    from index.truth.bucket import BucketBlobs  # its client is an extra

    return BucketBlobs(home, bucket)
