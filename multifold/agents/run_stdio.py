"""The work of `multifold mcp`."""

import argparse
import os

from multifold.agents.server import make_server
from multifold.agents.stdio import KEY_VARIABLE
from multifold.agents.tools import AgentTools
from multifold.client import AsyncClient


def run(args: argparse.Namespace) -> int:
    client = AsyncClient(args.url, api_key=os.environ.get(KEY_VARIABLE), collection=args.collection)
    make_server(AgentTools(client, args.files)).run("stdio")
    return 0
