"""POST /api/alpha/decisions and POST /systemone."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from gateway.http.responses import raw_json_response
from routing.formats.decisions.format import DECISIONS, SYSTEMONE
from routing.formats.decisions.request import read_questions
from routing.planning.refusing import refusal_of, refuse_too_many
from routing.serving.deciding.agenda import Agenda
from routing.serving.deciding.whole import decided_answer
from routing.serving.request.call import Call
from routing.views.inference import InferenceViewSet
from routing.views.openapi.decisions import describe_decisions, describe_systemone


class DecisionsViewSet(InferenceViewSet):
    """Answers to typed questions, always in one piece."""

    caller_format = DECISIONS

    @describe_decisions
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)

    def _answer(self, request: HttpRequest, call: Call, slot: Any) -> HttpResponseBase:
        if call.refusal is not None:
            raise refusal_of(call)
        assert call.chat.original is not None
        agenda = Agenda(call.chat.original, call.choice.models)
        call.planned = agenda.demands
        refuse_too_many(call)
        # As they were sent: what is asked upstream may have been redacted.
        answer = decided_answer(call, agenda, read_questions(self.body))
        return raw_json_response(answer, headers={"X-Generation-Id": call.generation_id})


class SystemOneViewSet(DecisionsViewSet):
    """The same under the compatible path, where a model may be named without its author."""

    caller_format = SYSTEMONE

    @describe_systemone
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)
