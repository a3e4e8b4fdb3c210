"""How many tokens a prompt has: asked of an upstream that counts, else estimated. Nothing is held,
charged or recorded, and what the upstream says of itself is not taken for its health."""

from typing import Any, Final

import orjson

from gateway.outbound.errors import OutboundError
from gateway.outbound.http_client import Limits
from routing.metering.usage import COUNT_MAX, estimate_tokens
from routing.selection.types import Candidate
from routing.serving.attempts.own_credentials import find_entry, open_key
from routing.serving.attempts.upstream_call import build_upstream_request
from routing.serving.request import process
from routing.serving.request.context import RequestProgress
from routing.statistics.parked_credentials import parked_credentials
from routing.upstreams.wires import get_wire

TOTAL_S: Final = 10.0
_LIMITS: Final = Limits(connect_s=3, first_byte_s=TOTAL_S, idle_s=TOTAL_S, body_bytes_max=65_536)


def count_input_tokens(progress: RequestProgress) -> int:
    """The prompt's tokens at the endpoint that would be tried first. Raises `GatewayError` where no
    endpoint can serve the request."""
    if progress.context.refusal is not None:
        raise progress.context.refusal()
    counted = _ask_upstream(progress, progress.context.plan.candidates[0])
    return estimate_tokens(progress.context.chat.prompt_text_chars) if counted is None else counted


def _ask_upstream(progress: RequestProgress, candidate: Candidate) -> int | None:
    """The upstream's own count, None where it gives none or none of its credentials may be used."""
    endpoint, own = candidate.endpoint, find_entry(candidate, progress.context.caller.byok)
    key = None if own is None else open_key(own)
    now, parked = process.now(), parked_credentials()
    for credential in endpoint.provider.credentials if own is None else ():
        if parked.find_end(credential, endpoint.pk, now, even_throttled=False) is None:
            key = credential.secret
            break
    if key is None and (own is not None or endpoint.provider.credentials):
        return None
    wire = get_wire(endpoint.wire_kind)
    request = wire.count_tokens(build_upstream_request(progress, endpoint, own_key=key))
    if request is None:
        return None
    try:
        with process.http_client().send(
            process.origin_of(endpoint.provider.base_url),
            method="POST",
            path=request.path,
            headers=request.headers,
            body=request.body,
            limits=_LIMITS,
            deadline=min(progress.context.deadline, process.now() + TOTAL_S),
        ) as reply:
            return _read_count(reply.read_all()) if 200 <= reply.status < 300 else None
    except OutboundError:
        return None


def _read_count(raw: bytes) -> int | None:
    try:
        value: Any = orjson.loads(raw)
    except ValueError:
        return None
    count = value.get("input_tokens") if isinstance(value, dict) else None
    return count if type(count) is int and 0 <= count <= COUNT_MAX else None
