"""Collections whose engines lie in a cluster: fed by one, searched as they are, derived anew when lost."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.cluster import cluster_engines, milvus_engine
from index.cluster.cluster_engines import LOGICAL_BITS, FeedMark, mark_from_note
from index.cluster.contracts import BehindError, ClusterError, MilvusAddress
from index.cluster.milvus_connection import MilvusConnection
from index.cluster.milvus_engine import MilvusEngine
from index.collection import Collection
from index.contracts import MILVUS, IndexPlan, IndexPlanError
from index.engine_set.engine_set import EngineSet
from index.maintenance.restore import restore_snapshot
from index.search import background
from index.store.filters import parse_filter
from index.store.metadata import FEED_MARK, last_change
from index.store.store import Store
from multifold.types import Item
from tests.index.clusters import embedded
from tests.index.filtering import FILTERS, PAYLOADS, lets_through
from tests.index.spaces import SPACE, SPACES, Space
from tests.index.things import answers, brute, feature, query, thing
from tests.waiting import PATIENCE, until, wait_for

HURRY = 0.3  # seconds that a write has, which may have to wait
ASKED = query(feature(1, 2, -1), limit=50)


@pytest.fixture
def cluster() -> MilvusAddress:
    return embedded().cluster


@pytest.fixture
def collection(tmp_path: Path, cluster: MilvusAddress) -> Iterator[Collection]:
    with Collection.open(tmp_path, SPACE, cluster=cluster) as opened:
        yield opened


Replicas = tuple[Collection, Collection]


@pytest.fixture
def replicas(place: str, tmp_path: Path, cluster: MilvusAddress) -> Iterator[Replicas]:
    """Two processes, as it were, that share a database."""
    with (
        Collection.open(tmp_path, SPACE, database=place, cluster=cluster) as one,
        Collection.open(tmp_path, SPACE, database=place, cluster=cluster) as other,
    ):
        yield one, other


def engines(collection: Collection) -> list[MilvusEngine]:
    return [one for one in collection.engines.engines.values() if isinstance(one, MilvusEngine)]


def wait_until_fed(*collections: Collection) -> None:
    """Until each sees what the store has, without a search that would feed the cluster itself."""
    for collection in collections:
        newest = collection.read(last_change)
        until(lambda: collection.reaches(newest), what="the cluster to be fed")  # noqa: B023 (asked at once)


def counts(collection: Collection) -> list[int]:
    """How many rows each engine has, those that ended included."""
    wait_until_fed(collection)
    for engine in engines(collection):
        engine.recount()
    return sorted(engine.count() for engine in engines(collection))


def things(count: int, seed: int = 0) -> list[Item]:
    rng = np.random.default_rng(seed)
    return [thing(f"item {n}", rng) for n in range(count)]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.vector_id)
def test_it_finds_what_a_plain_loop_finds(tmp_path: Path, cluster: MilvusAddress, space: Space) -> None:
    items = things(20)
    with Collection.open(tmp_path, space, cluster=cluster) as collection:
        collection.upsert(items)
        anew = things(6, seed=1)
        collection.upsert(anew)
        assert collection.delete(["item 7", "item 3"]) == 2
        living = [*items[6:7], *items[8:], *(one for one in anew if one.id != "item 3")]
        rng = np.random.default_rng(2)
        for pool in ("mean", "max"):
            for _ in range(3):
                asked = query(rng.standard_normal(space.dim), limit=30, pool=pool)
                assert answers(collection.search(asked)) == brute(living, space, asked)
                assert answers(collection.search(replace(asked, exact=True))) == brute(living, space, asked)
        chosen = parse_filter({"name": {"in": ["item 1", "item 3", "item 9"]}})
        assert {hit.id for hit in collection.search(replace(asked, where=chosen))} == {"item 1", "item 9"}
        assert collection.disagreements() == []


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads=st.lists(PAYLOADS, min_size=1, max_size=12), where=FILTERS)
def test_a_filter_that_milvus_is_asked_finds_what_it_lets_through(
    tmp_path_factory: pytest.TempPathFactory,
    cluster: MilvusAddress,
    monkeypatch: pytest.MonkeyPatch,
    payloads: list[dict[str, Any]],
    where: dict[str, Any],
) -> None:
    monkeypatch.setattr(milvus_engine, "FETCHED_ROWS", 0)  # rows that are fetched and compared here
    monkeypatch.setattr(milvus_engine, "LISTED", 0)
    monkeypatch.setattr(milvus_engine, "ROWS_FOR_AN_ALLOWED_ONE", 0)
    rng = np.random.default_rng(0)
    items = [replace(thing(f"i{n}", rng), payload=payload) for n, payload in enumerate(payloads)]
    with Collection.open(tmp_path_factory.mktemp("items"), SPACE, cluster=cluster) as collection:
        collection.upsert(items)
        wanted = [item for item in items if lets_through(where, item.payload)]
        for limit in (2, 50):
            asked = replace(ASKED, limit=limit)
            for exact in (False, True):
                found = collection.search(replace(asked, where=parse_filter(where), exact=exact))
                assert answers(found) == brute(wanted, SPACE, asked)
        collection.engines.discard()


def test_a_filter_is_asked_by_its_values(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_engine, "FETCHED_ROWS", 0)
    monkeypatch.setattr(milvus_engine, "LISTED", 0)
    items = [replace(item, payload={"n": n}) for n, item in enumerate(things(40))]
    collection.upsert(items)
    asked, search = list[str](), MilvusConnection.search

    def heard(link: MilvusConnection, *arguments: Any, **how: Any) -> Any:  # noqa: ANN401
        asked.append(how["filter"])
        return search(link, *arguments, **how)

    monkeypatch.setattr(MilvusConnection, "search", heard)
    found = collection.search(replace(ASKED, where=parse_filter({"n": {"in": [3, 5]}})))
    assert {hit.id for hit in found} == {"item 3", "item 5"}
    assert asked
    assert all("array_contains_any" in one and "row in" not in one for one in asked)
    asked.clear()
    assert len(collection.search(replace(ASKED, where=parse_filter({"n": {"gte": 10}})))) == 30
    assert asked[0] == ""  # most rows pass: those that do not are dropped


def test_what_is_fed_is_not_fed_again_but_with_other_fields(
    tmp_path: Path, cluster: MilvusAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(tmp_path, SPACE, cluster=cluster) as collection:
        collection.upsert(things(5))
        found = answers(collection.search(ASKED))
        former = {engine.name for engine in engines(collection)}
    with monkeypatch.context() as watched:
        watched.setattr(MilvusConnection, "put", lambda *_: pytest.fail("fed again"))
        for read_only in (False, True):
            with Collection.open(tmp_path, SPACE, cluster=cluster, read_only=read_only) as collection:
                assert answers(collection.search(ASKED)) == found
    with closing(Store(tmp_path / "store.sqlite", None)) as store:
        note = json.loads(store.noted(FEED_MARK) or "")
        del note["fields"]
        store.note(FEED_MARK, lambda _: json.dumps(note))
    with Collection.open(tmp_path, SPACE, cluster=cluster) as collection:
        assert len(collection.search(ASKED)) == 5
        assert not former & {engine.name for engine in engines(collection)}


def test_what_ended_is_dropped_at_once_and_removed_later(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_engines, "GRACE", 10 * PATIENCE)
    items = things(4)
    collection.upsert(items)
    wait_until_fed(collection)
    collection.upsert(items[:2])
    collection.delete(["item 3"])
    assert len(collection.search(ASKED)) == 3
    assert max(counts(collection)) > 2 * 3
    assert collection.disagreements() == []
    monkeypatch.setattr(cluster_engines, "GRACE", 0.0)
    monkeypatch.setattr(cluster_engines, "SWEEP_SECONDS", 0.0)
    collection.upsert(items[:1])
    assert counts(collection) == [3, 3, 3, 6]
    assert len(collection.search(ASKED)) == 3


def test_a_log_that_was_cut_short_hides_nothing_that_ended(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = things(4)
    collection.upsert(items)
    wait_until_fed(collection)
    collection.upsert(items[:2])
    wait_until_fed(collection)
    with closing(Store(tmp_path / "store.sqlite", None)) as store:
        store.prune(1)
    monkeypatch.setattr(cluster_engines, "GRACE", 0.0)
    monkeypatch.setattr(cluster_engines, "SWEEP_SECONDS", 0.0)
    collection.upsert(items[:1])
    assert set(counts(collection)) == {4, 8}
    assert collection.disagreements() == []


def test_rows_that_the_cluster_lost_are_derived_anew(collection: Collection) -> None:
    collection.upsert(things(5))
    found = answers(collection.search(ASKED))
    for engine in engines(collection):
        embedded().drop(engine.name)
    assert answers(collection.search(ASKED)) == found
    for engine in engines(collection):
        embedded().drop(engine.name)
    collection.upsert(things(1))
    assert len(collection.search(ASKED)) == 5


def test_replicas_share_what_one_of_them_fed(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    (one, other), items = replicas, things(6)
    one.upsert(items[:4])
    wait_until_fed(one, other)
    with monkeypatch.context() as watched:
        watched.setattr(MilvusConnection, "put", lambda *_: pytest.fail("fed twice"))
        assert answers(other.search(ASKED)) == brute(items[:4], SPACE, ASKED)
    other.upsert(items[4:])
    other.delete(["item 0"])
    assert answers(one.search(ASKED)) == brute(items[1:], SPACE, ASKED)
    monkeypatch.setattr(cluster_engines.ClusterEngineSet, "follow", lambda *_: None)  # as if it died
    one.upsert(items[:1])
    assert answers(other.search(ASKED)) == brute([*items[1:], items[0]], SPACE, ASKED)
    for engine in engines(one):
        embedded().drop(engine.name)
    for replica in (one, other):
        assert len(replica.search(ASKED)) == 6


def test_a_search_that_waits_for_the_cluster_keeps_no_other_waiting(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while another replica writes; each search sees a version of its own."""
    (one, other), items, query_rows = replicas, things(6), MilvusConnection.query
    first, entered, go_on = [True], threading.Event(), threading.Event()

    def held_up(*asked: Any, **how: Any) -> Any:  # noqa: ANN401
        if first:
            first.clear()
            entered.set()
            wait_for(go_on, "the other searches")
        return query_rows(*asked, **how)

    one.upsert(items[:4])
    monkeypatch.setattr(MilvusConnection, "query", held_up)  # so few rows are read at once
    with ThreadPoolExecutor(2) as threads:
        waits = threads.submit(other.search, ASKED)
        try:
            wait_for(entered, "the first search")
            for count in (5, 6):
                one.upsert(items[count - 1 : count])
                found = threads.submit(other.search, ASKED).result(PATIENCE)
                assert answers(found) == brute(items[:count], SPACE, ASKED)
        finally:
            go_on.set()
        assert answers(waits.result()) == brute(items[:4], SPACE, ASKED)


def test_a_search_that_is_not_strong_takes_what_is_there(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for nobody who feeds, drops what ended, and finds what is new once it is fed."""
    (one, other), items, bounded = replicas, things(6), replace(ASKED, strong=False)
    one.upsert(items[:4])
    wait_until_fed(one, other)
    with monkeypatch.context() as nobody_feeds:
        nobody_feeds.setattr(cluster_engines.ClusterEngineSet, "follow", lambda *_: None)
        one.upsert(items[4:])
        one.delete(["item 0"])
        one.upsert(items[1:2])
        assert answers(other.search(bounded)) == brute(items[2:4], SPACE, ASKED)
        assert not other.reaches(one.newest)
    wait_until_fed(one, other)
    assert answers(other.search(bounded)) == brute([*items[2:], items[1]], SPACE, ASKED)


def test_a_read_waits_for_what_it_has_to_see(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strong search names the last write that was fed; another one nothing younger than the staleness."""
    asked, put, query_rows, me = (
        list[int](),
        MilvusConnection.put,
        MilvusConnection.query,
        threading.get_ident(),
    )
    written = int(time.time() * 1000 + 1e6) << LOGICAL_BITS  # by the clock of the server

    def timed(link: MilvusConnection, name: str, rows: Sequence[Any]) -> int:
        put(link, name, rows)
        return written  # the embedded engine has no time

    def heard(
        link: MilvusConnection, name: str, where: str, fields: list[str], since: int, **how: int
    ) -> Any:  # noqa: ANN401
        if threading.get_ident() == me:
            asked.append(since)
        return query_rows(link, name, where, fields, 0, **how)

    monkeypatch.setattr(MilvusConnection, "put", timed)
    monkeypatch.setattr(MilvusConnection, "query", heard)
    collection.upsert(things(6))
    collection.search(ASKED)
    assert asked
    assert set(asked) == {written}
    asked.clear()
    before = time.time()
    collection.search(replace(ASKED, strong=False))
    assert asked
    assert all(since <= int((before + PATIENCE) * 1000) << LOGICAL_BITS < written for since in asked)


def test_what_ended_changes_no_answer(
    tmp_path: Path, cluster: MilvusAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items that were written often are asked for as after a restart, when all is read anew."""
    monkeypatch.setattr(background, "BACKGROUND_ITEMS", 6)
    asked = query(feature(1, 2, -1), limit=50, target="item")

    def evidence(collection: Collection) -> list[tuple[str, float]]:
        return [(hit.id, hit.evidence[0].value) for hit in collection.search(asked)]

    with Collection.open(tmp_path, SPACE, cluster=cluster) as collection:
        for seed in range(5):
            collection.upsert(things(3, seed))
            found = evidence(collection)
    with Collection.open(tmp_path, SPACE, cluster=cluster) as collection:
        assert evidence(collection) == found


def test_a_change_during_a_search_changes_no_later_answer(
    tmp_path: Path, cluster: MilvusAddress, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands for all others is of the moment of the search, and engines go on meanwhile."""
    asked, size, changes = query(feature(1, 2, -1), limit=50, target="item"), EngineSet.size, list[bool]()

    def evidence(collection: Collection) -> list[tuple[str, float]]:
        return [(hit.id, hit.evidence[0].value) for hit in collection.search(asked)]

    with Collection.open(tmp_path, SPACE, database=place, cluster=cluster) as collection:

        def overtaken(engines: EngineSet) -> int:
            if not changes:
                changes.append(True)
                with ThreadPoolExecutor(1) as threads:
                    threads.submit(collection.upsert, things(3, 1)).result(PATIENCE)
            return size(engines)

        collection.upsert(things(3))
        with monkeypatch.context() as slow:
            slow.setattr(EngineSet, "size", overtaken)
            collection.search(asked)
        found = evidence(collection)
    with Collection.open(tmp_path, SPACE, database=place, cluster=cluster) as collection:
        assert evidence(collection) == found


def test_a_search_is_of_the_newest_version_however_fast_another_replica_writes(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody feeds what is newer between the moment of a search and its own feeding."""
    (one, other), items, catch_up = replicas, things(6), cluster_engines.ClusterEngineSet.catch_up
    one.upsert(items)
    with ThreadPoolExecutor(1) as threads:
        writes: list[Future[int]] = []

        def hurried(self: cluster_engines.ClusterEngineSet) -> None:
            if self is other.engines:
                writes.append(threads.submit(one.upsert, items[:1]))
                wait(writes, HURRY)
            catch_up(self)

        monkeypatch.setattr(cluster_engines.ClusterEngineSet, "catch_up", hurried)
        found = other.search(ASKED)
    assert len(writes) == 1
    assert answers(found) == brute(items, SPACE, ASKED)


def test_one_who_wakes_up_late_takes_nothing_back() -> None:
    begun = FeedMark()
    late = replace(begun, fed=5, written=50, segments=(("shape", "pooled"),), whole=True)
    ahead = replace(begun, fed=9, written=90, segments=(("text", "pooled"),))
    both = [late.after(ahead), ahead.after(late)]
    assert both[0] == both[1]
    assert (both[0].fed, both[0].whole, both[0].written, len(both[0].segments)) == (9, False, 90, 2)
    assert mark_from_note(late.as_note()) == late.after(None) == late
    assert late.after(FeedMark()).place != begun.place
    assert mark_from_note(late.as_note().replace("shape", "together")) is None  # of an earlier version


def nobody_feeds(store: Store) -> bool:
    with store.alone("feed") as mine:
        return mine


def test_one_who_feeds_and_sleeps_is_not_waited_for(
    replicas: Replicas, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But by strong searches, which say so after a while."""
    with (
        Collection.open(tmp_path, SPACE, database=place) as writer,
        closing(Store(place, None, read_only=True)) as asleep,
    ):
        writer.upsert(things(2))
        wait_until_fed(*replicas)  # by one of them, so what is fed has its collections
        until(lambda: nobody_feeds(asleep))
        with asleep.alone("feed") as mine, monkeypatch.context() as hurried:
            assert mine
            hurried.setattr(cluster_engines, "STALLED", 0.2)
            writer.upsert(things(3))
            wait_until_fed(*replicas)
            assert len(replicas[0].search(replace(ASKED, strong=False))) == 3
            hurried.setattr(cluster_engines, "STRONG_SECONDS", 0.2)
            writer.upsert(things(4))
            with pytest.raises(BehindError, match="ask again"):
                replicas[0].search(ASKED)
    assert len(replicas[0].search(ASKED)) == 4


def nobody() -> MilvusAddress:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return MilvusAddress(f"http://127.0.0.1:{free.getsockname()[1]}", "secret", patience=1.0)


def test_a_cluster_that_is_away_is_told_and_keeps_nobody_from_writing(
    tmp_path: Path, cluster: MilvusAddress, caplog: pytest.LogCaptureFixture
) -> None:
    with Collection.open(tmp_path, SPACE, cluster=nobody()) as collection:
        assert collection.upsert(things(3)) == 3
        assert collection.count() == 3
        for strong in (True, False):
            with pytest.raises(ClusterError, match=r"does not answer.*Nothing is lost") as caught:
                collection.search(replace(ASKED, strong=strong))
            assert not any(word in str(caught.value) for word in ("secret", "127.0.0.1"))
        (logged,) = caplog.messages
        assert "127.0.0.1" in logged
        assert "secret" not in logged
        assert collection.delete(["item 0"]) == 1
    with Collection.open(tmp_path, SPACE, cluster=cluster) as collection:
        assert len(collection.search(ASKED)) == 2


def test_a_collection_that_asks_for_it_needs_to_know_where(tmp_path: Path, cluster: MilvusAddress) -> None:
    with Collection.open(tmp_path, SPACE, cluster=cluster) as collection:
        collection.ask_for(IndexPlan(MILVUS))
    with pytest.raises(IndexPlanError, match="MULTIFOLD_MILVUS"):
        Collection.open(tmp_path, SPACE)
    with Collection.open(tmp_path, SPACE, plan=IndexPlan("exact"), cluster=cluster) as collection:
        assert engines(collection) == []


def test_a_collection_asks_for_a_type_of_index_there(tmp_path: Path, cluster: MilvusAddress) -> None:
    with Collection.open(tmp_path, SPACE, plan=IndexPlan("milvus,IVF_SQ8"), cluster=cluster) as collection:
        collection.upsert(things(3))
        wait_until_fed(collection)
        assert {embedded().find(engine.name) for engine in engines(collection)} == {"IVF_SQ8"}
        assert len(collection.search(ASKED)) == 3
    with pytest.raises(IndexPlanError, match="IVF_SQ8, DISKANN"):
        IndexPlan("milvus,LSH")


def test_a_copy_does_not_feed_the_place_of_the_first(collection: Collection, tmp_path: Path) -> None:
    collection.upsert(things(3))
    collection.snapshot(tmp_path / "x.tar")
    restore_snapshot(tmp_path / "x.tar", tmp_path / "copy")
    with Collection.open(tmp_path / "copy", SPACE, cluster=embedded().cluster) as copy:
        copy.delete(["item 0"])
        assert len(copy.search(ASKED)) == 2
        assert {one.name for one in engines(copy)} & {one.name for one in engines(collection)} == set()
    assert len(collection.search(ASKED)) == 3


def test_a_collection_that_is_given_up_leaves_nothing(collection: Collection) -> None:
    collection.upsert(things(3))
    wait_until_fed(collection)
    names = [engine.name for engine in engines(collection)]
    assert names
    assert all(embedded().find(name) for name in names)
    collection.close(discard=True)
    assert not any(embedded().find(name) for name in names)
