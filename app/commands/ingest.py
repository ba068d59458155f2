"""Put a folder, a manifest, files or a library into a collection: meshes are rendered, all is encoded.

A second run touches only what changed: files that moved keep their item, items of files that are gone go
too. A run that was cut short goes on where it was when it is started again. While a service has the
collection, all of it goes through that service, which answers searches meanwhile.
"""

import argparse
from pathlib import Path

from app.libraries.contracts import LibraryLimits
from index.names import MAIN
from multifold.cli import at_least_one
from multifold.machine import cores

WORK = "app.commands.run_ingest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    sources = "a folder, a manifest (.jsonl), files, or a library on another server: manyfold:https://HOST"
    add("sources", nargs="+", metavar="PATH", help=sources)
    add("--data", type=Path, help="folder of the collections (default: data)")
    add("--bundle", type=Path, help="folder of the encoder (default: bundles/furniture)")
    add("--config", type=Path, help="TOML file of settings, as `multifold serve` takes it")
    add("--collection", default=MAIN, help="one of those in that folder; a new name makes a new one")
    add("--split", help="of a manifest: only the items of this split")
    units = ("file", "folder")
    add("--item", dest="unit", choices=units, default="file", help="what one item is; default: %(default)s")
    add("--no-names", dest="names", action="store_false", help="file names are no captions")
    texts = "nor is what glTF files say of themselves"
    add("--no-metadata", dest="metadata", action="store_false", help=texts)
    add("--allow-empty", action="store_true", help="delete all, if the folder is empty now")
    add("--copy", action="store_true", help="copy photos and meshes, instead of reading them where they lie")
    add("--dry-run", action="store_true", help="only say what would happen")
    add("--report", type=Path, metavar="FILE", help="write the whole report as JSON")
    add("--watch", action="store_true", help="stay, and follow changes of the folder")
    add("--every", type=float, default=2.0, help="with --watch: seconds between looks")
    limits = LibraryLimits()
    most = "items of a library that are read; one with more is refused (default: %(default)s)"
    add("--library-items", type=at_least_one, default=limits.items, help=most)
    most = "bytes of a file of a library; longer ones are skipped (default: %(default)s)"
    add("--library-bytes", type=at_least_one, default=limits.file_bytes, help=most)
    most = "bytes of a library that a run reads; what is left comes with the next run (default: %(default)s)"
    add("--library-total", type=at_least_one, default=limits.all_bytes, help=most)
    add("--workers", type=at_least_one, default=cores(), help="processes that render")
