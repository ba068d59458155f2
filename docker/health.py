"""Healthy means ready: a real query gave the known answer, just now. Exit status 0 or 1, and the reason."""

import os
import sys
from http.client import HTTPConnection, HTTPException

SECONDS = 8


def main() -> int:
    """Ask this container's own service."""
    connection = HTTPConnection("127.0.0.1", int(os.environ.get("MULTIFOLD_PORT", "8000")), timeout=SECONDS)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        print(response.read(4096).decode(errors="replace"))
    except (OSError, HTTPException) as error:
        print(f"no answer: {error}")
        return 1
    return 0 if response.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
