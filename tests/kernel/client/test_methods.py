"""Methods are described once, and are those of both clients."""

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from multifold.client import AsyncClient, Client, MixPart, ServiceError
from multifold.client.methods import ClientMethod
from multifold.errors import MultifoldError
from tests.kernel.client.service import URL, Service

ITEM: dict[str, object] = {"payload": {}, "observations": [], "files": []}


def test_both_clients_have_the_same_methods() -> None:
    public = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Client, AsyncClient)]
    assert public[0] == public[1]
    described = [
        name
        for kind in AsyncClient.__mro__
        for name, one in vars(kind).items()
        if isinstance(one, ClientMethod)
    ]
    assert len(described) > 30
    by_hand = {name for name, one in vars(AsyncClient).items() if inspect.isfunction(one)}
    assert by_hand == {"ready", "wait", "follow", "fetch_snapshot"}


def test_a_method_has_its_description_and_the_fields_of_its_body() -> None:
    assert "takes the fields of a `Search`" in (Client.search.__doc__ or "")
    assert {"text", "image", "limit"} <= set(inspect.signature(Client.search).parameters)
    client = Client(URL)
    assert [*inspect.signature(client.count).parameters] == ["filter"]
    assert [*inspect.signature(client.explain).parameters][:3] == ["query", "item", "kind"]


@pytest.mark.parametrize(
    ("ask", "path", "body"),
    [
        (lambda client: client.similar("a/b", limit=3), "/v1/items/a%2Fb/similar", {"limit": 3}),
        (lambda client: client.update(id="a", texts=["b"]), "/v1/items/a", {"texts": ["b"]}),
        (
            lambda client: client.update_many(filter={"a": 1}, payload={"b": None}),
            "/v1/items/change",
            {"filter": {"a": 1}, "payload": {"b": None}},
        ),
        (
            lambda client: client.traverse(MixPart(text="a"), steps=5),
            "/v1/traverse",
            {"text": "a", "steps": 5},
        ),
        (
            lambda client: client.explain(MixPart(id="a", weight=2.0), item="b", maps=False),
            "/v1/explain",
            {"id": "a", "item": "b", "maps": False},
        ),
        (
            lambda client: client.facets(["a"], {"b": 1}, 5),
            "/v1/facets",
            {"keys": ["a"], "filter": {"b": 1}, "limit": 5},
        ),
    ],
)
def test_a_body_takes_its_fields_from_the_arguments(
    ask: Callable[[Client], object], path: str, body: dict[str, Any]
) -> None:
    service = Service()
    with service.client() as client, pytest.raises(ServiceError):  # the answer is none
        ask(client)
    assert service.asked[0].url.raw_path.decode() == path
    assert service.json == body


@pytest.mark.parametrize("asked", [{}, {"text": "a", "image": b"b"}, {"image": b"b", "mesh": b"c"}])
def test_what_contradicts_itself_is_refused_before_it_is_sent(asked: dict[str, Any]) -> None:
    service = Service()
    with service.client() as client:
        with pytest.raises(MultifoldError, match="exactly one"):
            client.search(**asked)
        with pytest.raises(MultifoldError, match="a list of texts"):
            client.upsert("x", texts="a chair")
        with pytest.raises(MultifoldError, match="exactly one of ids and filter"):
            client.delete_many()
        with pytest.raises(TypeError, match="'id'"):
            client.similar(limit=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="txet"):
            client.search(txet="a")  # type: ignore[call-arg]
    assert not service.asked


def test_pages_are_read_as_they_are_needed() -> None:
    asked: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.read()))
        items = [{"id": f"{len(asked)}-{n}", **ITEM} for n in range(2)]
        return httpx.Response(200, json={"items": items, "next": None if "after" in asked[-1] else "1-1"})

    async def awaited() -> list[str]:
        async with AsyncClient(URL, transport=httpx.MockTransport(answer)) as client:
            return [item.id async for item in client.items(page=2)]

    with Client(URL, transport=httpx.MockTransport(answer)) as client:
        pages = client.items(page=2)
        first = [next(pages).id, next(pages).id]
        assert len(asked) == 1
        assert [*first, *(item.id for item in pages)] == ["1-0", "1-1", "2-0", "2-1"]
    assert asked == [{"limit": 2}, {"limit": 2, "after": "1-1"}]
    asked.clear()
    assert asyncio.run(awaited()) == ["1-0", "1-1", "2-0", "2-1"]
