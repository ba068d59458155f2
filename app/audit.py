"""Who changed what: one line of JSON a change, in `audit.jsonl` beside the collection."""

import json
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.telemetry import request_id, who
from multifold.durable import make_folder

SHOWN = 100  # ids of one line


class Audit:
    """Appends to a file; a line is written whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        make_folder(path.parent)

    def tell(self, action: str, collection: str, ids: Sequence[str], count: int, version: int) -> None:
        """Write one line."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request_id": request_id.get(),
            "key": who.get(),
            "action": action,
            "collection": collection,
            "ids": list(ids[:SHOWN]),
            "count": count,
            "version": version,
        }
        text = json.dumps(line, ensure_ascii=True) + "\n"
        with self._lock:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, text.encode())
            finally:
                os.close(file)
