"""The same encoder behind two servers that speak OpenAI's embeddings: rates and latencies, in turns.

    MULTIFOLD_CACHE=1 multifold serve --bundle BUNDLE &
    multifold bench peer http://127.0.0.1:8000/v1 http://127.0.0.1:7997

Each client asks for one thing at a time. Both are to give the same vectors: the least cosine is reported.
"""

import argparse
import base64
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benches.reporting import head, row
from benches.service import load
from benches.service.load import LoadResult
from benches.service.sample_collection import noise_photo, text_queries
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Vectors

with needs_extra("serve"):
    import httpx

SAME = 8  # things of which both are asked for their vectors
PICTURES, SIDE = 128, 448
COLUMNS = (
    *("asked", "clients", "first, a second", "second, a second", "ratio"),
    *("first p50 ms", "p95 ms", "second p50 ms", "p95 ms"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("addresses", nargs=2, metavar="URL", help="whose /embeddings are asked")
    parser.add_argument("--kinds", nargs="+", default=["text", "image"], choices=["text", "image"])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=3, help="of each of the two")


def run(args: argparse.Namespace) -> int:
    first, second = servers = [_open_server(address) for address in args.addresses]
    rng = np.random.default_rng(1)
    pictures = [base64.b64encode(noise_photo(rng, SIDE)).decode() for _ in range(PICTURES)]
    inputs = {
        "text": [str(query.content) for query in text_queries()],
        "image": [f"data:image/jpeg;base64,{picture}" for picture in pictures],
    }
    for kind in args.kinds:
        alike = (first.vectors(kind, inputs[kind][:SAME]) * second.vectors(kind, inputs[kind][:SAME])).sum(1)
        print(f"{kind}: the least cosine between their vectors is {alike.min():.5f}")
    print("\n" + head(*COLUMNS))
    for kind in args.kinds:
        requests = [[server.request(kind, content) for content in inputs[kind]] for server in servers]
        for count in args.clients:
            pairs = list(zip(servers, requests, strict=True)) * args.turns
            loads = [server.loaded(own, count, args.seconds) for server, own in pairs]
            print(_row(kind, count, loads[::2], loads[1::2]), flush=True)
    return 0


@dataclass(frozen=True)
class EmbeddingServer:
    url: httpx.URL
    model: str

    def body(self, kind: str, inputs: Sequence[str]) -> dict[str, Any]:
        return {"model": self.model, "input": list(inputs), "modality": kind}

    def request(self, kind: str, content: str) -> bytes:
        path = f"{self.url.path.rstrip('/')}/embeddings"
        return load.post_request(path, json.dumps(self.body(kind, [content])).encode(), "application/json")

    def vectors(self, kind: str, inputs: Sequence[str]) -> Vectors:
        """Vectors of unit length."""
        answer = _checked(httpx.post(f"{self.url}/embeddings", json=self.body(kind, inputs), timeout=60))
        vectors = np.array([one["embedding"] for one in answer.json()["data"]], np.float32)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def loaded(self, requests: list[bytes], clients: int, seconds: float) -> LoadResult:
        """The result of so many clients."""
        result = load.run_load(self.url.host, [self.url.port or 80], requests, clients, seconds)
        if result.refusals or not result.latencies:
            reason = (result.refusals or [b"no answer"])[0].decode(errors="replace")
            raise MultifoldError(f"{self.url}: {reason}")
        return result


def _open_server(address: str) -> EmbeddingServer:
    url = httpx.URL(address.rstrip("/"))
    return EmbeddingServer(url, _checked(httpx.get(f"{url}/models", timeout=60)).json()["data"][0]["id"])


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        raise MultifoldError(f"{response.url} answers {response.status_code}: {response.text[:200]}")
    return response


def _row(kind: str, count: int, *loads: Sequence[LoadResult]) -> str:
    rates = [f"{statistics.median(one.rate for one in own):.1f}" for own in loads]
    ratio = statistics.median(one.rate / other.rate for one, other in zip(*loads, strict=True))
    shares = ((own, share) for own in loads for share in (0.5, 0.95))
    late = (f"{1e3 * statistics.median(one.quantile(share) for one in own):.0f}" for own, share in shares)
    return row(kind, count, *rates, f"{ratio:.2f}", *late)
