"""`multifold index add` and `remove`: single items, through the service if one runs."""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from index.commands.common import open_collection, service_of, space_of
from index.registry import stored_vector_id
from index.store.blobs import Blobs
from multifold.bundle.encoder import Encoder, captions_of, pictures_of
from multifold.bundle.preprocess import decode, suffix_of
from multifold.client import Client
from multifold.errors import MultifoldError
from multifold.types import Item, Observation


class AddItemError(MultifoldError):
    """An item that cannot be added this way."""


def add(args: argparse.Namespace) -> int:
    """Write one item; it replaces the one of that id."""
    payload = _payload(args.payload)
    address = service_of(args.place)
    if address is not None:
        with _client(address, args.collection) as client:
            parts = {"texts": args.text, "images": args.image, "mesh": args.mesh}
            written = client.upsert(args.id, **parts, payload=payload)
        print(f"{args.id} written through {address}, version {written.version}")
        return 0
    if args.mesh is not None:
        raise AddItemError("Meshes are drawn by the service: start it, or use `multifold ingest`.")
    encoder, probes = space_of(stored_vector_id(args.place), args.bundle)
    if not isinstance(encoder, Encoder):
        raise AddItemError("A collection of plain embeddings has no encoder: use `multifold index import`.")
    with open_collection(args, (encoder, probes)) as collection:
        captions = captions_of(args.text, encoder.texts(args.text).features)
        photos = _photos(encoder, collection.blobs, args.image)
        version = collection.upsert([Item(args.id, (*captions, *photos), payload)])
    print(f"{args.id} written, version {version}")
    return 0


def remove(args: argparse.Namespace) -> int:
    address = service_of(args.place)
    if address is not None:
        with _client(address, args.collection) as client:
            count = sum(client.delete(name) for name in args.ids)
    else:
        with open_collection(args) as collection:
            count = collection.delete(args.ids)
    print(f"{count} of {len(args.ids)} removed" + (f" through {address}" if address else ""))
    return 0 if count else 1


def _client(address: str, collection: str) -> Client:
    """A connection with the key that the service may ask for."""
    return Client(address, api_key=os.environ.get("MULTIFOLD_KEY"), collection=collection)


def _photos(encoder: Encoder, blobs: Blobs, paths: Sequence[Path]) -> tuple[Observation, ...]:
    files = [_file(path) for path in paths]
    features = encoder.pictures([decode(data) for data in files])
    return pictures_of("photo", features, [blobs.put(data, suffix_of(data)) for data in files])


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AddItemError(f"{path} cannot be read: {error.strerror}.") from error


def _payload(text: str) -> dict[str, Any]:
    try:
        payload = json.loads(text)
    except ValueError as error:
        raise AddItemError(f"--payload is not JSON: {error}.") from error
    if not isinstance(payload, dict):
        raise AddItemError("--payload must be a JSON object.")
    return payload
