"""How calls of web tools fail, and how often a tool may be used in one request."""

import threading
from typing import Literal

from gateway.http.jsonio import JsonObject
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
    """`code` is the error code of the messages format, the text is for the model, `status` is the
    site's HTTP status."""

    def __init__(self, code: Code, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.status = status


def build_web_failure(error: WebFailed, block_type: str, item: JsonObject) -> Result:
    """The result of a failed call, with an error block of that type for messages."""
    return Result(
        failure_text(str(error)),
        item=item,
        block_type=block_type,
        block={"type": f"{block_type}_error", "error_code": error.code},
        failed=True,
    )


class UseCounter:
    """Counts down from `most`, safely for calls side by side; None is unlimited."""

    def __init__(self, most: float | None) -> None:
        self._left = None if most is None else int(most)
        self._lock = threading.Lock()

    def take(self, wish: int = 1) -> int:
        """Take up to `wish` of what is left; returns how many."""
        with self._lock:
            if self._left is None:
                return wish
            given = min(wish, self._left)
            self._left -= given
            return given

    def give_back(self, count: int) -> None:
        """Return what was taken and not needed."""
        with self._lock:
            if self._left is not None:
                self._left += count
