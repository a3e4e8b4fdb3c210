"""`router:web_fetch`: a page of the public Internet, as text."""

import time
from datetime import datetime
from typing import Any, Final, NamedTuple

from gateway.live_settings import settings
from routing.fetching.targets import URL_CHARS_MAX
from routing.tools.interface import Context, Definition, Result
from routing.tools.texts import json_text
from routing.tools.web.domains import Domains
from routing.tools.web.failing import WebFailed, failed_result
from routing.tools.web.reading import Document, fetched
from routing.tools.web.uses import Uses

# Of the estimator (inference reference 2.5).
CHARS_PER_TOKEN: Final = 4
# Room for all that stands beside the content.
_BESIDE_CHARS: Final = 2_000
_BLOCK: Final = "web_fetch_tool_result"
_ENGINES: Final = frozenset({"auto", "router"})
_DEFINITION: Final = Definition(
    "web_fetch",
    "Reads a page of the web at its URL and returns its title and text. For pages, PDFs and text "
    "files.",
    {
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "The whole URL, with http:// or https://."}
        },
        "required": ["url"],
        "additionalProperties": False,
    },
)


def fetches_here(parameters: dict[str, Any]) -> bool:
    """Whether the engine that the caller wants is the one there is."""
    return parameters.get("engine", "auto") in _ENGINES


class WebFetch:
    """Fetches through the guarded door, within the caller's domains."""

    time_s: float | None = None
    definition = _DEFINITION

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._uses = Uses(parameters.get("max_uses"))
        tokens = parameters.get("max_content_tokens")
        self._chars_max = None if tokens is None else int(tokens) * CHARS_PER_TOKEN
        self._domains = Domains(
            parameters.get("allowed_domains"), parameters.get("blocked_domains")
        )

    def run(self, arguments: dict[str, Any], context: Context) -> Result:
        url = arguments.get("url")
        try:
            document = self._document(url, context)
        except WebFailed as error:
            item = _item(url if isinstance(url, str) else None, status=error.status)
            return failed_result(error, _BLOCK, item | {"error": str(error)})
        return _result(document, self._chars_max, context.now())

    def _document(self, url: Any, context: Context) -> Document:
        if not isinstance(url, str) or not url.strip():
            raise WebFailed("invalid_tool_input", "url must be a text")
        if len(url) > URL_CHARS_MAX:
            raise WebFailed("url_too_long", f"url is longer than {URL_CHARS_MAX} characters")
        if not self._uses.take():
            raise WebFailed("max_uses_exceeded", "No more pages may be fetched for this request")
        left_s = context.deadline - time.monotonic()
        timeout_s = min(left_s, float(settings.ROUTER_TOOL_TIMEOUT))
        return fetched(url.strip(), self._domains, timeout_s=timeout_s)


class _Cut(NamedTuple):
    content: str
    is_cut: bool


def _result(document: Document, chars_max: int | None, now: datetime) -> Result:
    at = now.isoformat(timespec="seconds")
    said = {"url": document.url, "title": document.title, "retrieved_at": at}
    content, is_cut = _cut(document.text, chars_max)
    is_cut = is_cut or document.is_cut
    text = json_text(said | {"content": content} | ({"cut": True} if is_cut else {}))
    return Result(
        text,
        item=_item(document.url, document.title, content, document.status) | {"error": None},
        block_type=_BLOCK,
        block={
            "type": "web_fetch_result",
            "url": document.url,
            "retrieved_at": at,
            "content": _shown(document.title, content),
        },
        fetches=1,
    )


def _cut(text: str, chars_max: int | None) -> _Cut:
    """As much as the caller wants and a result may have once it is JSON."""
    limit = settings.ROUTER_TOOL_RESULT_CHARS
    room = max(limit - _BESIDE_CHARS, limit // 2)
    content = text[: room if chars_max is None else min(room, chars_max)]
    over = len(json_text(content)) - room
    if over > 0:
        # What is left out is at least as long in JSON.
        content = content[: max(0, len(content) - over)]
    return _Cut(content, len(content) < len(text))


def _shown(title: str, content: str) -> dict[str, Any]:
    return {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": content},
        "title": title or None,
        "citations": None,
    }


def _item(
    url: str | None, title: str | None = None, content: str | None = None, status: int | None = None
) -> dict[str, Any]:
    return {"url": url, "title": title or None, "content": content, "httpStatus": status}
