"""Random upserts, deletes, searches and reopenings against a dict and brute force, followed by a reader."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from index.collection import Collection
from index.store import browse
from index.store.filters import parse_filter
from multifold.types import Item, Kind, Observation, Pooling, Side
from tests.index.filtering import FILTERS, PAYLOADS, lets_through
from tests.index.servers import Server
from tests.index.spaces import FEATURE, SPACES, Space
from tests.index.things import answers, brute, query, same

NUMBERS = st.sampled_from([-1.0, -0.5, 0.0, 0.3, 1.0])  # few, so that scores tie
FEATURES = st.tuples(*[NUMBERS] * FEATURE).map(lambda numbers: np.array(numbers, np.float32))
KINDS = st.sampled_from(["caption", "photo", "view"])
SEEN = st.lists(st.tuples(KINDS, FEATURES), min_size=1, max_size=6)
NAMES = st.sampled_from("abcdefg")
UPSERT = st.dictionaries(NAMES, st.tuples(SEEN, PAYLOADS), max_size=4)


def built(name: str, seen: list[tuple[Kind, np.ndarray]], payload: dict[str, Any]) -> Item:
    """An item whose observations are numbered as they come."""
    told = [Observation(kind, n, feature, text=f"{name} {n}") for n, (kind, feature) in enumerate(seen)]
    return Item(name, tuple(told), payload)


class Against(RuleBasedStateMachine):
    """The collection, a reader beside it, and a dict whose order is that of the last writes."""

    def __init__(self, space: Space, database: str | None = None) -> None:
        super().__init__()
        self.space = space
        self.database = database
        self.folder = tempfile.TemporaryDirectory()
        self.model: dict[str, Item] = {}
        self.collection = self.opened()
        self.reader = Collection.open(Path(self.folder.name), space, read_only=True, database=database)

    def opened(self) -> Collection:
        return Collection.open(Path(self.folder.name), self.space, database=self.database)

    def teardown(self) -> None:
        self.reader.close()
        self.collection.close()
        self.folder.cleanup()

    @rule(new=UPSERT)
    def upsert(self, new: dict[str, tuple[list[tuple[Kind, np.ndarray]], dict[str, Any]]]) -> None:
        items = [built(name, *told) for name, told in new.items()]
        before = self.collection.version
        assert self.collection.upsert(items) == before + len(items)
        for item in items:
            self.model.pop(item.id, None)
            self.model[item.id] = item

    @rule(names=st.lists(NAMES, max_size=3))
    def delete(self, names: list[str]) -> None:
        known = set(names) & set(self.model)
        assert self.collection.delete(names) == len(known)
        for name in known:
            del self.model[name]

    @rule(where=FILTERS)
    def delete_where(self, where: dict[str, Any]) -> None:
        gone = [item.id for item in self.passing(where)]
        assert self.collection.delete_where(parse_filter(where)) == len(gone)
        for name in gone:
            del self.model[name]

    def passing(self, where: dict[str, Any]) -> list[Item]:
        return [item for item in self.model.values() if lets_through(where, item.payload)]

    @rule()
    def reopen(self) -> None:
        before = self.collection.version
        self.collection.close()
        self.collection = self.opened()
        assert self.collection.version == before

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        assert same(self.collection.get(name), self.model.get(name))

    @rule(
        feature=FEATURES,
        side=st.sampled_from(["text", "image", "shape"]),
        limit=st.integers(1, 8),
        offset=st.integers(0, 2),
        pooled=st.sampled_from(["mean", "max"]),
        where=st.none() | FILTERS,
    )
    def search(
        self,
        feature: np.ndarray,
        side: Side,
        limit: int,
        offset: int,
        pooled: Pooling,
        where: dict[str, Any] | None,
    ) -> None:
        vector = self.space.vectors(feature[None])[0]
        chosen = None if where is None else parse_filter(where)
        asked = query(vector, target=side, limit=limit, offset=offset, pool=pooled, where=chosen)
        found = self.passing(where or {})
        wanted = brute(found, self.space, asked)
        for collection in (self.collection, self.reader):
            assert collection.count(chosen) == len(found)
            assert [item.id for item in collection.scroll(where=chosen)] == sorted(item.id for item in found)
            hits = collection.search(asked)
            assert answers(hits) == wanted
            assert all(hit.payload == self.model[hit.id].payload for hit in hits)
            assert all((hit.matched.text or "").startswith(hit.id) for hit in hits)

    @invariant()
    def counts(self) -> None:
        assert self.collection.ids() == sorted(self.model)
        assert self.collection.count() == len(self.model)
        held = [one.kind for item in self.model.values() for one in item.observations]
        assert self.collection.read(browse.count_observations) == {
            k: held.count(k) for k in ("caption", "photo", "view")
        }


def compare(space: Space, examples: int, steps: int, server: Server | None = None) -> None:
    class Machine(Against):
        def __init__(self) -> None:
            super().__init__(space, None if server is None else server.place())

    effort = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(Machine, settings=effort)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.vector_id)
def test_against_a_dict(space: Space) -> None:
    compare(space, examples=5, steps=10)


def test_against_a_dict_on_postgres(server: Server) -> None:
    compare(SPACES[1], examples=5, steps=10, server=server)


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.vector_id)
def test_against_a_dict_at_length(space: Space) -> None:
    compare(space, examples=30, steps=25)
