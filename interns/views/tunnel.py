"""/api/internal/interns/{internId}/...: runtimes of this machine, for web processes of others."""

import time
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from drf_spectacular.utils import extend_schema

from gateway.eventloop import run_in_thread
from gateway.http.errors import UnknownPath
from gateway.http.jsonio import dumps
from gateway.http.responses import EventStream
from gateway.live_settings import settings
from gateway.outbound.exchange import AbortHandle
from gateway.outbound.reply import Reply
from interns.access import BODY_BYTES_MAX, read_raw_body
from interns.runtime.client import send_request
from interns.runtime.disk import measure_disk
from interns.runtime.driver import ChatRefused, current_driver
from interns.runtime.tunnel import (
    ANSWER_HEADER,
    PREFIX,
    REASON_HEADER,
    REQUEST_HEADER,
    USED,
    SignedRequest,
    find_secret,
    read_header,
    read_host,
    sign_answer,
)
from interns.views.base import InternViewSet
from routing.serving.request.client_watch import ClientWatch

_SIGNATURE: Final = "HTTP_X_INTERN_TUNNEL"
assert f"HTTP_{REQUEST_HEADER.upper().replace('-', '_')}" == _SIGNATURE
_PASSED_ON: Final = (("HTTP_ACCEPT", "Accept"), ("CONTENT_TYPE", "Content-Type"))
_JSON: Final = "application/json"
_LOG_LINES_MAX: Final = 1000


@extend_schema(exclude=True)
class TunnelViewSet(InternViewSet):
    """What another machine signed. Anybody else gets a 404, as for an unknown path."""

    def answer(
        self, request: HttpRequest, intern_id: str, way: str, rest: str = ""
    ) -> HttpResponseBase:
        # As it was sent, where the server tells: that was signed, and is passed on.
        path = str(request.META.get("RAW_URI") or request.get_full_path())
        header = str(request.META.get(_SIGNATURE, ""))
        stated = read_header(header, time.time())
        if stated is None or not path.startswith(PREFIX):
            # Before anything of a stranger's is read.
            raise UnknownPath
        signed = SignedRequest(
            read_host(request.META.get("HTTP_HOST", "")),
            str(request.method),
            path,
            bytes(read_raw_body(request, bytes_max=BODY_BYTES_MAX)),
            stated.wait_s,
        )
        secret = find_secret(signed, stated)
        if secret is None or not USED.use(stated.signature):
            raise UnknownPath
        proof = {ANSWER_HEADER: sign_answer(header, secret)}
        intern = UUID(intern_id)
        if way == "log":
            lines = int(rest[1:]) if rest[1:].isdecimal() else 1
            found = current_driver().log_tail(intern, lines=min(lines, _LOG_LINES_MAX))
            return HttpResponse(dumps(found), content_type=_JSON, headers=proof)
        if way == "disk":
            use = run_in_thread(lambda: measure_disk(intern))
            return HttpResponse(dumps(use), content_type=_JSON, headers=proof)
        try:
            abort = AbortHandle()
            reply = self._ask(request, intern, way, signed, abort)
        except ChatRefused as refused:
            return HttpResponse(status=502, headers=proof | {REASON_HEADER: refused.reason})
        watch = ClientWatch(request.META.get("gunicorn.socket"), abort.abort)
        watch.start(stalled_s=settings.ROUTER_STALLED_READER_SECONDS)
        response = EventStream(_read_pieces(reply), [reply.close, watch.stop], headers=proof)
        response.status_code = reply.status
        response["Content-Type"] = reply.headers.get("content-type", "application/octet-stream")
        return response

    def _ask(
        self,
        request: HttpRequest,
        intern: UUID,
        way: str,
        signed: SignedRequest,
        abort: AbortHandle,
    ) -> Reply:
        """The runtime's reply. Raises `ChatRefused`."""
        access = current_driver().find_agent(intern)
        if access is None:
            raise ChatRefused("intern_unreachable")
        meta = request.META
        headers = [(name, meta[key]) for key, name in _PASSED_ON if meta.get(key)]
        if way == "agent":
            headers.append(("Authorization", f"Bearer {access.token}"))
        return send_request(
            access,
            method=signed.method,
            path=signed.path.removeprefix(f"{PREFIX}{intern}/{way}"),
            headers=headers,
            body=signed.body,
            deadline=time.monotonic() + signed.wait_s,
            abort=abort,
        )

    def name_request(self, request: HttpRequest) -> str:
        """Paths of a runtime are its own, and may be secrets."""
        return f"{request.method} {PREFIX}(a path of an intern's)"


def _read_pieces(reply: Reply) -> Iterator[bytes]:
    # Cut short it stays: the reader at the other end takes it for what it is.
    while piece := reply.read_some():
        yield piece
