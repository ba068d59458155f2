"""An index of the texts that are seen in photos of items, read one by one beside the searches.

What a photo says is noted in a file, under the key of the photo, and read once. So a process that was killed
goes on where it was, and an item that is written anew costs nothing. Until all photos of an item are read, it
is found by none of them.
"""

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from index.contracts import NEVER
from index.store.blobs import Blobs
from index.store.metadata import ChangesSince
from index.store.schema import observations
from index.store.store import Store
from index.texts.contracts import ItemTexts
from index.texts.words import WordIndex
from multifold.durable import make_folder
from multifold.errors import needs_extra
from multifold.machine import lower_thread_priority

with needs_extra("serve"):
    from sqlalchemy import select

log = logging.getLogger(__name__)

_PHOTOS = (
    select(observations.c.edition, observations.c.blob)
    .where(observations.c.kind == "photo", observations.c.blob.is_not(None))
    .order_by(observations.c.row)
)

Lines: TypeAlias = tuple[str, ...]  # of text, that are seen in one picture


@runtime_checkable
class PictureReader(Protocol):
    """Reads texts in pictures. `id` names all that decides what it reads."""

    id: str

    def read(self, picture: bytes) -> Lines:
        """The lines of text that are seen in the file of a picture."""


class ReadPictures:
    """What was read of pictures, by their keys, in a file of its own for each reader."""

    def __init__(self, home: Path | None, reader_id: str) -> None:
        self._path = None if home is None else home / f"{reader_id}.jsonl"
        self._known: dict[str, Lines] = {}
        if self._path is not None and self._path.is_file():
            for line in self._path.read_text("utf-8", errors="replace").splitlines():
                try:
                    key, *lines = json.loads(line)
                except (ValueError, TypeError):
                    continue  # the process was killed while it wrote this: the picture is read again
                self._known[key] = tuple(lines)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def lines(self, keys: Sequence[str]) -> Lines:
        """The lines of all of some pictures."""
        return tuple(line for key in keys for line in self._known[key])

    def add(self, key: str, lines: Lines) -> None:
        """Note what a picture says."""
        self._known[key] = lines
        if self._path is not None:
            make_folder(self._path.parent)
            with open(self._path, "a", encoding="utf-8") as file:
                separator = "\n" if file.tell() else ""  # before: what was cut short stays a line of its own
                file.write(separator + json.dumps([key, *lines]))


class PictureTexts:
    """The words that photos of a collection's items say, as far as they are read."""

    def __init__(self, store: Store, blobs: Blobs, home: Path | None, reader: PictureReader) -> None:
        self.reader = reader
        self.words = WordIndex()
        self.version = NEVER
        self._store, self._blobs = store, blobs
        self._read = ReadPictures(home, reader.id)
        self._waiting: dict[int, list[str]] = {}  # editions with photos that are not read, and all these
        self._lock = threading.Lock()  # for what is known of items
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many items have photos that are still to be read."""
        return len(self._waiting)

    def open(self) -> None:
        """Begin with what was read before."""
        self.catch_up()

    def follow(self) -> None:
        """Catch up after a change."""
        self.catch_up()

    def catch_up(self) -> None:
        """Know the items that the store has; those whose photos are not read yet follow by themselves."""
        with self._lock:
            if self.version == self._store.version():
                return
            if self.version != NEVER and not self._store.reaches(self.version):
                self.words, self.version, self._waiting = WordIndex(), NEVER, {}
            with self._store.moment() as now:
                changes = ChangesSince(now, self.version, 1)
                ended = [edition for edition, _ in changes.ended()]
                new: dict[int, list[str]] = {}
                for edition, key in now.execute(_PHOTOS.where(observations.c.edition > self.version)):
                    new.setdefault(edition, []).append(key)
            self.words.remove(ended)
            for edition in ended:
                self._waiting.pop(edition, None)
            read = {edition for edition, keys in new.items() if all(key in self._read for key in keys)}
            self._show({edition: new[edition] for edition in read})
            self._waiting |= {edition: keys for edition, keys in new.items() if edition not in read}
            self.version = changes.version
            if self._waiting and self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._work, name="picture-texts", daemon=True)
                self._thread.start()

    def settle(self) -> None:
        """Wait until every photo is read."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def save(self) -> None:
        """Each photo is noted as soon as it is read."""

    def keep(self) -> None:
        """Each photo is noted as soon as it is read."""

    def problems(self) -> Iterator[str]:
        """None: an item may have no photo, and a photo no text."""
        return iter(())

    def close(self) -> None:
        """Stop reading; the rest is read by the next process."""
        self._stopped.set()
        self.settle()

    def _work(self) -> None:
        lower_thread_priority()
        while (item := self._next()) is not None:
            edition, keys = item
            try:
                self._read_photos(keys)
            except OSError as error:  # a disk that is away or full: the next process reads them
                log.warning("texts in photos are not read for now: %s", error)
            with self._lock:
                if edition in self._waiting and all(key in self._read for key in keys):
                    self._show({edition: keys})
                self._waiting.pop(edition, None)  # last: who sees none waiting finds all

    def _read_photos(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key not in self._read and not self._stopped.is_set():
                self._read.add(key, self._lines(key))

    def _next(self) -> tuple[int, list[str]] | None:
        """The next item to be read; None ends the thread."""
        with self._lock:
            if self._stopped.is_set() or not self._waiting:
                self._thread = None
                return None
            return next(iter(self._waiting.items()))

    def _lines(self, key: str) -> Lines:
        """What a photo says; one that cannot be read says nothing."""
        try:
            return self.reader.read(self._blobs.get(key))
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 (readers raise every kind on bad input)
            log.warning("no text is read in the picture %s: %s", key, error)
            return ()

    def _show(self, items: Mapping[int, Sequence[str]]) -> None:
        """Let questions see what the photos of items say."""
        said = {edition: self._read.lines(keys) for edition, keys in items.items()}
        self.words.add([ItemTexts(edition, "", captions=lines) for edition, lines in said.items() if lines])
