"""Blobs in a bucket of an S3-compatible store, for all processes that share a database.

Address and credentials are configured as for every other client of S3: AWS_ENDPOINT_URL_S3, AWS_REGION,
AWS_SHARED_CREDENTIALS_FILE or the machine's role. The server checks what is sent by its sha256, `get` checks
what comes back. A server that does not answer is given up after seconds, and the error says so.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from index.store.blobs import KEY, BlobError, Blobs, DamagedBlobError, check_key
from multifold.errors import needs_extra

with needs_extra("bucket"):
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

ADDRESS = re.compile(r"s3://(?P<name>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[\w./-]*))?", re.ASCII)
CONNECT, ANSWER = 3.0, 15.0  # seconds
AT_ONCE = 32  # connections that are kept
MANY = 1_000  # keys in one request
REGION = "us-east-1"  # any will do where a store has none
NO_BUCKET = "NoSuchBucket"
MISSING = ("404", "NoSuchKey", "NotFound", NO_BUCKET)
OURS = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")
Failed = (BotoCoreError, ClientError)


class BucketBlobs(Blobs):
    """One object a blob, under the prefix that the address names."""

    def __init__(self, home: Path, address: str) -> None:
        parts = ADDRESS.fullmatch(address)
        if parts is None:
            raise BlobError(f"{address!r} is no address of a bucket: s3://NAME/PREFIX is.")
        self.home, self.address, self._name = home, address, parts["name"]
        prefix = (parts["prefix"] or "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = _client(address)

    def write(self, key: str, data: bytes) -> None:
        """An object is there whole or not at all; the bucket is made if there is none."""
        digest = base64.b64encode(bytes.fromhex(check_key(key)[:64])).decode()
        try:
            try:
                self._put(key, data, digest)
            except ClientError as error:
                if _code(error) != NO_BUCKET:
                    raise
                self._make()
                self._put(key, data, digest)
        except Failed as error:
            raise self._away(error) from error

    def read(self, key: str) -> bytes:
        """What the object holds."""
        try:
            answer = self._client.get_object(Bucket=self._name, Key=self._place(key))
            data: bytes = answer["Body"].read()
        except Failed as error:
            if _code(error) in MISSING:
                raise DamagedBlobError(f"no blob {key}") from None
            raise self._away(error) from error
        return data

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        try:
            self._client.head_object(Bucket=self._name, Key=self._place(key))
        except Failed as error:
            if _code(error) in MISSING:
                return False
            raise self._away(error) from error
        return True

    def all(self) -> Iterator[str]:
        """The keys under the prefix."""
        return (name for name, _ in self._listing())

    def remove(self, keys: Iterable[str]) -> None:
        """Delete objects, many in one request."""
        places = ({"Key": self._place(key)} for key in keys)
        try:
            while some := list(islice(places, MANY)):
                these = {"Objects": some, "Quiet": True}
                answer = self._client.delete_objects(Bucket=self._name, Delete=these)
                if failed := answer.get("Errors"):
                    raise BlobError(f"{self.address} keeps {failed[0]['Key']}: {failed[0].get('Message')}.")
        except Failed as error:
            if _code(error) != NO_BUCKET:
                raise self._away(error) from error

    def sweep(self) -> None:
        """Nothing is ever half-written here."""

    def size(self) -> int:
        """What the objects take."""
        return sum(size for _, size in self._listing())

    def _put(self, key: str, data: bytes, digest: str) -> None:
        self._client.put_object(Bucket=self._name, Key=self._place(key), Body=data, ChecksumSHA256=digest)

    def _make(self) -> None:
        try:
            self._client.create_bucket(Bucket=self._name)
        except ClientError as error:
            if _code(error) not in OURS:
                raise

    def _place(self, key: str) -> str:
        return f"{self._prefix}{check_key(key)[:2]}/{key}"

    def _listing(self) -> Iterator[tuple[str, int]]:
        pages = self._client.get_paginator("list_objects_v2")
        try:
            for page in pages.paginate(Bucket=self._name, Prefix=self._prefix):
                for one in page.get("Contents", ()):
                    name = one["Key"].rpartition("/")[2]
                    if KEY.fullmatch(name) and one["Key"] == self._place(name):
                        yield name, one["Size"]
        except Failed as error:
            if _code(error) != NO_BUCKET:
                raise self._away(error) from error

    def _away(self, error: Exception) -> BlobError:
        return BlobError(f"{self.address} does not do its work: {error}. Nothing was changed; try again.")


def _client(address: str) -> Any:  # noqa: ANN401 (boto3 makes its classes when it runs)
    """Safe for threads."""
    manners = Config(
        connect_timeout=CONNECT,
        read_timeout=ANSWER,
        retries={"total_max_attempts": 2, "mode": "standard"},
        max_pool_connections=AT_ONCE,
        request_checksum_calculation="when_required",  # ours is sent; no other server must know more
        response_checksum_validation="when_required",
    )
    try:
        session = boto3.session.Session()
        return session.client("s3", region_name=session.region_name or REGION, config=manners)
    except (BotoCoreError, ValueError) as error:
        raise BlobError(f"{address} cannot be asked: {error}.") from error


def _code(error: Exception) -> str:
    return str(error.response["Error"].get("Code", "")) if isinstance(error, ClientError) else ""
