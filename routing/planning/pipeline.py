"""An inference request of any caller format, top to bottom."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from django.http import HttpRequest

from accounts.caller import Caller
from accounts.windows import list_windows
from gateway.http.errors import (
    GatewayError,
    InvalidRequest,
    SchemaInvalid,
    Unavailable,
)
from gateway.http.validation import Issue
from gateway.live_settings import settings
from gateway.regions import region_of
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import DECIDING
from routing.entities.ids import generation_id
from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.provider_tools import list_provider_tools
from routing.guarding.filters import Filtered, filtered
from routing.history.content_draft import ContentDraft, start_draft
from routing.ledger.orders import Payer
from routing.metering.usage import estimate_tokens
from routing.planning.caller_headers import app_facts, betas, wants_metadata
from routing.planning.candidates import (
    MODELS_STEP,
    names_a_router,
    no_model,
    references_of,
    resolution_of,
)
from routing.planning.disabled_tools import refuse_disabled_tools
from routing.planning.equipping import equipped, refuse_what_nothing_runs
from routing.planning.own_search import beside_own_tools, where_no_provider_does
from routing.planning.plugging import plugged, refusal_by, shaped
from routing.planning.refusing import refuse_early
from routing.plugins.context_compression import compress_request
from routing.plugins.interface import Plugin, PluginContext
from routing.presets.apply import PresetRequest, may_name_a_preset, read_with_preset
from routing.response_cache.wish import wish_of
from routing.selection.filters import CONTEXT_STEP, GUARDRAILS_STEP
from routing.selection.policy import build_policy
from routing.selection.select import are_all_down, list_providers, list_unpriced, select
from routing.selection.trace import freeze_state
from routing.selection.types import (
    NO_PLAN,
    NOTHING_LEARNED,
    EndpointState,
    Plan,
    Policy,
    Requirements,
    Resolution,
)
from routing.serving.attempts.learned import Conversation, may_go_on, state_for
from routing.serving.request.call import Call, Choice
from routing.serving.request.errors import ContextTooLong, GuardedOut, NoEndpoint
from routing.serving.request.loop import Loop
from routing.serving.tool_loop.turns import demand_of
from routing.statistics.observation import health_snapshot
from routing.tools.toolbox import Toolbox
from routing.upstreams.wires import CHAT_KINDS

_NOT_BESIDE = "Invalid input: not beside tools, plugins or filters that the gateway runs"


class ResolvedRequest(NamedTuple):
    """What a request asks for: references as they were named, what they came to, what it needs."""

    references: tuple[str, ...]
    ask: Requirements
    conversation: Conversation
    resolution: Resolution
    policy: Policy


def admit(
    request: HttpRequest, caller: Caller, body: dict[str, Any], *, format: CallerFormat
) -> Call:
    """Check, resolve and plan a request. Raises `GatewayError`; nothing is held or sent yet.

    A request that no endpoint can serve comes back with its `refusal`.
    """
    chat, preset_id, requested, caching = _parsed(request, caller, body, format)
    region, deadline = region_of(request), time.monotonic() + settings.ROUTER_TOTAL_TIMEOUT
    judge = partial(_refuse_early, request, caller, format)
    made = _arranged(chat, caller, format, region=region, deadline=deadline, judge=judge)
    asked, plan, policy = made.asked, made.plan, made.asked.policy
    choice = _choice(made)
    call = _call(request, caller, format, made, choice)
    if preset_id is not None:
        call.preset_id, call.requested_model = preset_id, requested or call.requested_model
    if not policy.order and (made.chat.session_id or not policy.sort_named):
        call.sticky = asked.conversation.key(asked.resolution.models)
    call.region, call.stages, call.loop = region, made.stages, made.loop
    call.plugins, call.cache_wish = made.plugins, wish_of(request.META, caching)
    if made.blocked is not None:
        call.refusal = made.blocked
    elif not plan.order:
        call.refusal = partial(_no_endpoint, asked, plan)
    return call


def planned_call(asker: Call, chat: ChatRequest) -> Call:
    """A call for a model that a tool of another call asks: on that call's account, within its time
    and by its rules. Raises `GatewayError`; one that no endpoint can serve has its `refusal`."""
    caller = asker.caller
    made = _arranged(chat, caller, CHAT, region=asker.region, deadline=asker.deadline)
    chat, asked, plan, choice = made.chat, made.asked, made.plan, _choice(made)
    refusal = None if plan.order else partial(_no_endpoint, asked, plan)
    return Call(
        generation_id=asker.generation_id,
        caller=caller,
        payer=asker.payer,
        format=CHAT,
        chat=chat,
        demand=demand_of(chat),
        plan=plan,
        choice=choice,
        requested_model=choice.requested[0],
        strategy=asked.resolution.strategy,
        root_url=asker.root_url,
        app=asker.app,
        wants_metadata=False,
        created_at=asker.created_at,
        started=time.monotonic(),
        deadline=asker.deadline,
        refusal=made.blocked or refusal,
        stages=made.stages,
        region=asker.region,
        loop=made.loop or Loop(chat, Toolbox(())),
        plugins=made.plugins,
        parent=asker,
        ask=asker.ask,
    )


def _arranged(
    chat: ChatRequest,
    caller: Caller,
    format: CallerFormat,
    *,
    region: str,
    deadline: float,
    judge: Callable[["_Arranged"], None] | None = None,
) -> "_Arranged":
    """A checked request as its model is asked, and its plan. `judge` raises what a request would be
    refused with whatever its plan is. Raises `GatewayError`."""
    chat, plugins = plugged(chat, caller.default_text_model)
    chat = beside_own_tools(chat)
    asked = resolve(chat, caller, region=region)
    context = PluginContext(caller, asked.resolution.models, deadline)
    if judge is not None and plugins:
        bare = _Arranged(chat, asked, NO_PLAN, NOTHING_LEARNED, [], None, None, plugins)
        context = replace(context, refuse=partial(judge, bare))
    other = where_no_provider_does(chat, asked.resolution.models, format)
    if (other := shaped(plugins, other, context)) is not chat:
        chat, asked = other, resolve(other, caller, region=region)
    chat, stages, refusal = _guarded(chat, caller)
    blocked = refusal or (refusal_by(plugins, chat, context) if plugins else None)
    chat, loop = equipped(chat)
    if stages or loop is not None:
        asked = asked._replace(ask=ask_of(chat))
    if loop is None and chat.native_tools:
        asked = _held_to_its_wire(asked, chat, format)
    if chat.native_fields:
        asked = _held_to_its_fields(asked, chat, format, is_rewritten=loop is not None)
    plan, state = (NO_PLAN, NOTHING_LEARNED) if blocked else _planned(asked, caller)
    stages += [stage for plugin in plugins for stage in plugin.stages]
    if plan.failed_step == CONTEXT_STEP:
        shorter = compress_request(chat, plan.considered, asked.ask.output_tokens)
        if shorter is not None:
            chat, asked = shorter.chat, asked._replace(ask=ask_of(shorter.chat))
            stages.append(shorter.stage)
            plan, state = _planned(asked, caller)
    return _Arranged(chat, asked, plan, state, stages, blocked, loop, plugins)


class _Arranged(NamedTuple):
    """`blocked` makes the refusal of what guardrails or plugins keep back."""

    chat: ChatRequest
    asked: ResolvedRequest
    plan: Plan
    state: EndpointState
    stages: list[dict[str, Any]]
    blocked: Callable[[], GatewayError] | None
    loop: Loop | None
    plugins: tuple[Plugin, ...]


def _refuse_early(
    request: HttpRequest, caller: Caller, format: CallerFormat, made: _Arranged
) -> None:
    """Before work is done for a request: what guardrails, payment and rate limits say of it."""
    blocked = _guarded(made.chat, caller).refusal
    if blocked is not None:
        raise blocked()
    refuse_early(_call(request, caller, format, made, _choice(made)))


def _choice(made: _Arranged) -> Choice:
    asked, resolution = made.asked, made.asked.resolution
    # Where there is none to choose from, what is told of the choice is told of the pool.
    models = resolution.models or resolution.pool
    kept = freeze_state(made.plan, made.state)
    return Choice(asked.references, models, asked.ask, asked.policy, kept)


def draft_of(call: Call) -> ContentDraft | None:
    """What is to be kept of what is said, where the workspace wants it."""
    if call.choice.retains_nothing:
        return None
    return start_draft(
        call.caller,
        call.chat,
        call.choice.policy,
        generation_id=call.generation_id,
        created_at=call.created_at,
        bytes_max=settings.GENERATION_CONTENT_BYTES,
    )


def resolve(
    chat: ChatRequest,
    caller: Caller,
    *,
    dice: Callable[[], float] | None = None,
    region: str | None = None,
) -> ResolvedRequest:
    """What a request of this caller's asks of the catalogue of this moment. `dice` takes the place
    of the source that virtual routers draw from. Raises `GatewayError`."""
    references = references_of(chat, caller)
    if caller.disabled_server_tools:
        refuse_disabled_tools(
            caller.disabled_server_tools,
            chat.body,
            plugins=chat.plugins,
            references=references,
            native=list_provider_tools(chat),
            nested=chat.server_tools,
        )
    if chat.plugins or chat.server_tools:
        refuse_what_nothing_runs(chat)
    snapshot, ask = catalogue.current(), ask_of(chat)
    conversation = Conversation(chat, account_id=caller.account_id, model=references[0])
    wanted = partial(policy_for, chat, caller, region=region)
    sticky_model = conversation.model_id() if names_a_router(snapshot, references) else None
    resolution = resolution_of(
        snapshot,
        references,
        chat,
        ask,
        policy=wanted,
        random=dice or conversation.random_of_models(),
        sticky_model=sticky_model,
    )
    return ResolvedRequest(tuple(references), ask, conversation, resolution, wanted(resolution))


def _planned(asked: ResolvedRequest, caller: Caller) -> tuple[Plan, EndpointState]:
    """The plan, and what it was made from. One that begins with another's probe is made anew."""
    conversation, models = asked.conversation, asked.resolution.models
    ask, policy = asked.ask, asked.policy
    state = state_for(conversation, models, policy, caller.byok)
    plan = select(models, ask, policy, state, random=conversation.random())
    while not may_go_on(plan, conversation.patience):
        state = state._replace(health=health_snapshot())
        plan = select(models, ask, policy, state, random=conversation.random())
    return plan, state


def policy_for(
    chat: ChatRequest, caller: Caller, resolution: Resolution, region: str | None = None
) -> Policy:
    """What the request, its workspace and its account want of the choice; `region` is that of the
    host it came in by."""
    return build_policy(
        chat.provider,
        resolution=resolution,
        default_sort=caller.default_provider_sort,
        account_allowed=caller.allowed_providers,
        account_ignored=caller.ignored_providers,
        region=region,
        models_named=bool(chat.models),
        guarded=caller.guard.rules if caller.guard else None,
    )


def ask_of(chat: ChatRequest) -> Requirements:
    """What the request needs of an endpoint."""
    return Requirements(
        kinds=DECIDING if chat.decides else CHAT_KINDS,
        tools=chat.tools_given,
        input_modalities=chat.input_modalities,
        output_modalities=chat.output_modalities,
        supplied_parameters=chat.supplied_parameters,
        required_parameters=chat.required_parameters,
        prompt_tokens=estimate_tokens(chat.prompt_text_chars),
        output_tokens=chat.max_output_tokens,
        service_tier=chat.service_tier,
    )


def payer_of(caller: Caller, at: datetime) -> Payer:
    """Whom a request of this moment is charged to; its windows are pinned here."""
    assert caller.workspace_id is not None
    return Payer(
        caller.account_id,
        caller.workspace_id,
        caller.key_id,
        list_windows(at.date()),
        caller.budgets,
        caller.limits_version,
        caller.limited,
    )


def _parsed(
    request: HttpRequest, caller: Caller, body: dict[str, Any], format: CallerFormat
) -> PresetRequest:
    """The request, with the preset that it names under it."""
    read = partial(
        format.parse,
        session_header=request.META.get("HTTP_X_SESSION_ID"),
        models_max=settings.ROUTER_MAX_MODELS,
    )
    try:
        if may_name_a_preset(body):
            return read_with_preset(format.name, body, caller, read)
        return PresetRequest(read(body))
    except ChatInvalid as error:
        raise SchemaInvalid(error.issues, error_type=error.error_type) from None


def _guarded(chat: ChatRequest, caller: Caller) -> Filtered:
    """The request after the content filters of the caller's guardrails."""
    if caller.guard is None or not caller.guard.filters:
        return Filtered(chat, [])
    return filtered(chat, caller.guard.filters, caller.account_id)


def _held_to_its_wire(
    asked: ResolvedRequest, chat: ChatRequest, format: CallerFormat
) -> ResolvedRequest:
    """Only upstreams of the caller's own format can run the tools it named."""
    models = asked.resolution.models
    kinds = frozenset({format.wire})
    if not any(each.serves(kinds) for model in models for each in model.endpoints):
        raise InvalidRequest(f"server tool not available: {', '.join(chat.native_tools)}")
    return asked._replace(ask=asked.ask._replace(kinds=kinds))


def _held_to_its_fields(
    asked: ResolvedRequest, chat: ChatRequest, format: CallerFormat, *, is_rewritten: bool
) -> ResolvedRequest:
    """Only upstreams of the caller's own format know these fields, and of them those that list
    them. A request that is written anew has no place for them."""
    fields, kinds = chat.native_fields, frozenset({format.wire})
    endpoints = [each for model in asked.resolution.models for each in model.endpoints]
    takers = [each for each in endpoints if each.serves(kinds) and fields <= each.taken_fields]
    if is_rewritten or chat.rewritten or not takers:
        text = "Invalid input: no endpoint takes it" if not takers else _NOT_BESIDE
        raise SchemaInvalid([Issue(name, text) for name in sorted(fields)])
    return asked._replace(ask=asked.ask._replace(kinds=kinds, native_fields=fields))


def _no_endpoint(asked: ResolvedRequest, plan: Plan) -> GatewayError:
    models, ask, policy = asked.resolution.models, asked.ask, asked.policy
    if not models:
        return no_model(asked.references[0], asked.resolution.pool, ask, policy)
    if are_all_down(models, ask, policy):
        return Unavailable("Every provider of this model is down")
    if plan.failed_step == GUARDRAILS_STEP:
        return GuardedOut(
            available=list_providers(models, ask), requested=list(policy.required_references)
        )
    if plan.failed_step == CONTEXT_STEP:
        return ContextTooLong()
    requested = list(policy.required_references)
    step, available = plan.failed_step or MODELS_STEP, list_providers(models, ask)
    text = None
    if not available and (names := list_unpriced(models, ask)):
        text = f"{names[0]} has no price yet: the gateway's operator can give it one"
    return NoEndpoint(step, available=available, requested=requested, text=text)


def _call(
    request: HttpRequest,
    caller: Caller,
    format: CallerFormat,
    made: _Arranged,
    choice: Choice,
) -> Call:
    now, started, chat = datetime.now(UTC), time.monotonic(), made.chat
    return Call(
        generation_id=generation_id(format.id_prefix),
        caller=caller,
        payer=payer_of(caller, now),
        format=format,
        chat=chat,
        demand=demand_of(chat),
        plan=made.plan,
        choice=choice,
        requested_model=chat.named_as or choice.requested[0],
        strategy=made.asked.resolution.strategy,
        root_url=settings.PUBLIC_URL or f"{request.scheme}://{request.META.get('HTTP_HOST', '')}",
        app=app_facts(request),
        wants_metadata=wants_metadata(request),
        created_at=now,
        started=started,
        deadline=started + settings.ROUTER_TOTAL_TIMEOUT,
        betas=betas(request),
    )
