"""How the evidence of a collection is weighted: fitted in the background as items and verdicts come."""

import logging
import threading
from collections.abc import Sequence

from app.encoding.observations import ObservationEncoder
from index.collection import Collection, CollectionError
from index.search.evidence_model import UNFITTED, EvidenceModel
from multifold.errors import MultifoldError
from multifold.types import Features

FEW = 8  # items from which a collection is fitted
QUICK = 40  # items of a first fit
GROWTH = 2  # how much larger it is when it is fitted again
FEW_VERDICTS = 8  # new ones for which it is fitted again, or as many as it was fitted on
log = logging.getLogger("multifold.app")


class EvidenceFitter:
    """The evidence model of a collection, stored with it, fitted whenever items or verdicts have doubled."""

    def __init__(self, observer: ObservationEncoder, collection: Collection) -> None:
        self._observer, self._collection = observer, collection
        self._fitting = threading.Lock()
        self._model = collection.evidence() or UNFITTED
        self._next_version = max(FEW, GROWTH * self._model.version)  # at which the model is fitted again
        self._new_verdicts = 0

    def now(self) -> EvidenceModel:
        """The present model."""
        if self._collection.version >= self._next_version:
            self._fit_aside()
        return self._model

    def heed_verdict(self) -> None:
        """A verdict was stored."""
        self._new_verdicts += 1
        if self._new_verdicts >= max(FEW_VERDICTS, self._model.of("text").judgements):
            self._fit_aside()

    def fit(self) -> None:
        """Fit the model."""
        encoder = self._observer.encoder

        def encode(texts: Sequence[str]) -> Features:
            return encoder.texts(texts).features

        self._wait_for_growth()
        with self._fitting:
            try:
                if self._model is UNFITTED:  # those who search meanwhile do not wait for the better fit
                    self._model = self._collection.fit_evidence(encode, QUICK)
                self._model = self._collection.fit_evidence(encode)
            except CollectionError:
                pass  # it was closed meanwhile
            except MultifoldError as error:
                log.warning("the evidence cannot be fitted: %s", error)

    def _fit_aside(self) -> None:
        self._wait_for_growth()
        threading.Thread(target=self.fit, daemon=True).start()

    def _wait_for_growth(self) -> None:
        self._next_version = max(FEW, GROWTH * self._collection.version)
        self._new_verdicts = 0
