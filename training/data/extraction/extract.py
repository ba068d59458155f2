"""From a manifest to a folder of feature shards, resumable, by processes of this machine."""

import atexit
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from multifold import durable, manifest
from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import file_hash
from multifold.errors import MultifoldError
from multifold.files import feature_shards
from multifold.files.feature_shards import ShardError
from training.data.extraction.parts import FeatureExtractor, ManifestPart, PartFeatures

MOST_DEATHS = 5  # of workers, without a part finished in between, until we give up


class WorkerDeathsError(MultifoldError):
    """Workers die again and again."""

    def __init__(self, workers: int) -> None:
        super().__init__(
            f"workers were killed {MOST_DEATHS} times in a row; enough memory for {workers}? "
            "What is finished is kept: say --workers 1, and the same command again"
        )


def work_in_processes(bundle: Path, parts: Sequence[ManifestPart], workers: int) -> Iterator[PartFeatures]:
    left = {part.number: part for part in parts}
    deaths = 0
    while left:
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        try:
            pending = [pool.submit(_extract, bundle, part) for part in left.values()]
            for done in as_completed(pending):
                result = done.result()
                del left[result.number]
                deaths = 0
                yield result
        except BrokenProcessPool:
            deaths += 1
            if deaths == MOST_DEATHS:
                raise WorkerDeathsError(workers) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _extract(bundle: Path, part: ManifestPart) -> PartFeatures:
    return _open_extractor(bundle)(part)


@cache
def _open_extractor(bundle: Path) -> FeatureExtractor:
    extractor = FeatureExtractor(bundle)
    atexit.register(extractor.close)
    return extractor


PLAN, PROBLEMS = "plan.json", "problems.jsonl"

PartWorker: TypeAlias = Callable[[Sequence[ManifestPart]], Iterator[PartFeatures]]


@dataclass(frozen=True)
class ExtractionOrder:
    manifest: Path
    bundle: Path
    out: Path
    items: int  # a part

    def parts(self) -> list[ManifestPart]:
        entries = [*manifest.read(self.manifest)]
        starts = range(0, len(entries), self.items)
        return [ManifestPart(number, entries[at : at + self.items]) for number, at in enumerate(starts)]


@dataclass(frozen=True)
class ExtractionReport:
    rows: int
    problems: dict[str, str]  # id -> reason


def extract_features(order: ExtractionOrder, work: PartWorker) -> ExtractionReport:
    """Extract what is missing, and seal the folder with its manifest."""
    geometry = bundles.load(order.bundle)
    parts = order.parts()
    order.out.mkdir(parents=True, exist_ok=True)
    plan = {"manifest": file_hash(order.manifest), "vector_id": geometry.vector_id, "items": order.items}
    path = order.out / PLAN
    if not path.exists():
        durable.write_file(path, json.dumps(plan).encode())
    elif json.loads(path.read_bytes()) != plan:
        other = f"{order.out} holds features of another manifest or encoder, or in parts of another size"
        raise MultifoldError(f"{other}; choose another folder")
    missing = [part for part in parts if not _exists(order.out, part)]
    total = sum(len(part.entries) for part in parts)
    before = total - sum(len(part.entries) for part in missing)
    with tqdm(total=total, initial=before, unit="item", desc="features", disable=None) as bar:
        for result in work(missing) if missing else ():
            if result.problems:  # before the shard: a part with a shard is not extracted again
                lines = [{"id": name, "problem": why} for name, why in result.problems]
                with open(order.out / PROBLEMS, "a", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)
            feature_shards.write_shard(order.out, f"{result.number:05d}", result.shard)
            bar.update(len(parts[result.number].entries))
    rows = feature_shards.seal_folder(order.out, geometry.vector_id, geometry.geometry.feature_dim)
    return ExtractionReport(rows, _problems(order.out))


def _exists(out: Path, part: ManifestPart) -> bool:
    try:
        feature_shards.read_shard(out, part.name)
    except ShardError:
        return False
    return True


def _problems(out: Path) -> dict[str, str]:
    path = out / PROBLEMS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {one["id"]: one["problem"] for one in map(json.loads, lines)}
