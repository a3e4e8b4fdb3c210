"""Asking an agent how it is."""

import time
from typing import Any, Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from gateway.outbound.errors import OutboundError
from interns.runtime.client import send_request
from interns.runtime.driver import AgentAccess, ChatRefused, RuntimeHealth

ANSWER_BYTES_MAX: Final = 65_536


def ask_health(access: AgentAccess, boot_id: str, *, wait_s: float) -> RuntimeHealth:
    """What the agent says of itself. Never raises."""
    try:
        health = _read_health(access, wait_s)
    except (ChatRefused, OutboundError) as error:
        return RuntimeHealth(ok=False, detail=f"the agent does not answer: {error}")
    if health.get("status") != "ready" or health.get("runtime_id") != boot_id:
        return RuntimeHealth(ok=False, detail="something else answers for the agent")
    return RuntimeHealth(ok=True, budget_ended=health.get("budget_ended") is True)


def _read_health(access: AgentAccess, wait_s: float) -> dict[str, Any]:
    headers = [("Authorization", f"Bearer {access.token}")]
    reply = send_request(
        access,
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
        health = loads(body)
    except MalformedJson:
        return {}
    return health if isinstance(health, dict) else {}
