"""A destination's config: checked by type, its secrets apart, masked in answers.

Secrets are sealed for their own row. Masked and absent values of a change keep what is stored,
unless the URL leads elsewhere. Then secrets are to be given again, so that no other host gets them.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar
from uuid import UUID

from django.conf import settings
from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject, dumps, loads
from gateway.http.resources import Body
from gateway.http.validation import Issue, list_issues
from gateway.outbound.doors import is_public
from gateway.outbound.targets import TargetRefused, split_url, target_of
from gateway.sealing import seal, unseal

PURPOSE: Final = "destination"
MASK: Final = "****"
# Of shorter secrets, four characters would tell too much.
_CHARS_WITH_AN_END: Final = 16
_HEADERS: Final = "headers"
# The fields of configs that say where requests go.
_URLS: Final = ("url", "endpoint", "baseUrl")
_HEADERS_MAX: Final = 32
_VALUE_CHARS_MAX: Final = 4_096
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VISIBLE: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
# The gateway itself frames its requests.
_OWN_HEADERS: Final = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "content-encoding"),
        *("content-type", "upgrade", "te", "trailer", "expect", "proxy-authorization"),
    }
)


def _check_url(url: str) -> str:
    try:
        target = target_of(*split_url(url))
    except TargetRefused as error:
        raise PydanticCustomError("target", "Invalid input: {text}", {"text": str(error)}) from None
    if target.host in settings.DESTINATION_PRIVATE_HOSTS:
        return url
    if _is_private_address(target.host):
        raise PydanticCustomError("target", "Invalid input: a private address")
    if not target.origin.is_tls:
        text = "Invalid input: expected https://, unless DESTINATION_PRIVATE_HOSTS names the host"
        raise PydanticCustomError("target", text)
    return url


def _is_private_address(host: str) -> bool:
    """Whether the host is an address, and none of the public Internet. Names are judged when
    something is sent."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return not is_public(host.strip("[]"))


def _check_secret(value: str) -> str:
    if value.startswith(MASK):
        raise PydanticCustomError("masked", "Invalid input: a masked value, and none is stored")
    return _check_visible(value)


def _check_visible(value: str) -> str:
    if not _VISIBLE.fullmatch(value):
        raise PydanticCustomError("invisible", "Invalid input: expected visible ASCII characters")
    return value


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name in headers:
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise PydanticCustomError("header", "Invalid input: a header that cannot be set")
    return headers


Secret = Annotated[
    str, Field(min_length=1, max_length=_VALUE_CHARS_MAX), AfterValidator(_check_secret)
]
Word = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_visible)]
Url = Annotated[str, AfterValidator(_check_url)]
Headers = Annotated[
    dict[str, Secret], Field(max_length=_HEADERS_MAX), AfterValidator(_check_headers)
]


class DestinationConfig(Body):
    """Base of the configs, one for each type. `secrets` names the fields that are sealed; values
    of headers always are."""

    secrets: ClassVar[frozenset[str]] = frozenset()


C = TypeVar("C", bound=DestinationConfig)


def check_config(model: type[C], given: Mapping[str, Any]) -> C:
    """The config as its type has it; fields that it does not know are left out. Raises
    `SchemaInvalid`."""
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return model.model_validate(present)
    except ValidationError as error:
        issues = [Issue(f"config.{each.path}", each.message) for each in list_issues(error)]
        raise SchemaInvalid(issues) from None


def merge_config(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> JsonObject:
    """The stored config with its changes. What is masked or absent stays, null removes."""
    merged = dict(stored)
    for name, value in changes.items():
        if name == _HEADERS and isinstance(value, dict):
            headers = stored.get(name) or {}
            merged[name] = {
                header: headers.get(header, each) if _is_masked(each) else each
                for header, each in value.items()
            }
        elif not (_is_masked(value) and name in stored):
            merged[name] = value
    return merged


def check_kept_secrets(
    stored: Mapping[str, Any], merged: DestinationConfig, changes: Mapping[str, Any]
) -> None:
    """Raise `SchemaInvalid` for secrets that `changes` keep while a URL leads to another host."""
    # What was stored may not be allowed any more.
    if _list_origins(type(merged).model_construct(**stored)) == _list_origins(merged):
        return
    kept = _list_unchanged(split_config(merged)[1], changes)
    if kept:
        text = "Invalid input: give it again, because the URL leads to another host"
        raise SchemaInvalid([Issue(f"config.{path}", text) for path in kept])


def _list_origins(config: DestinationConfig) -> list[object]:
    urls = [getattr(config, name, None) for name in _URLS]
    return [None if url is None else target_of(*split_url(url)).origin.pool_key for url in urls]


def _list_unchanged(secrets: Mapping[str, Any], changes: Mapping[str, Any]) -> list[str]:
    """The paths of secrets that are masked or absent in the changes."""
    kept = []
    for name, value in secrets.items():
        given = changes.get(name)
        if isinstance(value, dict):
            inner = _list_unchanged(value, given if isinstance(given, dict) else {})
            kept += [f"{name}.{each}" for each in inner]
        elif given is None or _is_masked(given):
            kept.append(name)
    return kept


def _is_masked(value: object) -> bool:
    return isinstance(value, str) and value.startswith(MASK)


def split_config(config: DestinationConfig) -> tuple[JsonObject, JsonObject]:
    """What may be shown of a config, and its secrets."""
    values = config.model_dump(exclude_none=True)
    apart = config.secrets | {_HEADERS}
    secrets = {name: value for name, value in values.items() if name in apart}
    return {name: value for name, value in values.items() if name not in apart}, secrets


def seal_secrets(destination_id: UUID, secrets: JsonObject) -> str:
    return seal(dumps(secrets).decode(), purpose=PURPOSE, row=str(destination_id))


def unseal_secrets(destination_id: UUID, sealed: str) -> JsonObject:
    """Raises `UnsealError`."""
    secrets: JsonObject = loads(unseal(sealed, purpose=PURPOSE, row=str(destination_id)).encode())
    return secrets


def mask_secrets(secrets: Mapping[str, Any]) -> JsonObject:
    """The same fields as answers have them."""
    masked: JsonObject = {}
    for name, value in secrets.items():
        if isinstance(value, dict):
            masked[name] = mask_secrets(value)
        else:
            masked[name] = MASK + (value[-4:] if len(value) >= _CHARS_WITH_AN_END else "")
    return masked
