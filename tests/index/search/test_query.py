"""Which legs a query asks, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from index.contracts import QueryError
from index.legs.table import TARGET_LEGS
from index.search.query import Query
from multifold.types import Mix, Vector
from tests.index.things import feature

QUERY = Query(feature(1))


def test_the_target_decides_which_legs_are_asked() -> None:
    for target, legs in TARGET_LEGS.items():
        silent = tuple(leg for leg in legs if leg not in ("words", "reader", "writing"))
        asked = replace(QUERY, target=target)
        assert asked.legs == replace(asked, text="red", words="off").legs == silent
        assert replace(asked, text="red").legs == legs
        assert replace(asked, text="red", words="only").legs == ("words",)


def mix(*parts: tuple[Vector, float]) -> dict[str, object]:
    return {"vector": Mix(parts)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vector": feature(1)[:2]}, r"shape \(2,\)"),
        ({"vector": feature(np.nan)}, "not finite"),
        ({"vector": feature(np.inf)}, "not finite"),
        ({"vector": feature(1e16)}, "beyond"),
        ({"own": {"shape": feature(np.inf)}}, "not finite"),
        (mix(), "1 to 64 parts, not 0"),
        (mix((feature(1), np.nan)), "A weight lies"),
        (mix((feature(1), 1e9)), "A weight lies"),
        (mix((feature(1), 0.0), (feature(2), 0.0)), "all 0"),
        (mix((feature(1), 1.0), (feature(np.nan), 1.0)), "not finite"),
        (mix((feature(1)[:2], 1.0)), "shape"),
        ({"limit": 0}, "limit"),
        ({"limit": -5}, "limit"),
        ({"offset": -1}, "offset"),
    ],
)
def test_what_no_engine_could_answer_is_refused(changes: dict[str, object], said: str) -> None:
    QUERY.check(len(feature()))
    with pytest.raises(QueryError, match=said):
        replace(QUERY, **changes).check(len(feature()))  # type: ignore[arg-type]
