"""Keys of the service: `keys add NAME --scope read|write|admin`, `keys list`, `keys remove NAME`.

The file holds hashes only; a new key is shown once. Give the file to the service as --keys-file or
MULTIFOLD_KEYS_FILE.
"""

import argparse
import secrets
from pathlib import Path

from app.operations import keys as api_keys
from app.operations.keys import KEY_SCOPES, ApiKey, ApiKeyError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("action", choices=["add", "list", "remove"])
    add("name", nargs="?", help="of the key")
    add("--scope", choices=KEY_SCOPES, default="read", help="each holds those before it")
    add("--file", type=Path, default=Path("keys.toml"), help="the file of keys")


def run(args: argparse.Namespace) -> int:
    keys = {key.name: key for key in api_keys.read_keys(args.file)} if args.file.exists() else {}
    if args.action == "list":
        print("\n".join(f"{key.name}: {key.scope}" for key in keys.values()) or "no keys")
        return 0
    if args.name is None:
        raise ApiKeyError(f"say which key to {args.action}")
    if args.action == "add":
        if not api_keys.KEY_NAME.fullmatch(args.name):
            raise ApiKeyError(f"{args.name!r} is no name of a key: letters, digits, - and _")
        if args.name in keys:
            raise ApiKeyError(f"there is a key {args.name} in {args.file} already; remove it first")
        secret = f"mf_{secrets.token_urlsafe(32)}"
        keys[args.name] = ApiKey(args.name, args.scope, api_keys.hash_key(secret))
        print(f"{secret}\nshown once: it is not kept, only its hash in {args.file}")
    elif keys.pop(args.name, None) is None:
        raise ApiKeyError(f"there is no key {args.name} in {args.file}")
    api_keys.write_keys(args.file, keys.values())
    return 0
