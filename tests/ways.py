"""Count the files of the repository that one call passes through: `python -m tests.ways FOLDER BUNDLE`.

Every file counts of which at least one function runs, on any thread, once everything is warm. What happens
while modules are imported does not count.
"""

import json
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

HOUSE = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "index", "multifold", "renderers", "training")


class FileCounter:
    """Notes the files whose functions run while it records."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._recording = False
        self._roots = tuple(f"{HOUSE / package}/" for package in PACKAGES)

    def install(self) -> None:
        """Watch this thread and all that are started from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def files_of(self, call: Callable[[], object]) -> list[str]:
        """The files that a call passes through."""
        self._files.clear()
        self._recording = True
        call()
        self._recording = False
        return sorted(self._files)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if self._recording and event == "call" and frame.f_code.co_name != "<module>":
            name = frame.f_code.co_filename
            if name.startswith(self._roots):
                self._files.add(name.removeprefix(f"{HOUSE}/"))


def main(folder: Path, bundle: Path) -> dict[str, list[str]]:
    """The three ways: a warm text search, a warm upsert, and an ingest of a folder with two meshes."""
    from app.collections import evidence
    from app.encoding.observations import open_drawing_encoder
    from app.ingest.run import IngestRequest, run_ingest
    from app.settings import Settings
    from tests.app.house import BOXES, box, house

    evidence.FEW = 1 << 40  # nothing is fitted in the background
    counter = FileCounter()
    counter.install()
    ways: dict[str, list[str]] = {}
    with house(folder / "served", bundle) as served:
        for number in range(8):
            for colour in BOXES:
                served.put(f"{colour}-{number}", colour)
        served.service.confidence.fit()  # else the first search starts it in the background
        served.service.evidence.fit()
        searches = [
            partial(served.search, target="item", text=f"a {colour} box {n}")
            for n, colour in enumerate(BOXES)
        ]
        ways["search"] = shortest(counter, searches)
        ways["upsert"] = shortest(counter, [partial(put_photo, served, f"box {n}") for n in range(4)])
        served.settle()
    meshes = folder / "meshes"
    meshes.mkdir()
    for colour in BOXES[:2]:
        (meshes / f"{colour}.glb").write_bytes(box(colour))
    settings = Settings(data=folder / "ingested", bundle=bundle, threads=1)
    encoder = open_drawing_encoder(bundle, 1)
    ways["ingest"] = counter.files_of(
        lambda: run_ingest(IngestRequest([meshes], workers=1), settings, encoder)
    )
    return ways


def shortest(counter: FileCounter, calls: Sequence[Callable[[], object]]) -> list[str]:
    """The way of the call that no work in the background joined: the first is for warming up."""
    calls[0]()
    return min((counter.files_of(call) for call in calls[1:]), key=len)


def put_photo(served: object, name: str) -> None:
    """Write an item of one photo and one caption."""
    from tests.app.house import House, png

    assert isinstance(served, House)
    files = [("images", ("photo.png", png("red"), "image/png"))]
    answer = served.client.put(f"/v1/items/{name}", data={"texts": [f"thing {name}"]}, files=files)
    assert answer.status_code == 200, answer.text


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))), encoding="utf-8")
