"""API keys: who may read, write or administer. Only hashes are kept; comparing always takes the same time.

A file of keys is TOML: a table a key, `[name]` with `scope` and `sha256`. Keys are 256 random bits, so a
plain hash of one cannot be guessed.
"""

import hashlib
import hmac
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from multifold.durable import make_folder, write_file
from multifold.errors import MultifoldError

KeyScope: TypeAlias = Literal["read", "write", "admin"]
KEY_SCOPES: tuple[KeyScope, ...] = ("read", "write", "admin")  # each holds those before it
KEY_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEY_HASH = re.compile(r"[0-9a-f]{64}")
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
        return KEY_SCOPES.index(self.scope) >= KEY_SCOPES.index(scope)


def find_key(keys: Iterable[ApiKey], presented: str) -> ApiKey | None:
    """The key that was presented; all are compared, whichever it is."""
    digest = hash_key(presented)
    matching = [key for key in keys if hmac.compare_digest(key.sha256, digest)]
    return matching[0] if matching else None


def hash_key(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_toml(path: Path, what: str, refusal: type[MultifoldError]) -> dict[str, Any]:
    """A file of the operator; `what` it holds is named if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refusal(f"{what} in {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise refusal(f"{path} is no TOML: {error}") from error


def read_keys(path: Path) -> list[ApiKey]:
    return [_from_table(name, table) for name, table in read_toml(path, "the keys", ApiKeyError).items()]


def write_keys(path: Path, keys: Iterable[ApiKey]) -> None:
    """Write a file of keys, for its owner's eyes only."""
    tables = (f'[{key.name}]\nscope = "{key.scope}"\nsha256 = "{key.sha256}"\n\n' for key in keys)
    make_folder(path.parent)
    write_file(path, "".join(tables).encode(), mode=0o600)


def parse_keys(text: str) -> list[ApiKey]:
    """Keys from the environment: `read:KEY,admin:KEY`."""
    found = []
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        scope, _, key = part.partition(":")
        if scope not in KEY_SCOPES or len(key) < SHORTEST_KEY:
            known = f"a scope of {', '.join(KEY_SCOPES)} and at least {SHORTEST_KEY} characters of key"
            raise ApiKeyError(f"key {number} is not SCOPE:KEY, with {known}")
        found.append(ApiKey(f"{scope}-{number}", scope, hash_key(key)))
    return found


def _from_table(name: str, table: object) -> ApiKey:
    if not isinstance(table, dict) or set(table) != {"scope", "sha256"}:
        raise ApiKeyError(f"the key {name} needs 'scope' and 'sha256', and nothing else")
    if table["scope"] not in KEY_SCOPES:
        raise ApiKeyError(f"the scope of the key {name} is one of {', '.join(KEY_SCOPES)}")
    if not KEY_HASH.fullmatch(str(table["sha256"])):
        raise ApiKeyError(f"the key {name} has no sha256 of 64 hex digits")
    return ApiKey(name, table["scope"], table["sha256"])
