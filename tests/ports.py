"""Ports for servers that are started later, or again."""

import os
import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, nor those 10,000 above them, and that the system gives to no connection."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = 11_000 + int.from_bytes(os.urandom(2)) % 10_000
            try:
                for one in (port, port + 10_000):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", one))
            except OSError:
                continue
            found.append(port)
    return found
