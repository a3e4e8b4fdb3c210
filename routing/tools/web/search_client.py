"""A question to the search engine that the operator chose, bounded in time and bytes.

Its base URL is the operator's own and may be a private one.
"""

import logging
import time
from typing import Any, Final

import pydantic_core
import requests
from requests.exceptions import RequestException, Timeout
from urllib3.exceptions import HTTPError

from gateway.live_settings import settings
from routing.tools.web.calls import Code, WebFailed
from routing.tools.web.engines import EngineRequest, SearchEngine

log = logging.getLogger("gateway.tools")
ANSWER_BYTES_MAX: Final = 4 * 1_048_576
_CONNECT_S: Final = 5.0
_PIECE_BYTES: Final = 65_536
_TOO_SLOW: Final = "The search took too long"


def ask_engine(engine: SearchEngine, sent: EngineRequest, *, timeout_s: float) -> Any:
    """What the engine says to a request, as JSON. Raises `WebFailed`."""
    until = time.monotonic() + timeout_s
    try:
        status, body = _exchange(engine, sent, until)
    except (Timeout, TimeoutError):
        raise WebFailed("unavailable", _TOO_SLOW) from None
    except (RequestException, HTTPError, OSError, ValueError) as error:
        # Its text may hold the engine's address, which is nobody's business.
        log.warning("Search engine %s failed: %s", engine.name, type(error).__name__)
        raise WebFailed("unavailable", "The search engine failed") from None
    if status != 200:
        log.warning("Search engine %s answered with status %s", engine.name, status)
        code: Code = "too_many_requests" if status == 429 else "unavailable"
        raise WebFailed(code, f"The search engine answered with status {status}")
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError:
        log.warning("Search engine %s answered without JSON", engine.name)
        raise WebFailed("unavailable", "The search engine gave no answer") from None


def _exchange(engine: SearchEngine, sent: EngineRequest, until: float) -> tuple[int, bytes]:
    url = (settings.ROUTER_SEARCH_URL or engine.url) + sent.path
    with requests.Session() as session:
        # No proxy, no .netrc: only these settings.
        session.trust_env = False
        with session.request(
            "GET" if sent.json is None else "POST",
            url,
            params=dict(sent.params),
            headers={"Accept": "application/json", "Accept-Encoding": "identity", **sent.headers},
            json=None if sent.json is None else dict(sent.json),
            timeout=(min(_CONNECT_S, _left_s(until)), _left_s(until)),
            allow_redirects=False,
            stream=True,
        ) as reply:
            return reply.status_code, _read(reply, until) if reply.status_code == 200 else b""


def _read(reply: requests.Response, until: float) -> bytes:
    """Piece by piece: the time limit of a socket begins anew with every byte."""
    body = bytearray()
    while piece := reply.raw.read1(_PIECE_BYTES, decode_content=True):
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError("too large")
        if time.monotonic() > until:
            raise TimeoutError
    return bytes(body)


def _left_s(until: float) -> float:
    return max(0.001, until - time.monotonic())
