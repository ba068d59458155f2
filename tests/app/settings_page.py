"""Write the tables of docs/settings.md from app/settings.py: python -m tests.app.settings_page."""

import ast
import inspect
import typing
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import annotated_types
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings import Settings

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Address": ("host", "port", "hosts", "cors"),
    "Collections and encoders": ("folder", "data", "bundle", "bundles", "keep_files", "in_place_folders"),
    "Shared stores": (
        "database", "connections", "bucket", "milvus", "milvus_token", "staleness", "consistency",
    ),
    "Access": ("keys", "keys_file", "open_read", "fetch_hosts"),
    "Limits of a request": (
        "max_body", "max_text", "max_files", "max_batch", "max_items", "max_hits", "max_pixels",
        "request_timeout", "render_seconds",
    ),
    "Threads, processes and memory": (
        "threads", "batch", "queue", "streams", "cache", "decoders", "workers", "renderers",
        "index_memory",
    ),
    "Search": ("lexical", "understand", "photo_texts", "remotes", "remote_keys"),
    "Feedback and monitoring": ("feedback", "probe_interval", "log"),
}  # fmt: skip

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
BEGIN, END = "<!-- generated: python -m tests.app.settings_page -->\n", "\n<!-- end -->\n"


def _read_meanings() -> dict[str, str]:
    """The text below each setting in its source."""
    (kind,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(kind, ast.ClassDef)
    return {
        setting.target.id: text.value.value
        for setting, text in pairwise(kind.body)
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }


MEANINGS = _read_meanings()


def settings_page() -> str:
    """The page with new tables."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tables = (_table(title, names) for title, names in SECTIONS.items())
    return before + BEGIN + "".join(tables) + END + rest.partition(END)[2]


def _table(title: str, names: tuple[str, ...]) -> str:
    head = f"\n## {title}\n\n| setting | environment | default | values | meaning |\n|---|---|---|---|---|\n"
    return head + "".join(_row(name, Settings.model_fields[name]) for name in names)


def _row(name: str, field: FieldInfo) -> str:
    meaning = " ".join(MEANINGS[name].split())
    values = ", ".join(_values(field))
    return f"| `{name}` | `MULTIFOLD_{name.upper()}` | {_default(field.default)} | {values} | {meaning} |\n"


def _default(value: Any) -> str:  # noqa: ANN401 (any setting's type)
    value = value.get_secret_value() if isinstance(value, SecretStr) else value
    shown = str(value).lower() if isinstance(value, bool) else value
    return "none" if value in (None, "") else f"`{shown}`"


def _values(field: FieldInfo) -> Iterator[str]:
    if typing.get_origin(field.annotation) is typing.Literal:
        yield from (f"`{value}`" for value in typing.get_args(field.annotation))
    if field.annotation is bool:
        yield "`true`, `false`"
    for limit in field.metadata:
        match limit:
            case annotated_types.Ge():
                yield f"at least {limit.ge}"
            case annotated_types.Gt():
                yield f"over {limit.gt}"
            case annotated_types.Le():
                yield f"at most {limit.le}"


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
