"""Reranking, classification, and tags that a model proposes and a person accepts."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.search import labelling
from index.search import labels as scoring
from index.search.labels import COLUMNS, NONE, judge_labels
from multifold.client import Client, MixPart, Search
from multifold.payload import owner_part
from multifold.wire.labels import TagProposalAnswer
from multifold.wire.search import SearchAnswer
from tests.app.house import BOXES, House, png

MANY = [f"label {number}" for number in range(200)]
SHADES = ("red", "green", "blue", "yellow")


@pytest.fixture(scope="module")
def shelf(own: House) -> House:
    """Twelve boxes of four colours."""
    for colour in BOXES:
        for number in range(3):
            assert own.put(f"{colour}-{number}", colour).status_code == 200
    return own


@pytest.fixture
def client(shelf: House) -> Iterator[Client]:
    with Client(shelf.url) as opened:
        yield opened


def test_items_are_ranked_as_a_search_among_them_ranks_them(shelf: House, client: Client) -> None:
    names = [f"{colour}-0" for colour in SHADES] + ["red-1"]
    for query in (Search(text="a red box"), Search(image=png("blue"))):
        among = replace(query, filter={"is": {"in": [*SHADES]}}, limit=50)
        (found,) = client.search_many([among])
        assert isinstance(found, SearchAnswer)
        scores = {hit.id: hit.score for hit in found.hits}
        ranked = client.rerank(query, [MixPart(id=name) for name in names]).candidates
        assert sorted(names, key=lambda name: -scores[name]) == [one.id for one in ranked]
        expected = [scores[str(one.id)] for one in ranked]
        assert [one.score for one in ranked] == pytest.approx(expected, abs=1e-5)
        assert [names[one.index] for one in ranked] == [one.id for one in ranked]
    every = [f"{colour}-{number}" for colour in SHADES for number in range(3)]
    hits = client.search(text="a red box", limit=12, filter={"is": {"in": [*SHADES]}}).hits
    ranked = client.rerank(Search(text="a red box"), [MixPart(id=name) for name in every]).candidates
    sure = {one.id: one.confidence for one in ranked}
    assert {hit.id: hit.confidence for hit in hits} == pytest.approx(sure, abs=1e-6)


def test_texts_and_pictures_that_are_no_items_are_ranked(client: Client) -> None:
    candidates = [MixPart(text="a blue box"), MixPart(image=png("red")), MixPart(text="a red box")]
    told = client.rerank(Search(text="a red box"), candidates)
    assert [one.index for one in told.candidates][-1] == 0
    shares = {one.index: {share.leg for share in one.evidence} for one in told.candidates}
    assert shares == {0: {"text", "words"}, 1: {"image"}, 2: {"text", "words"}}
    confidences = [one.confidence or 0 for one in told.candidates]
    assert confidences == sorted(confidences, reverse=True)
    assert told.calibrated_by == "prior"
    texts = client.rerank(Search(text="a red box"), [candidates[0], candidates[2]], 1)
    assert [one.index for one in texts.candidates] == [1]


def test_a_mix_ranks_without_a_confidence(client: Client) -> None:
    mix = Search(mix=[MixPart(text="red"), MixPart(text="blue", weight=-1.0)])
    told = client.rerank(mix, [MixPart(id="blue-0"), MixPart(id="red-0"), MixPart(text="a red box")])
    assert told.candidates[-1].id == "blue-0"
    assert {one.confidence for one in told.candidates} == {None}
    assert told.calibrated_by is None


def test_a_collection_that_is_empty_ranks_too(shelf: House, client: Client) -> None:
    assert shelf.client.post("/v1/collections", json={"name": "nothing"}).is_success
    told = client.collection("nothing").rerank(
        Search(image=png("red")), [MixPart(image=png(colour)) for colour in ("blue", "red", "green")]
    )
    assert told.candidates[0].index == 1
    chosen = client.collection("nothing").classify(MixPart(image=png("red")), ["blue", "red", "green"])
    assert chosen.labels[0].label == "red"


@pytest.mark.parametrize("colour", SHADES)
def test_what_is_of_a_colour_is_told(client: Client, colour: str) -> None:
    for subject in (
        MixPart(id=f"{colour}-0"),
        MixPart(image=png(colour)),
        MixPart(text=f"a {colour} box"),
    ):
        told = client.classify(subject, [*SHADES], templates=["a {} box", "{}"])
        assert told.labels[0].label == colour
        assert sum(one.confidence for one in told.labels) + told.none == pytest.approx(1)
        assert told.labels[0].evidence[0].value > 0
        assert told.calibrated_by == "prior"


def test_a_label_may_have_prompts_of_its_own(client: Client) -> None:
    prompts = {"sky": ["blue"], "grass": ["green"], "sun": ["yellow"]}
    told = client.classify(MixPart(image=png("blue")), prompts)
    assert told.labels[0].label == "sky"


def test_the_values_of_a_key_are_labels_and_answers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "FEWEST_ANSWERS", 12)
    told = client.classify(MixPart(id="green-1"), key="is")
    assert (told.labels[0].label, told.calibrated_by) == ("green", "collection")
    assert {one.label for one in told.labels} == set(SHADES)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"text": "a box"}, 422, "no_labels"),
        ({"text": "a box", "key": "nothing"}, 422, "no_labels"),
        ({"id": "nobody", "labels": ["red"]}, 404, "not_found"),
        ({"text": "a box", "labels": [" "]}, 422, "bad_text"),
        ({"text": "a box", "labels": MANY, "templates": ["{}"] * 6}, 200, None),
        ({"text": "a box", "labels": MANY, "templates": ["{}"] * 7}, 422, "too_many"),
    ],
)
def test_a_classification_that_cannot_be_made_says_why(
    shelf: House, body: dict[str, Any], status: int, code: str | None
) -> None:
    answer = shelf.client.post("/v1/classify", json=body)
    assert (answer.status_code, answer.json().get("error", {}).get("code")) == (status, code)


def test_one_client_has_one_classification_at_a_time(shelf: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it leaves threads to others, however many labels it asks for."""
    classify = labelling.classify
    at_work = Counter[str]()

    def count(*asked: Any) -> Any:  # noqa: ANN401 (as `classify` has it)
        at_work["now"] += 1
        at_work["most"] = max(at_work["most"], at_work["now"])
        time.sleep(0.05)
        at_work["now"] -= 1
        return classify(*asked)

    monkeypatch.setattr(labelling, "classify", count)
    body = {"text": "a box", "labels": ["red", "blue"]}
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda _: shelf.client.post("/v1/classify", json=body).status_code, range(4))]
    assert (answers, at_work["most"]) == ([200] * 4, 1)


def proposed(told: TagProposalAnswer) -> dict[str, list[str]]:
    return {one.id: [tag.tag for tag in one.tags] for one in told.items}


def test_tags_are_proposed_accepted_seen_and_removed(shelf: House, client: Client) -> None:
    told = client.propose_tags(SHADES, several=False, min_confidence=0.0, best=1, ids=["red-0", "blue-0"])
    assert told.calibrated_by == "prior"
    assert "machine_tags" not in client.get("red-0").payload  # nothing was written
    assert [one.id for one in told.items] == ["blue-0", "red-0"]
    words = {one.id: client.search(text="zebra", lexical="only").hits for one in told.items}
    assert not any(words.values())
    assert client.accept_tags({"red-0": ["zebra", "red"], "blue-0": ["zebra"], "nobody": ["x"]}).missing == (
        "nobody",
    )
    assert client.accept_tags({"red-0": ["animal"]}, key="kind").changed == 1
    tagged = client.get("red-0").payload
    assert owner_part(tagged) == {"is": "red"}
    assert tagged["machine_tags"] == {"tags": ["zebra", "red"], "kind": ["animal"]}
    assert client.count({"machine_tags.tags": "zebra"}) == 2
    assert client.facets(["machine_tags.tags"])["machine_tags.tags"][0].value == "zebra"
    assert not client.search(text="zebra", lexical="only").hits  # a search does not read them
    assert client.remove_tags(tags=["red"]).changed == 1
    assert client.get("red-0").payload["machine_tags"] == {"tags": ["zebra"], "kind": ["animal"]}
    assert client.remove_tags(["blue-0"]).changed == 1
    assert client.remove_tags(key="kind").changed == 1
    assert client.count({"machine_tags": {"exists": True}}) == 1
    assert client.remove_tags().changed == 1
    assert owner_part(client.get("red-0").payload) == {"is": "red"}
    assert client.remove_tags().changed == 0


def test_a_threshold_accepts_what_is_surer(client: Client) -> None:
    told = client.propose_tags({"crimson": ["red"], "azure": ["blue"]}, several=False, min_confidence=0.0)
    sure = {one.id: tag.confidence for one in told.items for tag in one.tags if tag.tag == "crimson"}
    assert min(sure[f"red-{n}"] for n in range(3)) > max(sure[f"blue-{n}"] for n in range(3))
    least = min(sure[f"red-{n}"] for n in range(3))
    try:
        client.accept_tags(told, min_confidence=least)
        tagged = {item.id for item in client.items({"machine_tags.tags": "crimson"})}
        assert {f"red-{n}" for n in range(3)} <= tagged
        assert not tagged & {f"blue-{n}" for n in range(3)}
        again = proposed(client.propose_tags({"crimson": ["red"]}, ids=["red-0"], min_confidence=0.0))
        assert again == {"red-0": []}  # it has it
    finally:
        client.remove_tags()


def test_machine_made_tags_are_no_answers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "FEWEST_ANSWERS", 12)
    client.accept_tags({f"{colour}-{n}": [colour] for colour in SHADES for n in range(3)}, key="shade")
    try:
        told = client.classify(MixPart(id="red-0"), [*SHADES], key="shade")
        assert told.calibrated_by == "prior"
    finally:
        client.remove_tags()


def test_words_of_the_captions_are_a_vocabulary_and_pages_go_on(client: Client) -> None:
    seen, after = dict[str, list[str]](), None
    while True:
        page = client.propose_tags(words=20, min_confidence=0.0, best=50, limit=5, after=after)
        seen |= proposed(page)
        if (after := page.next) is None:
            break
    assert sorted(seen) == sorted(f"{colour}-{n}" for colour in SHADES for n in range(3))
    assert {"green", "blue", "yellow"} == set(seen["red-0"])  # "red", "box" and "thing" it says already


def table(*scores: tuple[float, float]) -> np.ndarray:
    """Subjects with these scores of two labels."""
    values = np.zeros((len(scores), 3, len(COLUMNS)))
    values[:, :2, COLUMNS.index("picture")] = scores
    values[:, 2, NONE] = 1
    return values


def test_answers_make_sure_where_the_encoder_is_right_and_unsure_where_it_is_not() -> None:
    random = np.random.default_rng(0)
    right = random.integers(0, 2, 200)
    known = [frozenset({int(one)}) for one in right]
    clear = table(*((3.0, 0.0) if one == 0 else (0.0, 3.0) for one in right))
    noise = table(*((3.0, 0.0) if one == 0 else (0.0, 3.0) for one in random.integers(0, 2, 200)))
    asked = table((3.0, 0.0))
    sure, unsure = (judge_labels(asked, some, known, exclusive=True) for some in (clear, noise))
    assert sure.confidence[0, 0] > 0.9
    assert 0.3 < unsure.confidence[0, 0] < 0.7
    assert (
        sure.basis,
        judge_labels(asked, clear, known[:9] + [frozenset()] * 191, exclusive=True).basis,
    ) == (
        "collection",
        "prior",
    )


def test_labels_that_stand_beside_each_other_may_all_be_sure() -> None:
    random = np.random.default_rng(0)
    has = random.random((200, 2)) < 0.3
    known = [frozenset(np.flatnonzero(row).tolist()) for row in has]
    told = judge_labels(table((3.0, 3.0)), table(*(3.0 * has)), known, exclusive=False)
    assert told.confidence.min() > 0.8


def test_items_that_are_all_written_anew_are_found_as_before(shelf: House, client: Client) -> None:
    """The sample that scores are standardised by is drawn again."""
    before = client.search(text="a red box", limit=12)
    for colour in SHADES:
        for number in range(3):
            client.update(f"{colour}-{number}", payload={"new": number})
    after = client.search(text="a red box", limit=12)
    assert after.hits[0].score == pytest.approx(before.hits[0].score)
