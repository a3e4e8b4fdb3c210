"""What providers say in the bodies of their errors, in whichever of the common shapes."""

from collections.abc import Iterator
from typing import Any, Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, loads

# As many as our own messages list.
_ISSUES_MAX: Final = 5
_BODY: Final = "body"


def error_words(body: bytes) -> tuple[str, str | None, str | None]:
    """Message, code and refused words of the model; an empty message where there is none."""
    try:
        value = loads(body) if body else None
    except MalformedJson:
        return "", None, None
    error = value.get("error", value) if isinstance(value, dict) else None
    if isinstance(error, str):
        return error, None, None
    if not isinstance(error, dict):
        return _of_detail(value), None, None
    message, code = error.get("message"), error.get("code") or error.get("type")
    return (
        message if isinstance(message, str) else _of_detail(error) or _of_detail(value),
        str(code) if isinstance(code, int | str) else None,
        failed_generation_in(error),
    )


def failed_generation_in(error: JsonObject) -> str | None:
    """What the model wrote where that is what the upstream refuses (Groq). Clients send it back
    to the model."""
    written = error.get("failed_generation")
    return written if isinstance(written, str) else None


def _of_detail(value: Any) -> str:
    """Validators of web frameworks write `detail`: a text, or a list of what is wrong where."""
    detail = value.get("detail") if isinstance(value, dict) else None
    if isinstance(detail, str):
        return detail
    issues = detail if isinstance(detail, list) else []
    texts = [text for issue in issues[:_ISSUES_MAX] if (text := _of_issue(issue))]
    return "; ".join(texts)


def _of_issue(issue: Any) -> str:
    """`<dotted path>: <text>`, without the `body` that every path begins with."""
    if not isinstance(issue, dict):
        return issue if isinstance(issue, str) else ""
    said, path = issue.get("msg"), ".".join(_steps(issue.get("loc")))
    if not isinstance(said, str):
        return ""
    return f"{path}: {said}" if path else said


def _steps(place: Any) -> Iterator[str]:
    steps = place if isinstance(place, list) else []
    for number, step in enumerate(steps):
        if isinstance(step, int | str) and (number or step != _BODY):
            yield str(step)
