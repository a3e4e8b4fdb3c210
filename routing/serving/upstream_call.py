"""One attempt on the wire: the body for this endpoint, the door, and the head of the answer."""

import hashlib
from typing import Any

from django.conf import settings

from routing.catalogue.entries import EndpointEntry
from routing.exchange import WireRequest
from routing.formats.chat.forward import forwarded_body
from routing.serving import process
from routing.serving.call import Attempt, Call, forget_origin
from routing.upstreams import openai
from routing.upstreams.call import AbortHandle
from routing.upstreams.door_errors import Aborted, DoorError
from routing.upstreams.failures import from_door, from_status, malformed
from routing.upstreams.reply import Reply

# Enough of an error body to find its message; the rest is not read.
_ERROR_BYTES_MAX = 65_536
_ERROR_WAIT_S = 2.0
# What may follow the end of a stream before its connection is not worth keeping.
_READS_AFTER_END = 4


def request_for(call: Call, endpoint: EndpointEntry) -> WireRequest:
    """What this endpoint is sent."""
    return openai.request(body_for(call, endpoint), credential=endpoint.provider.credential)


def body_for(call: Call, endpoint: EndpointEntry) -> dict[str, Any]:
    """The body of what this endpoint is sent."""
    return forwarded_body(
        call.chat,
        upstream_model=endpoint.upstream_model,
        supported=endpoint.taken_fields,
        user_hash=_user_hash(call) if "user" in endpoint.taken_fields else None,
        stream_usage=True,
        max_tokens_cap=call.plan.output_caps.get(endpoint.pk),
    )


def send(call: Call, attempt: Attempt, *, abort_handle: AbortHandle | None = None) -> Reply:
    """The reply to one attempt, its status a 2xx. Raises `UpstreamFailure`, and `Aborted` when the
    handle ended it."""
    provider = attempt.endpoint.provider
    wire, attempt.request = attempt.request, None
    assert wire is not None
    origin = process.origin_of(provider.base_url)
    deadline = call.deadline
    if provider.total_s:
        deadline = min(deadline, attempt.started + provider.total_s)
    try:
        reply = process.door().send(
            origin,
            method="POST",
            path=wire.path,
            headers=wire.headers,
            body=wire.body,
            limits=process.limits_of(provider),
            deadline=deadline,
            abort_handle=abort_handle,
        )
    except Aborted:
        raise  # By us, because the caller left: no fault of the upstream's.
    except DoorError as error:
        raise from_door(error) from error
    attempt.status = reply.status
    if not 200 <= reply.status < 300:
        with reply:
            raise from_status(reply.status, reply.headers, error_body(reply))
    return reply


def error_body(reply: Reply) -> bytes:
    """The beginning of an error body; a body that breaks off or dawdles is as good as its part."""
    body = b""
    until = process.now() + _ERROR_WAIT_S
    try:
        while len(body) < _ERROR_BYTES_MAX and (left_s := until - process.now()) > 0:
            piece = reply.read_some(left_s)
            if not piece:
                break
            body += piece
    except DoorError as error:
        forget_origin(error)
    return body[:_ERROR_BYTES_MAX]


def refuse_other_than_events(reply: Reply) -> None:
    """Raise `UpstreamFailure` for a 2xx that is no event stream: an error object, a page, a whole
    answer."""
    content_type = reply.headers.get("content-type", "")
    if content_type and "event-stream" not in content_type.lower():
        body = error_body(reply)
        openai.answer(body, content_type)
        raise malformed("a whole answer where a stream was asked for", raw=body)


def read_to_end(reply: Reply) -> None:
    """Take the end of a body that is mostly here by now, without waiting for it: only then can the
    connection be used again."""
    try:
        for _ in range(_READS_AFTER_END):
            if not reply.read_some(0.0):
                return
    except DoorError as error:
        forget_origin(error)


def _user_hash(call: Call) -> str:
    """An end user's identity as providers see it: never raw, apart for every account."""
    parts = (settings.ROUTER_USER_HASH_SECRET, str(call.caller.account_id), call.chat.user or "")
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
