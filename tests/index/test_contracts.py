"""Plans as they are stored, also those of indexes that are not built any more."""

import json
import logging
from dataclasses import asdict
from pathlib import Path
from sqlite3 import connect

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import AUTO, IndexPlan, stored_plan
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import query, thing

PLAN = IndexPlan("IVF{cells},SQ4", "cpu", 0.9, memory="codes")


def test_a_plan_is_read_as_it_was_stored(caplog: pytest.LogCaptureFixture) -> None:
    assert stored_plan(json.loads(json.dumps(asdict(PLAN)))) == PLAN
    assert stored_plan({**asdict(PLAN), "stored": "float32"}) == PLAN
    assert stored_plan({"recall": 0.8}).type == AUTO
    assert caplog.messages == []


@pytest.mark.parametrize("former", [{"stored": "float16"}, {"type": f"first63,{PLAN.type}"}])
def test_an_index_that_is_not_built_any_more_is_derived_as_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, former: dict[str, str]
) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing(f"item {number}", rng) for number in range(20)])
        collection.ask_for(PLAN)
        wanted = [hit.id for hit in collection.search(query(np.eye(FEATURE)[0]))]
    with connect(tmp_path / "store.sqlite") as raw:
        raw.execute("UPDATE meta SET value = ? WHERE key = 'plan'", [json.dumps({**asdict(PLAN), **former})])
    raw.close()
    with caplog.at_level(logging.WARNING), Collection.open(tmp_path, SPACE) as collection:
        assert collection.plan == PLAN
        assert [hit.id for hit in collection.search(query(np.eye(FEATURE)[0]))] == wanted
    assert f"becomes {PLAN.type}" in caplog.text
