"""Bodies of /workspaces (management reference 5.2, 5.7)."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from accounts.limit_words import ManagedBody
from accounts.models.account import SAMPLING_RATE_MIN, ServerTool
from accounts.ports import higher_apps
from accounts.services.workspaces import SLUG_CHARS_MAX, SLUG_PATTERN
from gateway.http.errors import InvalidRequest, SchemaInvalid
from gateway.http.validation import UNDEFINED, Issue, list_issues, shorten

_B = TypeVar("_B", bound=BaseModel)
# A list of keys is looked up in one query.
LOGGED_KEYS_MAX: Final = 1000
# Reference columns are this wide; no catalogue holds a longer name.
_MODEL_CHARS_MAX: Final = 200
_HASH: Final = re.compile(r"[0-9a-f]{64}")
# Columns that hold "" where the API says null.
_MODEL_FIELDS: Final = ("default_text_model", "default_image_model")


def _key_reference(value: Any) -> int | str:
    """A key's number, or its hash."""
    if isinstance(value, str) and _HASH.fullmatch(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    expected = "int" if isinstance(value, float) else "number"
    raise PydanticCustomError("wrong_kind", "Wrong kind", {"expected": expected})


def _each_once(names: list[str] | None) -> list[str] | None:
    """Without repetitions; nothing is null."""
    return list(dict.fromkeys(names or ())) or None


_Name = Annotated[str, Field(min_length=1, max_length=100)]
_Slug = Annotated[str, Field(min_length=1, max_length=SLUG_CHARS_MAX, pattern=SLUG_PATTERN)]
_KeyReferences = Annotated[
    list[Annotated[int | str, BeforeValidator(_key_reference)]],
    Field(max_length=LOGGED_KEYS_MAX),
]


class _Changes(ManagedBody):
    """What may be said of a workspace, in the order of its failures."""

    model_config = ConfigDict(strict=True)

    name: _Name = ""
    slug: _Slug = ""
    description: Annotated[str, Field(max_length=500)] | None = None
    default_text_model: str | None = None
    default_image_model: str | None = None
    default_provider_sort: Literal["price", "throughput", "latency", "exacto"] | None = None
    disabled_server_tools: Annotated[list[ServerTool] | None, AfterValidator(_each_once)] = None
    io_logging_api_key_ids: _KeyReferences | None = None
    io_logging_sampling_rate: Annotated[float, Field(ge=SAMPLING_RATE_MIN, le=1)] = 1.0
    is_data_discount_logging_enabled: bool = False
    is_observability_broadcast_enabled: bool = False
    is_observability_io_logging_enabled: bool = False


class _New(_Changes):
    model_config = ConfigDict(strict=True, validate_default=True)

    name: _Name = UNDEFINED  # type: ignore[assignment]  # So that a missing one is told in the words of a wrong one.
    slug: _Slug = UNDEFINED  # type: ignore[assignment]  # Likewise.


class _Members(ManagedBody):
    model_config = ConfigDict(strict=True, validate_default=True)

    user_ids: Annotated[list[str], Field(min_length=1, max_length=100)] = UNDEFINED  # type: ignore[assignment]  # Likewise.


def read_new_workspace(body: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a new workspace. Raises `SchemaInvalid`."""
    return _columns(_checked(_New, body).model_dump())


def read_changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """The columns to change and their values. Raises `SchemaInvalid`, and where there are none."""
    changes = _checked(_Changes, body).model_dump(exclude_unset=True)
    if not changes:
        raise InvalidRequest("No update fields provided")
    return _columns(changes)


def read_members(body: Mapping[str, Any]) -> list[str]:
    """Public ids of 1 to 100 users, each once. Raises `SchemaInvalid`."""
    return list(dict.fromkeys(_checked(_Members, body).user_ids))


def _checked(shape: type[_B], body: Mapping[str, Any]) -> _B:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None


def _columns(said: dict[str, Any]) -> dict[str, Any]:
    """Models must be known by now, and are kept as "" where there is none."""
    named = {name: said[name] for name in _MODEL_FIELDS if name in said}
    unknown = [
        Issue(name, f"{shorten(model)} is not a valid model ID")
        for name, model in named.items()
        if model is not None and not _known(model)
    ]
    if unknown:
        raise SchemaInvalid(unknown)
    return said | {name: model or "" for name, model in named.items()}


def _known(model: str) -> bool:
    return 0 < len(model) <= _MODEL_CHARS_MAX and higher_apps().is_known_model(model)
