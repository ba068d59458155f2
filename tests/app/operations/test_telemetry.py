"""The metrics of a service: their names and labels are a contract, and they count what happens."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.operations.telemetry import SECOND_BUCKETS, SIZE_BUCKETS, rate_match
from multifold.types import Hit, Observation
from tests.app.house import House, house
from tests.index.things import feature
from tests.waiting import until

METRICS = {  # the kind and the labels of each
    "multifold_answers": ("counter", {"collection", "match"}),
    "multifold_answers_unlike": ("counter", {"collection"}),
    "multifold_batch_size": ("histogram", {"work"}),
    "multifold_cache_requests": ("counter", {"result"}),
    "multifold_cache_size": ("gauge", set()),
    "multifold_cpu_seconds": ("counter", set()),
    "multifold_damaged_observations": ("gauge", {"collection"}),
    "multifold_disk_bytes": ("gauge", set()),
    "multifold_disk_free_bytes": ("gauge", set()),
    "multifold_feedback": ("counter", {"collection", "verdict"}),
    "multifold_index_bytes": ("gauge", {"collection", "side", "kind"}),
    "multifold_index_disk_read_bytes": ("counter", {"collection", "side", "kind"}),
    "multifold_index_file_bytes": ("gauge", {"collection", "side", "kind"}),
    "multifold_index_reads": ("counter", {"collection", "side", "kind"}),
    "multifold_index_recall": ("gauge", {"collection", "side", "kind"}),
    "multifold_index_rows": ("gauge", {"collection", "side", "kind"}),
    "multifold_index_rows_read": ("counter", {"collection", "side", "kind"}),
    "multifold_index_sealed_rows": ("gauge", {"collection", "side", "kind"}),
    "multifold_index_served_answers": ("gauge", {"collection", "side", "kind"}),
    "multifold_index_served_recall": ("gauge", {"collection", "side", "kind"}),
    "multifold_index_unlike_queries": ("counter", {"collection", "side", "kind"}),
    "multifold_info": ("gauge", {"collection", "version", "bundle", "vector_id"}),
    "multifold_items": ("gauge", {"collection"}),
    "multifold_key_requests": ("counter", {"key"}),
    "multifold_key_work_seconds": ("counter", {"key", "work"}),
    "multifold_observations": ("gauge", {"collection", "kind"}),
    "multifold_behind_seconds": ("gauge", {"collection"}),
    "multifold_probe_recall": ("gauge", {"collection"}),
    "multifold_probe_sound": ("gauge", {"collection"}),
    "multifold_probe_time_seconds": ("gauge", {"collection"}),
    "multifold_queue_room": ("gauge", set()),
    "multifold_queue_waiting": ("gauge", {"work"}),
    "multifold_repaired_observations": ("gauge", {"collection"}),
    "multifold_request_seconds": ("histogram", {"route"}),
    "multifold_requests": ("counter", {"method", "route", "status"}),
    "multifold_resident_bytes": ("gauge", set()),
    "multifold_version": ("gauge", {"collection"}),
    "multifold_wait_seconds": ("histogram", {"work"}),
    "multifold_work_seconds": ("histogram", {"work"}),
}


class Scrape:
    """All metrics of a service at one moment."""

    def __init__(self, shop: House) -> None:
        response = shop.client.get("/metrics")
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        self.families = {family.name: family for family in text_string_to_metric_families(response.text)}

    def __call__(self, name: str, **labels: str) -> float | None:
        """The value of one series; None if there is none."""
        samples = (sample for family in self.families.values() for sample in family.samples)
        return next((one.value for one in samples if (one.name, one.labels) == (name, labels)), None)

    def count(self, name: str, **labels: str) -> float:
        return self(name, **labels) or 0.0

    def labels(self, family: str) -> list[set[str]]:
        return [{*sample.labels} - {"le"} for sample in self.families[family].samples]

    def buckets(self, family: str) -> set[float]:
        return {float(one.labels["le"]) for one in self.families[family].samples if "le" in one.labels}


def test_names_labels_and_buckets(shop: House) -> None:
    shop.search(text="a red box")
    shop.settle()
    scrape = Scrape(shop)
    assert {name: family.type for name, family in scrape.families.items()} == {
        name: kind for name, (kind, _) in METRICS.items()
    }
    for name, (_, labels) in METRICS.items():
        assert all(of_sample == labels for of_sample in scrape.labels(name)), name
    assert scrape.buckets("multifold_request_seconds") == {*SECOND_BUCKETS, float("inf")}
    assert scrape.buckets("multifold_batch_size") == {*SIZE_BUCKETS, float("inf")}


def test_requests_batches_cache_and_collection_are_counted(shop: House) -> None:
    shop.search(text="a box nobody asked for before")
    shop.settle()
    before = Scrape(shop)
    shop.search(text="a box nobody asked for before")
    shop.search(text="")
    shop.settle()
    after = Scrape(shop)
    for status in ("200", "422"):
        labels = {"method": "POST", "route": "/v1/search", "status": status}
        assert after("multifold_requests_total", **labels) == 1 + before.count(
            "multifold_requests_total", **labels
        )
    hits = before.count("multifold_cache_requests_total", result="hit")
    assert after("multifold_cache_requests_total", result="hit") == hits + 1
    assert after("multifold_items", collection="main") == 4
    assert after("multifold_version", collection="main") == shop.service.collection.version
    for work in ("text", "image", "search", "draw", "decode", "items", "make", "write"):
        assert after("multifold_queue_waiting", work=work) is not None
    assert after.count("multifold_work_seconds_count", work="text") >= 1
    assert after.count("multifold_batch_size_bucket", work="search", le="+Inf") >= 2
    assert after.count("multifold_resident_bytes") > 1e7
    shapes = {"collection": "main", "side": "shape", "kind": "pooled"}
    assert after("multifold_index_rows", **shapes) == 4
    assert after("multifold_index_sealed_rows", **shapes) == 0
    assert after("multifold_index_recall", **shapes) == 1
    matches = {"collection": "main", "match": "poorly"}
    assert (
        after.count("multifold_answers_total", **matches)
        == before.count("multifold_answers_total", **matches) + 1
    )


def test_a_named_collection_is_counted_under_its_route(shop: House) -> None:
    before = Scrape(shop)
    for path in ("main/info", "nothing/info", "main/items/none", "nothing/nowhere"):
        shop.client.get(f"/v1/collections/{path}")
    shop.client.get("/nowhere")  # unknown addresses and methods make no new labels
    shop.client.request("X1", "/v1/search")
    shop.settle()
    after = Scrape(shop)

    def more(route: str, status: str) -> float:
        labels = {"method": "GET", "route": f"/v1/collections/{{collection}}/{route}", "status": status}
        counts = [scrape.count("multifold_requests_total", **labels) for scrape in (after, before)]
        return counts[0] - counts[1]

    assert more("info", "200") == 1
    assert more("info", "404") == 1
    assert more("items/{item_id:path}", "404") == 1
    text = shop.client.get("/metrics").text
    assert "nowhere" not in text
    assert 'method="X' not in text


def test_probes_are_shown(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, probe_interval=0.1) as shop:
        shop.put("red-box", "red")
        for name in ("multifold_probe_recall", "multifold_probe_sound"):
            until(lambda name=name: Scrape(shop)(name, collection="main") == 1, what=name)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("confidences", "rating"),
    [
        ([], "nothing"),
        ([None], "unknown"),
        ([0.1, 0.4], "poorly"),
        ([0.1, 0.5], "well"),
        ([None, 0.9], "well"),
    ],
)
def test_answers_are_rated_by_their_best_hit(confidences: list[float | None], rating: str) -> None:
    hits = [Hit("a", 1.0, "shape", Observation("view", 0, feature(1)), {}, one) for one in confidences]
    assert rate_match(hits) == rating
