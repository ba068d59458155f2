"""The script that copies a Qdrant collection, as its page has it, on the engine that qdrant-client brings."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams

from multifold.client import Client
from tests.app.house import House

PAGE = Path(__file__).parents[2] / "docs" / "decisions" / "0016-an-existing-qdrant.md"
POINTS = [
    PointStruct(
        id=number, vector=[1.0, number / 100, 0.0], payload={"name": f"chair {number}", "price": number}
    )
    for number in range(250)
]


def test_a_collection_is_copied_and_copied_again(own: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (script,) = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    script = script.replace("http://127.0.0.1:8000", own.url)
    qdrant = QdrantClient(":memory:")
    qdrant.create_collection("shop", VectorParams(size=3, distance=Distance.COSINE))
    qdrant.upsert("shop", [*POINTS])
    monkeypatch.setitem(sys.modules, "qdrant_client", SimpleNamespace(QdrantClient=lambda _: qdrant))
    with Client(own.url, collection="shop") as client:
        exec(compile(script, PAGE.name, "exec"), {})
        assert client.count() == 250
        (near,) = client.search(vector=[1, 0, 0], target="image", limit=1).hits
        assert (near.id, near.payload["name"]) == ("0", "chair 0")
        assert near.score == pytest.approx(1.0)
        cheap = client.search(text="chair 7", filter={"price": {"lt": 10}}).hits
        assert cheap[0].id == "7"
        qdrant.upsert("shop", [PointStruct(id=7, vector=[0.0, 0.0, 1.0], payload={"name": "lamp"})])
        exec(compile(script, PAGE.name, "exec"), {})
        assert client.get("7").payload["name"] == "lamp"
        assert client.count() == 250
