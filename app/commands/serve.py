"""Serve a collection: the REST API under /v1, and the search page at /.

The address is printed when a real query has been answered there.
"""

import argparse
from pathlib import Path

WORK = "app.commands.run_serve"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commonest settings; the others by environment, MULTIFOLD_MAX_BODY=1000000 and so on, or by file."""
    add = parser.add_argument
    add("--folder", type=Path, help="your own folder: its files are ingested, and changes are followed")
    add("--data", type=Path, help="folder of the collection (default: data; data/NAME with --folder)")
    add("--bundle", type=Path, help="folder of the encoder (default: bundles/furniture)")
    add("--bundles", type=Path, help="folder of more bundles, for other collections")
    add("--host", help="address to listen on (default: 127.0.0.1, this machine only)")
    add("--config", type=Path, help="TOML file of settings: max_body = 1000000 and so on")
    add("--keys-file", type=Path, help="file of hashed API keys; see multifold keys")
    add("--port", type=int, help="port to listen on (default: 8000; 0 takes a free one)")
