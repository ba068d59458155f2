"""`multifold index` keeps a collection: it is looked at, checked, compacted, and copied by snapshots."""

from pathlib import Path

from index.collection import Collection
from index.contracts import CollectionLocation
from tests.index.commands.shell import VECTORS, Shell, embeddings
from tests.index.servers import Server
from tests.index.shots import equal, furnish, held
from tests.index.spaces import SPACE


def test_it_is_looked_at_checked_and_kept(either: Shell, server: Server, tmp_path: Path) -> None:
    ids = [f"thing {n % 600}" for n in range(900)]
    assert either(*embeddings(tmp_path, VECTORS, ids), "--metric", "cosine") == 0
    told = either.stats()
    assert (told["items"], told["version"], told["log"]) == (600, 600, 600)
    assert told["bytes"]["store"] > VECTORS.nbytes
    assert either("verify") == 0
    assert "all is well" in either.out
    assert either("build", "--type", "exact") == 0
    assert either("stats") == 0
    assert "exact, recall 0.99" in either.out
    assert ("any service" in either.out) == (either.place.database is not None)  # may write
    assert either("compact", "--keep-changes", 10) == 0
    assert "590 changes and 0 pictures removed" in either.out
    assert ("pictures of a shared store stay" in either.out) == (either.place.database is not None)
    assert either.stats()["log"] == 10
    assert either("remove", "thing 3", "nobody") == 0
    assert either("snapshot", tmp_path / "x.tar") == 0
    assert "599 items" in either.out
    database = server.place() if either.place.database else None
    copy = either.beside(CollectionLocation(tmp_path / "copy", database))
    assert copy("restore", tmp_path / "x.tar") == 0
    assert database is None or list((tmp_path / "copy").iterdir()) == []
    assert copy.stats()["items"] == 599
    assert copy("verify") == 0
    assert copy("restore", tmp_path / "x.tar") == 2
    assert ("holds a collection already" if database else "is not empty") in copy.err


def test_pictures_are_restored_beside_the_database(shared: Shell, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "one", SPACE) as collection:
        furnish(collection)
        collection.snapshot(tmp_path / "x.tar")
        items = held(collection)
    assert shared("restore", tmp_path / "x.tar") == 0
    with shared.opened(SPACE) as restored:
        assert equal(held(restored), items)
        keys = {one.blob for item in items.values() for one in item.observations if one.blob}
        assert all(restored.blobs.get(key) for key in keys)
