"""What a service can be told, by argument, by environment (MULTIFOLD_PORT=8001 …) or by a TOML file."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from app.http.keys import ApiKeyError, ApiKeys, parse_keys, read_keys
from index.cluster.contracts import MilvusAddress
from index.registry import CollectionLocation
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from pydantic import Field, SecretStr, ValidationError
    from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024
FeedbackPolicy: TypeAlias = Literal["off", "verdicts", "text", "all"]


class SettingsError(MultifoldError):
    """A setting that makes no sense; says which and why."""


class Settings(BaseSettings):
    """One service: where its things lie, where it listens, and what it takes."""

    model_config = SettingsConfigDict(env_prefix="MULTIFOLD_", extra="forbid", frozen=True)

    data: Annotated[Path, Field(description="folder of the collection")] = Path("data")
    database: Annotated[
        SecretStr | None,
        Field(description="postgresql:// address for the items; the folder, or a bucket, holds the pictures"),
    ] = None
    bucket: Annotated[
        str | None,
        Field(description="s3://NAME/PREFIX for the pictures; where that is, AWS_ENDPOINT_URL_S3 says"),
    ] = None
    milvus: Annotated[
        str | None, Field(description="address of the Milvus that finds neighbours, http://milvus:19530")
    ] = None
    milvus_token: Annotated[
        SecretStr, Field(description="what Milvus asks for: USER:PASSWORD or a token")
    ] = SecretStr("")
    bundle: Annotated[Path, Field(description="folder of the encoder")] = Path("bundles/furniture")
    bundles: Annotated[
        Path | None, Field(description="folder of more bundles, for collections of other encoders")
    ] = None
    keep_files: Annotated[
        bool, Field(description="whether meshes are kept as they came, for another encoder")
    ] = True
    roots: Annotated[
        str,
        Field(
            description="folders of this machine, separated by commas: what is uploaded is not copied "
            "where an ingest noted that a file below them holds it"
        ),
    ] = ""
    host: Annotated[str, Field(description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="port to listen on; 0 takes a free one")] = 8000
    max_body: Annotated[int, Field(ge=1024, description="largest request body, in bytes")] = 16 * MIB
    max_text: Annotated[int, Field(ge=1, description="longest text, in characters")] = 2000
    max_files: Annotated[int, Field(ge=1, description="most files in one request")] = 64
    max_batch: Annotated[int, Field(ge=1, description="most searches, items or inputs in one request")] = 256
    max_pixels: Annotated[int, Field(ge=64, description="most pixels of one picture")] = 64_000_000
    fetch: Annotated[
        str,
        Field(
            description="hosts that files of items may be fetched from, separated by commas, with a port "
            "where it is not the usual one; 'public' means every public host; none if empty"
        ),
    ] = ""
    threads: Annotated[int, Field(ge=0, description="threads of the encoder; 0 leaves it to the runtime")] = 0
    batch: Annotated[int, Field(ge=1, description="most requests that are encoded together")] = 32
    queue: Annotated[int, Field(ge=1, description="most requests that wait for the same kind of work")] = 256
    cache: Annotated[int, Field(ge=1, description="queries whose vectors are remembered")] = 4096
    decoders: Annotated[int, Field(ge=1, description="threads that decode pictures")] = 2
    workers: Annotated[int, Field(ge=1, description="threads that read and write items")] = 4
    patience: Annotated[float, Field(gt=0, description="seconds after which a request is given up")] = 60.0
    renderers: Annotated[int, Field(ge=1, description="processes that render uploaded meshes")] = 1
    render_seconds: Annotated[float, Field(gt=0, description="longest time that one mesh may take")] = 20.0

    lexical: Annotated[
        Literal["auto", "off"], Field(description="whether a search looks for the words of its query too")
    ] = "auto"
    lexical_weight: Annotated[
        float, Field(ge=0, le=100, description="what a rank by words counts beside one by the vector")
    ] = 1.0

    feedback: Annotated[
        FeedbackPolicy,
        Field(
            description="whether people may judge hits, and what is kept of their queries: nothing "
            "(verdicts), texts and ids of items (text), pictures and meshes too (all)"
        ),
    ] = "text"

    probe_every: Annotated[
        float,
        Field(
            ge=0, description="seconds between two looks whether known queries get their answers; 0: never"
        ),
    ] = 300.0

    log: Annotated[
        Literal["errors", "all"], Field(description="which requests are logged, as JSON, to the error output")
    ] = "errors"
    keys: Annotated[SecretStr, Field(description="API keys: read:KEY,write:KEY,admin:KEY")] = SecretStr("")
    keys_file: Annotated[Path | None, Field(description="file of hashed API keys; see multifold keys")] = None
    open_read: Annotated[bool, Field(description="with keys: whether reading needs none")] = False
    cors: Annotated[str, Field(description="origins whose pages may ask, separated by commas")] = ""

    @property
    def place(self) -> CollectionLocation:
        """Where the main collection lies."""
        return CollectionLocation(self.data, self.items_at, self.bucket)

    @property
    def items_at(self) -> str | None:
        """The address of the database that holds the items, if they are not in the folder."""
        return None if self.database is None else self.database.get_secret_value()

    @property
    def cluster(self) -> MilvusAddress | None:
        """Where neighbours are found, if not in this process."""
        return (
            None if self.milvus is None else MilvusAddress(self.milvus, self.milvus_token.get_secret_value())
        )

    @property
    def spared(self) -> tuple[Path, ...]:
        """Folders whose files need no copy."""
        return tuple(Path(root.strip()).resolve() for root in self.roots.split(",") if root.strip())

    @property
    def origins(self) -> list[str]:
        """Origins whose pages may ask."""
        return [origin.strip() for origin in self.cors.split(",") if origin.strip()]

    def known_keys(self) -> ApiKeys:
        """The keys of the environment and of the file."""
        found = parse_keys(self.keys.get_secret_value())
        if self.keys_file:
            found += read_keys(self.keys_file)
            if not found:
                raise ApiKeyError(f"{self.keys_file} holds no key: add one, or do not name the file")
        return ApiKeys(found)

    @property
    def url(self) -> str:
        """Where clients find this service."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 (compared, not bound)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def read_settings(given: dict[str, Any]) -> Settings:
    """What was given, else what the environment says, else the file MULTIFOLD_CONFIG, else the defaults."""
    given = dict(given)
    file = given.pop("config", None) or os.environ.get("MULTIFOLD_CONFIG")
    said = {name.upper() for name in os.environ}
    filed = _file(Path(file)) if file else {}
    kept = {name: value for name, value in filed.items() if f"MULTIFOLD_{name.upper()}" not in said}
    try:
        settings = Settings(**{**kept, **given})
    except ValidationError as error:
        found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise SettingsError("; ".join(found)) from None
    _refuse_many_processes()
    return settings


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings in {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from error


def _refuse_many_processes() -> None:
    count = os.environ.get("WEB_CONCURRENCY", "1")
    if count not in ("", "0", "1"):
        raise SettingsError(
            f"WEB_CONCURRENCY asks for {count} processes, but one process writes a collection: "
            "run one, which batches requests and uses all cores"
        )
