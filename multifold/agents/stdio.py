"""Offer a running service to an agent: an MCP server on standard input and output.

It talks to the service at --url. A service with the extra 'mcp' offers the same tools at /mcp itself.
"""

import argparse
import os
from pathlib import Path

from multifold.client import AsyncClient

KEY_VARIABLE = "MULTIFOLD_KEY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8000", help="address of the service (default: %(default)s)")
    add("--collection", help="the collection that tools are about, unless a call names another")
    add(
        "--files",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder whose files an agent may send; may be repeated",
    )
    parser.epilog = f"The key of the service is read from the environment: {KEY_VARIABLE}."


def run(args: argparse.Namespace) -> int:
    from multifold.agents.server import make_server  # it needs an extra
    from multifold.agents.tools import AgentTools

    client = AsyncClient(args.url, api_key=os.environ.get(KEY_VARIABLE), collection=args.collection)
    make_server(AgentTools(client, args.files)).run("stdio")
    return 0
