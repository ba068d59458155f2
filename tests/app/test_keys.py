"""With keys, each request needs the right one; nothing is let through by mistake."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.http.access import required_scope
from app.openapi import openapi_document
from app.operations.keys import ApiKey, ApiKeyError, hash_key, parse_keys, read_keys
from multifold.cli import main
from multifold.client import Client, ServiceError
from tests.app.house import House, house
from tests.app.test_bad_input import refused

READ, WRITE, ADMIN = ("read-key-0123456789", "write-key-0123456789", "admin-key-0123456789")
KEYS = f"read:{READ},write:{WRITE},admin:{ADMIN}"
NEEDED = {
    ("/v1/search", "post"): "read",
    ("/v1/search/batch", "post"): "read",
    ("/v1/facets", "post"): "read",
    ("/v1/embeddings", "post"): "read",
    ("/v1/traverse", "post"): "read",
    ("/v1/explain", "post"): "read",
    ("/v1/rerank", "post"): "read",
    ("/v1/classify", "post"): "read",
    ("/v1/items/tags:propose", "post"): "read",
    ("/v1/items/tags:accept", "post"): "write",
    ("/v1/items/tags:remove", "post"): "write",
    ("/v1/models", "get"): "read",
    ("/v1/models/{name}", "get"): "read",
    ("/v1/info", "get"): "read",
    ("/v1/folder", "get"): "read",
    ("/v1/feedback", "post"): "write",
    ("/v1/feedback", "get"): "write",
    ("/v1/feedback/{feedback_id}", "delete"): "write",
    ("/v1/feedback/{feedback_id}/files/{index}", "get"): "write",
    ("/v1/items", "post"): "write",
    ("/v1/items/delete", "post"): "write",
    ("/v1/items/scroll", "post"): "read",
    ("/v1/items/count", "post"): "read",
    ("/v1/items/{item_id}/similar", "post"): "read",
    ("/v1/items/{item_id}/views/{index}", "get"): "read",
    ("/v1/items/{item_id}/photos/{index}", "get"): "read",
    ("/v1/items/{item_id}/thumbnail", "get"): "read",
    ("/v1/items/{item_id}/model", "get"): "read",
    ("/v1/archive", "get"): "read",
    ("/v1/items/{item_id}", "get"): "read",
    ("/v1/items/{item_id}", "put"): "write",
    ("/v1/items/{item_id}", "patch"): "write",
    ("/v1/items/{item_id}", "delete"): "write",
    ("/v1/snapshots", "get"): "admin",
    ("/v1/snapshots", "post"): "admin",
    ("/v1/snapshots/{name}", "get"): "admin",
    ("/v1/snapshots/{name}", "delete"): "admin",
    ("/v1/collections", "get"): "read",
    ("/v1/collections", "post"): "admin",
    ("/v1/collections/{name}", "get"): "read",
    ("/v1/collections/{name}", "delete"): "admin",
    ("/v1/items/bulk", "post"): "write",
    ("/v1/collections/{name}/rebuild", "post"): "admin",
    ("/v1/collections/{name}/reindex", "post"): "admin",
    ("/v1/bundles/reload", "post"): "admin",
    ("/v1/bundles", "get"): "read",
    ("/v1/items/{item_id}/files/{index}", "get"): "read",
    ("/v1/jobs", "get"): "read",
    ("/v1/jobs/{job_id}", "get"): "read",
    ("/v1/jobs/{job_id}/cancel", "post"): "write",
    ("/v1/aliases", "get"): "read",
    ("/v1/aliases/{alias}", "put"): "admin",
    ("/v1/aliases/{alias}", "delete"): "admin",
    ("/metrics", "get"): "read",
    ("/healthz", "get"): None,
    ("/readyz", "get"): None,
}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("locked"), bundle, keys=KEYS) as opened:
        opened.client.headers["authorization"] = f"Bearer {WRITE}"
        opened.client.put("/v1/items/a", files={"texts": (None, "a red box")})
        del opened.client.headers["authorization"]
        yield opened


def test_every_resource_has_the_scope_that_it_should() -> None:
    paths = json.loads(openapi_document())["paths"]
    plain = {path: path.replace("/collections/{collection}", "") for path in paths}
    assert {(plain[path], method) for path, methods in paths.items() for method in methods} == set(NEEDED)
    for path, method in [(path, method) for path, methods in paths.items() for method in methods]:
        scope = NEEDED[plain[path], method]
        real = path.replace("{item_id}", "a/b").replace("{place}/{index}", "views/0").replace("{name}", "x")
        real = real.replace("{collection}", "items\n")
        assert required_scope(method.upper(), real) == scope, path


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/search"),
        ("POST", "/v1/items/x/simila"),
        ("DELETE", "/v1/items"),
        ("POST", "/v1/items/x\n/"),
    ],
)
def test_what_is_not_known_is_never_open(method: str, path: str) -> None:
    assert required_scope(method, path) in ("write", "admin")
    assert required_scope(method, path.replace("/v1", "/v1/collections/x", 1)) in ("write", "admin")
    assert required_scope(method, "/unknown") == "admin"
    assert required_scope(method, "/v1/collections/x/unknown") == "admin"


@pytest.mark.parametrize("key", [None, "?", "wrong", READ[:-1], READ + "x", "\u00e9"])
def test_without_a_known_key_nothing_is_read_or_written(locked: House, key: str | None) -> None:
    headers = {} if key is None else {b"authorization": b"Bearer " + key.encode()}
    version = locked.service.collection.version
    for method, path in (
        ("GET", "/v1/info"),
        ("POST", "/v1/search"),
        ("PUT", "/v1/items/b"),
        ("GET", "/metrics"),
    ):
        response = locked.client.request(method, path, headers=headers)
        refused(response, 401, "unauthorized", "needs a key")
        assert response.headers["www-authenticate"] == "Bearer"
    assert locked.service.collection.version == version
    assert locked.client.get("/healthz", headers=headers).status_code == 200


def test_a_key_does_what_it_may_and_no_more(locked: House) -> None:
    def ask(key: str, method: str, path: str, **content: Any) -> httpx.Response:  # noqa: ANN401
        return locked.client.request(method, path, headers={"authorization": f"bearer {key}"}, **content)

    assert ask(READ, "POST", "/v1/search", json={"text": "red"}).status_code == 200
    refused(ask(READ, "DELETE", "/v1/items/a"), 403, "forbidden", "may read; this needs write")
    assert ask(WRITE, "PUT", "/v1/items/b", files={"texts": (None, "blue")}).status_code == 200
    refused(ask(WRITE, "POST", "/v1/snapshots"), 403, "forbidden", "this needs admin")
    assert ask(ADMIN, "DELETE", "/v1/items/b").json() == {"removed": 1}
    header = locked.client.get("/v1/info", headers={"x-api-key": READ})
    assert header.status_code == 200


def test_the_client_brings_its_key(locked: House) -> None:
    with Client(locked.url, api_key=READ) as client:
        assert client.count() == 1
        with pytest.raises(ServiceError, match="needs write"):
            client.delete("a")


def test_a_large_body_without_a_key_is_not_read(locked: House) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    try:
        response = locked.client.post("/v1/search", content=endless())
    except httpx.TransportError:
        return  # the service has hung up already
    refused(response, 401, "unauthorized")


def test_reading_may_be_open_to_all(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, keys=KEYS, open_read=True) as shop:
        assert shop.search(text="red").status_code == 200
        refused(shop.client.delete("/v1/items/a"), 401, "unauthorized")


def test_changes_are_written_down_with_their_key(locked: House) -> None:
    headers = {"authorization": f"Bearer {WRITE}", "x-request-id": "change-7"}
    locked.client.patch("/v1/items/a", json={"payload": {"x": 1}}, headers=headers)
    path = locked.service.settings.data / "audit.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = lines[-1]
    assert (last["action"], last["ids"], last["key"], last["request_id"]) == (
        "patch",
        ["a"],
        "write-2",
        "change-7",
    )
    assert last["version"] == locked.service.collection.version
    assert WRITE not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_key_costs_is_counted_also_in_its_jobs(locked: House) -> None:
    def costs() -> dict[str, float]:
        text = locked.client.get("/metrics", headers={"x-api-key": ADMIN}).text
        lines = [line for line in text.splitlines() if line.startswith("multifold_key_")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def ask(path: str, **content: Any) -> httpx.Response:  # noqa: ANN401
        return locked.client.post(path, headers={"x-api-key": WRITE}, **content)

    searches = 'multifold_key_work_seconds_total{key="write-2",work="search"}'
    requests = 'multifold_key_requests_total{key="write-2"}'
    items = 'multifold_key_work_seconds_total{key="write-2",work="items"}'
    before = costs()
    assert ask("/v1/search", json={"text": "a lamp that no test asked for"}).status_code == 200
    locked.settle()
    middle = costs()
    assert middle[searches] > before.get(searches, 0.0)
    assert middle[requests] == before.get(requests, 0.0) + 1
    job = ask("/v1/items/bulk", json={"items": [{"id": "by-job", "texts": ["a lamp"]}]}).json()
    with Client(locked.url, api_key=WRITE) as client:
        assert client.wait(job["job"]["id"]).state == "done"
        client.delete("by-job")
    assert costs()[items] > middle.get(items, 0.0)
    lines = (locked.service.settings.data / "audit.jsonl").read_text().splitlines()
    writers = [line["key"] for line in map(json.loads, lines) if line["ids"] == ["by-job"]]
    assert writers == ["write-2", "write-2"]


def test_no_page_elsewhere_may_ask_unless_it_is_named(locked: House, tmp_path: Path, bundle: Path) -> None:
    origin = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in locked.client.options("/v1/search", headers=origin).headers
    with house(tmp_path, bundle, cors="https://shop.example, https://other.example", keys=KEYS) as shop:
        allowed = shop.client.options("/v1/search", headers=origin)
        assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
        stranger = shop.client.options("/v1/search", headers={**origin, "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in stranger.headers


class TestFiles:
    """Keys are kept as hashes."""

    def test_a_key_is_made_shown_once_used_and_removed(
        self, tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "keys.toml"
        assert main(["keys", "add", "ci", "--scope", "write", "--file", str(file)]) == 0
        secret = capsys.readouterr().out.splitlines()[0]
        assert secret not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert read_keys(file) == [ApiKey("ci", "write", hash_key(secret))]
        assert main(["keys", "add", "ci", "--file", str(file)]) == 2
        assert main(["keys", "list", "--file", str(file)]) == 0
        assert "ci: write" in capsys.readouterr().out
        with (
            house(tmp_path / "data", bundle, keys_file=file) as shop,
            Client(shop.url, api_key=secret) as client,
        ):
            assert client.upsert("a", texts=["red"]).version == 1
            refused(shop.client.get("/v1/info"), 401, "unauthorized")
        assert main(["keys", "remove", "ci", "--file", str(file)]) == 0
        assert main(["keys", "remove", "ci", "--file", str(file)]) == 2
        assert read_keys(file) == []

    def test_a_service_told_of_a_file_without_keys_is_not_left_open(
        self, tmp_path: Path, bundle: Path
    ) -> None:
        file = tmp_path / "keys.toml"
        file.touch()
        with (
            pytest.raises(ApiKeyError, match="holds no key"),
            house(tmp_path / "data", bundle, keys_file=file),
        ):
            pass

    @pytest.mark.parametrize(
        "text",
        [
            "x",
            "[a]\nscope = 'read'",
            "[a]\nscope = 'all'\nsha256 = 'ab'",
            "[a]\nscope = 'read'\nsha256 = 'ab'",
        ],
    )
    def test_a_file_that_is_none_is_refused(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "keys.toml"
        file.write_text(text)
        with pytest.raises(ApiKeyError):
            read_keys(file)

    @pytest.mark.parametrize("text", ["read", "read:short", "all:0123456789abcdef", ":0123456789abcdef"])
    def test_keys_of_the_environment_are_checked(self, text: str) -> None:
        with pytest.raises(ApiKeyError, match="is not SCOPE:KEY") as caught:
            parse_keys(text)
        assert "0123456789" not in str(caught.value)
