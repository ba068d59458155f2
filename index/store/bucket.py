"""Blobs in a bucket of an S3-compatible store, for all processes that share a database.

Address and credentials are configured as for every other client of S3: AWS_ENDPOINT_URL_S3, AWS_REGION,
AWS_SHARED_CREDENTIALS_FILE or the machine's role. The server checks what is sent by its sha256, `get` checks
what comes back. A server that does not answer is given up after seconds, and the error says so.
"""

import base64
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from index.store.blobs import KEY, BlobError, Blobs, DamagedBlobError, check_key
from index.store.database import OutageLog
from multifold.errors import needs_extra

ADDRESS = re.compile(r"s3://(?P<name>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[\w./-]*))?", re.ASCII)
URL = re.compile(r"\w+://[^\s\"]+")
MANNERS: dict[str, Any] = {
    "connect_timeout": 3.0,  # seconds
    "read_timeout": 15.0,
    "retries": {"total_max_attempts": 2, "mode": "standard"},
    "max_pool_connections": 32,  # that are kept
    "request_checksum_calculation": "when_required",  # ours is sent; no other server must know more
    "response_checksum_validation": "when_required",
}
KEYS_A_REQUEST = 1_000  # keys in one request
REGION = "us-east-1"  # any will do where a store has none
NO_BUCKET = "NoSuchBucket"
MISSING = ("404", "NoSuchKey", "NotFound", NO_BUCKET)
OURS = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


class BucketBlobs(Blobs):
    """One object a blob, under the prefix that the address names."""

    def __init__(self, home: Path, address: str) -> None:
        parts = ADDRESS.fullmatch(address)
        if parts is None:
            raise BlobError(f"{address!r} is no address of a bucket: s3://NAME/PREFIX is.")
        with needs_extra("bucket"):
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError, ClientError
        self.home = home
        self._name = parts["name"]
        prefix = (parts["prefix"] or "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._failures = (BotoCoreError, ClientError)
        try:
            session = boto3.session.Session()
            region = session.region_name or REGION
            self._client: Any = session.client("s3", region_name=region, config=Config(**MANNERS))
        except (BotoCoreError, ValueError) as error:
            raise BlobError(f"{address} cannot be asked: {error}.") from error
        self._outages = OutageLog(f"the bucket {address}")

    def write(self, key: str, data: bytes) -> None:
        """An object is there whole or not at all; the bucket is made if there is none."""
        digest = base64.b64encode(bytes.fromhex(check_key(key).hash)).decode()
        put = partial(self._client.put_object, Body=data, ChecksumSHA256=digest, **self._named(key))
        with self._errors():
            try:
                put()
            except self._failures as error:
                if _code(error) != NO_BUCKET:
                    raise
                self._make()
                put()

    def read(self, key: str) -> bytes:
        data: bytes | None = None
        with self._errors(MISSING):
            data = self._client.get_object(**self._named(key))["Body"].read()
        if data is None:
            raise DamagedBlobError(f"no blob {key}")
        return data

    def exists(self, key: str) -> bool:
        answer = None
        with self._errors(MISSING):
            answer = self._client.head_object(**self._named(key))
        return answer is not None

    def all(self) -> Iterator[str]:
        return (name for name, _ in self._listing())

    def remove(self, keys: Iterable[str]) -> None:
        places = ({"Key": self._place(key)} for key in keys)
        with self._errors([NO_BUCKET]):
            while some := list(islice(places, KEYS_A_REQUEST)):
                these = {"Objects": some, "Quiet": True}
                answer = self._client.delete_objects(Bucket=self._name, Delete=these)
                if failed := answer.get("Errors"):
                    raise BlobError(f"The bucket keeps {failed[0]['Key']}: {failed[0].get('Message')}.")

    def sweep(self) -> None:
        """Nothing is ever half-written here."""

    def size(self) -> int:
        return sum(size for _, size in self._listing())

    def _make(self) -> None:
        try:
            self._client.create_bucket(Bucket=self._name)
        except self._failures as error:
            if _code(error) not in OURS:
                raise

    def _place(self, key: str) -> str:
        return f"{self._prefix}{check_key(key)[:2]}/{key}"

    def _named(self, key: str) -> dict[str, str]:
        return {"Bucket": self._name, "Key": self._place(key)}

    def _listing(self) -> Iterator[tuple[str, int]]:
        pages = self._client.get_paginator("list_objects_v2")
        with self._errors([NO_BUCKET]):
            for page in pages.paginate(Bucket=self._name, Prefix=self._prefix):
                for one in page.get("Contents", ()):
                    name = one["Key"].rpartition("/")[2]
                    if KEY.fullmatch(name) and one["Key"] == self._place(name):
                        yield name, one["Size"]

    @contextmanager
    def _errors(self, answers: Collection[str] = ()) -> Iterator[None]:
        """Failures become a BlobError; those that are an answer just end the block."""
        try:
            yield
            self._outages.worked()
        except self._failures as error:
            if _code(error) not in answers:
                self._outages.failed(error)
                reason = URL.sub("…", str(error))
                raise BlobError(
                    f"The bucket does not do its work: {reason}. Nothing was changed; try again."
                ) from error


def _code(error: Exception) -> str:
    """The code of what the server answered; none where it gave no answer."""
    answer = getattr(error, "response", None)
    return str(answer["Error"].get("Code", "")) if isinstance(answer, dict) else ""
