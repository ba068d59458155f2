"""Offer a running service to an agent: an MCP server on standard input and output.

It talks to the service at --url. A service with the extra 'mcp' offers the same tools at /mcp itself.
"""

import argparse
from pathlib import Path

WORK = "multifold.agents.run_stdio"
KEY_VARIABLE = "MULTIFOLD_KEY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8000", help="address of the service (default: %(default)s)")
    add("--collection", help="the collection that tools are about, unless a call names another")
    about = "folder whose files an agent may send; may be repeated"
    add("--files", type=Path, action="append", default=[], metavar="FOLDER", help=about)
    parser.epilog = f"The key of the service is read from the environment: {KEY_VARIABLE}."
