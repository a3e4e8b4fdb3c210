"""Calls that came to nothing, as models and callers are told (inference reference 4.3.1)."""

from typing import Any, Literal

from routing.tools.interface import Result
from routing.tools.texts import failure_text

Code = Literal[
    "invalid_tool_input",
    "max_uses_exceeded",
    "query_too_long",
    "too_many_requests",
    "unavailable",
    "unsupported_content_type",
    "url_not_accessible",
    "url_not_allowed",
    "url_too_long",
]


class WebFailed(Exception):
    """`code` is the word of messages for it, the text is for the model, `status` a site's own."""

    def __init__(self, code: Code, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.status = status


def failed_result(error: WebFailed, block_type: str, item: dict[str, Any]) -> Result:
    """The failed call of a tool with that result block in messages."""
    return Result(
        failure_text(str(error)),
        item=item,
        block_type=block_type,
        block={"type": f"{block_type}_error", "error_code": error.code},
        failed=True,
    )
