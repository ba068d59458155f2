"""The audit log: one line of JSON for each change, in `audit.jsonl` beside the collection."""

import json
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.operations.telemetry import key_name, request_id
from multifold.durable import make_folder

MOST_IDS = 100  # ids of one line


class AuditLog:
    """Appends to a file; a line is written whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        make_folder(path.parent)

    def tell(self, action: str, collection: str, ids: Sequence[str], count: int, version: int) -> None:
        """Write one line."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request_id": request_id.get(),
            "key": key_name.get(),
            "action": action,
            "collection": collection,
            "ids": list(ids[:MOST_IDS]),
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
