"""Clients that write and read all the time, and remember what they were told."""

import os
import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType

from multifold.client import Client, ServiceError
from multifold.errors import MultifoldError
from tests.waiting import PATIENCE, until

WRITERS, PARTS = ("a", "b"), 3
PAUSE = 0.05  # before somebody who was refused tries again


class Traffic:
    """Runs while the block does. Writers say each edition of their item until it is acknowledged."""

    def __init__(self, url: str, picture: bytes | None = None) -> None:
        self.url, self._pictures = url, [] if picture is None else [picture]
        self.acknowledged: dict[str, int] = {}
        self.refusals: Counter[str] = Counter()
        self.answers = 0
        self.silence = 0.0  # longest time without an answer to a reader, seconds
        self.torn: list[str] = []
        self._answered = time.monotonic()
        self._over = threading.Event()
        work = [(self._write, name) for name in WRITERS] + [(self._read, "reader")]
        self._threads = [threading.Thread(target=target, args=[name]) for target, name in work]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        self.more(2)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let everybody go."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def more(self, editions: int = 5) -> None:
        """Wait until every writer has got so many more editions in, and readers as many answers."""
        goal = {name: self.acknowledged.get(name, -1) + editions for name in WRITERS}
        answers = self.answers + editions

        def is_back() -> bool:
            assert all(thread.is_alive() for thread in self._threads)
            return self.answers >= answers and all(self.acknowledged.get(n, -1) >= goal[n] for n in WRITERS)

        until(is_back, what=f"more answers; refused so far: {dict(self.refusals)}")

    def passed(self, what: str, url: str = "") -> None:
        """Fail if anything was lost or torn; where one is wanted, a line for the table in docs."""
        self.stop()
        assert [*self._lost(url or self.url), *self.torn] == []
        if table := os.environ.get("MULTIFOLD_DRILLS"):
            refused = ", ".join(f"{count} × {code}" for code, count in sorted(self.refusals.items()))
            changes = sum(self.acknowledged.values()) + len(WRITERS)
            cells = (what, refused or "nothing", f"{self.silence:.1f}", str(changes), "0")
            with open(Path(table), "a", encoding="utf-8") as out:
                out.write(f"| {' | '.join(cells)} |\n")

    def _lost(self, url: str) -> list[str]:
        """What was acknowledged and is not there; an edition that nobody heard of may be."""
        with Client(url) as client:
            found = {name: client.get(name) for name in WRITERS}
        told = []
        for name, item in found.items():
            edition = item.payload["edition"]
            if edition not in (self.acknowledged[name], self.acknowledged[name] + 1):
                told.append(f"{name} is edition {edition}, not {self.acknowledged[name]}")
            if [one.text for one in item.observations if one.text] != captions(name, edition):
                told.append(f"{name} is torn")
        return told

    def _write(self, name: str) -> None:
        edition = 0
        with Client(self.url, timeout=PATIENCE / 3) as client:
            while not self._over.is_set():
                try:
                    client.upsert(
                        name,
                        texts=captions(name, edition),
                        images=self._pictures,
                        payload={"edition": edition},
                    )
                except ServiceError as error:
                    self._refused(error)
                else:
                    self.acknowledged[name] = edition
                    edition += 1

    def _read(self, _: str) -> None:
        with Client(self.url, timeout=PATIENCE / 3) as client:
            while not self._over.is_set():
                try:
                    hits = client.search(text="a red box", target="text", limit=10).hits
                except MultifoldError as error:
                    self._refused(error)
                    continue
                now = time.monotonic()
                self.silence = max(self.silence, now - self._answered)
                self._answered, self.answers = now, self.answers + 1
                for hit in (hit for hit in hits if hit.id in WRITERS):
                    if hit.matched.text not in captions(hit.id, hit.payload["edition"]):
                        self.torn.append(f"{hit.id} of edition {hit.payload['edition']}: {hit.matched.text}")

    def _refused(self, error: MultifoldError) -> None:
        self.refusals[getattr(error, "code", "refused")] += 1
        time.sleep(PAUSE)


def captions(name: str, edition: int) -> list[str]:
    """What is said of an item in one of its editions."""
    return [f"a red box, item {name}, edition {edition}, part {part}" for part in range(PARTS)]
