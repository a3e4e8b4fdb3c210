"""Texts for models: results as JSON, failures, cuts; and the arguments that models write."""

from typing import Final

import pydantic_core

from gateway.http.jsonio import JsonObject, dumps

_SHOWN_CHARS: Final = 500


def json_text(value: object) -> str:
    return dumps(value).decode()


def failure_text(told: str) -> str:
    """The text of a failed call for the model."""
    return json_text({"error": told[:_SHOWN_CHARS]})


def cut_text(text: str, chars_max: int) -> str:
    """The text, or its beginning with a note that it was cut."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n[cut: the first {chars_max} of {len(text)} characters]"


def parse_arguments(text: str) -> JsonObject | None:
    """The arguments of a call; None where they are no JSON object. Many models give an empty text
    to a function without parameters."""
    if not text.strip():
        return {}
    try:
        value = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
