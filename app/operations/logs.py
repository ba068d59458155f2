"""Logs: what this process logs as JSON lines, and the audit log with a line for each change."""

import json
import logging
import os
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

from app.concurrency.clients import key_name
from multifold.durable import make_folder

MOST_IDS = 100  # ids of one line of the audit log
access_log = logging.getLogger("multifold.access")
request_id: ContextVar[str] = ContextVar("request_id", default="")


class JsonLogFormatter(logging.Formatter):
    """Log records as JSON, one a line, with the id of the request they belong to."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if request_id.get():
            line["request_id"] = request_id.get()
        line |= getattr(record, "fields", None) or {"message": record.getMessage()}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_as_json() -> None:
    """Send what this process logs to its error output, as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLogFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    access_log.setLevel(logging.INFO)


class AuditLog:
    """Appends lines of JSON to a file, `audit.jsonl` beside the collections; a line is written whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        make_folder(path.parent)

    def record(self, action: str, collection: str, ids: Sequence[str], count: int, version: int) -> None:
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
