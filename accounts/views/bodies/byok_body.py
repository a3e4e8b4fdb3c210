"""Bodies and queries of /byok (management reference 13)."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from accounts.byok import KEY_CHARS_MAX, InvalidProviderKey, clean_key
from accounts.limit_words import ManagedBody
from accounts.ports import higher_apps
from gateway.http.errors import InvalidRequest, SchemaInvalid
from gateway.http.paging import Page, parse_page
from gateway.http.validation import UNDEFINED, Issue, list_issues, shorten

LISTED_MAX: Final = 100
NAME_CHARS_MAX: Final = 255
HASH_PATTERN: Final = r"^[0-9a-f]{64}$"
_HASH: Final = re.compile(HASH_PATTERN[1:-1])
_EMPTY: Final = {"", "null"}
_B = TypeVar("_B", bound=BaseModel)


def _key(text: str) -> str:
    try:
        return clean_key(text)
    except InvalidProviderKey:
        raise PydanticCustomError(
            "no_key", "Invalid input: expected visible ASCII characters or a JSON object"
        ) from None


def _hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise PydanticCustomError(
            "string_pattern_mismatch",
            "Invalid string: must match pattern /{pattern}/",
            {"pattern": HASH_PATTERN},
        )
    return text


def _each_once(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _nothing(value: Any) -> None:
    if value is not None:
        raise PydanticCustomError(
            "undeclared", "Invalid input: this is not declared here; the catalogue says it"
        )


_Undeclared = Annotated[None, BeforeValidator(_nothing), Field(exclude=True)]
_Key = Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX), AfterValidator(_key)]
_Name = Annotated[str, Field(max_length=NAME_CHARS_MAX)]
_Words = Annotated[list[str], Field(max_length=LISTED_MAX), AfterValidator(_each_once)]
_Hashes = Annotated[
    list[Annotated[str, AfterValidator(_hash)]],
    Field(min_length=1, max_length=LISTED_MAX),
    AfterValidator(_each_once),
]


class _Changes(ManagedBody):
    """What may be said of a credential at any time, in the order of its failures."""

    model_config = ConfigDict(strict=True)

    key: _Key = ""
    name: _Name | None = None
    disabled: bool = False
    is_fallback: bool = False
    is_required: bool = False
    is_byok_only: bool = False
    declared_zdr: _Undeclared = None
    declared_region: _Undeclared = None
    allowed_models: _Words | None = None
    allowed_api_key_hashes: _Hashes | None = None
    allowed_user_ids: _Words | None = None


class _New(ManagedBody):
    model_config = ConfigDict(strict=True, validate_default=True)

    provider: str = UNDEFINED  # type: ignore[assignment]  # So that a missing one is told in the words of a wrong one.
    key: _Key = UNDEFINED  # type: ignore[assignment]  # Likewise.
    name: _Name | None = None
    workspace_id: Annotated[UUID | None, Field(strict=False)] = None
    disabled: bool = False
    is_fallback: bool = False
    is_required: bool = False
    is_byok_only: bool = False
    declared_zdr: _Undeclared = None
    declared_region: _Undeclared = None
    allowed_models: _Words | None = None
    allowed_api_key_hashes: _Hashes | None = None
    allowed_user_ids: _Words | None = None


class Query(NamedTuple):
    """Without a workspace the default one is meant, without a provider all of them."""

    page: Page
    workspace_id: UUID | None
    provider: str | None


def read_new_credential(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a new credential by name; its key is cleaned. Raises `SchemaInvalid`."""
    said = _checked(_New, body).model_dump()
    if not higher_apps().is_known_provider(said["provider"]):
        text = f"Invalid input: {shorten(said['provider'])} is no provider of the catalogue"
        raise SchemaInvalid([Issue("provider", text)])
    return said


def read_changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields to change. Raises `SchemaInvalid`, and where there are none."""
    changes = _checked(_Changes, body).model_dump(exclude_unset=True)
    if not changes:
        raise InvalidRequest("No update fields provided")
    return changes


def read_query(query: Mapping[str, str]) -> Query:
    """What a list asks for. Raises `SchemaInvalid`."""
    workspace, provider = query.get("workspace_id", ""), query.get("provider", "")
    if "\0" in provider:
        raise SchemaInvalid([Issue("provider", "Invalid input: expected visible characters")])
    return Query(
        parse_page(query),
        None if workspace in _EMPTY else _uuid(workspace, "workspace_id"),
        None if provider in _EMPTY else provider,
    )


def read_id(text: str) -> UUID:
    """The id in a path. Raises `SchemaInvalid` for what can be none."""
    return _uuid(text, "id")


def _uuid(text: str, path: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise SchemaInvalid([Issue(path, "Invalid UUID")]) from None


def _checked(shape: type[_B], body: Mapping[str, Any]) -> _B:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None
