"""Tar shards as a training set: a manifest in the cache, made once, that names files by their places."""

import hashlib
import json
from pathlib import Path

from training.data.sources import webdataset
from training.data.sources.found import SHARES, shares, write


def is_shards(manifest: str) -> bool:
    """Whether a recipe's manifest is none, but one shard or several."""
    return Path(manifest).suffix == ".tar"


def index_of(pattern: str, cache: Path) -> Path:
    """The manifest of shards by name, `*` or `{000..123}`; shards that change get another one."""
    told = [_told(path) for path in webdataset.shards([pattern])]
    key = hashlib.sha256(json.dumps([SHARES, told]).encode()).hexdigest()[:16]
    path = cache / f"shards-{key}.jsonl"
    if not path.exists():
        print(f"reading where things lie in {len(told):,} shards", flush=True)
        print("\n".join(write(webdataset.index([pattern], shares(SHARES)), path)), flush=True)
    return path


def _told(shard: Path) -> tuple[str, int, int]:
    stat = shard.stat()
    return str(shard.resolve()), stat.st_size, stat.st_mtime_ns
