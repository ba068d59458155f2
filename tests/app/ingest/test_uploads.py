"""Items whose files are addresses: fetched from hosts that are named, and from nowhere else."""

import asyncio
import gzip
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import ApiError
from app.ingest.uploads import MOST_REDIRECTIONS, FileFetcher, is_public
from multifold.client import Client, NewItem
from tests.answering import answering
from tests.app.answers import refused, write
from tests.app.house import House, box, house, png

LARGEST = 64 * 1024


@dataclass
class Site:
    """A host with some files, and what it was asked for."""

    address: str = ""
    files: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.address.removeprefix("http://")

    def keep(self, path: str, data: bytes, status: int = 200, **headers: str) -> str:
        self.files[path] = status, {name.replace("_", "-"): value for name, value in headers.items()}, data
        return f"{self.address}{path}"


@contextmanager
def hosting() -> Iterator[Site]:
    site = Site()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(f"{self.headers['host']}{self.path}")
            status, headers, data = site.files.get(self.path.partition("?")[0], (404, {}, b"nothing"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    with answering(Answers) as port:
        site.address = f"http://127.0.0.1:{port}"
        yield site


@pytest.fixture
def site() -> Iterator[Site]:
    with hosting() as found:
        yield found


@pytest.fixture
def shelf(tmp_path: Path, bundle: Path, site: Site) -> Iterator[House]:
    """An empty collection whose service may ask that host."""
    with house(tmp_path, bundle, fetch_hosts=f"assets.example, {site.host}", max_body=LARGEST) as opened:
        yield opened


def refusals(shop: House, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """What is said of each of some items that are all refused."""
    response = shop.client.post("/v1/items", json={"items": items})
    assert response.is_client_error, response.text
    results: list[dict[str, Any]] = response.json()["results"]
    return results


def trouble(shop: House, *images: str, **more: Any) -> tuple[str, str]:  # noqa: ANN401 (any JSON)
    (entry,) = refusals(shop, {"id": "bad", "images": [*images], **more})
    return entry["error"]["code"], entry["error"]["message"]


def put(shop: House, name: str, *fields: tuple[str, str]) -> httpx.Response:
    return shop.client.put(f"/v1/items/{name}", files=[(one, (None, said)) for one, said in fields])


def test_files_are_fetched_for_items_in_json_in_forms_and_of_the_client(shelf: House, site: Site) -> None:
    photo = site.keep("/red.png", png("red"), content_type="image/png")
    mesh = site.keep("/a/box.glb", box("green"))
    answer = write(shelf, {"id": "red", "images": [photo]}, {"id": "green", "mesh": f"{mesh}?version=2"})
    assert answer["refused"] == 0, answer
    assert answer["results"][1]["written"]["observations"]["view"] == 6
    assert put(shelf, "form", ("images", photo), ("mesh", mesh)).status_code == 200
    with Client(shelf.url) as client:
        client.upsert("one", images=[photo], mesh=mesh)
        assert not client.upsert_many([NewItem("many", images=(photo,), mesh=mesh)]).refused
    for name in ("form", "one", "many"):
        kinds = [seen["kind"] for seen in shelf.client.get(f"/v1/items/{name}").json()["observations"]]
        assert kinds.count("photo") == 1
        assert kinds.count("view") == 6
    assert shelf.best(text="a green box") == "green"
    assert set(site.asked[:2]) == {f"{site.host}/red.png", f"{site.host}/a/box.glb?version=2"}  # at once
    assert shelf.client.get("/v1/info").json()["fetches"]


def test_nothing_is_fetched_unless_a_host_is_named(tmp_path: Path, bundle: Path, site: Site) -> None:
    photo = site.keep("/red.png", png("red"))
    with house(tmp_path, bundle) as shop:
        assert trouble(shop, photo)[0] == "url_refused"
        refused(put(shop, "a", ("images", photo)), 422, "url_refused", "data URI")
        refused(shop.search(image=photo), 422, "bad_image", "data URI")
        assert not shop.client.get("/v1/info").json()["fetches"]
    assert not site.asked


def test_public_means_neither_this_machine_nor_its_networks(tmp_path: Path, bundle: Path, site: Site) -> None:
    port = site.host.partition(":")[2]
    inside = [
        *(f"http://{host}/red.png" for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "0.0.0.0")),
        *(
            f"http://{host}/red.png"
            for host in ("10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]")
        ),
        *(f"http://{host}:{port}/red.png" for host in ("127.0.0.1", "localhost", "example.com")),
        "https://user:secret@example.com/red.png",
    ]
    with house(tmp_path, bundle, fetch_hosts="public") as shop:
        answer = refusals(shop, *({"id": f"i{n}", "images": [one]} for n, one in enumerate(inside)))
    codes = [entry["error"]["code"] for entry in answer]
    assert set(codes) <= {"url_refused", "url_failed"}  # some are no names that this machine's resolver knows
    assert codes[0] == codes[5] == codes[6] == codes[7] == codes[8] == codes[-1] == "url_refused"
    assert not site.asked


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("64:ff9b::5db8:d822", True),
        *((one, False) for one in ("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1")),
        *((one, False) for one in ("169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255")),
        *((one, False) for one in ("::", "::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:10.0.0.1")),
        *((one, False) for one in ("64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:4136:e378::fdd2")),
        *(
            (one, False)
            for one in ("fec0::1", "64:ff9b:1::5db8:d822", "::10.0.0.1", "::ffff:0:10.0.0.1", "::2")
        ),
        *((one, False) for one in ("192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1")),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) == public


def test_a_redirection_is_checked_like_an_address(shelf: House, site: Site) -> None:
    photo = site.keep("/red.png", png("red"))
    site.keep("/moved", b"", status=302, location="/red.png")
    assert write(shelf, {"id": "moved", "images": [f"{site.address}/moved"]})["written"] == 1
    with hosting() as other:
        site.keep("/away", b"", status=302, location=other.keep("/secret.png", png("red")))
        assert trouble(shelf, f"{site.address}/away")[0] == "url_refused"
        assert not other.asked
    site.keep("/file", b"", status=302, location="file:///etc/hostname")
    assert trouble(shelf, f"{site.address}/file")[0] == "url_refused"
    site.keep("/round", b"", status=302, location="/round")
    assert trouble(shelf, f"{site.address}/round") == (
        "url_failed",
        f"the file of 'image' is redirected more than {MOST_REDIRECTIONS} times",
    )
    assert site.asked.count(f"{site.host}/round") == 1 + MOST_REDIRECTIONS
    assert photo


def test_what_is_wrong_is_said_and_leaves_the_others_alone(shelf: House, site: Site) -> None:
    good = site.keep("/red.png", png("red"))
    page = site.keep("/page", b"<html>", content_type="text/html; charset=utf-8")
    packed = site.keep("/packed", gzip.compress(png("red")), content_encoding="gzip")
    broken = site.keep("/broken", b"no picture")
    cut = site.keep("/cut", png("red")[:50], content_length="5000")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}/a.png"
    bad = [page, packed, broken, cut, nowhere, f"{site.address}/none", "http://", "http://[1/a.png"]
    items = [{"id": f"i{n}", "images": [one]} for n, one in enumerate([*bad, good])]
    results = write(shelf, *items)["results"]
    assert [entry["written"] is not None for entry in results] == [False] * len(bad) + [True]
    said = [entry["error"]["message"] for entry in results[:-1]]
    codes = [entry["error"]["code"] for entry in results[:-1]]
    assert said[0].endswith("is text/html, as its host says")
    assert said[5].endswith("is answered with 404 by its host")
    assert codes == [
        *("url_failed", "url_failed", "bad_image", "url_failed", "url_refused", "url_failed"),
        *("url_refused", "url_refused"),
    ]


def test_all_files_of_an_item_are_together_no_larger_than_an_upload(shelf: House, site: Site) -> None:
    half = site.keep("/half", png("red") + bytes(LARGEST // 2 - 1000))
    whole = site.keep("/whole", png("red") + bytes(LARGEST))
    assert write(shelf, {"id": "one", "images": [half]})["written"] == 1
    assert trouble(shelf, whole)[0] == "too_large"
    assert trouble(shelf, half, half, half)[0] == "too_large"
    assert trouble(shelf, *[half] * 65)[0] == "too_many_files"
    refused(put(shelf, "many", *[("images", half)] * 65), 422, "too_many_files")


def test_the_host_that_was_checked_is_the_one_that_is_asked(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    """A name that leads home when it is looked up again is not looked up again."""
    site.keep("/red.png", png("red"))
    port, real, seen = int(site.host.partition(":")[2]), socket.getaddrinfo, []

    def found(host: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
        if host != "assets.example":
            return real(host, *rest, **more)
        seen.append(host)
        assert len(seen) == 1
        return real("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)

    async def fetched(allowed: str) -> bytes:
        fetcher = FileFetcher(allowed, LARGEST)
        return (await fetcher.fetch(f"http://assets.example:{port}/red.png", "image", LARGEST)).data

    assert asyncio.run(fetched(f"assets.example:{port}")) == png("red")
    assert site.asked == [f"assets.example:{port}/red.png"]


def test_a_name_with_one_private_address_is_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*_: object, **__: object) -> list[Any]:
        return [(2, 1, 6, "", (address, 80)) for address in ("93.184.216.34", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    with pytest.raises(ApiError, match="no public host"):
        asyncio.run(FileFetcher("public", LARGEST).fetch("http://both.example/a.png", "image", LARGEST))
