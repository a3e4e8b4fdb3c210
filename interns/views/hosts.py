"""Hosts of interns: `<hostname>/` is a runtime's public page, for who may see the intern.

What a runtime answers is not ours, so no browser may take it for a page. Without a key there is
only our own page, which is the same for every name and tells nothing of any intern. It asks for a
key, and shows with it what the runtime says and a chat.
"""

import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from accounts.caller import Caller
from gateway.database.db import Lane, run_queries
from gateway.http.errors import GatewayError, UnknownPath
from gateway.http.jsonio import JsonObject
from gateway.http.responses import error_response
from gateway.outbound.errors import OutboundError
from interns.access import BODY_BYTES_MAX, authorize_caller, read_raw_body
from interns.chat.errors import ChatError, convert_refusal
from interns.errors import InternNotFound
from interns.models import Intern, Status
from interns.reach import find_page
from interns.runtime.client import send_request
from interns.runtime.driver import ChatRefused
from interns.views.chat import InternChatViewSet

METHODS: Final = ("get", "post", "put", "patch", "delete", "options")
_OWN: Final = "/-/"
_CHAT: Final = "/-/chat"
_ANSWER_BYTES_MAX: Final = 8_388_608
# All that goes on to a runtime. Least of all the key: what runs there is not to have it.
_PASSED_ON: Final = (("HTTP_ACCEPT", "Accept"), ("CONTENT_TYPE", "Content-Type"))
_TYPE: Final = "application/octet-stream"
# Whatever a runtime sends is data.
_INERT: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_PAGE_FOLDER: Final = Path(__file__).parent / "host_page"
_PAGE_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
PAGE_HEADERS: Final = {
    "Content-Security-Policy": _PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def _read_part(name: str, content_type: str) -> tuple[str, bytes]:
    return f"{content_type}; charset=utf-8", (_PAGE_FOLDER / name).read_bytes()


PAGE: Final = _read_part("chat.html", "text/html")
PARTS: Final = {
    "/-/chat.js": _read_part("chat.js", "text/javascript"),
    "/-/chat.css": _read_part("chat.css", "text/css"),
}


class HostViewSet(InternChatViewSet):
    """Every path of an intern's host. `/-/` is the gateway's own, the rest is the runtime's."""

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        if not _read_host(request).endswith(f".{settings.INTERN_DOMAIN}"):
            raise UnknownPath
        path, is_read = request.path_info, request.method in ("GET", "HEAD")
        if path == _CHAT and request.method == "POST":
            return self.chat(
                request, lambda caller: _get_visible_intern(caller, _read_host(request))
            )
        if path == "/" and "HTTP_AUTHORIZATION" not in request.META and is_read:
            return _answer_part(PAGE)
        if path.startswith(_OWN):
            part = PARTS.get(request.path_info)
            if part is None or not is_read:
                raise UnknownPath
            return _answer_part(part)
        caller = authorize_caller(request)
        body = bytes(read_raw_body(request, bytes_max=BODY_BYTES_MAX))
        intern = _get_visible_intern(caller, _read_host(request))
        if intern.status != Status.RUNNING:
            raise ChatError("intern_not_ready")
        return _forward(request, intern, body)

    def name_request(self, request: HttpRequest) -> str:
        """Paths of the runtime are its own, and may be secrets."""
        path = _CHAT if request.path_info == _CHAT else "(a path of an intern's)"
        return f"{request.method} {path}"

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        response = super().refusal(request, error)
        for name, value in _INERT.items():
            response[name] = value
        return response


host_view = HostViewSet.as_view(dict.fromkeys(METHODS, "answer"))


def _read_host(request: HttpRequest) -> str:
    """The name without its port."""
    return str(request.META.get("HTTP_HOST", "")).lower().partition(":")[0].rstrip(".")


def _get_visible_intern(caller: Caller, hostname: str) -> Intern:
    """As `get_visible_intern`, by the host name."""
    rows = Intern.objects.filter(hostname=hostname, workspace=caller.workspace_id)
    found = run_queries(Lane.READ, rows.first)
    if found is None or caller.intern_id not in (None, found.pk):
        raise InternNotFound
    return found


def _answer_part(part: tuple[str, bytes]) -> HttpResponse:
    content_type, content = part
    return HttpResponse(content, content_type=content_type, headers=PAGE_HEADERS)


def _forward(request: HttpRequest, intern: Intern, body: bytes) -> HttpResponseBase:
    """What the runtime says to the same request, without the gateway's token: it has nothing to
    show here but what is public."""
    access = find_page(intern)
    if access is None:
        raise ChatError("intern_unreachable")
    meta: JsonObject = request.META
    # The path as it was sent, where the server tells.
    raw = str(meta.get("RAW_URI") or request.path_info)
    path = raw.partition("?")[0] if raw.startswith("/") else quote(request.path_info)
    query = meta.get("QUERY_STRING", "")
    try:
        reply = send_request(
            access,
            method=str(request.method),
            path=f"{path}?{query}" if query else path,
            headers=[(name, meta[key]) for key, name in _PASSED_ON if meta.get(key)],
            body=body,
            deadline=time.monotonic() + settings.INTERN_OPERATION_SECONDS,
            body_bytes_max=_ANSWER_BYTES_MAX,
        )
        with reply:
            content = reply.read_all()
            status, content_type = reply.status, reply.headers.get("content-type", _TYPE)
    except ChatRefused as refused:
        raise convert_refusal(refused) from refused
    except OutboundError as error:
        raise ChatError("stream_severed") from error
    except ValueError as error:
        raise ChatError("bad_request", "This cannot be passed on") from error
    if status in (401, 403):
        # It asks for its own token, which no caller has: there is nothing here.
        return error_response(UnknownPath())
    return HttpResponse(content, status=status, headers={**_INERT, "Content-Type": content_type})
