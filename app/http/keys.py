"""API keys: who may read, write or administer. Only hashes are kept; comparing always takes the same time.

A file of keys is TOML: a table a key, `[name]` with `scope` and `sha256`. Keys are 256 random bits, so a
plain hash of one cannot be guessed.
"""

import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from multifold.durable import make_folder, write_file
from multifold.errors import MultifoldError

KeyScope: TypeAlias = Literal["read", "write", "admin"]
KEY_SCOPES: tuple[KeyScope, ...] = ("read", "write", "admin")  # each holds those before it
KEY_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEY_HASH = re.compile(r"[0-9a-f]{64}")
KEY_PREFIX = "mf_"
SHORTEST_KEY = 16


class ApiKeyError(MultifoldError):
    """A key, or a file of keys, that cannot be used."""


@dataclass(frozen=True)
class ApiKey:
    """A key that is known: its name, what it may do, and its hash."""

    name: str
    scope: KeyScope
    sha256: str

    def may(self, scope: KeyScope) -> bool:
        """Whether this key is enough."""
        return KEY_SCOPES.index(self.scope) >= KEY_SCOPES.index(scope)


class ApiKeys:
    """The keys of a service; without any, everyone may do everything."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._keys = tuple(keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, presented: str) -> ApiKey | None:
        """The key that was presented; all are compared, whichever it is."""
        digest = hash_key(presented)
        found: ApiKey | None = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found


def hash_key(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def generate_key() -> str:
    """A key that nobody can guess."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def read_keys(path: Path) -> list[ApiKey]:
    """The keys of a file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ApiKeyError(f"the keys in {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ApiKeyError(f"{path} is no TOML: {error}") from error
    return [_from_table(name, table) for name, table in tables.items()]


def write_keys(path: Path, keys: Iterable[ApiKey]) -> None:
    """Write a file of keys, for its owner's eyes only."""
    text = "".join(
        f"[{key.name}]\nscope = {_quoted(key.scope)}\nsha256 = {_quoted(key.sha256)}\n\n" for key in keys
    )
    make_folder(path.parent)
    write_file(path, text.encode(), mode=0o600)


def parse_keys(text: str) -> list[ApiKey]:
    """Keys from the environment: `read:KEY,admin:KEY`."""
    found = []
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        scope, _, key = part.partition(":")
        if scope not in KEY_SCOPES or len(key) < SHORTEST_KEY:
            raise ApiKeyError(
                f"key {number} is not SCOPE:KEY, with a scope of {', '.join(KEY_SCOPES)} and at least "
                f"{SHORTEST_KEY} characters of key"
            )
        found.append(ApiKey(f"{scope}-{number}", scope, hash_key(key)))
    return found


def _quoted(word: str) -> str:
    return f'"{word}"'  # of letters and digits only


def _from_table(name: str, table: object) -> ApiKey:
    """Files are written by anyone."""
    if not isinstance(table, dict) or set(table) != {"scope", "sha256"}:
        raise ApiKeyError(f"the key {name} needs 'scope' and 'sha256', and nothing else")
    if table["scope"] not in KEY_SCOPES:
        raise ApiKeyError(f"the scope of the key {name} is one of {', '.join(KEY_SCOPES)}")
    if not KEY_HASH.fullmatch(str(table["sha256"])):
        raise ApiKeyError(f"the key {name} has no sha256 of 64 hex digits")
    return ApiKey(name, table["scope"], table["sha256"])
