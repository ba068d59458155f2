"""Blobs in a folder."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from index.blobs import KEY, BlobError, Blobs, DamagedBlobError, checked
from multifold import durable
from multifold.durable import make_folder, sync_folder


class FolderBlobs(Blobs):
    """One file a blob, in subfolders by the first two digits."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder.parent

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
        """What the file holds."""
        try:
            return self.path(key).read_bytes()
        except FileNotFoundError:
            raise DamagedBlobError(f"no blob {key}") from None

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        return self.path(key).is_file()

    def path(self, key: str) -> Path:
        """Where a blob lies, or would lie; never outside the folder."""
        return self.folder / checked(key)[:2] / key

    def file(self, key: str) -> Path | None:
        """Its own."""
        return path if (path := self.path(key)).is_file() else None

    def all(self) -> Iterator[str]:
        """The names of the files."""
        for path in self.folder.glob("*/*"):
            if KEY.fullmatch(path.name):
                yield path.name

    def remove(self, keys: Iterable[str]) -> None:
        """Unlink files."""
        for key in keys:
            self.path(key).unlink(missing_ok=True)

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
    from index.bucket import BucketBlobs  # its client is an extra

    return BucketBlobs(home, bucket)
