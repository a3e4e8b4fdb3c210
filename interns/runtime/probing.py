"""Asking an agent how it is."""

import time
from typing import Any, Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from gateway.outbound.errors import OutboundError
from interns.runtime.client import send
from interns.runtime.driver import ChatRefused, Health, Place

ANSWER_BYTES_MAX: Final = 65_536


def ask_health(place: Place, boot_id: str, *, wait_s: float) -> Health:
    """What the agent says of itself. Never raises."""
    try:
        told = _ask(place, wait_s)
    except (ChatRefused, OutboundError) as error:
        return Health(ok=False, detail=f"the agent does not answer: {error}")
    if told.get("status") != "ready" or told.get("runtime_id") != boot_id:
        return Health(ok=False, detail="something else answers for the agent")
    return Health(ok=True, budget_ended=told.get("budget_ended") is True)


def _ask(place: Place, wait_s: float) -> dict[str, Any]:
    headers = [("Authorization", f"Bearer {place.token}")]
    reply = send(
        place,
        method="GET",
        path="/health",
        headers=headers,
        body=b"",
        deadline=time.monotonic() + wait_s,
        body_bytes_max=ANSWER_BYTES_MAX,
    )
    with reply:
        body = b""
        while piece := reply.read_some():
            body += piece
    try:
        told = loads(body)
    except MalformedJson:
        return {}
    return told if isinstance(told, dict) else {}
