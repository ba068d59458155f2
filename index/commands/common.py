"""What the commands share: opening a store or a collection, who writes to it, sizes for people."""

import argparse
import os
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from index.cluster.contracts import cluster_from_environment
from index.collection import Collection
from index.contracts import CollectionLocation, IndexPlan, Space
from index.plain_space import parse_plain_space
from index.store.folder_locks import writer_of
from index.store.store import Store
from multifold.bundle.bundle import find_bundle
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.text_reader import packaged_reader
from multifold.errors import MultifoldError
from multifold.types import Features, Side

ProbedSpace: TypeAlias = tuple[Space, Mapping[Side, Features]]  # with real queries to measure with

progress_bar = partial(tqdm, disable=None)  # on a terminal alone


class CollectionBusyError(MultifoldError):
    """Another process writes to the collection."""


def read_store(place: CollectionLocation) -> "closing[Store]":
    """The store of a collection that is there, whatever its encoder, for reading only."""
    return closing(Store(place.items, None, read_only=True))


def space_of(vector_id: str | None, bundle: Path) -> ProbedSpace:
    """The space of that name; without a name the bundle's."""
    plain = None if vector_id is None else parse_plain_space(vector_id)
    if plain is not None:
        return plain, {}
    encoder = open_encoder(find_bundle(vector_id, bundle))
    return encoder, encoder.bundle.probes()


def open_collection(
    args: argparse.Namespace,
    space: ProbedSpace | None = None,
    *,
    read_only: bool = False,
    plan: IndexPlan | None = None,
) -> Collection:
    """The collection of a command, in the space that it has if none is given."""
    if space is None:
        with read_store(args.place) as store:
            space = space_of(store.vector_id, args.bundle)
    return Collection.open(
        args.place.folder,
        space[0],
        writer=f"multifold index {args.action}, process {os.getpid()}",
        read_only=read_only,
        plan=plan,
        probes=space[1],
        database=args.place.database,
        bucket=args.place.bucket,
        cluster=cluster_from_environment(),
        # The one that a service has, so that each finds the text indexes that the other has saved.
        reader=space[0].reader if isinstance(space[0], Encoder) else packaged_reader(),
    )


def service_of(place: CollectionLocation) -> str | None:
    """The address of the service that alone may write here; None without one."""
    writer = None if place.database else writer_of(place.folder)
    if writer is not None and not writer.startswith("http"):
        raise CollectionBusyError(f"{place.folder} is being written by {writer}; wait until it has ended.")
    return writer


def format_size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
