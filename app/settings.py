"""The settings of a service: by argument, by environment (MULTIFOLD_PORT=8001 …) or by a TOML file."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from app.operations.keys import ApiKey, ApiKeyError, parse_keys, read_keys, read_toml
from index.cluster.contracts import MilvusAddress
from index.contracts import CollectionLocation, Memory
from multifold.errors import MultifoldError, needs_extra
from multifold.wire.search import Consistency

with needs_extra("serve"):
    from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
    from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024
DEMO_BUNDLE = Path("bundles/furniture")
GENERAL_BUNDLE = Path("bundles/general")
FORMER_NAMES = {  # of settings; accepted in version 0.1
    "fetch": "fetch_hosts",
    "patience": "request_timeout",
    "probe_every": "probe_interval",
    "roots": "in_place_folders",
}
log = logging.getLogger("multifold.app")
FeedbackPolicy: TypeAlias = Literal["off", "verdicts", "text", "all"]


class SettingsError(MultifoldError):
    """An invalid setting. The message names it and the reason."""


@dataclass(frozen=True)
class RemoteCollection:
    """A collection of another service; None stands for its default one."""

    url: str
    collection: str | None
    key: str | None


def split_pairs(text: str, setting: str) -> dict[str, str]:
    """`NAME=VALUE`, separated by commas."""
    pairs = [one.partition("=") for one in split_list(text)]
    if wrong := [name for name, equals, value in pairs if not (name and equals and value)]:
        raise SettingsError(f"{setting}: {wrong[0]!r} is not written as NAME=VALUE")
    return {name: value for name, _, value in pairs}


def split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class Settings(BaseSettings):
    """One service: its folders and stores, its address, its limits."""

    model_config = SettingsConfigDict(env_prefix="MULTIFOLD_", extra="forbid", frozen=True)

    # docs/settings.md is made from these lines: python -m tests.app.settings_page
    data: Path = Path("data")
    """Folder of the collections."""
    folder: Path | None = None
    """Folder of meshes, photos and captions that the service follows. Without `data`, its collection is in
    `data/NAME`, by the name of the folder."""
    database: SecretStr | None = None
    """`postgresql://` address of a database that services share, instead of SQLite in the folder."""
    connections: Annotated[int, Field(ge=4, le=1000)] = 16
    """Most connections of this process to PostgreSQL, for all collections together. What waits too long for
    one gets status 503."""
    bucket: str | None = None
    """`s3://NAME/PREFIX` for originals and views. `AWS_ENDPOINT_URL_S3` names the server."""
    milvus: str | None = None
    """Address of a Milvus server that searches instead of this process, such as `http://milvus:19530`."""
    staleness: Annotated[float, Field(gt=0)] = 1.0
    """Seconds by which a search on Milvus may be behind what was written."""
    consistency: Consistency = "bounded"
    """What searches on Milvus see where they do not say so themselves: what is indexed (`bounded`), also what
    `seen` names (`session`), or all that is stored (`strong`)."""
    milvus_token: SecretStr = SecretStr("")
    """`USER:PASSWORD` or a token for Milvus."""
    index_memory: Memory = "auto"
    """What indexes keep in memory where a collection does not say so: everything, or `codes` alone, with the
    vectors in files. `auto` decides by the memory there is."""
    bundle: Path = DEMO_BUNDLE
    """Folder of the encoder of the main collection."""
    bundles: Path | None = None
    """Folder with more bundles, for collections with other encoders."""
    keep_files: bool = True
    """Whether uploaded meshes are kept, so that another encoder can render them again."""
    in_place_folders: str = ""
    """Folders of this machine, separated by commas. Files below them are not copied by an ingest that goes
    through the service."""
    host: str = "127.0.0.1"
    """Address to listen on. `0.0.0.0` means all interfaces."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on. 0 takes a free one."""
    max_body: Annotated[int, Field(ge=1024)] = 16 * MIB
    """Largest request body, in bytes."""
    max_text: Annotated[int, Field(ge=1)] = 2000
    """Longest text of a query or caption, in characters."""
    max_files: Annotated[int, Field(ge=1)] = 64
    """Most files in one request."""
    max_batch: Annotated[int, Field(ge=1)] = 256
    """Most searches or inputs in one request."""
    max_items: Annotated[int, Field(ge=1)] = 1_000
    """Most items that one request writes."""
    max_hits: Annotated[int, Field(ge=1)] = 10_000
    """Most hits for which the searches of one request ask together."""
    max_pixels: Annotated[int, Field(ge=64)] = 64_000_000
    """Most pixels of one picture."""
    remotes: str = ""
    """Collections of other services, which a search of several may name, as `NAME=URL`, separated by commas.
    A path of the URL names the collection there."""
    remote_keys: SecretStr = SecretStr("")
    """API keys for them, as `NAME=KEY`, separated by commas."""
    fetch_hosts: str = ""
    """Hosts from which items may name files by URL, as `HOST` or `HOST:PORT`, separated by commas.
    `public` means every public host."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Threads per batch of the encoder. 0 leaves it to ONNX Runtime."""
    batch: Annotated[int, Field(ge=1)] = 32
    """Most requests that are encoded together."""
    queue: Annotated[int, Field(ge=1)] = 256
    """Most requests of one client that wait for one kind of work, and a quarter of those of all. The next one
    gets status 429. So does one that would wait too long."""
    streams: Annotated[int, Field(ge=1)] = 64
    """Most streams of events that are open, of which one client has half at most. The next one gets status
    429."""
    cache: Annotated[int, Field(ge=0)] = 4096
    """Vectors of queries that are kept for each encoder, and of sentences for its text reader."""
    decoders: Annotated[int, Field(ge=1)] = 2
    """Threads that decode pictures of queries."""
    workers: Annotated[int, Field(ge=1)] = 4
    """Threads that read items. What is written has threads of its own."""
    request_timeout: Annotated[float, Field(gt=0)] = 60.0
    """Seconds after which a request is cancelled."""
    renderers: Annotated[int, Field(ge=1)] = 2
    """Processes that render uploaded meshes. Of two or more, one is left to meshes that are quick. The first
    starts with the service, others when they are needed."""
    render_seconds: Annotated[float, Field(gt=0)] = 20.0
    """Longest time for rendering one mesh, in seconds of the processor. By the clock it may be ten times
    that."""
    lexical: Literal["auto", "off"] = "auto"
    """Whether a search also matches the words of its query."""
    photo_texts: Literal["auto", "off"] = "auto"
    """Whether texts that are seen in photos are read, where the extra `writing` is installed."""
    understand: Literal["auto", "off"] = "auto"
    """Whether words of a query such as "under 80 cm" are read as a filter."""
    feedback: FeedbackPolicy = "text"
    """What feedback stores of a query: nothing (`verdicts`), texts and item ids (`text`), or also pictures
    and meshes (`all`). `off` refuses feedback."""
    probe_interval: Annotated[float, Field(ge=0)] = 300.0
    """Seconds between two measurements of drift. 0 turns them off."""
    log: Literal["errors", "all"] = "errors"
    """Requests that are logged as JSON on the error output."""
    keys: SecretStr = SecretStr("")
    """API keys as `read:KEY,write:KEY,admin:KEY`. Without any key, the service is open."""
    keys_file: Path | None = None
    """File of hashed API keys, as `multifold keys` writes it."""
    open_read: bool = False
    """Whether reading needs no key where other requests need one."""
    hosts: str = ""
    """Names by which clients may call a service without keys, beside this machine's own, separated by commas.
    Names are checked if the service listens on a loopback address, or if some are given here."""
    cors: str = ""
    """Origins whose pages may call the API, separated by commas."""

    @field_validator("folder", mode="before")
    @classmethod
    def _resolve_folder(cls, value: object) -> Path | None:
        return Path(str(value)).expanduser().resolve() if value not in (None, "") else None

    @model_validator(mode="before")
    @classmethod
    def _choose_data(cls, values: dict[str, Any]) -> dict[str, Any]:
        """A folder that is followed gets a collection of its own, for each encoder."""
        if "data" in values or (folder := cls._resolve_folder(values.get("folder"))) is None:
            return values
        bundle = Path(values.get("bundle", DEMO_BUNDLE)).name
        usual = (DEMO_BUNDLE.name, GENERAL_BUNDLE.name)
        name = (folder.name or "root") + ("" if bundle in usual else f"-{bundle}")
        return {**values, "data": Path("data") / name}

    @property
    def place(self) -> CollectionLocation:
        return CollectionLocation(self.data, self.items_at, self.bucket)

    @property
    def items_at(self) -> str | None:
        return None if self.database is None else self.database.get_secret_value()

    @property
    def cluster(self) -> MilvusAddress | None:
        """The Milvus that searches, if this process does not."""
        token = self.milvus_token.get_secret_value()
        return None if self.milvus is None else MilvusAddress(self.milvus, token, staleness=self.staleness)

    @property
    def spared(self) -> tuple[Path, ...]:
        return tuple(Path(folder).resolve() for folder in split_list(self.in_place_folders))

    @property
    def origins(self) -> list[str]:
        return split_list(self.cors)

    @property
    def remote_collections(self) -> dict[str, RemoteCollection]:
        """Collections of other services, by the names that they have here."""
        keys = split_pairs(self.remote_keys.get_secret_value(), "remote_keys")
        found = {}
        for name, url in split_pairs(self.remotes, "remotes").items():
            parts = urlsplit(url)
            collection = parts.path.strip("/").rpartition("/")[2] or None
            found[name] = RemoteCollection(f"{parts.scheme}://{parts.netloc}", collection, keys.get(name))
        return found

    def known_keys(self) -> list[ApiKey]:
        keys = parse_keys(self.keys.get_secret_value())
        if self.keys_file:
            keys += read_keys(self.keys_file)
            if not keys:
                raise ApiKeyError(f"{self.keys_file} holds no key: add one, or do not name the file")
        return keys

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 (compared, not bound)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def read_settings(arguments: Mapping[str, Any]) -> Settings:
    """Settings as given (None is not), else by the environment, else by the file MULTIFOLD_CONFIG."""
    given = {name: value for name, value in arguments.items() if value is not None}
    file = given.pop("config", None) or os.environ.get("MULTIFOLD_CONFIG")
    environment = {
        name.removeprefix("MULTIFOLD_").lower(): value
        for name, value in os.environ.items()
        if name.startswith("MULTIFOLD_")
    }
    in_file = _with_present_names(read_toml(Path(file), "the settings", SettingsError) if file else {})
    former = {name: environment[name] for name in FORMER_NAMES.keys() & environment.keys()}
    values = {**in_file, **_with_present_names(former)}  # pydantic reads the others from the environment
    values = {name: value for name, value in values.items() if name not in environment}
    try:
        settings = Settings(**{**values, **given})
    except ValidationError as error:
        sentences = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise SettingsError("; ".join(sentences)) from None
    count = os.environ.get("WEB_CONCURRENCY", "1")
    if count not in ("", "0", "1"):
        raise SettingsError(
            f"WEB_CONCURRENCY asks for {count} processes, but one process writes a collection: "
            "run one, which batches requests and uses all cores"
        )
    return settings


def _with_present_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their present names; a former one is logged."""
    for name in FORMER_NAMES.keys() & values.keys():
        log.warning("the setting %s is now called %s; use the new name", name, FORMER_NAMES[name])
    return {FORMER_NAMES.get(name, name): value for name, value in values.items()}
