"""`multifold index` on a shared store: every command works there too, or says why it does not."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from index import embedding_files
from index.collection import Collection
from index.contracts import CollectionLocation
from index.embedding_files import read_embeddings
from index.plain_space import PlainSpace
from index.search.query import Query
from index.store.store import Store
from multifold.cli import main
from multifold.types import Item
from tests import tiny
from tests.index.servers import Server
from tests.index.shots import equal, furnish, held
from tests.index.spaces import SPACE

DIM, ROWS = 8, 900
VECTORS = np.random.default_rng(0).standard_normal((ROWS, DIM)).astype(np.float32)


class SharedShell:
    """Runs `multifold index` on a database, from a folder that may be empty."""

    def __init__(self, place: CollectionLocation, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self._capsys = place, capsys
        self.out = self.err = ""

    def __call__(self, *words: object) -> int:
        place = ["--data", str(self.place.folder), "--database", str(self.place.database)]
        status = main(["index", *map(str, words), *place])
        self.out, self.err = self._capsys.readouterr()
        return status


@pytest.fixture
def shell(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> SharedShell:
    return SharedShell(CollectionLocation(tmp_path / "data", server.place()), capsys)


@pytest.fixture
def order(tmp_path: Path) -> list[object]:
    """What imports 900 rows of 600 items."""
    np.save(tmp_path / "vectors.npy", VECTORS)
    lines = [{"id": f"thing {n % 600}", "meta": {"n": n % 600, "quote": 'a\t"b\\'}} for n in range(ROWS)]
    (tmp_path / "ids.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return ["import", tmp_path / "vectors.npy", "--ids", tmp_path / "ids.jsonl", "--metric", "cosine"]


def test_an_import_fills_the_database_and_no_folder(shell: SharedShell, order: list[object]) -> None:
    assert shell(*order) == 0
    assert "600 items" in shell.out
    assert "into the database" in shell.out
    assert not (shell.place.folder / "store.sqlite").exists()
    space = PlainSpace("cosine", DIM)
    with Collection.open(shell.place.folder, space, database=shell.place.database) as collection:
        item = collection.get("thing 7")
        assert item is not None
        assert item.payload == {"n": 7, "quote": 'a\t"b\\'}
        assert [one.index for one in item.observations] == [0, 1]
        assert np.array_equal(item.observations[1].feature, VECTORS[607])
        (hit,) = collection.search(Query(VECTORS[3], "image", 1, "max"))
        assert hit.id == "thing 3"
        assert collection.disagreements() == []


def test_an_import_goes_on_where_it_was_stopped(
    shell: SharedShell, order: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_files, "ITEMS", 256)
    upsert, calls = Store.upsert, iter(range(2))

    def stopped(self: Store, new: list[Item]) -> int:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return upsert(self, new)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "upsert", stopped)
        assert shell(*order) == 130
    assert shell(*order) == 0
    assert "88 items written" in shell.out
    assert "600 items, version 600" in shell.out
    assert shell(*order) == 0
    assert "0 items written" in shell.out
    assert "version 600" in shell.out


def test_it_is_looked_at_checked_and_kept(
    shell: SharedShell, order: list[object], server: Server, tmp_path: Path
) -> None:
    assert shell(*order) == 0
    assert shell("stats", "--json") == 0
    told = json.loads(shell.out)
    assert (told["items"], told["version"], told["log"]) == (600, 600, 600)
    assert told["bytes"]["store"] > VECTORS.nbytes
    assert shell("verify") == 0
    assert "all is well" in shell.out
    assert shell("build", "--type", "exact") == 0
    assert shell("stats") == 0
    assert "exact, recall 0.99" in shell.out
    assert shell("compact", "--keep-changes", 10) == 0
    assert "590 changes and 0 pictures removed" in shell.out
    assert "pictures of a shared store stay" in shell.out
    assert shell("stats", "--json") == 0
    assert json.loads(shell.out)["log"] == 10
    assert shell("remove", "thing 3", "nobody") == 0
    assert shell("snapshot", tmp_path / "x.tar") == 0
    assert "599 items" in shell.out
    copy = SharedShell(CollectionLocation(tmp_path / "copy", server.place()), shell._capsys)
    assert copy("restore", tmp_path / "x.tar") == 0
    assert list((tmp_path / "copy").iterdir()) == []
    assert copy("verify") == 0
    assert copy("restore", tmp_path / "x.tar") == 2
    assert "holds a collection already" in copy.err


def test_pictures_are_restored_beside_the_database(shell: SharedShell, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "one", SPACE) as collection:
        furnish(collection)
        collection.snapshot(tmp_path / "x.tar")
        items = held(collection)
    assert shell("restore", tmp_path / "x.tar") == 0
    with Collection.open(shell.place.folder, SPACE, database=shell.place.database) as restored:
        assert equal(held(restored), items)
        keys = {one.blob for item in items.values() for one in item.observations if one.blob}
        assert all(restored.blobs.get(key) for key in keys)


def test_single_items_come_and_go(shell: SharedShell, tmp_path: Path) -> None:
    bundle = ["--bundle", str(tiny.build(tmp_path / "tiny").folder)]
    assert shell("add", "box", "--text", "a red box", *bundle) == 0
    assert shell("stats") == 0
    assert "items    1" in shell.out
    assert "writer   any service" in shell.out
    assert shell("remove", "box", *bundle) == 0


def test_nowhere_there_is_nothing(shell: SharedShell) -> None:
    for words in (["stats"], ["verify"], ["compact"], ["build"], ["remove", "x"], ["snapshot", "x.tar"]):
        assert shell(*words) == 2
        assert "There is no collection in the database" in shell.err
        assert "postgresql" not in shell.err


def test_the_environment_names_the_database_and_an_argument_the_folder(
    shell: SharedShell, order: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTIFOLD_DATABASE", str(shell.place.database))
    home = ["--data", str(shell.place.folder)]
    assert main(["index", *map(str, order), *home]) == 0
    assert main(["index", "stats", *home]) == 0
    assert main(["index", "stats", *home, "--database", ""]) == 2


def test_rows_that_wait_take_no_memory(tmp_path: Path) -> None:
    count = 20_000
    np.save(tmp_path / "many.npy", np.zeros((count, 2), np.float32))
    (tmp_path / "ids.txt").write_text("".join(f"thing {n // 2}\n" for n in range(count)))
    tracemalloc.start()
    try:
        embeddings = read_embeddings(tmp_path / "many.npy", tmp_path / "ids.txt", "image", None)
        found = sum(len(items) for items in embeddings.items())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    embeddings.close()
    assert found == count // 2
    assert peak < 4e6
