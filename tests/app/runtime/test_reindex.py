"""Another index of the same items, built while they are searched and written."""

import threading
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import IndexPlan
from multifold.client import Client
from multifold.types import Item, Observation
from tests.app.answers import refused
from tests.app.house import house
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import answers, feature, query, thing

COUNT = 500


def test_a_job_builds_another_index(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as shop, Client(shop.url) as client:
        encoder, rng = shop.service.encoder, np.random.default_rng(0)
        seen = rng.standard_normal((COUNT, encoder.bundle.geometry.feature_dim)).astype(np.float32)
        views = [(Observation("view", 0, one, blob="0" * 64 + ".webp"),) for one in seen]
        shop.service.collection.upsert([Item(f"{n}", views[n]) for n in range(COUNT)])
        before = [hit.id for hit in client.search(text="a red box", exact=True).hits]
        done = client.wait(client.reindex("main", index="IVF16,Flat", recall=0.9).id, 0.05)
        assert (done.state, done.done, done.total, done.errors) == ("done", COUNT, COUNT, ())
        assert set(done.result["sealed"]) == {"shape pooled", "shape observation"}
        shown = shop.client.get("/v1/collections/main").json()["index"]
        assert (shown["type"], shown["recall"]) == ("IVF16,Flat", 0.9)
        assert [hit.id for hit in client.search(text="a red box", exact=True).hits] == before
        refused(shop.client.post("/v1/collections/main/reindex", json={"type": "IVF"}), 422, "bad_index")
        refused(shop.client.post("/v1/collections/none/reindex", json={}), 404, "no_such_collection")
    with Collection.open(shop.service.home, encoder, read_only=True) as kept:
        assert kept.plan.type == "IVF16,Flat"


def test_nothing_is_lost_or_missed_while_an_index_is_built(tmp_path: Path) -> None:
    rng, stop, failed = np.random.default_rng(1), threading.Event(), list[str]()
    with Collection.open(tmp_path, Sphere(FEATURE), plan=IndexPlan(type="exact")) as collection:
        collection.upsert([thing(f"{n}", rng) for n in range(300)])

        def ask() -> None:
            while not stop.is_set():
                if len(collection.search(query(feature(1), limit=10))) != 10:
                    failed.append("a search found too little")

        def write() -> None:
            collection.upsert([thing("late", rng)])
            collection.delete(["0"])

        def meanwhile(_: int) -> None:
            writing = threading.Thread(target=write)
            writing.start()
            writing.join()

        def call_off(_: int) -> None:
            raise InterruptedError

        with pytest.raises(InterruptedError):
            collection.reindex(IndexPlan(recall=0.5), call_off)
        assert collection.plan.type == "exact"
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            reports = collection.reindex(IndexPlan(type="HNSW16,Flat", recall=0.9, seal_at=256), meanwhile)
        finally:
            stop.set()
            asking.join()
        assert not failed
        assert any("HNSW16" in str(one) for found in reports.values() for one in found)
        assert collection.plan.type == "HNSW16,Flat"
        assert collection.disagreements() == []
        found = collection.search(query(feature(1), limit=700))
        assert len(found) == collection.count() == 300
        assert "0" not in {hit.id for hit in found}
        assert answers(found)[:10] == answers(collection.search(query(feature(1), exact=True)))
