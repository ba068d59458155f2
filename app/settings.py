"""What a service can be told, by argument or by environment (MULTIFOLD_PORT=8001 …)."""

from pathlib import Path
from typing import Annotated, Any

from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from pydantic import Field, ValidationError
    from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024


class SettingsError(MultifoldError):
    """A setting that makes no sense; says which and why."""


class Settings(BaseSettings):
    """One service: where its things lie, where it listens, and what it takes."""

    model_config = SettingsConfigDict(env_prefix="MULTIFOLD_", extra="ignore", frozen=True)

    data: Annotated[Path, Field(description="folder of the collection")] = Path("data")
    bundle: Annotated[Path, Field(description="folder of the encoder")] = Path("bundles/furniture")
    host: Annotated[str, Field(description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="port to listen on; 0 takes a free one")] = 8000
    max_body: Annotated[int, Field(ge=1024, description="largest request body, in bytes")] = 16 * MIB
    max_text: Annotated[int, Field(ge=1, description="longest text, in characters")] = 2000
    max_files: Annotated[int, Field(ge=1, description="most files in one request")] = 64
    max_batch: Annotated[int, Field(ge=1, description="most searches, items or inputs in one request")] = 256
    max_pixels: Annotated[int, Field(ge=64, description="most pixels of one picture")] = 64_000_000
    threads: Annotated[int, Field(ge=0, description="threads of the encoder; 0 leaves it to the runtime")] = 0
    batch: Annotated[int, Field(ge=1, description="most requests that are encoded together")] = 32
    queue: Annotated[int, Field(ge=1, description="most requests that wait for the same kind of work")] = 256
    cache: Annotated[int, Field(ge=1, description="queries whose vectors are remembered")] = 4096
    decoders: Annotated[int, Field(ge=1, description="threads that decode pictures")] = 2
    workers: Annotated[int, Field(ge=1, description="threads that read and write items")] = 4
    patience: Annotated[float, Field(gt=0, description="seconds after which a request is given up")] = 60.0
    renderers: Annotated[int, Field(ge=1, description="processes that render uploaded meshes")] = 1
    render_seconds: Annotated[float, Field(gt=0, description="longest time that one mesh may take")] = 20.0

    @property
    def url(self) -> str:
        """Where clients find this service."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 (compared, not bound)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def read_settings(given: dict[str, Any]) -> Settings:
    """What was given, else what the environment says, else the defaults."""
    try:
        return Settings(**given)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise SettingsError("; ".join(found)) from None
