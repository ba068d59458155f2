"""Serve a collection: the REST API under /v1, and the search page at /.

The address is printed when a real query has been answered there.
"""

import argparse
from importlib.metadata import version
from pathlib import Path

from app.collections.collections import Collections, CollectionService, open_collections
from app.encoding.encoders import with_recorded_bundle
from app.operations.logs import log_as_json
from app.server import bind_port, run_until_stopped
from app.settings import Settings, read_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commonest settings; the others by environment, MULTIFOLD_MAX_BODY=1000000 and so on, or by file."""
    parser.add_argument("--data", type=Path, help="folder of the collection (default: data)")
    parser.add_argument("--bundle", type=Path, help="folder of the encoder (default: bundles/furniture)")
    parser.add_argument("--bundles", type=Path, help="folder of more bundles, for other collections")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1, this machine only)")
    parser.add_argument("--config", type=Path, help="TOML file of settings: max_body = 1000000 and so on")
    parser.add_argument("--keys-file", type=Path, help="file of hashed API keys; see multifold keys")
    parser.add_argument("--port", type=int, help="port to listen on (default: 8000; 0 takes a free one)")


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    settings = with_recorded_bundle(read_settings(given))
    log_as_json()
    with bind_port(settings) as socket:
        settings = settings.model_copy(update={"port": socket.getsockname()[1]})
        print(
            f"multifold {version('multifold')}: opening {settings.data} with {settings.bundle} …", flush=True
        )
        with open_collections(settings) as collections:
            _print_settings(collections)
            return run_until_stopped(collections, socket)


def _print_settings(collections: Collections) -> None:
    for service in collections.services():
        _print_collection(service)
    for name, error in collections.errors.items():
        print(f"  collection  {name} is not served: {error}")
    named = {"data", "bundle", "host", "port"}
    values = collections.settings.model_dump(exclude=named).items()
    fields = Settings.model_fields
    changed = [f"{name} {value}" for name, value in values if value != fields[name].get_default()]
    print(f"  settings    {', '.join(changed) or 'defaults'} (docs/settings.md)", flush=True)


def _print_collection(service: CollectionService) -> None:
    encoder, collection = service.encoder, service.collection
    bundle, observations = encoder.bundle, collection.observations()
    print(f"  encoder     {bundle.name}: {bundle.about}")
    print(f"              {bundle.geometry.name}, {encoder.dim} numbers a vector, {encoder.provider}")
    counts = ", ".join(f"{number} {kind}s" for kind, number in observations.items() if number)
    print(f"  collection  {service.home}: {collection.count()} items" + (f" ({counts})" if counts else ""))
