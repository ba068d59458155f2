"""What all bodies and answers have in common: each is a frozen dataclass with described fields.

A service checks bodies with pydantic, which reads the descriptions and limits of fields. A client needs
nothing but dataclasses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, dataclass_transform, get_args

from multifold.errors import MultifoldError

B = TypeVar("B", bound="Body")
OF_DATACLASSES = ("default", "default_factory", "kw_only")
ELSEWHERE = {  # the names of our fields in other services
    "limit": ("k", "top_k", "n_results", "size"),
    "text": ("query", "q"),
    "filter": ("where",),
    "min_score": ("score_threshold",),
    "payload": ("metadata", "meta"),
    "texts": ("text", "caption", "documents"),
    "images": ("photos",),
}


class BodyError(MultifoldError):
    """A body that contradicts itself, whoever notices: a code for programs, a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownFieldError(BodyError, ValueError):
    """A field that is not known; says which one may be meant, else all that there are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        meant = [one for one in known if name.casefold() in ELSEWHERE.get(one, ())]
        meant += get_close_matches(name.casefold(), known, 1)
        hint = f"did you mean {meant[0]!r}?" if meant else f"the fields are {', '.join(known)}"
        super().__init__("bad_request", f"unknown field {name[:40]!r}; {hint}")


def described(description: str, **options: Any) -> Any:  # noqa: ANN401 (as `dataclasses.field`)
    """A field with its description, and with limits of its value in pydantic's words: `ge`, `max_length` …"""
    own = {name: value for name, value in options.items() if name in OF_DATACLASSES}
    limits = {name: value for name, value in options.items() if name not in OF_DATACLASSES}
    return field(metadata={"description": description, **limits}, **own)


class ReadAs:
    """For `Annotated`: the form in which a service reads what a client may give in several, and limits of it.

    Limits are in pydantic's words: `min_length`, `pattern` …
    """

    def __init__(self, form: Any, **limits: Any) -> None:  # noqa: ANN401 (a type, numbers and texts)
        self._form = form
        self._limits = limits

    def __get_pydantic_core_schema__(self, _: Any, handler: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        return {**handler(self._form), **self._limits}


Number: TypeAlias = Annotated[float, ReadAs(float, allow_inf_nan=False, strict=True)]


class DescribedAs:
    """For `Annotated`: the body that is meant, of an object that is read by itself later."""

    def __init__(self, body: type["Body"]) -> None:
        self._body = body

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> Any:  # noqa: ANN401 (pydantic's)
        same = {"type": "no-info", "function": lambda raw: raw}
        meant = handler.generate_schema(self._body)
        schema = handler(kind)
        return {
            "type": "function-before",
            "function": same,
            "schema": schema,
            "json_schema_input_schema": meant,
        }


@dataclass_transform(frozen_default=True, field_specifiers=(field, described))
class Answer:
    """Makes a frozen dataclass of each class that is derived from it."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(field, described))
class Body:
    """Makes a frozen dataclass of each class that is derived from it, and says how a service reads it.

    Of the fields `one_of`, which derived classes keep, exactly one must be given, of `any_of` at least one.
    `example` is a request as somebody would send it. Fields that are not known are refused, or ignored if
    `extra` says so.
    """

    one_of: ClassVar[tuple[str, ...]] = ()
    none_code: ClassVar[str] = "bad_request"
    several_code: ClassVar[str] = "bad_request"
    _extra: ClassVar[str]
    _known: ClassVar[tuple[str, ...]]  # the fields
    _whole: ClassVar[tuple[str, ...]]  # the fields that are whole numbers

    def __init_subclass__(
        cls,
        *,
        example: Mapping[str, Any] | None = None,
        one_of: Sequence[str] = (),
        any_of: Sequence[str] = (),
        extra: str = "forbid",
    ) -> None:
        if one_of:
            cls.one_of = tuple(one_of)
        cls._extra = extra
        schema: dict[str, Any] = {} if example is None else {"examples": [example]}
        for word, names in (("oneOf", cls.one_of), ("anyOf", any_of)):
            if names:
                some = [
                    {"required": [name], "properties": {name: {"not": {"enum": [None, {}]}}}}
                    for name in names
                ]
                schema["allOf"] = [{word: some}]  # by itself, generators of clients make a type of each
        cls.__pydantic_config__ = {"extra": extra, "json_schema_extra": schema}  # type: ignore[attr-defined]
        dataclass(frozen=True)(cls)
        types = {one: {one.type, *get_args(one.type)} for one in fields(cls)}  # type: ignore[arg-type]
        cls._known = tuple(one.name for one in types)
        cls._whole = tuple(one.name for one, kinds in types.items() if int in kinds)
        for one, kinds in types.items():
            if {int, float} & kinds:  # neither texts nor true are numbers
                one.metadata = MappingProxyType({**one.metadata, "strict": True})

    @classmethod
    def __get_pydantic_core_schema__(cls, kind: Any, handler: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        read = {"type": "no-info", "function": cls.read_json}
        return {"type": "function-before", "function": read, "schema": handler(kind)}

    @classmethod
    def read_json(cls, raw: object) -> object:
        """What a service reads as the fields of this body; one that is not known is refused.

        JSON has one kind of number: 2.0 is 2.
        """
        if not isinstance(raw, Mapping):
            return raw
        for name in raw if cls._extra == "forbid" else ():
            if name not in cls._known:
                raise UnknownFieldError(str(name), cls._known)
        stated = {name: raw[name] for name in cls._whole if isinstance(raw.get(name), float)}
        whole = {name: int(value) for name, value in stated.items() if value.is_integer()}
        return {**raw, **whole} if whole else raw

    def __post_init__(self) -> None:
        """Refuse what contradicts itself; classes add rules."""
        values = {name: getattr(self, name) for name in self.one_of}
        given = [name for name, value in values.items() if not (value is None or _is_empty(value))]
        if values and len(given) != 1:
            raise self.one_of_error(given)

    @classmethod
    def one_of_error(cls, given: Sequence[str]) -> BodyError:
        """For none, or several, of the fields of which one must be given."""
        *names, last = cls.one_of
        wanted = f"give exactly one of {', '.join(names)} and {last}"
        if given:
            return BodyError(cls.several_code, f"{wanted}, not {' and '.join(given)}")
        return BodyError(cls.none_code, f"{wanted}; there is none")

    @classmethod
    def of(cls: type[B], other: "Body", **changes: Any) -> B:  # noqa: ANN401 (fields of any type)
        """A body with the fields of another, as far as it has them, and with these."""
        return cls(**{name: value for name, value in vars(other).items() if name in cls._known} | changes)


def _is_empty(value: object) -> bool:
    """An empty object is as good as none."""
    return isinstance(value, Mapping) and not value
