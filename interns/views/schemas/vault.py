"""Secrets of vaults: the fields of bodies and objects. Unknown fields of a body are refused."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from gateway.http.errors import SchemaInvalid
from gateway.http.paging import Page, parse_page
from gateway.http.resources import Body, ResourceObject
from gateway.http.validation import Issue
from interns.vault.secrets import (
    HOST_CHARS_MAX,
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
NAME_SCHEMA: Final = {"maxLength": NAME_CHARS_MAX, "pattern": NAME_PATTERN}


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


_Name = Annotated[str, Field(json_schema_extra=NAME_SCHEMA), AfterValidator(_check_name)]
# One last dot may stand behind the longest name.
_Host = Annotated[
    str,
    Field(json_schema_extra={"maxLength": HOST_CHARS_MAX + 1}),
    AfterValidator(_check_host),
]


class NewVaultSecret(Body):
    """What is to be stored under a name."""

    model_config = ConfigDict(title="VaultSecretValue", extra="forbid")

    value: str = Field(
        min_length=1,
        max_length=VALUE_CHARS_MAX,
        description="Shown to nobody again.",
        json_schema_extra={"writeOnly": True},
    )
    hosts: Annotated[
        list[_Host],
        Field(
            min_length=1,
            max_length=LISTED_MAX,
            description="Exact DNS names: no scheme, port, path or wildcard. Lowercased, "
            "one last dot removed, each kept once.",
        ),
        AfterValidator(_remove_duplicates),
    ]


class VaultCopy(Body):
    """Which of the workspace's secrets an intern's vault is to have."""

    model_config = ConfigDict(extra="forbid")

    names: Annotated[
        list[_Name],
        Field(min_length=1, max_length=LISTED_MAX, json_schema_extra={"uniqueItems": True}),
        AfterValidator(_check_distinct),
    ]


class VaultSecretObject(ResourceObject):
    """A secret as it is shown. Its value is in none of the fields."""

    model_config = ConfigDict(title="VaultSecret")

    name: _Name
    hosts: list[str] | None = Field(
        description="The hosts that may receive it, exactly; null for old entries."
    )
    fingerprint: str | None = Field(
        description="Equal for equal values in one vault; not comparable across vaults."
    )
    created_at: datetime = Field(description="When something was first stored under this name.")


class EffectiveSecretObject(VaultSecretObject):
    """A secret that an intern can use."""

    model_config = ConfigDict(title="EffectiveSecret")

    scope: Literal["intern", "attached", "workspace"] = Field(description="Whose it is.")


class InternConnection(ResourceObject):
    """A connection whose credentials the gateway keeps."""

    key: str


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
    fields = NewVaultSecret.read(body)
    return SecretInput(read_name(name), fields.value, fields.hosts)


def read_page(query: Mapping[str, str]) -> Page:
    """Raises `SchemaInvalid`."""
    return parse_page(query, limit_default=LISTED_MAX, offset_max=OFFSET_MAX)
