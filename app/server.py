"""The HTTP server: take the port, serve, check the first answers, stop cleanly."""

import errno
import gc
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.collections.collections import Collections
from app.collections.service import CollectionService
from app.main import create_app
from app.settings import Settings
from index.registry import DEFAULT
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    import httpx
    import uvicorn

BACKLOG = 2048
GRACE_SECONDS = 30  # seconds for what was accepted to be finished after a signal
GC_THRESHOLD = 20_000  # new objects between two looks at them
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class AddressError(MultifoldError):
    """The service cannot listen where it should."""


@contextmanager
def bind_port(settings: Settings) -> Iterator[socket.socket]:
    """The port, taken before anything heavy is loaded."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    where = f"{settings.host}:{settings.port}"
    try:
        taken = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressError(
                f"{where} is in use, perhaps by another multifold; choose another --port"
            ) from None
        raise AddressError(f"cannot listen on {where}: {error.strerror or error}") from error
    with taken:
        yield taken


def run_until_stopped(shelf: Collections, taken: socket.socket) -> int:
    """Serve until a signal comes; 0 if all went well."""
    app = create_app(shelf.settings, shelf)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    proof = StartupCheck(
        server, shelf.settings.url, _known_text(shelf.service(DEFAULT)), bool(shelf.settings.known_keys())
    )
    # uvicorn hands the signal on when it has stopped; stopping when told to is no failure.
    for stop in STOP_SIGNALS:
        signal.signal(stop, lambda *_: None)
    threading.Thread(target=proof.run, daemon=True).start()
    freeze_garbage_collector()
    server.run(sockets=[taken])
    print("stopped" if proof.failure is None else f"stopped: {proof.failure}", flush=True)
    return 0 if proof.failure is None else 1


def freeze_garbage_collector() -> None:
    """What lives as long as the service is not looked through again and again for what could be thrown away.

    Each look would hold up all requests for a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


@dataclass
class StartupCheck:
    """Asks the service over HTTP, and tells its address once it has answered."""

    server: uvicorn.Server
    url: str
    text: str
    keyed: bool = False  # then being ready has to do, which is a query too
    failure: str | None = field(default=None)

    def run(self) -> None:
        """Wait for the server, ask, tell; stop the server if it does not answer."""
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
            searched = client.build_request("POST", "/v1/search", json={"text": self.text})
            for request in (client.build_request("GET", "/readyz"), *([] if self.keyed else [searched])):
                response = client.send(request)
                if response.status_code != httpx.codes.OK:
                    raise AddressError(response.text)
            return response.elapsed.total_seconds()


def _known_text(service: CollectionService) -> str:
    """Words that somebody said of an item here, if anybody did."""
    for item in service.collection.scroll(limit=1):
        for seen in item.observations:
            if seen.text is not None:
                return seen.text[: service.settings.max_text]
    return "anything"
