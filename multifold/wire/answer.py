"""The base of all answers: each is a frozen dataclass, and its fields may have a description."""

from dataclasses import dataclass, field
from typing import Any, dataclass_transform


def described(description: str, **options: Any) -> Any:  # noqa: ANN401 (as `dataclasses.field`)
    """A field whose description is shown in the description of the API."""
    return field(metadata={"description": description}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(field, described))
class Answer:
    """Makes a frozen dataclass of each class that is derived from it."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)
