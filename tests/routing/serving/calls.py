"""Calls made to measure: a request on its way, without a database or an upstream."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from accounts.byok import ByokEntry
from accounts.spending import find_window_starts
from routing.entities.entries import EndpointEntry
from routing.formats.chat.format import CHAT
from routing.formats.chat.request import parse_chat
from routing.ledger.orders import Payer
from routing.metering.usage import Demand
from routing.selection.types import NO_POLICY, NOTHING_LEARNED, Plan, Requirements
from routing.serving.request.context import (
    AppFacts,
    Attempt,
    Choice,
    RequestContext,
    RequestProgress,
)
from routing.upstreams.failures import UpstreamFailure
from tests.routing.callers import CALLER
from tests.routing.selection.entries import model

ROOT = "http://gateway.test"
ADMITTED_AT = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def call_to(*endpoints: EndpointEntry, at: datetime = ADMITTED_AT, **body: Any) -> RequestProgress:
    """A chat request that plans to try these endpoints."""
    said = {"model": "acme/small", "messages": [{"role": "user", "content": "Hello"}], **body}
    chat = parse_chat(said, session_header=None)
    account, workspace = uuid.uuid4(), uuid.uuid4()
    whose: Any = {"key_id": 1, "account_id": account, "workspace_id": workspace}
    ask = Requirements(kinds=frozenset({"openai"}))
    context = RequestContext(
        generation_id="gen-1-test",
        caller=replace(CALLER, **whose, key_name="CI"),
        payer=Payer(account, workspace, 1, tuple(find_window_starts(at).items())),
        format=CHAT,
        chat=chat,
        demand=Demand(chat.text_bytes, 1, 0, 0, chat.max_output_tokens),
        plan=Plan(endpoints, (), endpoints),
        choice=Choice(("acme/small",), (model(*endpoints),), ask, NO_POLICY, NOTHING_LEARNED),
        requested_model="acme/small",
        strategy="direct",
        root_url=ROOT,
        app=AppFacts(None, None, (), None),
        wants_metadata=False,
        created_at=at,
        started=0.0,
        deadline=600.0,
    )
    return RequestProgress(context)


def attempt_at(endpoint: EndpointEntry, **changes: Any) -> Attempt:
    return Attempt(endpoint, None, started=1.0, **changes)


def failed_at(endpoint: EndpointEntry, status: int = 503, **changes: Any) -> Attempt:
    failure = UpstreamFailure(status, status, "provider_overloaded", "Provider returned error")
    return attempt_at(endpoint, status=status, failure=replace(failure, **changes))


def own_entry(provider: str = "acme", **changes: Any) -> ByokEntry:
    """A team's own credential."""
    shown: Any = {"id": f"id-{provider}", "label": "sk-...AbCd", "sealed": "v1:" + "s" * 60}
    return replace(ByokEntry(provider=provider, is_fallback=False, **shown), **changes)
