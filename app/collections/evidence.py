"""How the evidence of a collection is weighted: fitted in the background as items and verdicts come.

A fit waits until nothing was written for a moment, so that an ingest is fitted once, at its end.
"""

import logging
import threading
import time
from collections.abc import Sequence

from app.encoding.observations import ObservationEncoder
from index.collection import Collection, CollectionError
from index.search.model import UNFITTED
from multifold.errors import MultifoldError
from multifold.types import Features

FIRST_FIT_ITEMS = 8  # items from which a collection is fitted
QUICK = 40  # items of a first fit
GROWTH = 1.5  # how much larger it is when it is fitted again
QUIET, LONGEST_DELAY = 1.0, 60.0  # seconds without a change until a fit begins, and that it waits at most
FEW_VERDICTS = 8  # new ones for which it is fitted again, or as many as it was fitted on
log = logging.getLogger("multifold.app")


class EvidenceFitter:
    """The evidence model of a collection, stored with it, fitted as its items grow and verdicts double."""

    def __init__(self, observer: ObservationEncoder, collection: Collection) -> None:
        self._observer = observer
        self._collection = collection
        self._fitting = threading.Lock()
        self.model = collection.evidence() or UNFITTED
        self.changed = time.monotonic()  # when anything was written last
        self._waiting = threading.Lock()  # held by what waits for a moment without changes
        self._wait_for_growth(self.model.version)

    def note_verdict(self) -> None:
        self._new_verdicts += 1
        if self._new_verdicts >= max(FEW_VERDICTS, self.model.of("text").judgements):
            self.fit_aside()

    def fit(self) -> None:
        encoder = self._observer.encoder

        def encode(texts: Sequence[str]) -> Features:
            return encoder.texts(texts).features

        with self._fitting:
            self._wait_for_growth(self._collection.version)
            try:
                short = encode if encoder.encodes else None
                if self.model is UNFITTED and self._collection.count() > QUICK:  # a first fit, soon
                    self.model = self._collection.fit_evidence(short, QUICK)
                self.model = self._collection.fit_evidence(short)
            except CollectionError:
                pass  # it was closed meanwhile
            except MultifoldError as error:
                log.warning("the evidence cannot be fitted: %s", error)

    def fit_aside(self) -> None:
        """Fit in the background, once nothing is written for a moment."""
        self._wait_for_growth(self._collection.version)
        threading.Thread(target=self._fit_when_quiet, daemon=True).start()

    def _fit_when_quiet(self) -> None:
        if not self._waiting.acquire(blocking=False):
            return  # the fit that is to come knows of this change
        try:
            end = time.monotonic() + LONGEST_DELAY
            while (left := min(self.changed + QUIET, end) - time.monotonic()) > 0:
                time.sleep(left)
        finally:
            self._waiting.release()
        self.fit()

    def _wait_for_growth(self, version: int) -> None:
        """The next fit comes with so much more than this version of the collection."""
        self.next_version = max(FIRST_FIT_ITEMS, int(GROWTH * version))
        self._new_verdicts = 0
