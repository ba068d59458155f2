"""What the commands share: opening a collection, refusing a busy one, sizes for people."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from index.cluster.contracts import cluster_from_environment
from index.collection import Collection
from index.contracts import IndexPlan, Space
from index.plain_space import PlainSpace, parse_plain_space
from index.store.folder_locks import writer_of
from index.store.store import Store, refuse_missing
from multifold.bundle.bundle import find_bundle
from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from multifold.types import Features, Side

BUNDLE = Path("bundles/furniture")
BUCKET = "MULTIFOLD_BUCKET"


class CollectionBusyError(MultifoldError):
    """Another process writes to the collection."""


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """The encoder, for collections that have one."""
    parser.add_argument(
        "--bundle", type=Path, default=BUNDLE, help="folder of the encoder; not needed for plain embeddings"
    )


def add_bucket(parser: argparse.ArgumentParser) -> None:
    """Where the pictures are, if not in the folder."""
    about = f"s3://NAME/PREFIX of the pictures, if they are not in the folder (default: ${BUCKET})"
    parser.add_argument("--bucket", default=os.environ.get(BUCKET), help=about)


def store_of(folder: Path) -> Path:
    """The store of a collection that is there."""
    path = folder / "store.sqlite"
    refuse_missing(path)
    return path


def vector_id_of(folder: Path) -> str:
    """The encoder whose features a collection holds."""
    store = Store(store_of(folder), None, read_only=True)
    store.close()
    return store.vector_id


def space_of(vector_id: str | None, bundle: Path) -> tuple[Space, Mapping[Side, Features]]:
    """The space of that name, and real queries to measure with; without a name the bundle's."""
    plain = None if vector_id is None else parse_plain_space(vector_id)
    if plain is not None:
        return plain, {}
    encoder = open_encoder(find_bundle(vector_id, bundle))
    return encoder, encoder.bundle.probes()


def open_collection(
    args: argparse.Namespace,
    space: Space,
    probes: Mapping[Side, Features],
    *,
    action: str | None = None,
    plan: IndexPlan | None = None,
    bucket: str | None = None,
) -> Collection:
    """The collection of a command; without the name of an action for reading only."""
    return Collection.open(
        args.data,
        space,
        writer=None if action is None else f"multifold index {action}, process {os.getpid()}",
        read_only=action is None,
        plan=plan,
        probes=probes,
        bucket=bucket,
        cluster=cluster_from_environment(),
    )


def new_space(bundle: Path, metric: str | None, dim: int) -> tuple[Space, Mapping[Side, Features]]:
    """The space of a new collection: plain if a metric is named."""
    return (PlainSpace(metric, dim), {}) if metric else space_of(None, bundle)  # type: ignore[arg-type]


def service_of(folder: Path) -> str | None:
    """The address of the service that writes here; None without one."""
    writer = writer_of(folder)
    if writer is not None and not writer.startswith("http"):
        raise CollectionBusyError(f"{folder} is being written by {writer}; wait until it has ended.")
    return writer


def refuse_busy(folder: Path) -> None:
    """Raise if another process writes here, naming it."""
    writer = writer_of(folder)
    if writer is not None:
        raise CollectionBusyError(
            f"{folder} is being written by {writer}. Stop it first: this needs the collection to itself."
        )


def format_size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
