"""The health check says what /readyz says."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.answering import answering

HEALTH = Path(__file__).resolve().parents[2] / "docker" / "health.py"


@contextmanager
def ready(status: int) -> Iterator[int]:
    """A port where /readyz has this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b"the reason")

    with answering(Handler) as port:
        yield port


def check(port: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MULTIFOLD_PORT": str(port), "http_proxy": "http://127.0.0.1:9"}
    return subprocess.run(
        [sys.executable, str(HEALTH)], env=environment, check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (429, 1)])
def test_healthy_is_ready(status: int, code: int) -> None:
    with ready(status) as port:
        done = check(port)
    assert (done.returncode, done.stdout.strip()) == (code, "the reason")


def test_nobody_there_is_unhealthy() -> None:
    with ready(200) as port:
        pass
    done = check(port)
    assert done.returncode == 1
    assert done.stdout.startswith("no answer")
