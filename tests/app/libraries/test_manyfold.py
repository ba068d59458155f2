"""`multifold ingest manyfold:URL`: from a server that speaks Manyfold's API to items that lead back to it."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from multifold.cli import main
from tests.answering import answering
from tests.app.conftest import Stored
from tests.app.house import box, png
from tests.app.libraries.manyfold import SECRET, Manyfold, Model, serving

STL, GLB, PNG = "model/stl", "model/gltf", "image/png"
Run = Callable[..., int]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manyfold]:
    """Three models of which one has nothing to be seen, on two pages."""
    red = Model("Red box", {"red.glb": (GLB, box("red")), "red.png": (PNG, png("red"))})
    red.fields = {
        "caption": "a box",
        "description": "It is red.",
        "keywords": ["box", "small"],
        "spdx:license": {"@type": "spdx:License", "licenseId": "CC-BY-4.0"},
        "creator": {"@id": "http://manyfold.invalid:3214/creators/ann", "@type": "Organization"},
    }
    parts = {"left.glb": (GLB, box("red")), "whole.glb": (GLB, box("blue")), "plan.pdf": ("text/x", b"%PDF")}
    blue = Model("Blue thing", parts, shown="whole.glb")
    none = Model("Notes", {"notes.md": ("text/markdown", b"none")})
    monkeypatch.setenv("MANYFOLD_CLIENT_ID", SECRET["client_id"])
    monkeypatch.setenv("MANYFOLD_CLIENT_SECRET", SECRET["client_secret"])
    with serving(Manyfold({"aa1": red, "bb2": blue, "cc3": none}, {"ann": "Ann"})) as opened:
        yield opened


@pytest.fixture
def run(library: Manyfold, data: Path, bundle: Path) -> Run:
    """The command, into the collection of the test."""

    def ingest(*more: str, source: str = "") -> int:
        library.asked.clear()
        source = source or f"manyfold:{library.url}"
        words = ["ingest", source, "--data", str(data), "--bundle", str(bundle), "--workers", "1", *more]
        return main(words)

    return ingest


def fetched(library: Manyfold) -> list[str]:
    """The files whose bytes were asked for."""
    return sorted(path for path in library.asked if "/raw/" in path)


def test_models_become_items_that_lead_back(
    run: Run, library: Manyfold, stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    output = capsys.readouterr()
    assert "2 added, 0 changed, 0 moved, 0 deleted, 0 unchanged, 1 skipped" in output.out
    assert "cc3: it has no mesh and no picture that can be read" in output.err
    items = stored()
    assert items["aa1"].texts == ("Red box", "a box", "It is red.")
    assert (len(items["aa1"].pictures("photo")), len(items["aa1"].pictures("view"))) == (1, 6)
    payload = items["aa1"].payload
    assert payload["link"] == f"{library.url}/models/aa1"
    assert (payload["tags"], payload["creator"], payload["licence"]) == (["box", "small"], "Ann", "CC-BY-4.0")
    assert fetched(library) == [
        "/models/aa1/raw/red.glb",
        "/models/aa1/raw/red.png",
        "/models/bb2/raw/whole.glb",
    ]
    assert library.tokens == 1


def test_another_run_brings_what_has_changed(
    run: Run, library: Manyfold, stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    assert run() == 0
    assert "0 added, 0 changed, 0 moved, 0 deleted, 2 unchanged" in capsys.readouterr().out
    assert fetched(library) == []
    views = stored()["bb2"].pictures("view")
    library.models["aa1"].name = "Red crate"
    library.models["bb2"].files["whole.glb"] = (GLB, box("green", 0.5))
    library.models["dd4"] = Model("Late ball", {"ball.png": (PNG, png("green"))})
    run()
    assert "1 added, 2 changed" in capsys.readouterr().out
    assert fetched(library) == ["/models/bb2/raw/whole.glb", "/models/dd4/raw/ball.png"]
    items = stored()
    assert items["aa1"].texts[0] == "Red crate"
    assert items["bb2"].pictures("view") != views
    del library.models["aa1"]
    run()
    assert "1 deleted" in capsys.readouterr().out
    assert set(stored()) == {"bb2", "dd4"}


def test_a_server_that_is_busy_or_forgets_the_token_is_asked_again(
    run: Run, library: Manyfold, stored: Stored
) -> None:
    library.busy = 2
    assert run() == 0
    assert set(stored()) == {"aa1", "bb2"}
    library.expire = 3  # answers after which the token is good for nothing
    assert run() == 0
    assert library.tokens == 3


def test_a_model_that_cannot_be_read_stays_as_it_was(
    run: Run, library: Manyfold, stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    library.models["aa1"].fields["hasPart"] = "nothing of the kind"
    run()
    output = capsys.readouterr()
    assert "2 unchanged, 2 skipped" in output.out
    assert f"aa1: {library.url} answers otherwise than API v0 says" in output.err
    library.models["aa1"].fields["hasPart"] = [{"@id": "/models/aa1/model_files/..", "encodingFormat": STL}]
    run()
    assert "answers otherwise" in capsys.readouterr().err
    assert set(stored()) == {"aa1", "bb2"}


def test_a_library_that_is_suddenly_empty_deletes_nothing_unless_asked(
    run: Run, library: Manyfold, stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    library.models.clear()
    assert run() == 2
    assert "lists no items now, and 2 were read from it" in capsys.readouterr().err
    assert set(stored()) == {"aa1", "bb2"}
    assert run("--allow-empty") == 0
    assert stored() == {}


@pytest.mark.parametrize(
    ("source", "secret", "sentence"),
    [
        ("", "another", "gives no token for MANYFOLD_CLIENT_ID: unknown client"),
        ("", "", "set MANYFOLD_CLIENT_ID and MANYFOLD_CLIENT_SECRET"),
        ("manyfold:ftp://models", "a-secret", "is no address of a Manyfold"),
        ("manyfold:http://127.0.0.1:9", "a-secret", "http://127.0.0.1:9 cannot be reached"),
    ],
)
def test_what_keeps_a_library_from_being_read_is_said(
    run: Run,
    source: str,
    secret: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MANYFOLD_CLIENT_SECRET", secret)
    assert run(source=source) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--dry-run", "--watch"])
def test_options_for_files_are_refused(run: Run, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(option) == 2
    assert "are for files" in capsys.readouterr().err


@pytest.fixture
def stranger() -> Iterator[tuple[str, list[str]]]:
    """Another server beside it, and the tokens that it was shown."""
    shown: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("authorization", "none"))
            self.send_error(404)

        do_POST = do_GET  # noqa: N815 (what the handler of a request is called)

    with answering(Handler) as port:
        yield f"127.0.0.1:{port}", shown


@pytest.mark.parametrize(
    "form",
    [
        "http://x//{other}/a.png",
        "//{other}/a.png",
        "///{other}/a.png",
        "http://{other}/a.png",
        "http://x/\\{other}/a.png",
        "\\\\{other}\\a.png",
        "http://x/%2F%2F{other}/a.png",
        "/..//{other}/a.png",
        "http://user:word@{other}/a.png",
        "https://{other}/a.png",
        "http://x//user@{other}/a.png",
        "http:/{other}/a.png",
        "http://x/;@{other}/a.png",
    ],
)
def test_the_token_stays_with_its_host(
    run: Run, library: Manyfold, stranger: tuple[str, list[str]], form: str
) -> None:
    other, shown = stranger
    library.at = form.format(other=other)
    run()
    assert shown == []
    library.at = ""
    library.onward = form.format(other=other)
    run()
    assert shown == []


def test_what_leads_to_another_host_is_named(
    run: Run, library: Manyfold, stranger: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    library.onward = f"http://{stranger[0]}/inside"
    run()
    assert (
        f"leads to http://{stranger[0]}/inside, and the token is for {library.url}" in capsys.readouterr().err
    )


def test_a_redirect_that_is_no_address_is_a_sentence(
    run: Run, library: Manyfold, capsys: pytest.CaptureFixture[str]
) -> None:
    library.onward = "http:\\\\other/"
    run()
    assert f"{library.url} cannot be reached" in capsys.readouterr().err


def test_a_library_without_end_is_refused_and_nothing_is_lost(
    run: Run, library: Manyfold, stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    library.endless = True
    assert run("--library-items", "30") == 2
    assert "lists more than 30 models; --library-items allows more" in capsys.readouterr().err
    assert len(library.asked) < 40
    assert set(stored()) == {"aa1", "bb2"}


def test_a_file_that_is_too_long_is_named(
    run: Run, library: Manyfold, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--library-bytes", "100") == 1
    error = capsys.readouterr().err
    assert "has more than 100 bytes; --library-bytes allows more" in error
    assert [path for path in library.asked if "/raw/" in path]


def test_a_library_with_too_many_pages_is_refused(
    run: Run, library: Manyfold, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library.endless = True
    monkeypatch.setattr("app.libraries.manyfold.MOST_PAGES", 20)
    assert run() == 2
    assert "lists its models on more than 20 pages" in capsys.readouterr().err
    assert len(library.asked) < 30


def test_a_library_that_sends_too_much_in_all_is_left(
    run: Run, library: Manyfold, stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file is too long by itself; what came before is kept, and the next run goes on."""
    assert run("--library-total", "3000") != 0
    assert "sends more than 3000 bytes in all; --library-total allows more" in capsys.readouterr().err
    asked = len(library.asked)
    assert run() == 0
    assert asked < len(library.asked)
    assert set(stored()) == {"aa1", "bb2"}
