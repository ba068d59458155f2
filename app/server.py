"""The HTTP server: take the port, serve, check the first answers, stop cleanly."""

import errno
import gc
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.collections.collections import Collections, CollectionService
from app.main import create_app
from app.settings import Settings
from index.registry import DEFAULT
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    import httpx
    import uvicorn

BACKLOG = 2048
GRACE_SECONDS = 30  # seconds for what was accepted to be finished after a signal
GC_THRESHOLD = 20_000  # new objects between two collections
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class AddressError(MultifoldError):
    """The service cannot listen where it should."""


@contextmanager
def bind_port(settings: Settings) -> Iterator[socket.socket]:
    """The bound port, before anything heavy is loaded."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    where = f"{settings.host}:{settings.port}"
    try:
        bound = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressError(
                f"{where} is in use, perhaps by another multifold; choose another --port"
            ) from None
        raise AddressError(f"cannot listen on {where}: {error.strerror or error}") from error
    with bound:
        yield bound


def run_until_stopped(collections: Collections, bound: socket.socket) -> int:
    """Serve until a signal comes; 0 if all went well."""
    app = create_app(collections.settings, collections)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    check = StartupCheck(
        server,
        collections.settings.url,
        _known_text(collections.service(DEFAULT)),
        bool(collections.settings.known_keys()),
    )
    # uvicorn raises the signal again once it has stopped; that is no failure.
    for stop in STOP_SIGNALS:
        signal.signal(stop, lambda *_: None)
    threading.Thread(target=check.run, daemon=True).start()
    freeze_garbage_collector()
    server.run(sockets=[bound])
    print("stopped" if check.failure is None else f"stopped: {check.failure}", flush=True)
    return 0 if check.failure is None else 1


def freeze_garbage_collector() -> None:
    """Exempt the objects that live as long as the service from garbage collection.

    Each full collection would hold up all requests for a tenth of a second.
    """
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
        """Wait for the server and check it; stop it if it does not answer."""
        while not self.server.started:
            if self.server.should_exit:
                return
            time.sleep(0.02)
        try:
            took = self._ask()
        except (httpx.HTTPError, MultifoldError) as error:
            if not self.server.should_exit:
                self.failure = f"it does not answer at {self.url}: {error}"
                self.server.should_exit = True
            return
        print(f"ready at {self.url} (a first query took {1000 * took:.0f} ms)", flush=True)

    def _ask(self) -> float:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            response = client.get("/readyz")
            if response.status_code == httpx.codes.OK and not self.keyed:
                response = client.post("/v1/search", json={"text": self.text})
            if response.status_code != httpx.codes.OK:
                raise AddressError(response.text)
            return response.elapsed.total_seconds()


def _known_text(service: CollectionService) -> str:
    """A caption of an item, if there is one."""
    observations = [one for item in service.collection.scroll(limit=1) for one in item.observations]
    texts = (one.text for one in observations if one.text is not None)
    return next(texts, "anything")[: service.settings.max_text]
