"""Parts worked out by processes of this machine; one that is killed is replaced, and its parts done again."""

import atexit
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from multifold.errors import MultifoldError
from training.data.bulk.parts import Extractor, Part, Result

DEATHS = 5  # of workers, without a part finished in between, until we give up


def work(bundle: Path, parts: Sequence[Part], workers: int) -> Iterator[Result]:
    """Results as they come."""
    left, deaths = {part.number: part for part in parts}, 0
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
            if deaths == DEATHS:
                raise MultifoldError(
                    f"workers were killed {DEATHS} times in a row; is there enough memory for {workers}? "
                    "What is finished is kept: say --workers 1, and the same command again"
                ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _extract(bundle: Path, part: Part) -> Result:
    return _extractor(bundle)(part)


@cache
def _extractor(bundle: Path) -> Extractor:
    """One a process."""
    made = Extractor(bundle)
    atexit.register(made.close)
    return made
