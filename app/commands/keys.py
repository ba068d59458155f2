"""Keys of the service: `keys add NAME --scope read|write|admin`, `keys list`, `keys remove NAME`.

The file holds hashes only; a new key is shown once. Give the file to the service as --keys-file or
MULTIFOLD_KEYS_FILE.
"""

import argparse
from pathlib import Path

from app.http.keys import (
    KEY_NAME,
    KEY_SCOPES,
    ApiKey,
    ApiKeyError,
    generate_key,
    hash_key,
    read_keys,
    write_keys,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action and the key."""
    parser.add_argument("action", choices=["add", "list", "remove"])
    parser.add_argument("name", nargs="?", help="of the key")
    parser.add_argument("--scope", choices=KEY_SCOPES, default="read", help="each holds those before it")
    parser.add_argument("--file", type=Path, default=Path("keys.toml"), help="the file of keys")


def run(args: argparse.Namespace) -> int:
    keys = {key.name: key for key in read_keys(args.file)} if args.file.exists() else {}
    if args.action == "list":
        print("\n".join(f"{key.name}: {key.scope}" for key in keys.values()) or "no keys")
        return 0
    if args.name is None:
        raise ApiKeyError(f"say which key to {args.action}")
    if args.action == "add":
        _add(args, keys)
    elif keys.pop(args.name, None) is None:
        raise ApiKeyError(f"there is no key {args.name} in {args.file}")
    write_keys(args.file, keys.values())
    return 0


def _add(args: argparse.Namespace, keys: dict[str, ApiKey]) -> None:
    if not KEY_NAME.fullmatch(args.name):
        raise ApiKeyError(f"{args.name!r} is no name of a key: letters, digits, - and _")
    if args.name in keys:
        raise ApiKeyError(f"there is a key {args.name} in {args.file} already; remove it first")
    secret = generate_key()
    keys[args.name] = ApiKey(args.name, args.scope, hash_key(secret))
    print(f"{secret}\nshown once: it is not kept, only its hash in {args.file}")
