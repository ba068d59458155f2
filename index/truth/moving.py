"""Pictures from one place to another, many at once; what is there already is not sent again."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from index.truth.blobs import Blobs, DamagedBlobError

AT_ONCE = 16


def move_blobs(
    keys: Sequence[str], source: Blobs, target: Blobs, told: Callable[[int], object] = lambda _: None
) -> list[str]:
    """Copy blobs; returns those that are missing or damaged in the source. A place that fails ends it."""

    def copied(key: str) -> str | None:
        if not target.exists(key):
            try:
                data = source.get(key)
            except DamagedBlobError:
                return key
            target.write(key, data)
        told(1)
        return None

    with ThreadPoolExecutor(AT_ONCE) as movers:
        return [key for key in movers.map(copied, keys) if key is not None]
