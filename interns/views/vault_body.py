"""Bodies, paths and queries of /vault; unknown fields are refused."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from gateway.http.errors import SchemaInvalid
from gateway.http.paging import Page, parse_page
from gateway.http.validation import UNDEFINED, Issue, list_issues
from interns.vault.secrets import (
    NAME_CHARS_MAX,
    NAME_PATTERN,
    SecretInput,
    canonicalize_host,
    is_secret_name,
)

BODY_BYTES_MAX: Final = 425_000
VALUE_CHARS_MAX: Final = 65_536
LISTED_MAX: Final = 100
OFFSET_MAX: Final = 10_000
_B = TypeVar("_B", bound=BaseModel)


def _check_host(text: str) -> str:
    host = canonicalize_host(text)
    if host is None:
        raise PydanticCustomError("host", "Invalid input: expected an exact DNS host name")
    return host


def _check_name(text: str) -> str:
    if not is_secret_name(text):
        raise PydanticCustomError(
            "string_pattern_mismatch",
            "Invalid string: must match pattern /{pattern}/",
            {"pattern": NAME_PATTERN},
        )
    return text


def _remove_duplicates(hosts: list[str]) -> list[str]:
    return list(dict.fromkeys(hosts))


def _check_distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise PydanticCustomError("distinct", "Invalid input: expected distinct names")
    return names


class _SecretBody(BaseModel):
    model_config = ConfigDict(strict=True, validate_default=True, extra="forbid")

    value: Annotated[str, Field(min_length=1, max_length=VALUE_CHARS_MAX)] = UNDEFINED  # type: ignore[assignment]  # So that a missing one is told in the words of a wrong one.
    hosts: Annotated[
        list[Annotated[str, AfterValidator(_check_host)]],
        Field(min_length=1, max_length=LISTED_MAX),
        AfterValidator(_remove_duplicates),
    ] = UNDEFINED  # type: ignore[assignment]  # So that a missing one is told in the words of a wrong one.


class _CopyBody(BaseModel):
    model_config = ConfigDict(strict=True, validate_default=True, extra="forbid")

    names: Annotated[
        list[Annotated[str, AfterValidator(_check_name)]],
        Field(min_length=1, max_length=LISTED_MAX),
        AfterValidator(_check_distinct),
    ] = UNDEFINED  # type: ignore[assignment]  # So that a missing one is told in the words of a wrong one.


def read_name(text: str) -> str:
    """The name in a path. Raises `SchemaInvalid`."""
    if not text or len(text) > NAME_CHARS_MAX:
        issue = f"Too big: expected string to have <={NAME_CHARS_MAX} characters"
        raise SchemaInvalid([Issue("name", issue)])
    if not is_secret_name(text):
        issue = f"Invalid string: must match pattern /{NAME_PATTERN}/"
        raise SchemaInvalid([Issue("name", issue)])
    return text


def read_secret(name: str, body: Mapping[str, Any]) -> SecretInput:
    """What is to be stored, its hosts as they are compared. Raises `SchemaInvalid`."""
    fields = _validate(_SecretBody, body)
    return SecretInput(read_name(name), fields.value, fields.hosts)


def read_names(body: Mapping[str, Any]) -> list[str]:
    """The names to copy. Raises `SchemaInvalid`."""
    return _validate(_CopyBody, body).names


def read_page(query: Mapping[str, str]) -> Page:
    """Raises `SchemaInvalid`."""
    return parse_page(query, limit_default=LISTED_MAX, offset_max=OFFSET_MAX)


def _validate(shape: type[_B], body: Mapping[str, Any]) -> _B:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None
