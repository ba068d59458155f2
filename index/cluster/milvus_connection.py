"""The connection to Milvus: every call with a time limit, every failure one sentence.

Writes return the cluster's time of the write. A read that names it sees the write of any process, without
waiting for more; servers that return none (milvus-lite, and removals before 2.4) are read as of now instead.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from index.cluster.contracts import ClusterError, ClusterLostError, MilvusAddress
from multifold.errors import needs_extra
from multifold.types import Metric

with needs_extra("milvus"):
    import grpc
    from pymilvus import DataType, MilvusClient, MilvusException

P = ParamSpec("P")
T = TypeVar("T")

NOT_FOUND = 100  # the code of a collection that is not there
SETTLING = 600.0  # seconds that indexing may take
MAKING = 60.0  # seconds that a new collection, or the end of one, may take
METRICS: dict[Metric, str] = {"ip": "IP", "l2": "L2"}
FLAT, GRAPH = "FLAT", "HNSW"
LINKS, WIDTH = 32, 200  # of a graph, when it is built
MilvusRow = Mapping[str, Any]


class MilvusConnection:
    """One client for all threads; it is made when it is first needed, and connects again by itself."""

    def __init__(self, cluster: MilvusAddress) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._opened: MilvusClient | None = None
        self.troubles = 0  # calls that failed: after one, what was read of the cluster may be out of date
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # our errors say it

    def make(self, name: str, dim: int, metric: Metric, index: str) -> None:
        """A new, empty collection of rows and vectors."""
        client = self._client()
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        params = client.prepare_index_params()
        built = {"M": LINKS, "efConstruction": WIDTH} if index == GRAPH else {}
        params.add_index("vector", index_type=index, metric_type=METRICS[metric], params=built)
        self._call(client.create_collection, name, schema=schema, index_params=params, timeout=MAKING)

    def find(self, name: str) -> str | None:
        """The index of a collection, ready to be searched; None if it is not there."""
        client = self._client()
        if not self._call(client.has_collection, name, timeout=self.cluster.patience):
            return None
        self._call(client.load_collection, name, timeout=self.cluster.patience)
        index = self._call(client.describe_index, name, "vector", timeout=self.cluster.patience)
        return str(index["index_type"])

    def settle(self, name: str, stopped: Callable[[], bool]) -> None:
        """Have all rows written out, and wait until they are indexed; for a while, at most."""
        client = self._client()
        self._call(client.flush, name, timeout=MAKING)
        end = time.monotonic() + SETTLING
        while time.monotonic() < end and not stopped():
            index = self._call(client.describe_index, name, "vector", timeout=self.cluster.patience)
            if not int(index.get("pending_index_rows", 0)):
                break
            time.sleep(1.0)

    def drop(self, name: str) -> None:
        """Remove a collection; one that is not there is no error."""
        self._call(self._client().drop_collection, name, timeout=MAKING)

    def put(self, name: str, rows: Sequence[MilvusRow]) -> int:
        """Write rows, each in place of the one before it; returns the cluster's time of it, or 0."""
        return self._written("upsert_rows", name, list(rows))

    def remove(self, name: str, filter: str) -> int:  # noqa: A002 (what it is called there)
        """Remove rows; returns the cluster's time of it, or 0."""
        return self._written("delete", name, filter)

    def search(self, name: str, queries: Sequence[Any], since: int, **how: Any) -> list[list[MilvusRow]]:  # noqa: ANN401
        """Hits of each query, as of a write or, since 0, as of now."""
        answers = self._reading(self._client().search, name, data=queries, since=since, **how)
        return [list(hits) for hits in answers]

    def query(self, name: str, filter: str, fields: list[str], since: int, **how: Any) -> list[MilvusRow]:  # noqa: A002, ANN401
        """Rows that a filter lets through."""
        method = self._client().query
        return list(self._reading(method, name, filter=filter, output_fields=fields, since=since, **how))

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _written(self, method: str, *arguments: object) -> int:
        # the client's own upsert and delete drop the time of the write
        handler = self._client()._get_connection()
        result = self._call(getattr(handler, method), *arguments, timeout=self.cluster.patience)
        return int(result.timestamp or 0)

    def _reading(self, method: Callable[..., Any], name: str, since: int, **how: Any) -> Any:  # noqa: ANN401
        level = {"consistency_level": "Customized", "guarantee_timestamp": since}
        how |= level if since else {"consistency_level": "Strong"}
        return self._call(method, name, timeout=self.cluster.patience, **how)

    def _client(self) -> MilvusClient:
        with self._lock:
            if self._opened is None:
                uri, token = self.cluster.uri, self.cluster.token
                self._opened = self._call(MilvusClient, uri, token=token, timeout=self.cluster.patience)
            return self._opened

    def _call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except (MilvusException, grpc.RpcError) as error:
            if getattr(error, "code", None) == NOT_FOUND:
                raise ClusterLostError(
                    f"Milvus at {self.cluster.uri} has lost rows: they are derived anew."
                ) from error
            self.troubles += 1
            raise ClusterError(
                f"Milvus at {self.cluster.uri} does not answer: {_reason(error)}. Nothing is lost; "
                "searches go on when it is back."
            ) from error


def _reason(error: Exception) -> str:
    text = getattr(error, "message", None) or getattr(error, "details", lambda: None)() or str(error)
    return str(text).strip().splitlines()[0][:200] if str(text).strip() else type(error).__name__
