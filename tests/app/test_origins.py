"""A service without keys refuses what pages of other sites make a browser send."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.http.access import is_loopback
from tests.app.house import House, house

ELSEWHERE, OURS = "http://evil.example", "http://ours.example"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("local"), bundle, hosts="shop.example", cors=OURS) as one:
        yield one


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:80", 200),
        ("shop.example", 200),
        ("SHOP.example:8000", 200),
        ("[::1]:9", 200),
        ("page.localhost", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[", 403),
    ],
)
def test_only_known_hosts_are_answered(local: House, host: str, status: int) -> None:
    answer = local.client.get("/v1/info", headers={"host": host})
    assert answer.status_code == status, answer.text
    if status == 403:
        assert answer.json()["error"]["code"] == "unknown_host"


@pytest.mark.parametrize("path", ["/v1/snapshots", "/v1/bundles/reload", "/v1/items/delete", "/v1/search"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ELSEWHERE},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(local: House, path: str, headers: dict[str, str]) -> None:
    answer = local.client.post(path, content="{}", headers={"content-type": "text/plain", **headers})
    assert answer.status_code == 403, answer.text
    assert answer.json()["error"]["code"] == "foreign_origin"


def test_a_form_that_no_browser_marks_changes_nothing(local: House) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = local.client.post("/v1/snapshots", content="a=b", headers={"content-type": kind})
        assert answer.status_code == 415, answer.text


def test_our_own_page_and_programs_are_let_through(local: House) -> None:
    own = {"origin": local.url, "sec-fetch-site": "same-origin"}
    for headers in ({}, own, {"sec-fetch-site": "none"}, {"origin": OURS}):
        assert local.client.post("/v1/snapshots", headers=headers).status_code == 200
    assert local.client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_a_service_that_others_reach_takes_any_host(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, host="0.0.0.0") as shop:
        assert shop.client.get("/v1/info", headers={"host": "shop.example"}).status_code == 200
        answer = shop.client.post("/v1/snapshots", headers={"origin": ELSEWHERE})
        assert answer.json()["error"]["code"] == "foreign_origin"


def test_what_is_this_machine() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "a.localhost")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "10.0.0.1", "localhost.evil.example")))
