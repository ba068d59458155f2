"""The HTTP server: take the port, serve, check the first answers, stop cleanly."""

import errno
import gc
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from app.main import create_app
from app.runtime.collections import Collections
from app.settings import Settings
from index.names import DEFAULT
from multifold.errors import MultifoldError

BACKLOG = 2048
GRACE_SECONDS = 30  # seconds for what was accepted to be finished after a signal
# Longer than clients and proxies keep an idle connection (5 to 60 s): where the service closes it first,
# a request on its way fails, and a POST may not be repeated.
IDLE_CONNECTION_SECONDS = 75  # that an idle connection is kept
REQUEST_SECONDS = 60  # for each request of the check
SWITCH_SECONDS = 0.0005  # that a thread keeps the interpreter from others: ten times less than is usual
GC_THRESHOLD = 20_000  # new objects between two collections
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def bind_port(settings: Settings) -> Iterator[socket.socket]:
    """The bound port, before anything heavy is loaded."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    where = f"{settings.host}:{settings.port}"
    try:
        bound = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            sentence = f"{where} is in use, perhaps by another multifold; choose another --port"
            raise MultifoldError(sentence) from None
        raise MultifoldError(f"cannot listen on {where}: {error.strerror or error}") from error
    with bound:
        yield bound


def run_until_stopped(collections: Collections, bound: socket.socket) -> int:
    """Serve until a signal comes; 0 if all went well."""
    app = create_app(collections.settings, collections)
    options: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
    options |= {"timeout_graceful_shutdown": GRACE_SECONDS, "timeout_keep_alive": IDLE_CONNECTION_SECONDS}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    collections.is_stopping = lambda: server.should_exit
    settings = collections.settings
    collection = collections.service(DEFAULT).collection
    captions = [text for item in collection.scroll(limit=1) for text in item.texts]
    text = [*captions, "anything"][0][: settings.max_text]
    check = StartupCheck(server, settings.url, text, bool(settings.known_keys()))
    # uvicorn raises the signal again once it has stopped; that is no failure.
    for stop in STOP_SIGNALS:
        signal.signal(stop, lambda *_: None)
    threading.Thread(target=check.run, daemon=True).start()
    sys.setswitchinterval(SWITCH_SECONDS)
    freeze_garbage_collector()
    server.run(sockets=[bound])
    print("stopped" if check.failure is None else f"stopped: {check.failure}", flush=True)
    return 0 if check.failure is None else 1


def freeze_garbage_collector() -> None:
    """Exempt what lives as long as the service: each full collection would hold up all requests for 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


@dataclass
class StartupCheck:
    """Searches the service over HTTP, and prints its address once it has answered."""

    server: uvicorn.Server
    url: str
    text: str
    keyed: bool = False  # then only readiness is checked, which searches too
    failure: str | None = None

    def run(self) -> None:
        while not self.server.started:
            if self.server.should_exit:
                return
            time.sleep(0.02)
        try:
            took = self._ask("GET", "/readyz")
            if not self.keyed:
                took = self._ask("POST", "/v1/search", json.dumps({"text": self.text}))
        except (OSError, HTTPException, MultifoldError) as error:
            if not self.server.should_exit:
                self.failure = f"it does not answer at {self.url}: {error}"
                self.server.should_exit = True
            return
        print(f"ready at {self.url} (a first query took {1000 * took:.0f} ms)", flush=True)

    def _ask(self, method: str, path: str, body: str | None = None) -> float:
        """Send one request, which must succeed; the seconds until its answer."""
        to = urlsplit(self.url)
        # a client of httpx would load certificates and more
        with closing(HTTPConnection(to.hostname or "", to.port, timeout=REQUEST_SECONDS)) as connection:
            start = time.perf_counter()
            connection.request(method, path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status != HTTPStatus.OK:
            raise MultifoldError(text)
        return time.perf_counter() - start
