"""Who may ask what: by a key, from a page, and by which name of the service."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.http.access import is_loopback, required_scope
from app.openapi import openapi_document
from multifold.client import Client, ServiceError
from tests.app.answers import refused
from tests.app.house import House, house, png
from tests.app.http.operations import SCOPES
from tests.waiting import PATIENCE

READ, WRITE, ADMIN = ("read-key-0123456789", "write-key-0123456789", "admin-key-0123456789")
KEYS = f"read:{READ},write:{WRITE},admin:{ADMIN}"
ELSEWHERE, OURS = "http://evil.example", "http://ours.example"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with keys, and one item."""
    with house(tmp_path_factory.mktemp("locked"), bundle, keys=KEYS) as opened:
        photo = {"images": ("p.png", png("red"))}
        texts = {"texts": "a red box"}
        opened.client.put("/v1/items/a", data=texts, files=photo, headers={"x-api-key": WRITE})
        yield opened


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service without keys, which some names and one page may use."""
    with house(tmp_path_factory.mktemp("local"), bundle, hosts="shop.example", cors=OURS) as one:
        yield one


@pytest.fixture
def visitor(locked: House) -> Iterator[httpx.Client]:
    """A browser at the page of the service with keys."""
    with httpx.Client(base_url=locked.url, trust_env=False, timeout=PATIENCE) as client:
        yield client


def ask(at: House, key: str, method: str, path: str, **content: Any) -> httpx.Response:  # noqa: ANN401
    return at.client.request(method, path, headers={"authorization": f"bearer {key}"}, **content)


class TestScopes:
    """The scope that an operation needs."""

    def test_every_operation_has_the_scope_that_it_should(self) -> None:
        for path, methods in json.loads(openapi_document())["paths"].items():
            short = path.replace("/collections/{collection}", "")
            real = path.replace("{item_id}", "a/b").replace("{name}", "x").replace("{collection}", "items\n")
            for method in methods:
                assert required_scope(method.upper(), real) == SCOPES[short, method], path

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("PUT", "/v1/search"),
            ("POST", "/v1/items/x/simila"),
            ("DELETE", "/v1/items"),
            ("POST", "/v1/items/x\n/"),
        ],
    )
    def test_what_is_not_known_is_never_open(self, method: str, path: str) -> None:
        assert required_scope(method, path) in ("write", "admin")
        assert required_scope(method, path.replace("/v1", "/v1/collections/x", 1)) in ("write", "admin")
        assert required_scope(method, "/unknown") == "admin"
        assert required_scope(method, "/v1/collections/x/unknown") == "admin"


class TestKeys:
    """Where there are keys, each request needs the right one."""

    @pytest.mark.parametrize("key", [None, "?", "wrong", READ[:-1], READ + "x", "\u00e9"])
    def test_without_a_known_key_nothing_is_read_or_written(self, locked: House, key: str | None) -> None:
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

    def test_a_key_does_what_it_may_and_no_more(self, locked: House) -> None:
        assert ask(locked, READ, "POST", "/v1/search", json={"text": "red"}).status_code == 200
        refused(ask(locked, READ, "DELETE", "/v1/items/a"), 403, "forbidden", "may read; this needs write")
        assert ask(locked, WRITE, "PUT", "/v1/items/b", files={"texts": (None, "blue")}).status_code == 200
        refused(ask(locked, WRITE, "POST", "/v1/snapshots"), 403, "forbidden", "this needs admin")
        assert ask(locked, ADMIN, "DELETE", "/v1/items/b").json() == {"removed": 1}
        assert locked.client.get("/v1/info", headers={"x-api-key": READ}).json()["keys"] is True
        with Client(locked.url, api_key=READ) as client:
            assert client.count() == 1
            with pytest.raises(ServiceError, match="needs write"):
                client.delete("a")

    def test_a_large_body_without_a_key_is_not_read(self, locked: House) -> None:
        try:
            response = locked.client.post("/v1/search", content=(b"x" * 65536 for _ in range(64)))
        except httpx.TransportError:
            return  # the service has hung up already
        refused(response, 401, "unauthorized")

    def test_reading_may_be_open_to_all(self, tmp_path: Path, bundle: Path) -> None:
        with house(tmp_path, bundle, keys=KEYS, open_read=True) as shop:
            assert shop.search(text="red").status_code == 200
            refused(shop.client.delete("/v1/items/a"), 401, "unauthorized")

    def test_changes_are_written_down_with_their_key(self, locked: House) -> None:
        headers = {"authorization": f"Bearer {WRITE}", "x-request-id": "change-7"}
        locked.client.patch("/v1/items/a", json={"payload": {"x": 1}}, headers=headers)
        path = locked.service.settings.data / "audit.jsonl"
        last = json.loads(path.read_text().splitlines()[-1])
        written = (last["action"], last["ids"], last["key"], last["request_id"])
        assert written == ("patch", ["a"], "write-2", "change-7")
        assert last["version"] == locked.service.collection.version
        assert WRITE not in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_what_a_key_costs_is_counted_also_in_its_jobs(self, locked: House) -> None:
        def costs() -> dict[str, float]:
            lines = ask(locked, ADMIN, "GET", "/metrics").text.splitlines()
            pairs = (line.rsplit(" ", 1) for line in lines if line.startswith("multifold_key_"))
            return {name: float(value) for name, value in pairs}

        def work(kind: str) -> str:
            return f'multifold_key_work_seconds_total{{key="write-2",work="{kind}"}}'

        requests, before = 'multifold_key_requests_total{key="write-2"}', costs()
        ask(locked, WRITE, "POST", "/v1/search", json={"text": "a lamp that no test asked for"})
        locked.settle()
        middle = costs()
        assert middle[work("search")] > before.get(work("search"), 0.0)
        assert middle[requests] == before.get(requests, 0.0) + 1
        items = {"items": [{"id": "by-job", "texts": ["a lamp"]}]}
        job = ask(locked, WRITE, "POST", "/v1/items/bulk", json=items).json()
        with Client(locked.url, api_key=WRITE) as client:
            assert client.wait(job["job"]["id"]).state == "done"
            client.delete("by-job")
        assert costs()[work("write")] > middle.get(work("write"), 0.0)
        lines = (locked.service.settings.data / "audit.jsonl").read_text().splitlines()
        writers = [line["key"] for line in map(json.loads, lines) if line["ids"] == ["by-job"]]
        assert writers == ["write-2", "write-2"]


class TestSessions:
    """The key that a user of the page enters: in a cookie that no script and no other page can use."""

    def test_a_key_is_kept_in_a_cookie_until_it_is_left(self, visitor: httpx.Client) -> None:
        assert visitor.get("/v1/items/a/photos/0").status_code == 401
        entered = visitor.post("/v1/session", json={"key": READ})
        assert entered.json() == {"key": "read-1", "scope": "read"}
        cookie = entered.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict"} <= {part.strip() for part in cookie.split(";")}
        assert "expires" not in cookie
        assert visitor.get("/v1/items/a/photos/0").status_code == 200
        assert visitor.delete("/v1/items/a").status_code == 403  # the key may read
        assert visitor.delete("/v1/session").status_code == 200
        assert visitor.get("/v1/items/a/photos/0").status_code == 401

    def test_an_unknown_key_is_refused(self, visitor: httpx.Client) -> None:
        assert visitor.post("/v1/session", json={"key": "guessed-key-012345"}).status_code == 401
        assert not visitor.cookies

    @pytest.mark.parametrize(
        "headers",
        [{"origin": "http://127.0.0.1:1"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}],
    )
    def test_no_other_page_can_use_it(self, visitor: httpx.Client, headers: dict[str, str]) -> None:
        visitor.post("/v1/session", json={"key": WRITE})
        patch = {"payload": {"tags": ["x"]}}
        assert visitor.patch("/v1/items/a", json=patch, headers=headers).status_code == 401
        assert visitor.post("/v1/session", json={"key": READ}, headers=headers).status_code == 403
        own = {"origin": str(visitor.base_url).rstrip("/")}
        assert visitor.patch("/v1/items/a", json=patch, headers=own).status_code == 200


class TestOrigins:
    """What pages of other sites make a browser send is refused."""

    @pytest.mark.parametrize(
        ("host", "status"),
        [
            *((name, 200) for name in ("127.0.0.1", "localhost:80", "[::1]:9", "page.localhost")),
            *((name, 200) for name in ("shop.example", "SHOP.example:8000")),
            *((name, 403) for name in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example")),
            ("[", 403),
        ],
    )
    def test_only_known_hosts_are_answered(self, local: House, host: str, status: int) -> None:
        answer = local.client.get("/v1/info", headers={"host": host})
        assert answer.status_code == status, answer.text
        if status == 403:
            refused(answer, 403, "unknown_host")

    @pytest.mark.parametrize(
        "path", ["/v1/snapshots", "/v1/bundles/reload", "/v1/items/delete", "/v1/search"]
    )
    @pytest.mark.parametrize(
        "headers",
        [
            *({"origin": one} for one in (ELSEWHERE, "null", "http://[")),
            *({"sec-fetch-site": one} for one in ("cross-site", "same-site")),
        ],
    )
    def test_pages_of_other_sites_change_nothing(
        self, local: House, path: str, headers: dict[str, str]
    ) -> None:
        answer = local.client.post(path, content="{}", headers={"content-type": "text/plain", **headers})
        refused(answer, 403, "foreign_origin")

    def test_a_form_that_no_browser_marks_changes_nothing(self, local: House) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            answer = local.client.post("/v1/snapshots", content="a=b", headers={"content-type": kind})
            refused(answer, 415, "unsupported_media_type")

    def test_our_own_page_and_programs_are_let_through(self, local: House) -> None:
        own = {"origin": local.url, "sec-fetch-site": "same-origin"}
        for headers in ({}, own, {"sec-fetch-site": "none"}, {"origin": OURS}):
            assert local.client.post("/v1/snapshots", headers=headers).status_code == 200
        assert local.client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200

    def test_a_service_that_others_reach_takes_any_host(self, tmp_path: Path, bundle: Path) -> None:
        with house(tmp_path, bundle, host="0.0.0.0") as shop:
            assert shop.client.get("/v1/info", headers={"host": "shop.example"}).status_code == 200
            answer = shop.client.post("/v1/snapshots", headers={"origin": ELSEWHERE})
            refused(answer, 403, "foreign_origin")

    def test_what_is_this_machine(self) -> None:
        assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "a.localhost")))
        assert not any(map(is_loopback, ("", "0.0.0.0", "10.0.0.1", "localhost.evil.example")))

    def test_pages_may_ask_from_elsewhere_that_are_named(self, local: House, locked: House) -> None:
        def allowed(at: House, origin: str) -> str | None:
            headers = {"origin": origin, "access-control-request-method": "POST"}
            answer = at.client.options("/v1/search", headers=headers)
            found: str | None = answer.headers.get("access-control-allow-origin")
            return found

        assert allowed(local, OURS) == OURS
        assert allowed(local, ELSEWHERE) is None
        assert allowed(locked, OURS) is None
