"""Which legs a query asks, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from index.contracts import QueryError
from index.search.query import TARGET_LEGS, Query
from multifold.types import Mix
from tests.index.things import feature

QUERY = Query(feature(1))


def test_the_target_decides_which_legs_are_asked() -> None:
    for target, legs in TARGET_LEGS.items():
        silent = tuple(leg for leg in legs if leg not in ("words", "reader"))
        asked = replace(QUERY, target=target)
        assert asked.legs == replace(asked, text="red", words="off").legs == silent
        assert replace(asked, text="red").legs == legs
        assert replace(asked, text="red", words="only").legs == ("words",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vector": feature(1)[:2]}, "shape"),
        ({"vector": feature(np.nan)}, "not finite"),
        ({"own": {"shape": feature(np.inf)}}, "not finite"),
        ({"vector": Mix(((feature(1), 0.0),))}, "all 0"),
        ({"vector": Mix(((feature(1), np.nan),))}, "weight"),
        ({"limit": 0}, "limit"),
        ({"offset": -1}, "offset"),
    ],
)
def test_what_no_engine_could_answer_is_refused(changes: dict[str, object], said: str) -> None:
    QUERY.check(len(feature()))
    with pytest.raises(QueryError, match=said):
        replace(QUERY, **changes).check(len(feature()))  # type: ignore[arg-type]
