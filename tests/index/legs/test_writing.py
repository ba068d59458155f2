"""Texts in photos as a leg: they find what words about an item do not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index.collection import Collection
from multifold.types import Hit, Item, Observation
from tests.index.spaces import SPACE
from tests.index.things import caption, feature, query


class SignReader:
    id = "signs"

    def read(self, picture: bytes) -> tuple[str, ...]:
        return (picture.decode(),)


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Collection]:
    """Eighty photos of one kind; on two of them a text is seen."""
    with Collection.open(tmp_path / "street", SPACE, picture_reader=SignReader()) as opened:
        texts = [f"house {n}" for n in range(80)] + ["Ardnamurchan Visitor Centre", "Brandywine Museum"]
        opened.upsert(
            [
                Item(
                    f"p{n}",
                    (
                        Observation(
                            "photo", 0, feature(1, n / 100), blob=opened.blobs.put(text.encode(), ".png")
                        ),
                        caption(0, feature(1, n / 100), "a street in the rain"),
                    ),
                    {},
                )
                for n, text in enumerate(texts)
            ]
        )
        assert opened.writing is not None
        opened.writing.settle()
        yield opened


def find(street: Collection, text: str, **changes: object) -> list[Hit]:
    return street.search(query(feature(1), text=text, side="text", target="item", **changes))


def test_a_sign_finds_its_photo(street: Collection) -> None:
    for asked, name in (
        ("ardnamurchan", "p80"),
        ("the visitor centre", "p80"),
        ("brandywine museums", "p81"),
    ):
        first = find(street, asked)[0]
        assert first.id == name
        assert "writing" in {one.leg for one in first.evidence if one.value > 0}
        assert first.words == ()


def test_it_is_silent_where_words_are(street: Collection) -> None:
    for mode in ("off", "only"):
        hits = find(street, "ardnamurchan", words=mode)
        assert all(one.leg != "writing" for hit in hits for one in hit.evidence)
    shapes = street.search(query(feature(1), text="ardnamurchan", side="text", target="shape"))
    assert all(one.leg != "writing" for hit in shapes for one in hit.evidence)


def test_a_caption_that_names_it_comes_before_a_sign(street: Collection) -> None:
    street.upsert([Item("p5", (caption(0, feature(1, 0.05), "brandywine museum"),), {})])
    assert [hit.id for hit in find(street, "brandywine museum")[:2]] == ["p5", "p81"]
