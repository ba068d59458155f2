"""The connection to Milvus: every call with a time limit, every failure one sentence.

Writes return the cluster's time of the write. A read that names it sees the write of any process, without
waiting for more; servers that return none (milvus-lite, and removals before 2.4) are read as of now instead.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from index.cluster.contracts import ClusterError, ClusterLostError, MilvusAddress
from index.cluster.payload_fields import FACTS, MOST_TOKENS, PART
from index.store.database import OutageLog
from multifold.errors import needs_extra
from multifold.types import Metric, Vectors

NOT_FOUND = 100  # the code of a collection that is not there
SETTLING = 600.0  # seconds that indexing may take
MAKING = 60.0  # seconds that a new collection, or the end of one, may take
METRICS: dict[Metric, str] = {"ip": "IP", "l2": "L2"}
FLAT, GRAPH, CELLS = "FLAT", "HNSW", "IVF_SQ8"
NO_PINGS = {"grpc.keepalive_time_ms": 2**31 - 1}  # the embedded engine ends connections that ask if it lives
BUILT = {
    GRAPH: {"M": 32, "efConstruction": 200},  # links, and how far it looks when it is built
    CELLS: {"nlist": 1024},
}
MilvusRow = Mapping[str, Any]


class MilvusConnection:
    """One client for all threads; it is made when it is first needed, and connects again by itself."""

    def __init__(self, cluster: MilvusAddress) -> None:
        with needs_extra("milvus"):
            import grpc
            import pymilvus
        self.cluster = cluster
        self._library = pymilvus
        self._failures = (pymilvus.MilvusException, grpc.RpcError)
        self._lock = threading.Lock()
        self._opened: Any = None  # a client
        self._outages = OutageLog(f"Milvus at {cluster.uri}")
        self.troubles = 0  # calls that failed: after one, what was read of the cluster may be out of date
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # our errors say it

    @property
    def embedded(self) -> bool:
        """Whether it is the engine in this process, and no server."""
        return self.cluster.uri.endswith(".db")

    def make(self, name: str, dim: int, metric: Metric, index: str) -> None:
        """A new, empty collection of rows with their vectors, parts and facts."""
        types = self._library.DataType
        schema = self._library.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", types.INT64, is_primary=True)
        schema.add_field("vector", types.FLOAT_VECTOR, dim=dim)
        schema.add_field(PART, types.INT64)
        schema.add_field(FACTS, types.ARRAY, element_type=types.INT64, max_capacity=MOST_TOKENS)
        params = self._library.MilvusClient.prepare_index_params()
        built = BUILT.get(index, {})
        params.add_index("vector", index_type=index, metric_type=METRICS[metric], params=built)
        self._call("create_collection", name, schema=schema, index_params=params, timeout=MAKING)

    def find(self, name: str) -> str | None:
        """The index of a collection, ready to be searched; None if it is not there, or still being made."""
        if not self._call("has_collection", name) or not self._call("list_indexes", name):
            return None
        self._call("load_collection", name)
        return str(self._call("describe_index", name, "vector")["index_type"])

    def settle(self, name: str, stopped: Callable[[], bool]) -> None:
        """Have all rows written out, and wait until they are indexed; for a while, at most."""
        self._call("flush", name, timeout=MAKING)
        end = time.monotonic() + SETTLING
        while time.monotonic() < end and not stopped():
            if not int(self._call("describe_index", name, "vector").get("pending_index_rows", 0)):
                break
            time.sleep(1.0)

    def drop(self, name: str) -> None:
        """Remove a collection; one that is not there is no error."""
        self._call("drop_collection", name, timeout=MAKING)

    def put(self, name: str, rows: Sequence[MilvusRow]) -> int:
        """Write rows, each in place of the one before it; returns the cluster's time of it, or 0."""
        return self._write("upsert_rows", name, list(rows))

    def remove(self, name: str, filter: str) -> int:  # noqa: A002 (what it is called there)
        """Remove rows; returns the cluster's time of it, or 0."""
        return self._write("delete", name, filter)

    def search(self, name: str, queries: Vectors, since: int, **how: Any) -> list[list[MilvusRow]]:  # noqa: ANN401
        """Hits of each query, as of a write or, since 0, as of now."""
        return [list(hits) for hits in self._call("search", name, data=list(queries), **_as_of(since), **how)]

    def query(self, name: str, filter: str, fields: list[str], since: int, **how: Any) -> list[MilvusRow]:  # noqa: A002, ANN401
        """Rows that a filter lets through."""
        return list(self._call("query", name, filter=filter, output_fields=fields, **_as_of(since), **how))

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _write(self, method: str, *arguments: object) -> int:
        # the client's own upsert and delete drop the time of the write
        return int(self._call(method, *arguments, inner=True).timestamp or 0)

    def _client(self) -> Any:  # noqa: ANN401 (of the library)
        with self._lock:
            if self._opened is None:
                self._opened = self._library.MilvusClient(
                    self.cluster.uri,
                    token=self.cluster.token,
                    timeout=self.cluster.patience,
                    grpc_options=NO_PINGS if self.embedded else {},
                )
            return self._opened

    def _call(
        self, method: str, *arguments: object, timeout: float = 0, inner: bool = False, **options: object
    ) -> Any:  # noqa: ANN401 (each method has its own answer)
        try:
            client = self._client()
            called = getattr(client._get_connection() if inner else client, method)
            answer = called(*arguments, timeout=timeout or self.cluster.patience, **options)
        except self._failures as error:
            if getattr(error, "code", None) == NOT_FOUND:
                raise ClusterLostError("Milvus has lost rows: they are derived anew.") from error
            self.troubles += 1
            self._outages.failed(_reason(error))
            raise ClusterError(
                "Milvus does not answer. Nothing is lost; searches go on when it is back."
            ) from error
        self._outages.worked()
        return answer


def _as_of(since: int) -> dict[str, Any]:
    if not since:
        return {"consistency_level": "Strong"}
    return {"consistency_level": "Customized", "guarantee_timestamp": since}


def _reason(error: Exception) -> str:
    details = getattr(error, "details", lambda: "")
    text = str(getattr(error, "message", "") or details() or error).strip()
    return text.partition("\n")[0][:200] or type(error).__name__
