"""What is particular to a store that many processes write: no gaps, and a server that goes away."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from sqlalchemy import text

from index.collection import Collection
from index.contracts import CollectionLocation
from index.maintenance.compact import compact_collection
from index.maintenance.restore import restore_snapshot
from index.store import postgres
from index.store.database import StoreError
from index.store.postgres import CONNECTIONS, Postgres, StoreBusyError, limit_connections, within
from index.store.store import Store
from multifold.errors import MultifoldError
from multifold.types import Item
from tests.index.processes import started
from tests.index.servers import BACKENDS, Server
from tests.index.shots import equal, furnish, held
from tests.index.spaces import SPACE
from tests.index.things import answers, brute, feature, query, thing, view
from tests.waiting import PATIENCE, wait_for

WRITERS, CHANGES = 3, 9
LOG = text("SELECT sequence FROM changes ORDER BY sequence")


@pytest.fixture
def shared(place: str, tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path, SPACE, database=place) as opened:
        yield opened


def test_commits_are_durable_and_readers_write_nothing(place: str) -> None:
    with closing(Postgres(place)) as database:
        for transaction in (database.writing, database.reading):
            with transaction() as connection:
                assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        with pytest.raises(StoreError, match="read only"), database.reading() as connection:
            connection.exec_driver_sql("CREATE TABLE t (n int)")


def test_who_falls_asleep_in_the_middle_of_a_change_is_not_waited_for(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "ASLEEP", 1)
    with Collection.open(tmp_path, SPACE, database=place) as awake, closing(Postgres(place)) as sleeper:

        def change() -> None:
            with sleeper.writing() as connection:
                assert awake.upsert([thing("a", np.random.default_rng(0))]) == 1  # waits, and then need not
                connection.exec_driver_sql("SELECT 1")

        with pytest.raises(StoreError):
            change()
        assert awake.count() == 1


def test_replicas_see_what_others_write(shared: Collection, place: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path, SPACE, database=place) as other:
        items = [thing(name, rng) for name in "abc"]
        shared.upsert(items[:2])
        with pytest.raises(MultifoldError, match="4 numbers, not 2"):  # as long as the first ones
            other.upsert([Item("b", (view(0, feature(1)[:2]),))])
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


def test_many_processes_write_and_no_reader_meets_a_gap(place: str, tmp_path: Path) -> None:
    """Every number that a reader has seen stays the last word on all before it."""
    seen: list[tuple[int, list[int]]] = []
    done = threading.Event()

    def read() -> None:
        with closing(Store(place, "sphere", read_only=True)) as store:
            while not done.is_set():
                with store.moment() as now:
                    seen.append((store.version(), list(now.scalars(LOG))))

    Collection.open(tmp_path, SPACE, database=place).close()
    reader = threading.Thread(target=read)
    reader.start()
    children = [started("writer", tmp_path, place, n, CHANGES) for n in range(WRITERS)]
    told = [child.communicate(timeout=PATIENCE)[0].splitlines() for child in children]
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


def test_a_server_that_goes_away_is_told_once_and_named_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, rng = Server(), np.random.default_rng(0)
    try:
        place = server.place()
        with Collection.open(tmp_path, SPACE, database=place) as collection:
            collection.upsert([thing("a", rng)])
            server.stop()  # at once, as a crash would
            for use in (collection.count, lambda: collection.upsert([thing("b", rng)]), collection.ids):
                with pytest.raises(StoreError, match="Is the server there") as caught:
                    use()
                assert all(word not in str(caught.value) for word in (str(server.folder), "shop_", "us@"))
            assert len(caplog.messages) == 1
            assert str(server.folder) in caplog.text
            server.start()
            assert collection.ids() == ["a"]
            assert collection.upsert([thing("b", rng)]) == 2
            assert len(collection.search(query(feature(1)))) == 2
            assert caplog.messages[1:] == ["the database works again"]
        with pytest.raises(StoreError) as caught:
            Collection.open(tmp_path, SPACE, database=place.replace("us@", "nobody_here@"))
        assert "nobody_here" not in str(caught.value)
    finally:
        server.remove()


def test_a_snapshot_moves_a_collection_to_one_machine(shared: Collection, tmp_path: Path) -> None:
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
        assert compact_collection(CollectionLocation(tmp_path, place), kept=2).changes > 10
        assert len(reader.search(query(feature(1), target="text", limit=50))) == 20


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("postgresql://us:secret@/x?host=/nowhere", "Is the server there"),
        ("mysql://us:secret@localhost/x", "must be PostgreSQL"),
        ("nonsense", "no address of a database"),
    ],
)
def test_a_bad_address_is_refused_and_its_password_is_not_told(
    tmp_path: Path, address: str, reason: str
) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match=reason) as caught:
        Collection.open(tmp_path, SPACE, database=address)
    assert "secret" not in str(caught.value)


@pytest.fixture
def few_connections() -> Iterator[None]:
    limit_connections(4)
    yield
    limit_connections(CONNECTIONS)


@pytest.mark.usefixtures("few_connections")
def test_all_collections_share_few_connections(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread is in two transactions at once, and sees its own schema."""
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 60.0)
    places, seen = [server.place() for _ in range(8)], list[int]()
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(Store(place, "space"))) for place in places]

        def look(n: int) -> None:
            with stores[n].moment() as now:
                assert places[n].endswith(str(now.scalar(text("SELECT current_schema()"))))
                stores[n].note("n", lambda _: str(n))
                assert stores[n].noted("n") == str(n)
                seen.append(int(now.scalar(BACKENDS) or 0))

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(look, [*range(8)] * 6))
    assert max(seen) <= 4
    with closing(Store(server.place(), "last")) as last, last.moment() as now:
        assert now.scalar(BACKENDS) == 1


@pytest.mark.usefixtures("few_connections")
def test_who_waits_too_long_or_is_one_too_many_is_refused(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, both = threading.Event(), threading.Barrier(3, timeout=PATIENCE)

    def hold() -> None:
        with store.moment():
            both.wait()
            wait_for(go, "the others")

    with closing(Store(place, "space")) as store, ThreadPoolExecutor(2) as threads:
        holding = [threads.submit(hold) for _ in range(2)]
        both.wait()
        for name, value, said in (
            ("WAIT_SECONDS", 0.2, "All 4 connections"),
            ("MOST_WAITING", 0, "try again"),
        ):
            monkeypatch.setattr(postgres, name, value)
            with pytest.raises(StoreBusyError, match=said):
                store.version()
            monkeypatch.setattr(postgres, "WAIT_SECONDS", 60.0)
        go.set()
        for one in holding:
            one.result()
        assert store.version() == 0


def test_the_search_path_of_an_address(server: Server) -> None:
    bare = server.place().partition("&options")[0]
    for schema in ("one", "two"):
        server.query(f"CREATE SCHEMA {schema}")
    for given in ("-csearch_path=one", "-c search_path=one", "-cwork_mem=8MB -csearch_path=one"):
        address = f"{bare}&options={quote(given)}"
        for wanted, named in (("one", address), ("two", within(address, "two"))):
            with closing(Postgres(named)) as database, database.reading() as connection:
                memory = "8MB" if "8MB" in given else "4MB"
                assert connection.exec_driver_sql("SHOW work_mem").scalar() == memory
                assert connection.exec_driver_sql("SELECT current_schema()").scalar() == wanted
    with closing(Postgres(server.place())), closing(Postgres(bare)) as database, database.reading() as now:
        assert now.exec_driver_sql("SHOW search_path").scalar() == '"$user", public'
