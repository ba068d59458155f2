"""Agents find, see, add and explain items over MCP: the official client, on both transports."""

import asyncio
import base64
import io
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from multifold.client import Client
from multifold.payload import owner_part
from tests import tiny
from tests.app.answers import uri
from tests.app.house import House, box, house, png
from tests.waiting import PATIENCE

mcp = pytest.importorskip("mcp", reason="mcp is not installed (extra 'mcp')")
httpx2 = pytest.importorskip("httpx2")
KEYS = {"read": "read-key-of-an-agent", "write": "write-key-of-an-agent"}
TRANSPORTS = ("stdio", "http")
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with keys and two items."""
    keys = ",".join(f"{scope}:{key}" for scope, key in KEYS.items())
    with house(tmp_path_factory.mktemp("keyed"), bundle, keys=keys, render_seconds=200) as opened:
        with Client(opened.url, api_key=KEYS["write"]) as client:
            for colour in ("red", "blue"):
                texts, images = [f"a {colour} box"], [png(colour)]
                client.upsert(f"{colour}-box", texts=texts, images=images, payload={"is": colour})
        yield opened


@asynccontextmanager
async def agent(shop: House, transport: str, scope: str | None, *folders: Path) -> AsyncIterator[Any]:
    """The SDK's client, connected with a key."""
    key = None if scope is None else KEYS[scope]
    if transport == "stdio":
        files = [word for folder in folders for word in ("--files", str(folder))]
        arguments = ["-m", "multifold", "mcp", "--url", shop.url, *files]
        environment = {"PYTHONPATH": ":".join(sys.path)} | ({} if key is None else {"MULTIFOLD_KEY": key})
        server: Any = mcp.StdioServerParameters(command=sys.executable, args=arguments, env=environment)
        async with mcp.Client(server) as client:
            yield client
        return
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False) as http:
        from mcp.client.streamable_http import streamable_http_client

        async with mcp.Client(streamable_http_client(f"{shop.url}/mcp", http_client=http)) as client:
            yield client


async def call(client: Any, tool: str, **asked: Any) -> Any:  # noqa: ANN401
    """What a tool answers, as JSON; pictures stay behind."""
    answer = await client.call_tool(tool, asked)
    assert not answer.is_error, answer.content
    return answer.structured_content or json.loads(answer.content[0].text)


def test_an_agent_is_told_what_a_picture_looks_like(tmp_path: Path) -> None:
    bundle = tiny.build_with_looks(tmp_path / "bundle", 0.8)

    async def use(shop: House) -> None:
        async with agent(shop, "http", None) as client:
            for keys in (None, ["is"]):
                found = await call(client, "search", image=uri(png("red"), "image/png"), payload_keys=keys)
                assert found["items"][0]["matched"] == "photo 0, looks like: red"

    with house(tmp_path / "data", bundle.folder) as shop:
        shop.put("red-box", "red")
        asyncio.run(use(shop))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_tool_is_listed_and_called(keyed: House, transport: str, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.png"
    inside.mkdir()
    outside.write_bytes(png("red"))
    (inside / "query.png").write_bytes(png("red"))
    (inside / "link.png").symlink_to(outside)
    picture = "query.png" if transport == "stdio" else uri(png("red"), "image/png")
    mesh = uri(box("green"), "model/gltf-binary")

    async def use() -> None:
        async with agent(keyed, transport, "write", inside) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"search", "similar", "look", "add", "explain"}
            assert {name for name, tool in tools.items() if not tool.annotations.read_only_hint} == {"add"}
            assert all(tool.description for tool in tools.values())
            assert "context" not in tools["search"].input_schema["properties"]
            fetching = {name for name, tool in tools.items() if "address" in str(tool.input_schema)}
            assert fetching == {"add"}
            found = await call(client, "search", text="a red box", limit=1)
            assert [one["id"] for one in found["items"]] == ["red-box"]
            assert found["items"][0]["payload"] == {"is": "red"}
            assert found["items"][0]["matched"] in ("photo 0", "caption 0: a red box")
            found = await call(client, "search", image=picture, filter={"is": "blue"})
            assert [one["id"] for one in found["items"]] == ["blue-box"]
            made = await call(
                client, "add", id="new", texts=["a green box"], mesh=mesh, mesh_format="glb", payload={"n": 1}
            )
            assert made["observations"] == {"caption": 1, "photo": 0, "view": 6}
            assert (await call(client, "search", text="a green box"))["items"][0]["id"] == "new"
            assert "new" not in [one["id"] for one in (await call(client, "similar", id="new"))["items"]]
            seen = await client.call_tool("look", {"id": "new", "pictures": 2})
            about = json.loads(seen.content[0].text)
            assert (about["captions"], owner_part(about["payload"])) == (["a green box"], {"n": 1})
            assert [opened(one).size for one in seen.content[1:]] == [(48, 48)] * 2
            large = (await client.call_tool("look", {"id": "red-box", "large": True})).content[1]
            assert large.mime_type == "image/jpeg"
            shown = opened(large).convert("RGB")
            red, green, blue = np.asarray(shown)[shown.height // 2, shown.width // 2]
            assert red > 200 > max(green, blue)
            why = await call(client, "explain", item="red-box", text="a red box")
            assert set(why["sides"]) == {"text", "image"}
            assert max(why["words_of_the_query"], key=why["words_of_the_query"].get) == "red"
            assert "caption 0: a red box" in why["best"]
            for tool, asked, sentence in (
                ("search", {}, "exactly one of"),
                ("search", {"text": "red", "filter": {"is": {"near": 1}}}, "near"),
                ("search", {"image": str(outside)}, "is not a"),
                ("search", {"image": "../outside.png"}, "is not a"),
                ("search", {"image": "link.png"}, "is not a"),
                ("search", {"image": "data:image/png;base64,%%"}, "base64"),
                ("search", {"text": "red", "collection": "none"}, "none"),
                ("look", {"id": "nobody"}, "nobody"),
                ("search", {"image": "a\0b.png"}, "null" if transport == "stdio" else "is not a"),
                ("search", {"text": "red", "filtre": {}}, "did you mean 'filter'?"),
                ("similar", {"id": "red-box", "context": 1}, "unknown field 'context'"),
            ):
                answer = await client.call_tool(tool, asked)
                assert answer.is_error, (tool, asked)
                assert sentence in answer.content[0].text, answer.content

    try:
        asyncio.run(use())
    finally:
        with Client(keyed.url, api_key=KEYS["write"]) as client:
            client.delete("new")


def test_an_agent_sees_what_was_read_as_a_filter(keyed: House) -> None:
    async def use() -> None:
        async with agent(keyed, "http", "read") as client:
            found = await call(client, "search", text="a thing by blue")
            assert found["understood"] == {"by blue": {"is": "blue"}}
            assert (await call(client, "search", text="a box"))["understood"] == {}

    asyncio.run(use())


def test_payloads_come_once_in_a_size_that_an_agent_takes_in(keyed: House) -> None:
    async def use() -> None:
        async with agent(keyed, "http", "write") as client:
            whole = await client.call_tool("similar", {"id": "red-box", "limit": 50})
            payloads = [one["payload"] for one in whole.structured_content["items"]]
            assert sum(len(json.dumps(one)) for one in payloads) < 65_000
            assert {} in payloads
            assert "payloads are left out" in whole.structured_content["warnings"][0]
            assert "payload" not in json.loads(whole.content[0].text)["items"][0]
            some = await call(client, "similar", id="red-box", limit=50, payload_keys=["n"])
            assert sorted(one["payload"]["n"] for one in some["items"] if "n" in one["payload"]) == [0, 1, 2]
            assert some["warnings"] == []

    names = [f"long-{n}" for n in range(3)]
    with Client(keyed.url, api_key=KEYS["write"]) as client:
        for n, name in enumerate(names):
            client.upsert(
                name, texts=["a red box"], images=[png("red")], payload={"n": n, "long": "x" * 30_000}
            )
    try:
        asyncio.run(use())
    finally:
        with Client(keyed.url, api_key=KEYS["write"]) as client:
            for name in names:
                client.delete(name)


def test_a_key_that_may_not_is_told_so(keyed: House) -> None:
    async def use() -> str:
        async with agent(keyed, "http", "read") as client:
            answer = await client.call_tool("add", {"id": "mine", "texts": ["a box"]})
            return str(answer.content[0].text)

    assert "this needs write" in asyncio.run(use())


@pytest.mark.parametrize(
    ("key", "status"), [(None, 401), ("wrong-key-of-an-agent", 401), (KEYS["read"], 200)]
)
def test_the_address_needs_a_key_where_there_are_keys(keyed: House, key: str | None, status: int) -> None:
    headers = {"accept": "application/json, text/event-stream"}
    headers |= {} if key is None else {"x-api-key": key}
    assert keyed.client.post("/mcp", json=PING, headers=headers).status_code == status


def test_pages_of_other_sites_and_unknown_names_are_refused(shop: House) -> None:
    def answer(**headers: str) -> httpx.Response:
        accept = "application/json, text/event-stream"
        return shop.client.post("/mcp", json=PING, headers={"accept": accept, **headers})

    assert answer().json()["result"] == {}
    assert answer(origin="http://evil.example").json()["error"]["code"] == "foreign_origin"
    assert answer(host="evil.example").json()["error"]["code"] == "unknown_host"
    assert answer(**{"content-type": "text/plain"}).status_code in (400, 415)
    assert shop.client.get("/mcp").status_code == 405
    assert (
        shop.client.post("/mcp", content=b"{", headers={"content-type": "application/json"}).status_code
        >= 400
    )


def test_a_service_without_the_extra_says_so(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multifold.agents.agents_installed", lambda: False)
    answer = shop.client.post("/mcp", json=PING)
    assert answer.status_code == 404
    assert "extra 'mcp'" in answer.json()["error"]["message"]


def opened(content: Any) -> Image.Image:  # noqa: ANN401
    return Image.open(io.BytesIO(base64.b64decode(content.data)))
