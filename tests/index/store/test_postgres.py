"""What is particular to a store that many processes write: no gaps, and a server that goes away."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from sqlalchemy import text

from index.collection import Collection
from index.maintenance.restore import restore_snapshot
from index.store import postgres
from index.store.database import StoreError
from index.store.postgres import Postgres, StoreBusyError, within
from index.store.store import Store
from multifold.cli import main
from multifold.errors import MultifoldError
from multifold.types import Item
from tests.index.servers import BACKENDS, Server
from tests.index.shots import SPACE, equal, furnish, held
from tests.index.things import answers, brute, feature, query, thing, view
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
WRITERS, CHANGES = 3, 12
LOG = text("SELECT sequence FROM changes ORDER BY sequence")


@pytest.fixture
def place(server: Server) -> str:
    return server.place()


@pytest.fixture
def shared(place: str, tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path, SPACE, database=place) as opened:
        yield opened


def test_commits_are_durable(place: str) -> None:
    database = Postgres(place)
    for transaction in (database.writing, database.reading):
        with transaction() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    with (
        database.reading() as connection,
        pytest.raises(StoreError, match="read only"),
        database._errors("reading"),
    ):
        connection.exec_driver_sql("CREATE TABLE t (n int)")
    database.close()


def test_who_falls_asleep_in_the_middle_of_a_change_is_not_waited_for(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "ASLEEP", 1)
    with Collection.open(tmp_path, SPACE, database=place) as awake:
        sleeper = Postgres(place)

        def change() -> None:
            with sleeper.writing() as connection:
                assert awake.upsert([thing("a", np.random.default_rng(0))]) == 1  # waits, and then need not
                connection.exec_driver_sql("SELECT 1")

        with pytest.raises(StoreError):
            change()
        sleeper.close()
        assert awake.count() == 1


def test_replicas_see_what_others_write(shared: Collection, place: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path, SPACE, database=place) as other:
        items = [thing(name, rng) for name in "abc"]
        shared.upsert(items[:2])
        assert other.upsert(items[2:]) == 3
        assert other.delete(["a"]) == 1
        asked = query(feature(1))
        for collection in (shared, other):
            assert answers(collection.search(asked)) == brute(items[1:], SPACE, asked)
        assert shared.upsert([items[0]]) == 5
        assert [hit.id for hit in other.search(asked)] == [hit.id for hit in shared.search(asked)]


def test_replicas_that_do_not_share_their_pictures_are_refused(place: str, tmp_path: Path) -> None:
    pytest.importorskip("boto3", reason="boto3 is not installed (extra 'bucket')")
    with Collection.open(tmp_path / "one", SPACE, database=place) as one:
        one.upsert([thing("a", np.random.default_rng(0))])
        for read_only in (False, True):
            with pytest.raises(StoreError, match=r"not in .*two, but in a folder whose file folder\.id"):
                Collection.open(tmp_path / "two", SPACE, database=place, read_only=read_only)
        (tmp_path / "mounted").symlink_to(tmp_path / "one")
        Collection.open(tmp_path / "mounted", SPACE, database=place).close()
    Collection.open(tmp_path / "two", SPACE, database=place, bucket="s3://shop/things").close()
    with pytest.raises(StoreError, match="are in a bucket"):
        Collection.open(tmp_path / "one", SPACE, database=place)


def test_the_first_items_settle_the_length_for_all(shared: Collection, place: str, tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE, database=place) as other:
        shared.upsert([thing("a", np.random.default_rng(0))])
        with pytest.raises(MultifoldError, match="4 numbers, not 2"):
            other.upsert([Item("b", (view(0, feature(1)[:2]),))])
        assert other.ids() == ["a"]


def test_many_processes_write_and_no_reader_meets_a_gap(place: str, tmp_path: Path) -> None:
    """Every number that a reader has seen stays the last word on all before it."""
    seen: list[tuple[int, list[int]]] = []
    done = threading.Event()

    def read() -> None:
        store = Store(place, "sphere", read_only=True)
        while not done.is_set():
            with store.moment() as now:
                seen.append((store.version(), list(now.scalars(LOG))))
        store.close()

    Collection.open(tmp_path, SPACE, database=place).close()
    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-m", "tests.index.writer", str(tmp_path), place]
    children = [
        subprocess.Popen([*command, str(n), str(CHANGES)], stdout=subprocess.PIPE, cwd=ROOT)
        for n in range(WRITERS)
    ]
    told = [child.communicate(timeout=PATIENCE)[0].split(b"\n")[:-1] for child in children]
    done.set()
    reader.join()
    assert [child.returncode for child in children] == [0] * WRITERS
    assert [len(lines) for lines in told] == [CHANGES] * WRITERS
    assert len({version for version, _ in seen}) > WRITERS
    for version, numbers in seen:
        assert numbers == list(range(1, version + 1))
    with Collection.open(tmp_path, SPACE, database=place) as collection:
        items = held(collection)
        assert {name for name in items if name.startswith("own")} == {
            f"own {n} {k}" for n in range(WRITERS) for k in range(CHANGES) if k % 3 != 1
        }
        found = {hit.id for hit in collection.search(query(feature(1), limit=1000))}
        assert found == set(items)


def test_a_server_that_goes_away_comes_back(tmp_path: Path) -> None:
    server = Server()
    try:
        rng = np.random.default_rng(0)
        with Collection.open(tmp_path, SPACE, database=server.place()) as collection:
            collection.upsert([thing("a", rng)])
            server.stop()  # at once, as a crash would
            with pytest.raises(StoreError, match="Is the server there"):
                collection.count()
            with pytest.raises(StoreError, match="Is the server there"):
                collection.upsert([thing("b", rng)])
            server.start()
            assert collection.ids() == ["a"]
            assert collection.upsert([thing("b", rng)]) == 2
            assert len(collection.search(query(feature(1)))) == 2
    finally:
        server.remove()


def test_a_snapshot_moves_a_collection_to_one_machine(shared: Collection, place: str, tmp_path: Path) -> None:
    furnish(shared)
    shared.snapshot(tmp_path / "x.tar")
    restore_snapshot(tmp_path / "x.tar", tmp_path / "copy")
    with Collection.open(tmp_path / "copy", SPACE) as restored:
        assert equal(held(restored), held(shared))
        assert restored.version == shared.version
        asked = query(feature(1), target="text", limit=50)
        assert answers(restored.search(asked)) == answers(shared.search(asked))


def test_the_log_is_pruned_here_too(shared: Collection, place: str, tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE, read_only=True, database=place) as reader:
        furnish(shared)
        shared._store.prune(2)
        shared._store.vacuum()
        assert shared._store.unsound() == []
        assert len(reader.search(query(feature(1), target="text", limit=50))) == 20


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("postgresql://us@/x?host=/nowhere", "Is the server there"),
        ("mysql://us@localhost/x", "must be PostgreSQL"),
        ("nonsense", "no address of a database"),
    ],
)
def test_a_bad_address_is_refused(tmp_path: Path, address: str, reason: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match=reason):
        Collection.open(tmp_path, SPACE, database=address)


def test_all_collections_share_few_connections(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread is in two transactions at once, and sees its own schema."""
    monkeypatch.setattr(postgres, "_limit", 6)
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 60.0)
    stores = [Store(server.place(), f"space {n}") for n in range(12)]
    seen: list[int] = []

    def look(n: int) -> None:
        with stores[n].moment() as now:
            assert now.scalar(text("SELECT current_schema()")) == stores[n]._database._path  # type: ignore[attr-defined]
            stores[n].note("n", lambda _: str(n))
            assert stores[n].noted("n") == str(n)
            seen.append(int(now.scalar(BACKENDS) or 0))

    with ThreadPoolExecutor(24) as threads:
        list(threads.map(look, [*range(12)] * 10))
    assert max(seen) <= 6
    for store in stores:
        store.close()
    with closing(Store(server.place(), "last")) as last, last.moment() as now:
        assert now.scalar(BACKENDS) == 1


def test_who_waits_too_long_or_is_one_too_many_is_refused(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_limit", 4)
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 0.2)
    with closing(Store(place, "space")) as store, ThreadPoolExecutor(1) as other:
        pool = store._database._pool  # type: ignore[attr-defined]
        with pool._turn(pool._free), pool._turn(pool._free):
            with pytest.raises(StoreBusyError, match="All 4 connections"):
                other.submit(store.version).result()
            monkeypatch.setattr(postgres, "WAIT_SECONDS", 60.0)
            monkeypatch.setattr(postgres, "MOST_WAITING", 0)
            with pytest.raises(StoreBusyError, match="try again"):
                other.submit(store.version).result()
        assert other.submit(store.version).result() == 0


def test_the_search_path_of_an_address(server: Server) -> None:
    bare = server.place().partition("&options")[0]
    for given in ("-csearch_path=one", "-c search_path=one", "-cwork_mem=8MB -csearch_path=one"):
        with closing(Postgres(f"{bare}&options={quote(given)}")) as database:
            assert database._path == "one"
            with database.reading() as connection:
                memory = "8MB" if "8MB" in given else "4MB"
                assert connection.exec_driver_sql("SHOW work_mem").scalar() == memory
        with closing(Postgres(within(f"{bare}&options={quote(given)}", "two"))) as database:
            assert database._path == "two"
    with closing(Postgres(server.place())), closing(Postgres(bare)) as database, database.reading() as now:
        assert now.exec_driver_sql("SHOW search_path").scalar() == '"$user", public'


def test_what_fails_is_logged_once_and_named_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    try:
        place = server.place()
        with Collection.open(tmp_path, SPACE, database=place) as collection:
            server.stop()
            for _ in range(3):
                with pytest.raises(StoreError) as caught:
                    collection.count()
                assert all(word not in str(caught.value) for word in (str(server.folder), "shop_", "us@"))
            assert len(caplog.messages) == 1
            assert str(server.folder) in caplog.text
            server.start()
            assert collection.count() == 0
            assert [message for message in caplog.messages if "again" in message] == [
                "the database works again"
            ]
        with pytest.raises(StoreError) as caught:
            Collection.open(tmp_path, SPACE, database=place.replace("us@", "nobody_here@"))
        assert "nobody_here" not in str(caught.value)
    finally:
        server.remove()


def test_no_password_is_errors(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as caught:
        Collection.open(tmp_path, SPACE, database="postgresql://us:secret@/x?host=/nowhere")
    assert "secret" not in str(caught.value)


def test_a_collection_moves_into_a_database(
    collection: Collection, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, version = held(collection), collection.version
    move = ["index", "migrate", "--data", str(tmp_path / "things"), "--database", place]
    assert main(move) == 2
    assert "is being written by" in capsys.readouterr().err
    collection.close()
    assert main(move) == 0
    with Collection.open(tmp_path / "things", SPACE, database=place) as moved:
        assert equal(held(moved), items)
        assert moved.version == version
        assert moved.upsert([thing("new", np.random.default_rng(0))]) == version + 1
        seen = items["chair"].observations[0]
        assert moved.blobs.get(str(seen.blob)) == b"a picture"
    assert main(move) == 2
    assert "holds a collection already" in capsys.readouterr().err
