"""`{{secret:name}}` and `{{basic:user:name}}`: where a secret's value is to stand in a request."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

_NAME: Final = r"[a-z0-9_]{1,255}"
_PLACEHOLDER: Final = re.compile(
    rf"\{{\{{\s*(?:secret:\s*(?P<name>{_NAME})"
    rf"|basic:\s*(?P<user>[^:{{}}\s]{{0,255}}):\s*(?P<of>{_NAME}))\s*\}}\}}"
)
Encode = Callable[[str], str]


class UnusableValue(ValueError):
    """A value that cannot stand where it is wanted. The text names the secret, not its value."""


def find_names(texts: Iterable[str]) -> set[str]:
    """The secrets that these ask for."""
    return {found["name"] or found["of"] for text in texts for found in _PLACEHOLDER.finditer(text)}


def fill_placeholders(text: str, values: Mapping[str, str], encode: Encode) -> str:
    """The text with values in the places of their names, which all are in `values`."""

    def value(found: re.Match[str]) -> str:
        if found["name"]:
            return encode(values[found["name"]])
        pair = f"{found['user']}:{values[found['of']]}"
        return encode(base64.b64encode(pair.encode()).decode())

    return _PLACEHOLDER.sub(value, text)


def encode_header(value: str) -> str:
    """As it is, without the line break that a file ends with. Raises `Unfit`."""
    value = value.strip("\r\n")
    if not value.isprintable() or any(char > "\xff" for char in value):
        raise UnusableValue("holds characters that no header can carry")
    return value


def encode_url(value: str) -> str:
    return quote(value, safe="")


def choose_body_encoding(content_type: str) -> Encode:
    """How a value stands in a body of that type."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _in_json
    return quote_plus if kind == "application/x-www-form-urlencoded" else str


def _in_json(value: str) -> str:
    """Inside the quotes of a string."""
    return json.dumps(value, ensure_ascii=False)[1:-1]
