"""The benchmark of evidence reads queries of one's own."""

import json
from pathlib import Path

import numpy as np
import pytest

from benches.index.evidence import read_queries
from multifold.errors import MultifoldError
from multifold.types import Item
from tests.index.spaces import FEATURE
from tests.index.things import caption


def things() -> list[Item]:
    feature = np.ones(FEATURE, np.float32)
    return [
        Item("a", (caption(0, feature, "a red Couch"),)),
        Item("settee-2", (caption(0, feature, "brown"),)),
        Item("c", (caption(0, feature, "a lamp"),)),
    ]


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_what_is_right_is_looked_for_in_ids_and_captions(tmp_path: Path) -> None:
    path = write(
        tmp_path / "queries.jsonl",
        {"text": "sofa", "right": "couch|settee"},
        {"text": "light", "right": r"\blamp\b"},
        {"text": "boat", "right": "ship"},  # nothing is right
    )
    asked = [(one.text, set(one.right)) for one in read_queries(path, things())]
    assert asked == [("sofa", {"a", "settee-2"}), ("light", {"c"})]


@pytest.mark.parametrize("line", ["sofa", "[]", '{"text": "sofa"}', {"text": "sofa", "right": "("}, ""])
def test_a_bad_line_is_named(tmp_path: Path, line: object) -> None:
    path = write(tmp_path / "queries.jsonl", {"text": "sofa", "right": "couch"}, line, "")
    with pytest.raises(MultifoldError, match=r"line 2: .*wanted \{\"text\""):
        read_queries(path, things())
