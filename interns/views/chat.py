"""POST /interns/{internId}/chat/completions."""

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from gateway.http.body import BodyTooSlow
from gateway.http.errors import GatewayError, Unavailable
from gateway.http.responses import EventStream, json_response
from interns.access import authorize_caller, get_visible_intern, read_json_object
from interns.chat.body import ChatPrompt, ChatReply, InvalidChatBody, read_chat_body
from interns.chat.errors import ChatError, PreparationTimedOut, build_bad_request, build_overloaded
from interns.chat.runs import SteeredRun
from interns.chat.turns import TurnRequest
from interns.errors import InternForbidden, InvalidBody
from interns.models import Intern, Status
from interns.runtime.driver import current_driver
from interns.views import chat_description as described
from interns.views.base import InternViewSet
from routing.serving.request.process import slots

_SESSION_HEADER: Final = "HTTP_X_SESSION_ID"
Find = Callable[[Caller], Intern]


class InternChatViewSet(InternViewSet):
    """Streams only. Refusals come before the stream, reasons of failure at its end."""

    @described.completion
    def create(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        return self.chat(request, lambda caller: get_visible_intern(caller, intern_id))

    def chat(self, request: HttpRequest, find: Find) -> HttpResponseBase:
        """A turn with the intern that `find` finds for the caller."""
        caller = authorize_caller(request)
        body = _read_body(request)
        intern = find(caller)
        if caller.intern_id is not None:
            # It would answer its own questions.
            raise InternForbidden
        if intern.status != Status.RUNNING or intern.lease_id is not None:
            raise ChatError("intern_not_ready")
        slot = slots.take()
        try:
            stream = self._open_stream(request, caller, intern, body)
            if isinstance(stream, SteeredRun):
                return json_response(
                    {"session_id": stream.session_id, "status": "steered"}, status=202
                )
            slot.keep()
            return EventStream(stream, [stream.close, slot.release], headers={})
        finally:
            slot.release_unless_kept()

    def database_gone(self) -> GatewayError:
        return build_overloaded()

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        shown = build_overloaded() if isinstance(error, Unavailable) else error
        return super().refusal(request, shown)

    def _open_stream(
        self, request: HttpRequest, caller: Caller, intern: Intern, body: ChatPrompt | ChatReply
    ) -> Any:
        who = caller.creator_key
        asking = TurnRequest(
            intern.pk,
            acting=f"key-{caller.key_id}" if who is None else str(who),
            by=who,
            client=request.META.get("gunicorn.socket"),
            driver=current_driver(),
        )
        return asking.prompt(body) if isinstance(body, ChatPrompt) else asking.reply(body)


def _read_body(request: HttpRequest) -> ChatPrompt | ChatReply:
    header = str(request.META.get(_SESSION_HEADER, ""))
    try:
        return read_chat_body(read_json_object(request), session_header=header)
    except InvalidChatBody as error:
        raise build_bad_request(error.issues) from error
    except InvalidBody as error:
        if isinstance(error.__context__, BodyTooSlow):
            raise PreparationTimedOut from error
        raise ChatError("bad_request", error.text) from error
