"""Bodies as a service checks them: limits of fields, rules of combination, and sentences."""

import json
from typing import Any

import pytest

from multifold.errors import MultifoldError
from multifold.types import Examples
from multifold.wire import administration, insight, items, labels, search
from multifold.wire.administration import CollectionBody, IndexBody
from multifold.wire.files import UploadedFile
from multifold.wire.insight import ExplainBody, TraverseBody
from multifold.wire.items import ItemDeleteBody, ItemPatchBody, NewItem
from multifold.wire.labels import ClassifyBody, RerankBody, TagProposalBody
from multifold.wire.messages import Body, BodyError
from multifold.wire.search import BatchSearchBody, EmbeddingsBody, FacetsBody, MixPart, Search, SimilarBody
from multifold.wire.validation import adapter_of, validate

MODULES = (administration, insight, items, labels, search)
BODIES = [
    one
    for module in MODULES
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Body) and one.__module__ == module.__name__
]
A, GOOD = {"text": "a"}, {"good": ["a"]}


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_a_body_takes_its_example(kind: Any) -> None:  # noqa: ANN401 (a class)
    for example in adapter_of(kind).json_schema().get("examples", []):
        assert isinstance(validate(kind, json.loads(json.dumps(example))), kind)


@pytest.mark.parametrize(
    ("kind", "values", "code", "sentence"),
    [
        (Search, {}, "no_query", "exactly one of text, image, mesh, id, vector and mix; there is none"),
        (Search, {"target": "shape", "text": None}, "no_query", "exactly one of"),
        (Search, {"text": "", "mesh": ""}, "several_queries", "not text and mesh"),
        (Search, {**A, "mix": [A]}, "several_queries", "not text and mix"),
        (Search, {"mix": [{}]}, "no_query", "vector; there is none"),
        (Search, {"mix": [{**A, "id": "b"}]}, "several_queries", "not text and id"),
        (Search, {"mix": [{"mix": [A]}]}, "bad_request", "mix.0: unknown field 'mix'; the fields are text"),
        (Search, {"mix": []}, "bad_request", "'mix' "),
        (Search, {"mix": [A] * 33}, "bad_request", "'mix' "),
        (Search, {"mix": [{**A, "weight": 1e9}]}, "bad_request", "'mix.0.weight' "),
        (Search, [], "bad_request", "the body is an object, not "),
        (Search, None, "bad_request", "the body is an object, not "),
        (Search, {"text": 7}, "bad_request", "'text' "),
        (Search, {"image": 7}, "bad_request", "'image' is a text, not 7"),
        (Search, {"id": "a", "side": "smell"}, "bad_request", "'side' "),
        (Search, {"vector": ["x"]}, "bad_request", "'vector.0' "),
        (Search, {"vector": [float("nan")]}, "bad_request", "'vector.0' "),
        (Search, {"vector": "ab"}, "bad_request", "'vector' is a list, not 'ab'"),
        (Search, {**A, "limit": 0}, "bad_request", "'limit' is 1 or more, not 0"),
        (Search, {**A, "limit": 1001}, "bad_request", "'limit' is 1,000 at most, not 1001"),
        (
            Search,
            {**A, "fields": ["colour"]},
            "bad_query",
            "a hit has no field 'colour'; there are payload, ",
        ),
        (Search, {**A, "limit": 10**400}, "bad_request", "'limit' "),
        (Search, {**A, "offset": 10_001}, "bad_request", "'offset' "),
        (Search, {**A, "offset": 1, "after": "b"}, "bad_cursor", "by 'after' or by 'offset'"),
        (Search, {**A, "target": "smell"}, "bad_request", "'target' "),
        (Search, {**A, "pool": "median"}, "bad_request", "'pool' "),
        (Search, {**A, "min_score": "NaN"}, "bad_request", "'min_score' "),
        (Search, {**A, "filter": [1]}, "bad_request", "'filter' "),
        (Search, {**A, "txet": "b"}, "bad_request", "unknown field 'txet'; did you mean 'text'?"),
        (Search, {**A, "filters": {}}, "bad_request", "unknown field 'filters'; did you mean 'filter'?"),
        (Search, {**A, "top_k": 3}, "bad_request", "did you mean 'limit'?"),
        (Search, {**A, "exact": "maybe"}, "bad_request", "'exact' is true or false, not 'maybe'"),
        (Search, {**A, "diversity": 1.5}, "bad_request", "'diversity' "),
        (Search, {**A, "diversity": 0.5, "target": "any"}, "needs_evidence", "need the target 'item'"),
        (Search, {**A, "examples": GOOD, "target": "shape"}, "needs_evidence", "need the target 'item'"),
        (Search, {**A, "examples": GOOD, "lexical": "only"}, "needs_evidence", "not 'lexical': 'only'"),
        (Search, {**A, "examples": {**GOOD, "bad": ["a"]}}, "bad_examples", "both a good and a bad example"),
        (Search, {**A, "examples": {"good": "a"}}, "bad_request", "'examples.good' "),
        (Search, {**A, "examples": {"better": ["a"]}}, "bad_request", "'examples.better' "),
        (Search, {**A, "examples": {"good": ["a"] * 33}}, "bad_request", "'examples.good' "),
        (SimilarBody, {"limit": 0}, "bad_request", "'limit' "),
        (BatchSearchBody, {"searches": []}, "bad_request", "'searches' "),
        (BatchSearchBody, {"searches": ["a"]}, "bad_request", "'searches.0' "),
        (FacetsBody, {"keys": ["a"], "query": {}}, "no_query", "exactly one of"),
        (FacetsBody, {"keys": ["a"], "query": A, "best": 5000}, "bad_request", "'best' "),
        (EmbeddingsBody, {"input": [1]}, "bad_request", "'input.0' is a text, not 1"),
        (NewItem, {"texts": ["a"]}, "bad_request", "'id' is missing"),
        (NewItem, {"id": "a", "texts": "b"}, "bad_request", "'texts' is a list, not 'b'"),
        (
            NewItem,
            {"id": "a", "colour": "red"},
            "bad_request",
            "unknown field 'colour'; the fields are id, texts",
        ),
        (ItemPatchBody, {}, "bad_request", "'payload', 'texts' or both"),
        (ItemDeleteBody, {}, "bad_request", "exactly one of ids and filter; there"),
        (ItemDeleteBody, {"filter": {}}, "bad_request", "exactly one of ids and filter; there"),
        (ItemDeleteBody, {"ids": ["a"], "filter": {"a": 1}}, "bad_request", "not ids and filter"),
        (TraverseBody, {**A, "steps": 1}, "bad_request", "'steps' "),
        (TraverseBody, {**A, "id": "b"}, "several_queries", "not text and id"),
        (ExplainBody, {"item": "b"}, "no_query", "exactly one of"),
        (ExplainBody, A, "bad_request", "'item' "),
        (RerankBody, {**A, "candidates": []}, "bad_request", "'candidates' "),
        (
            RerankBody,
            {**A, "candidates": [{"vector": [1.0]}]},
            "bad_request",
            "candidates.0: unknown field 'vector'; the",
        ),
        (ClassifyBody, {"labels": ["a"]}, "no_query", "exactly one of text, image, mesh and id"),
        (ClassifyBody, {**A, "labels": [""]}, "bad_request", "'labels.0' has 1 or more characters"),
        (ClassifyBody, {**A, "labels": {"a": ["b"]}}, "bad_request", "'labels' is a list, not an object"),
        (
            ClassifyBody,
            {**A, "labels": ["a"], "templates": ["no place"]},
            "bad_request",
            "'templates.0' is a text with ",
        ),
        (TagProposalBody, {"words": 0}, "bad_request", "'words' "),
        (CollectionBody, {"name": "a", "index": {"recall": 0}}, "bad_request", "'index.recall' "),
        (IndexBody, {"memory": "disk"}, "bad_request", "'memory' "),
    ],
)
def test_what_makes_no_sense_is_refused(kind: Any, values: Any, code: str, sentence: str) -> None:  # noqa: ANN401
    with pytest.raises(BodyError) as caught:
        validate(kind, values)
    assert caught.value.code == code
    assert sentence in str(caught.value)


def test_a_vector_of_no_numbers_is_told_in_a_few_words() -> None:
    with pytest.raises(BodyError, match=r"'vector\.7' is a finite number, not nothing; and 92 more$"):
        validate(Search, {"vector": [None] * 100})


def test_a_single_item_is_a_body_of_many() -> None:
    alone = {"id": "a", "texts": ["b"]}
    assert validate(items.BulkBody, alone) == validate(items.BulkBody, {"items": [alone]})


def test_a_body_of_another_has_the_fields_that_it_knows() -> None:
    query = Search(text="a", lexical="off", limit=3)
    assert RerankBody.of(query, candidates=[MixPart(id="b")], limit=None) == RerankBody(
        "a", lexical="off", candidates=[MixPart(id="b")]
    )


def test_a_client_may_give_what_a_service_reads_in_one_form() -> None:
    assert TagProposalBody({"a": ["b"]}) == TagProposalBody((labels.LabelBody("a", ("b",)),))
    assert (
        Search(image=UploadedFile(b"a", media_type="image/png").data_uri).image
        == "data:image/png;base64,YQ=="
    )
    assert validate(Search, {**A, "examples": {"good": ["b"]}}).examples == Examples(["b"])
    for kind, fields in ((NewItem, {"id": "a", "texts": "b"}), (TagProposalBody, {"labels": "b"})):
        with pytest.raises(MultifoldError, match="a list of texts"):
            kind(**fields)  # type: ignore[arg-type]
