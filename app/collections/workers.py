"""What the collections of a service share: threads, query encoders, metrics and the audit log."""

from app.concurrency.clients import ClientLimit
from app.concurrency.pools import RenderPool, ThreadPool
from app.encoding.observations import ObservationEncoder
from app.ingest.uploads import FileFetcher
from app.operations.logs import AuditLog
from app.operations.telemetry import Telemetry
from app.queries.encoding import QueryEncoder
from app.settings import Settings

MAKERS = 2  # threads that encode what is written


class Workers:
    """Each kind of work has threads and a bounded queue of its own, and clients have turns in it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.telemetry = Telemetry(log_all=settings.log == "all")
        self.audit = AuditLog(settings.data / "audit.jsonl")
        watch = self.telemetry.watch
        self.searching = ClientLimit(settings.batch, settings.queue)
        self.listing = ClientLimit(1, settings.queue)  # a page may have megabytes
        self.labelling = ClientLimit(1, settings.queue)  # many labels of many items take seconds
        self.reading = ThreadPool(settings.workers, settings.queue, watch("items"))
        self.making = ThreadPool(MAKERS, settings.queue, watch("make"))
        self.render = RenderPool(settings.renderers, settings.queue, watch("draw"))
        self.fetcher = FileFetcher(settings.fetch_hosts, settings.max_body)
        self._query_encoders: dict[ObservationEncoder, QueryEncoder] = {}

    def query_encoder(self, observer: ObservationEncoder) -> QueryEncoder:
        """One for each encoder, so that collections share its batches and its cache."""
        if observer not in self._query_encoders:
            observer.on_rescore = self.telemetry.clock("rescore")
            encoder = QueryEncoder(observer, self.settings, self.telemetry, self.render)
            self._query_encoders[observer] = encoder
        return self._query_encoders[observer]

    def query_encoders(self) -> list[QueryEncoder]:
        return list(self._query_encoders.values())

    def close(self) -> None:
        for encoder in self.query_encoders():
            encoder.close()
        self.reading.close()
        self.making.close()
        self.render.close()
        self.telemetry.tracing.close()
