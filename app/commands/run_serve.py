"""The work of `multifold serve`."""

import argparse
from importlib.metadata import version

from app.encoding.encoders import with_recorded_bundle
from app.operations.logs import log_as_json
from app.runtime.collections import Collections, open_collections
from app.server import bind_port, run_until_stopped
from app.settings import Settings, read_settings
from index.store import browse
from multifold.agents import NO_AGENTS, agents_installed
from multifold.errors import MultifoldError


def run(args: argparse.Namespace) -> int:
    settings = with_recorded_bundle(read_settings(vars(args)))
    if settings.folder is not None and not settings.folder.is_dir():
        raise MultifoldError(f"there is no folder {settings.folder}")
    log_as_json()
    with bind_port(settings) as socket:
        settings = settings.model_copy(update={"port": socket.getsockname()[1]})
        opening = f"opening {settings.data} with {settings.bundle}"
        print(f"multifold {version('multifold')}: {opening} …", flush=True)
        with open_collections(settings) as collections:
            _print_settings(collections)
            return run_until_stopped(collections, socket)


def _print_settings(collections: Collections) -> None:
    for service in collections.services():
        encoder = service.encoder
        collection = service.collection
        bundle = encoder.bundle
        observations = collection.read(browse.count_observations)
        print(f"  encoder     {bundle.name}: {bundle.about}")
        print(f"              {bundle.geometry.name}, {encoder.dim} numbers a vector, {encoder.provider}")
        counts = browse.describe_observations(observations)
        items = f"{collection.count()} items" + (f" ({counts})" if counts else "")
        print(f"  collection  {service.home}: {items}")
    for name, error in collections.errors.items():
        print(f"  collection  {name} is not served: {error}")
    print(f"  agents      {'at /mcp' if agents_installed() else f'none: {NO_AGENTS}'}")
    values = collections.settings.model_dump(exclude={"data", "bundle", "host", "port"}).items()
    fields = Settings.model_fields
    changed = [f"{name} {value}" for name, value in values if value != fields[name].get_default()]
    print(f"  settings    {', '.join(changed) or 'defaults'} (docs/settings.md)", flush=True)
