"""Answers of a service as dataclasses, also those of a newer one."""

from typing import Any

from multifold.wire.items import ObservationInfo
from multifold.wire.reading import read_json
from multifold.wire.search import SearchAnswer, SearchHit, SearchTimings

VIEW = {"kind": "view", "index": 3, "url": "/v1/items/chair-1/views/3?v=ab", "text": None}
HIT: dict[str, Any] = {
    "id": "chair-1",
    "score": 1,
    "modality": "shape",
    "matched": VIEW,
    "payload": {"kind": "chair"},
}
ANSWER: dict[str, Any] = {
    "hits": [HIT],
    "took_ms": {"encode": 5, "search": 0.5, "total": 5.5},
    "version": 12,
    "bundle": "furniture",
    "warnings": ["text was cut at 32 tokens"],
}


def test_an_answer_comes_back_typed() -> None:
    found = read_json(SearchAnswer, ANSWER)
    view = ObservationInfo("view", 3, "/v1/items/chair-1/views/3?v=ab")
    assert found.hits == (
        SearchHit(id="chair-1", score=1.0, modality="shape", matched=view, payload={"kind": "chair"}),
    )
    assert isinstance(found.hits[0].score, float)
    assert found.took_ms == SearchTimings(5.0, 0.5, 5.5)
    assert (found.version, found.warnings, found.next) == (12, ("text was cut at 32 tokens",), None)


def test_fields_of_a_newer_service_are_ignored() -> None:
    newer = {**ANSWER, "more": 1, "hits": [{**HIT, "more": 2, "matched": {**VIEW, "more": 3}}]}
    assert read_json(SearchAnswer, newer) == read_json(SearchAnswer, ANSWER)
