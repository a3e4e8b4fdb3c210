"""POST /routing/what-if: a period under other rules (ours)."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase

from accounts.guard_rules import build_entry
from accounts.models import Workspace
from accounts.services.guardrails import find_guardrail
from accounts.services.keys import NoSuchWorkspace
from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from gateway.database.db import Lane, run_queries
from gateway.http.errors import NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.openapi.components import answer_of
from routing.catalogue.snapshot import catalogue
from routing.views.schemas.what_if import WhatIfBody, WhatIfObject, serialize_what_if
from routing.what_if.period import NoSuchEndpoint, Period, Rules, replay_period

_operation: Final = describe_operations("Analytics", 400, 429)


class WhatIfViewSet(ManagedViewSet):
    """Past requests under rules that do not hold yet."""

    @_operation(
        "askWhatIf",
        "Replay a period under other rules",
        "Ours. Plans the answered requests of a period again, with the statistics of their time, "
        "and compares cost, expected latency, refusals and who moves. Nothing is called, charged "
        "or changed.",
        answer_of(WhatIfObject),
        body=WhatIfBody,
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = WhatIfBody.read(managed_body(request))
        period, rules = body.build_period(caller.account_id, datetime.now(UTC)), body.build_rules()
        answer = run_queries(Lane.OPERATOR, lambda: _answer(caller.account_id, body, period, rules))
        return json_response({"data": answer})


def _answer(account: UUID, body: WhatIfBody, period: Period, rules: Rules) -> JsonObject:
    """The JSON of a `WhatIfObject`. Raises `NoSuchWorkspace` and `SchemaInvalid`."""
    mine = Workspace.objects.filter(account=account)
    if body.workspace_id is not None and not mine.filter(pk=body.workspace_id).exists():
        raise NoSuchWorkspace
    if body.guardrail_id is not None:
        try:
            row = find_guardrail(account, body.guardrail_id)
        except NotFound:
            text = "Invalid input: no guardrail of this account"
            raise SchemaInvalid([Issue("guardrail_id", text)]) from None
        rules = rules._replace(guardrail=build_entry(row, "workspace"))
    try:
        comparison = replay_period(period, rules, catalogue.current())
    except NoSuchEndpoint as error:
        text = "Invalid input: no such model of this provider"
        raise SchemaInvalid([Issue(f"prices.{error.at}", text)]) from None
    return serialize_what_if(comparison, period)
