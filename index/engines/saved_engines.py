"""Engines on disk: derived, so they are loaded when they fit the store, and forgotten when they do not.

Every save is a folder of its own. One small file names the folder that counts; it is replaced only after all
files of the new one are durable. So a crash at any moment leaves the last whole save.
"""

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from index.contracts import EngineKey, IndexEngine, IndexEngineError, IndexPlan
from multifold.durable import make_folder, replace_file

log = logging.getLogger(__name__)

CURRENT = "current.json"
SEALED = "sealed"
FORMAT = 1


class SavedEngines:
    """The saved engines of one collection, all of one version of its store."""

    def __init__(
        self, folder: Path, vector_id: str, plan: IndexPlan, former: str | None, session: str | None
    ) -> None:
        """What the store's `former` session saved is loaded, and from then on is this session's own."""
        self._folder = folder
        self._stamp = {"format": FORMAT, "vector_id": vector_id, "plan": asdict(plan), "session": session}
        self._fits = {**self._stamp, "session": former}

    @property
    def home(self) -> Path:
        """Where engines keep the parts that they seal between two saves."""
        return self._folder / SEALED

    def save(self, version: int, engines: Mapping[EngineKey, IndexEngine]) -> None:
        """Save all engines; a disk that is full costs no more than rebuilding one day."""
        try:
            self._write(version, engines)
        except OSError as error:
            log.warning("the index in %s was not saved: %s", self._folder, error)

    def _write(self, version: int, engines: Mapping[EngineKey, IndexEngine]) -> None:
        """Write all engines durably, then let them take the place of the last save."""
        name = f"{version}-{uuid4().hex[:8]}"
        make_folder(self._folder / name)
        for segment, engine in engines.items():
            engine.save(self._folder / name / "-".join(segment))
        self._name({"version": version, "folder": name, "segments": list(engines)})
        self._sweep(name)

    def _name(self, told: Mapping[str, object]) -> None:
        with replace_file(self._folder / CURRENT) as out:
            out.write(json.dumps({**told, **self._stamp}).encode())

    def load(
        self, most: int, make: Callable[[EngineKey], IndexEngine]
    ) -> tuple[int, dict[EngineKey, IndexEngine]] | None:
        """Version and engines of the last save, if it fits and is no newer than `most`; None: rebuild."""
        engines: dict[EngineKey, IndexEngine] = {}
        try:
            told = json.loads((self._folder / CURRENT).read_bytes())
            if {key: told[key] for key in self._fits} != self._fits or told["version"] > most:
                return None
            for side, kind in told["segments"]:
                engines[side, kind] = make((side, kind))
                engines[side, kind].load(self._folder / told["folder"] / f"{side}-{kind}")
            if self._fits != self._stamp:
                self._name(told)
        except FileNotFoundError:
            return None
        except (IndexEngineError, OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the saved index in %s is rebuilt from the store: %s", self._folder, error)
            for engine in engines.values():
                engine.close()
            return None
        return told["version"], engines

    def _sweep(self, current: str) -> None:
        for old in self._folder.iterdir():
            if old.is_dir() and old.name not in (current, SEALED):
                shutil.rmtree(old)


def remove_unlinked_segments(folder: Path) -> None:
    """Remove sealed parts that no save links to; for the writing process, before it makes engines."""
    for part in (folder / SEALED).glob("*"):
        if part.stat().st_nlink == 1:
            part.unlink()
