"""A collection is exported with what people said of its hits, as the manifest that training reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.feedback.export import ExportReport, ItemOpinion, find_rivals, weigh_judgements
from index.store.feedback import FeedbackQueryPart, Judgement
from multifold.cli import main
from multifold.client import Client, MixPart, Search
from multifold.manifest import ManifestEntry, read
from multifold.types import Verdict
from tests.app.house import House, house, png


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """Three boxes, one without a mesh, that people have judged."""
    with house(tmp_path_factory.mktemp("judged"), bundle, feedback="all") as opened:
        opened.fill("red", "blue")
        opened.client.put("/v1/items/plain", files=[("images", ("p.png", png("white"), "image/png"))])
        with Client(opened.url) as client:
            client.judge(Search(text="like a fire engine"), "red-box", "good", by="ann")
            client.judge(Search(text="like a fire engine"), "blue-box", "bad", by="ann")
            client.judge(Search(text="a red box"), "red-box", "good", by="bob")
            client.judge(Search(image=png("yellow")), "plain", "good")
            client.judge(Search(mix=[MixPart(text="red"), MixPart(text="blue")]), "plain", "good")
            client.judge(Search(text="gone"), "red-box", "bad", by="ann")
            client.judge(Search(text="gone"), "red-box", "good", by="bob")
        yield opened


def exported(at: House, out: Path) -> dict[str, ManifestEntry]:
    data = str(at.shelf.settings.data)
    assert main(["feedback", "export", str(out), "--data", data]) == 0
    return {entry.id: entry for entry in read(out / "manifest.jsonl")}


def test_an_export_has_captions_originals_and_what_people_said(
    judged: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = exported(judged, tmp_path / "said")
    red = entries["red-box"]
    assert red.texts == ("a red box", "red thing", "like a fire engine")
    assert sorted(red.meta["feedback"]["good"]) == ["a red box", "like a fire engine"]
    assert (red.meta["feedback"]["bad"], red.meta["feedback"]["rivals"]) == ([], ["blue-box"])
    assert red.meta["is"] == "red"
    assert red.mesh is not None
    assert red.mesh.suffix == ".glb"
    assert [path.read_bytes() for path in red.images] == [png("red")]
    assert entries["blue-box"].meta["feedback"]["bad"] == ["like a fire engine"]
    assert [path.read_bytes() for path in entries["plain"].images] == [png("white"), png("yellow")]
    told = capsys.readouterr().out
    assert "3 items, 3 good and 1 bad" in told
    assert "1 whose query is no single text or picture" in told
    assert "1 on which people disagree" in told


def test_an_export_takes_no_others_place(judged: House, tmp_path: Path) -> None:
    exported(judged, tmp_path)
    data = str(judged.shelf.settings.data)
    assert main(["feedback", "export", str(tmp_path), "--data", data]) == 2
    assert main(["feedback", "export", "--data", data]) == 2


def test_verdicts_are_listed(judged: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["feedback", "list", "--data", str(judged.shelf.settings.data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert any("good  red-box  for 'like a fire engine'  by ann" in line for line in lines)


def said(item: str, verdict: Verdict, text: str, author: str = "ann") -> Judgement:
    return Judgement(
        "0" * 32, item, verdict, "shape", (FeedbackQueryPart("text", text=text),), author, None, 0.0
    )


def test_most_people_are_right() -> None:
    told = ExportReport()
    votes = [said("a", "good", "q", "1"), said("a", "good", "q", "2"), said("a", "bad", "q", "3")]
    assert weigh_judgements([*votes, said("b", "bad", "q")], told) == {
        "a": ItemOpinion([("text", "q")], []),
        "b": ItemOpinion([], [("text", "q")]),
    }


def test_rivals_are_bad_where_another_is_good() -> None:
    opinions = weigh_judgements(
        [said("a", "good", "q"), said("b", "bad", "q"), said("c", "bad", "other"), said("d", "good", "q")],
        ExportReport(),
    )
    assert find_rivals(opinions) == {"a": {"b"}, "d": {"b"}}
