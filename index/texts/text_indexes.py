"""The texts of a collection's items as the store has them, and the text indexes that follow its change log.

The indexes are derived, and saved in a folder of their own beside the engines. Where nothing that fits is
saved, those of a large collection are built in the background, and say nothing meanwhile. Words come first: a
reader takes longest.
"""

import json
import logging
import re
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from index.contracts import NEVER
from index.store.browse import count
from index.store.item_rows import MAX_KEY_PARTS, MOST_ELEMENTS, VALUES, fact_value, payload_of, read_rows
from index.store.metadata import ChangesSince
from index.store.schema import items, observations
from index.store.store import Store
from index.texts.contracts import ItemTexts, TextIndex, TextIndexError
from index.texts.readers import ReaderIndex
from index.texts.saving import CONTENTS
from index.texts.words import WordIndex
from multifold.bundle.bundle import file_hash
from multifold.bundle.text_reader import TextReader
from multifold.durable import make_folder, write_file
from multifold.errors import needs_extra
from multifold.payload import FILE_KEYS, PART_NAMES, is_of_folder, owner_part

with needs_extra("serve"):
    from sqlalchemy import Connection, Select, select

log = logging.getLogger(__name__)

RULES = 6  # how texts are cut; another number builds every collection's indexes again
PAGES = 16  # of items that are added together
BACKGROUND = 2_000  # items that are worth not to be waited for
SAVE_AFTER, SAVE_SHARE = 8_192, 8  # changes that are derived again after a crash, or a part of the items
SAVED_ITEMS = 64  # items; fewer are derived faster than they are written
CURRENT = "current.json"
PAGE_ITEMS = 1_000  # items that are taken from the store together,
READ_TOGETHER = 100  # and by a reader: about a second of one that takes milliseconds a text
_MADE = re.compile(r"(?:[0-9a-f]-?){31,}[0-9a-f]", re.IGNORECASE)  # hashes and UUIDs
_ITEMS = select(items).order_by(items.c.edition)
_CAPTIONS = (
    select(observations.c.edition, observations.c.text)
    .where(observations.c.edition.in_(VALUES), observations.c.text.is_not(None))
    .order_by(observations.c.row)
)


@dataclass(frozen=True)
class TextIndexSet:
    """The indexes of one moment; `reader` is there where there is a text reader."""

    words: WordIndex
    reader: ReaderIndex | None = None
    writing: WordIndex | None = None  # of texts in photos; an index of its own

    def each(self) -> Mapping[str, TextIndex]:
        """Every index by its name."""
        return {"words": self.words} | ({} if self.reader is None else {"reader": self.reader})


class TextIndexes:
    """The text indexes of a collection. Questions wait for nothing; changes run one by one."""

    def __init__(
        self,
        store: Store,
        home: Path | None,
        *,
        writes: bool,
        reader: TextReader | None = None,
    ) -> None:
        """`home` is where they are saved."""
        self._store, self._home, self._writes, self._reader = store, home, writes, reader
        self._stamp = {"rules": RULES, "reader": reader and reader.id, "session": store.session}
        self._fits = {**self._stamp, "session": store.former}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._builder: threading.Thread | None = None
        self._checked = 0  # items that there were when their language was looked at
        self._saved = NEVER
        self.current = self._empty()
        self.version = NEVER
        self.progress: float | None = None  # of the building in the background

    def open(self) -> None:
        """Begin with what was saved, if it fits; else build, in the background where that takes long."""
        self._restore()
        self.catch_up()

    @property
    def words(self) -> WordIndex:
        """The index of words, as it is now."""
        return self.current.words

    @property
    def read_by(self) -> str:
        """The reader and the languages that scores of texts depend on."""
        return " ".join([self._reader.id if self._reader else "no reader", *self.words.languages])

    @property
    def reader(self) -> ReaderIndex | None:
        """The index of what the text reader reads, as it is now."""
        return self.current.reader

    def catch_up(self) -> None:
        """Apply what the store has that the indexes have not; build them if that cannot be told."""
        with self._lock:
            if self.version == self._store.version():
                return
            if self.version != NEVER and self._store.reaches(self.version):
                self._follow()
            elif self._builder is None:
                self._build()

    def follow(self) -> None:
        """Catch up after a change."""
        self.catch_up()

    def settle(self) -> None:
        """Wait until nothing is being built."""
        builder = self._builder
        if builder is not None:
            builder.join()

    def save(self) -> None:
        """Save the indexes if much has changed since they were saved last."""
        if self.version - self._saved >= max(SAVE_AFTER, self.words.count() // SAVE_SHARE):
            self.keep()

    def keep(self) -> None:
        """Save the indexes as they are, if that is worth it. A full disk costs no more than building them."""
        with self._lock:
            if self._home is None or not self._writes or self.version in (NEVER, self._saved):
                return
            if self._builder is not None:  # one of them is not there yet
                return
            if self.words.count() >= SAVED_ITEMS:
                try:
                    self._save(self._home)
                except OSError as error:
                    log.warning("the text indexes in %s were not saved: %s", self._home, error)

    def problems(self) -> Iterator[str]:
        """One sentence for each index that has not as many items as the store, unless it is being built."""
        with self._store.moment() as now:
            items = count(now)
        for name, index in self.current.each().items() if self._builder is None else ():
            if index.count() != items:
                yield f"The index of {name} has {index.count()} items, and the store {items}."

    def close(self) -> None:
        """End what is being built."""
        self._stopped.set()
        self.settle()

    def _empty(self) -> TextIndexSet:
        reader = None if self._reader is None else ReaderIndex(self._reader)
        return TextIndexSet(WordIndex(), reader)

    def _follow(self) -> None:
        """Bring the indexes to the store's version by its log of changes."""
        since = self.version
        self.version = NEVER  # half a change is no version: after a failure all is built again
        with self._store.moment() as now:
            version = _bring(now, self.current.each().values(), since)
            self._check_languages(now)
        self.version = version

    def _build(self) -> None:
        """Build the indexes of all that the store has."""
        with self._store.moment() as now:
            if (items := count(now)) > BACKGROUND:
                self._build_aside(items)
                return
            words, version = self._build_words(now)
        self.current = TextIndexSet(words, self._read_all(version))
        self.version = version

    def _check_languages(self, now: Connection) -> None:
        """Build the index of words again if the texts have turned out to be of another language."""
        if self.words.count() < 2 * self._checked or not self.words.count():
            return
        self._checked = self.words.count()
        if (spoken := self.words.spoken()) != self.words.languages:
            words, _ = self._build_words(now, spoken)
            self.current = TextIndexSet(words, self.current.reader)

    def _build_words(
        self, now: Connection, languages: tuple[str, ...] | None = None
    ) -> tuple[WordIndex, int]:
        """All words that the store has, and their version; in these languages, or as soon as theirs is known.

        A language is chosen once: stems of another one can make the texts look like those of the first.
        """
        words = WordIndex(languages)
        for some in _many(texts_since(now, NEVER)):
            words.add(some)
            spoken = words.languages if languages else words.spoken()
            if words.count() == len(some) and spoken != words.languages:
                return self._build_words(now, spoken)
            if self._stopped.is_set():
                break
        self._checked = words.count()
        return words, ChangesSince(now, NEVER, 1).version

    def _read_all(
        self, version: int, on_progress: Callable[[int], object] = lambda _: None
    ) -> ReaderIndex | None:
        """What the reader reads in the texts that a version has and the store still has.

        No moment of the store is held for long.
        """
        if self._reader is None:
            return None
        read, last = ReaderIndex(self._reader), NEVER
        while not self._stopped.is_set():
            which = _ITEMS.where(items.c.edition.between(last + 1, version)).limit(READ_TOGETHER)
            with self._store.moment() as now:
                some = _texts(now, which)
            if not some:
                break
            read.add(some)
            last = some[-1].edition
            on_progress(read.count())
        return read

    def _build_aside(self, items: int) -> None:
        def build() -> None:
            try:
                with self._store.moment() as now:
                    words, version = self._build_words(now)
                self._show(words, version)
                reader = self._read_all(version, note)
                if reader is not None:
                    self._add_reader(reader, version)
            except Exception:
                self.version = NEVER
                log.exception("the text indexes could not be built; the next change tries again")
            self.progress = self._builder = None

        def note(done: int) -> None:
            self.progress = min(1.0, done / items)

        self.progress = 0.0
        self._builder = threading.Thread(target=build, name="text-indexes", daemon=True)
        self._builder.start()

    def _show(self, words: WordIndex, version: int) -> None:
        """Let questions see words of a version, and bring them up to the store's."""
        with self._lock:
            if not self._stopped.is_set():
                self.current = TextIndexSet(words)
                self.version = version
                self._follow()

    def _add_reader(self, reader: ReaderIndex, version: int) -> None:
        """Let questions see the index of a reader too, once it has the version of the words."""
        with self._lock, self._store.moment() as now:
            if self._stopped.is_set():
                return
            if not self._store.reaches(version):
                raise TextIndexError("the log of changes was cut short while texts were read")
            _bring(now, [reader], version)
            self.version = _bring(now, [self.words], self.version)
            self.current = TextIndexSet(self.words, reader)

    def _restore(self) -> None:
        """Begin with what was saved, if it fits."""
        if self._home is None or not (self._home / CURRENT).exists():
            return
        try:
            saved = json.loads((self._home / CURRENT).read_bytes())
            if other := [key for key in self._fits if saved[key] != self._fits[key]]:
                raise TextIndexError(f"they were saved with another {' and '.join(other)}")
            folder, version = self._home / saved["folder"], int(saved["folder"].partition("-")[0])
            if version > self._store.version():
                raise TextIndexError(f"they have change {version}, and the store has fewer")
            loaded = self._empty()
            for name, index in loaded.each().items():
                if file_hash(folder / name / CONTENTS) != saved.get("contents", {}).get(name):
                    raise TextIndexError(f"{folder / name} is damaged, or of another save")
                index.load(folder / name)
            if self._writes and self._fits != self._stamp:
                self._write_current(self._home, saved["folder"], saved["contents"])
        except (TextIndexError, OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the saved text indexes in %s are built again from the store: %s", self._home, error)
            return
        self.current, self.version, self._saved = loaded, version, version
        self._checked = self.words.count()

    def _save(self, home: Path) -> None:
        folder = f"{self.version}-{uuid4().hex[:8]}"
        make_folder(home / folder)
        contents = {}
        for name, index in self.current.each().items():
            index.save(home / folder / name)
            contents[name] = file_hash(home / folder / name / CONTENTS)
        self._write_current(home, folder, contents)
        self._saved = self.version
        for old in home.iterdir():
            if old.is_dir() and old.name != folder:
                shutil.rmtree(old)

    def _write_current(self, home: Path, folder: str, contents: Mapping[str, str]) -> None:
        """The file that names the save that counts, and what is in it."""
        save = {"folder": folder, "contents": contents, **self._stamp}
        write_file(home / CURRENT, json.dumps(save).encode())


def _bring(now: Connection, indexes: Collection[TextIndex], since: int) -> int:
    """Apply to indexes of a version what the store has since then; the version that they have now."""
    changes = ChangesSince(now, since, 1)
    ended = [edition for edition, _ in changes.ended()]
    for index in indexes:
        index.remove(ended)
    for some in _many(texts_since(now, since)):
        for index in indexes:
            index.add(some)
    return changes.version


def texts_since(connection: Connection, version: int) -> Iterator[list[ItemTexts]]:
    """The items that were written after a version, some at a time, in the order of their editions."""
    while some := _texts(connection, _ITEMS.where(items.c.edition > version).limit(PAGE_ITEMS)):
        yield some
        version = some[-1].edition


def texts_of(connection: Connection, editions: Sequence[int]) -> list[ItemTexts]:
    """These editions, in order; those replaced or deleted are left out."""
    return _texts(connection, _ITEMS.where(items.c.edition.in_(editions))) if editions else []


def item_texts(edition: int, name: str, captions: Sequence[str], payload: Mapping[str, Any]) -> ItemTexts:
    """What is written of an item: hashes, UUIDs, machine-made tags and notes of an ingest are left out."""
    own = owner_part(payload)
    path = None
    if is_of_folder(payload):
        path = own["path"] if isinstance(own["path"], str) else None
        own = {key: value for key, value in own.items() if key not in FILE_KEYS or key == PART_NAMES}
    values = (text for text in dict.fromkeys(_values(own, 1)) if not _MADE.fullmatch(text))
    return ItemTexts(edition, name, path, tuple(captions), tuple(values))


def _values(value: object, depth: int) -> Iterator[str]:
    """The texts and numbers in a payload, as far down as it can be filtered by."""
    if isinstance(value, (Mapping, list)):
        inner = list(value.values()) if isinstance(value, Mapping) else value
        if depth <= MAX_KEY_PARTS and (isinstance(value, Mapping) or len(inner) <= MOST_ELEMENTS):
            for one in inner:
                yield from _values(one, depth + isinstance(value, Mapping))
    elif isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(fact_value(value).scalar) if fact_value(value).content is not None else str(value)


def _texts(connection: Connection, which: Select[Any]) -> list[ItemTexts]:
    some = connection.execute(which).all()
    captions: dict[int, list[str]] = {row.edition: [] for row in some}
    for edition, caption in read_rows(connection, _CAPTIONS, list(captions)):
        captions[edition].append(caption)
    return [item_texts(row.edition, row.id, captions[row.edition], payload_of(row)) for row in some]


def _many(pages: Iterator[list[ItemTexts]]) -> Iterator[list[ItemTexts]]:
    while some := [item for page in islice(pages, PAGES) for item in page]:
        yield some
