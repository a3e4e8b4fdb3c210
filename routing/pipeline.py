"""A chat request, top to bottom."""

import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from accounts.caller import Caller
from accounts.windows import windows_of
from gateway.http.errors import GatewayError, InvalidRequest, NotFound, SchemaInvalid, Unavailable
from routing.catalogue.entries import ModelEntry, Snapshot
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    parse_chat,
    unavailable_backends,
)
from routing.ids import generation_id
from routing.metering.estimate import Demand
from routing.metering.orders import Payer
from routing.metering.usage import estimated_tokens
from routing.selection.ask import Ask, Plan
from routing.selection.filters import CONTEXT_STEP
from routing.selection.select import all_down, select
from routing.serving import process
from routing.serving.app_facts import categories
from routing.serving.call import AppFacts, Call
from routing.serving.errors import ContextTooLong, NoEndpoint, UnknownModel
from routing.serving.standing import refuse_broke

# Wire kinds that can serve a chat request today.
CHAT_KINDS = frozenset({"openai"})


def admit_chat(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Call:
    """Check, resolve and plan a request. Raises `GatewayError`; nothing is held or sent yet.

    A request that no endpoint can serve comes back with its `refusal`.
    """
    chat = _parsed(request, body)
    references = _references(chat, caller)
    _refuse_what_nothing_runs(chat)
    models = resolved(catalogue.current(), references)
    ask = ask_of(chat)
    plan = select(models, ask, stable=process.stable, random=process.chance)
    call = _call(request, caller, chat, plan, references, strategy_of(references, models))
    if not plan.order:
        call.refusal = partial(_no_endpoint, models, ask, plan)
        refuse_broke(call, free=_is_free(models))
    return call


def ask_of(chat: ChatRequest) -> Ask:
    """What the request needs of an endpoint."""
    return Ask(
        kinds=CHAT_KINDS,
        tools=chat.tools_given,
        input_modalities=chat.input_modalities,
        output_modalities=chat.output_modalities,
        supplied_parameters=chat.supplied_parameters,
        prompt_tokens=estimated_tokens(chat.prompt_text_chars),
        output_tokens=chat.max_output_tokens,
        service_tier=chat.service_tier,
    )


def payer_of(caller: Caller, at: datetime) -> Payer:
    """Whom a request of this moment is charged to; its windows are pinned here."""
    assert caller.workspace_id is not None
    return Payer(caller.account_id, caller.workspace_id, caller.key_id, windows_of(at.date()))


def _parsed(request: HttpRequest, body: dict[str, Any]) -> ChatRequest:
    try:
        return parse_chat(
            body,
            session_header=request.META.get("HTTP_X_SESSION_ID"),
            models_max=settings.ROUTER_MAX_MODELS,
        )
    except ChatInvalid as error:
        raise SchemaInvalid(error.issues, error_type=error.error_type) from None


def _refuse_what_nothing_runs(chat: ChatRequest) -> None:
    missing = unavailable_backends(chat)
    if missing:
        raise InvalidRequest(f"server tool not available: {', '.join(missing)}")


def _references(chat: ChatRequest, caller: Caller) -> list[str]:
    """Candidate models as named, in order; the workspace's default where none is named."""
    references = chat.candidates or [caller.default_text_model]
    if not references[0]:
        raise InvalidRequest("model: name a model, or set the workspace's default_text_model")
    if chat.preset is not None or any("@preset/" in reference for reference in references):
        raise NotFound("Preset not found")
    return references


def resolved(snapshot: Snapshot, references: list[str]) -> list[ModelEntry]:
    """The models behind the references; one that is named twice, by its alias too, counts once."""
    return list(dict.fromkeys(_model(snapshot, reference) for reference in references))


def _is_free(models: list[ModelEntry]) -> bool:
    """Whether some endpoint could be had for nothing."""
    prices = [each.prices for model in models for each in model.endpoints]
    return any(price is not None and price.is_free for price in prices)


def _model(snapshot: Snapshot, reference: str) -> ModelEntry:
    model = snapshot.model(reference)
    if model is None:
        raise UnknownModel(reference)
    if model.endpoints and not any(each.provider.kind in CHAT_KINDS for each in model.endpoints):
        raise InvalidRequest(f"{reference} does not serve chat completions")
    return model


def strategy_of(references: list[str], models: list[ModelEntry]) -> str:
    """What `router_metadata.strategy` calls the way the candidates were named."""
    if len(references) > 1:
        return "fallback"
    return "direct" if references[0] == models[0].id else "alias"


def _no_endpoint(models: list[ModelEntry], ask: Ask, plan: Plan) -> GatewayError:
    if plan.failed_step == CONTEXT_STEP:
        return ContextTooLong()
    if all_down(models, ask):
        return Unavailable("Every provider of this model is down")
    providers = sorted({each.provider.slug for model in models for each in model.endpoints})
    return NoEndpoint(plan.failed_step, providers)


def _call(
    request: HttpRequest,
    caller: Caller,
    chat: ChatRequest,
    plan: Plan,
    references: list[str],
    strategy: str,
) -> Call:
    now, started = datetime.now(UTC), time.monotonic()
    return Call(
        generation_id=generation_id(),
        caller=caller,
        payer=payer_of(caller, now),
        chat=chat,
        demand=Demand(
            text_bytes=chat.text_bytes,
            messages=chat.message_count,
            media_parts=chat.media_parts,
            images=chat.image_parts,
            output_tokens_asked=chat.max_output_tokens,
        ),
        plan=plan,
        requested_model=references[0],
        strategy=strategy,
        root_url=settings.PUBLIC_URL or f"{request.scheme}://{request.META.get('HTTP_HOST', '')}",
        app=_app_facts(request),
        wants_metadata=_wants_metadata(request),
        created_at=now,
        started=started,
        deadline=started + settings.ROUTER_TOTAL_TIMEOUT,
    )


def _wants_metadata(request: HttpRequest) -> bool:
    value = request.META.get("HTTP_X_ROUTER_METADATA")
    if value is None:
        value = request.META.get("HTTP_X_ROUTER_EXPERIMENTAL_METADATA", "")
    return str(value).strip().lower() == "enabled"


def _app_facts(request: HttpRequest) -> AppFacts:
    meta = request.META
    title = meta.get("HTTP_X_ROUTER_TITLE") or meta.get("HTTP_X_TITLE")
    return AppFacts(
        # The header is called `HTTP-Referer`; browsers send `Referer` by themselves.
        referer=_short(meta.get("HTTP_HTTP_REFERER") or meta.get("HTTP_REFERER")),
        title=_short(title),
        categories=categories(meta.get("HTTP_X_ROUTER_CATEGORIES", "")),
        user_agent=_short(meta.get("HTTP_USER_AGENT")),
    )


def _short(value: str | None) -> str | None:
    return value[:500] if value else None
