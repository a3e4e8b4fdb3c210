"""What an intern asks the door to fetch; strict."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from django.conf import settings
from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from gateway.http.resources import Body
from gateway.http.validation import Issue, list_issues
from gateway.outbound.targets import URL_CHARS_MAX
from interns.errors import InvalidBody

HEADERS_MAX: Final = 64
HEADER_CHARS_MAX: Final = 8_192
BYTES_DEFAULT: Final = 1_048_576
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# The door's own, and what would show a secret that is echoed in parts.
_REFUSED: Final = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "expect", "host", "if-range"),
        *("keep-alive", "proxy-authorization", "proxy-connection", "range", "te", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request as an intern writes it, with placeholders for secrets. `raw` takes none."""

    url: str
    method: str
    headers: tuple[tuple[str, str], ...]
    text: str
    raw: bytes
    max_bytes: int
    timeout_s: float
    follows: bool

    @property
    def content_type(self) -> str:
        found = (value for name, value in self.headers if name.lower() == "content-type")
        return next(found, "")


def _check_header_names(headers: dict[str, str]) -> dict[str, str]:
    for name in headers:
        if not _TOKEN.fullmatch(name):
            raise PydanticCustomError("header", "Invalid input: a header name is a token")
        if name.lower() in _REFUSED:
            text = "Invalid input: the door sets {name} itself, or sends none"
            raise PydanticCustomError("header", text, {"name": name.lower()})
    return headers


def _check_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise PydanticCustomError("base64", "Invalid input: expected base64") from None
    return text


class FetchBody(Body):
    """What an intern asks to be fetched; unknown fields are refused."""

    model_config = ConfigDict(title="InternFetch", extra="forbid")

    url: str = Field(
        min_length=1,
        max_length=URL_CHARS_MAX,
        description="http or https. `{{secret:name}}` in its path or query is replaced.",
    )
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET"
    headers: Annotated[
        dict[str, Annotated[str, Field(max_length=HEADER_CHARS_MAX)]],
        Field(
            max_length=HEADERS_MAX,
            description="`{{secret:name}}` and `{{basic:user:name}}` in values are replaced.",
        ),
        AfterValidator(_check_header_names),
    ] = Field(default_factory=dict)
    body: str | None = Field(
        None, description="`{{secret:name}}` in it is replaced by the secret's value."
    )
    body_base64: Annotated[str, AfterValidator(_check_base64)] | None = Field(
        None, description="Bytes instead of `body`, sent as they are."
    )
    max_bytes: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description=f"What is more of the answer is cut off; {BYTES_DEFAULT} unless said.",
        json_schema_extra={"maximum": settings.INTERN_FETCH_BYTES},
    )
    timeout_seconds: Annotated[float, Field(gt=0)] | None = Field(
        None, json_schema_extra={"maximum": settings.INTERN_FETCH_SECONDS}
    )
    follow_redirects: bool = True


def read_fetch_request(body: Mapping[str, Any]) -> FetchRequest:
    """Raises `InvalidBody`."""
    try:
        fields = FetchBody.model_validate(body)
    except ValidationError as error:
        raise InvalidBody(issues=list_issues(error)) from None
    # What the settings, or another field, do not allow.
    issues = [
        Issue(name, f"Too big: expected number to be <={most:g}")
        for name, value, most in (
            ("max_bytes", fields.max_bytes, settings.INTERN_FETCH_BYTES),
            ("timeout_seconds", fields.timeout_seconds, settings.INTERN_FETCH_SECONDS),
        )
        if value is not None and value > most
    ]
    if fields.body is not None and fields.body_base64 is not None:
        issues.append(Issue("body_base64", "Invalid input: expected one body only"))
    if issues:
        raise InvalidBody(issues=issues)
    return FetchRequest(
        url=fields.url,
        method=fields.method,
        headers=tuple(fields.headers.items()),
        text=fields.body or "",
        raw=base64.b64decode(fields.body_base64 or ""),
        max_bytes=fields.max_bytes or min(BYTES_DEFAULT, settings.INTERN_FETCH_BYTES),
        timeout_s=fields.timeout_seconds or settings.INTERN_FETCH_SECONDS,
        follows=fields.follow_redirects,
    )
