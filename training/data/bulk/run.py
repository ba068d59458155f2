"""From a manifest to a folder of shards, resumable: a part whose shard is there is not worked out again.

Beside the shards lie `plan.json`, what they are of, and `problems.jsonl`, the items that were left out.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from multifold import bundle as bundles
from multifold import durable, manifest, shardfile
from multifold.bundle import file_hash
from multifold.errors import MultifoldError
from multifold.shardfile import ShardError
from multifold.shards import ShardWriter
from training.data.bulk.parts import Part, Result

PLAN, PROBLEMS = "plan.json", "problems.jsonl"

Work: TypeAlias = Callable[[Sequence[Part]], Iterator[Result]]


@dataclass(frozen=True)
class Order:
    """Features of which items, by which encoder, to where."""

    manifest: Path
    bundle: Path
    out: Path
    items: int  # a part

    def parts(self) -> list[Part]:
        """The whole manifest, cut into parts."""
        entries = [*manifest.read(self.manifest)]
        starts = range(0, len(entries), self.items)
        return [Part(number, entries[at : at + self.items]) for number, at in enumerate(starts)]


@dataclass(frozen=True)
class Done:
    """What has become of the items."""

    rows: int
    problems: dict[str, str]  # id -> reason


def extract(order: Order, work: Work) -> Done:
    """Work out what is missing, and close the folder with its manifest."""
    order.out.mkdir(parents=True, exist_ok=True)
    geometry = bundles.load(order.bundle)
    _agree(order, geometry.vector_id)
    parts = order.parts()
    missing = [part for part in parts if not _there(order.out, part)]
    total = sum(len(part.entries) for part in parts)
    before = total - sum(len(part.entries) for part in missing)
    with tqdm(total=total, initial=before, unit="item", desc="features", disable=None) as bar:
        for result in work(missing) if missing else ():
            _keep(order.out, result)
            bar.update(len(parts[result.number].entries))
    with ShardWriter(order.out, geometry.vector_id, geometry.geometry.feature_dim) as sealed:
        return Done(len(sealed), _problems(order.out))


def _agree(order: Order, vector_id: str) -> None:
    """What lies in the folder must be of the same items and the same encoder."""
    plan = {"manifest": file_hash(order.manifest), "vector_id": vector_id, "items": order.items}
    path = order.out / PLAN
    if not path.exists():
        durable.write(path, json.dumps(plan).encode())
    elif json.loads(path.read_bytes()) != plan:
        raise MultifoldError(
            f"{order.out} holds features of another manifest or encoder, or in parts of another size; "
            "choose another folder"
        )


def _there(out: Path, part: Part) -> bool:
    try:
        shardfile.load(out, part.name)
    except ShardError:
        return False
    return True


def _keep(out: Path, result: Result) -> None:
    """Problems first: a part whose shard is there is not asked again."""
    if result.problems:
        with open(out / PROBLEMS, "a", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"id": name, "problem": why}) + "\n" for name, why in result.problems)
    shardfile.save(out, f"{result.number:05d}", result.shard)


def _problems(out: Path) -> dict[str, str]:
    path = out / PROBLEMS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {told["id"]: told["problem"] for told in map(json.loads, lines)}
