"""The way of an inference request from its body to its plan, whatever format its caller speaks."""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from django.http import HttpRequest

from accounts.authentication import find_token_tags
from accounts.caller import Caller
from accounts.spending import list_windows
from gateway.http.address import find_region
from gateway.http.errors import GatewayError, InvalidRequest, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.request_id import get_identity
from gateway.http.tags import Tags, TagsInvalid, read_tags
from gateway.http.validation import Issue
from gateway.live_settings import settings
from routing.destinations.selection import workspace_destinations
from routing.entities.ids import generation_id
from routing.formats.caller import CallerFormat
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.guarding.filters import apply_filters
from routing.guarding.output_guard import OutputGuard
from routing.history.content_draft import ContentDraft, start_draft
from routing.ledger.orders import Payer
from routing.planning.admission_errors import no_endpoint_error, refuse_early
from routing.planning.candidates import (
    ResolvedRequest,
    may_go_on,
    read_requirements,
    resolve,
    state_for,
)
from routing.planning.server_tools import equip_request, search_here
from routing.plugins.context_compression import compress_request
from routing.plugins.interface import Plugin, PluginContext
from routing.plugins.registry import add_plugins
from routing.presets.apply import PresetRequest, may_name_a_preset, read_with_preset
from routing.response_cache.cache_options import (
    MAY_SHARE,
    MAY_SWITCH_ON,
    may_share,
    read_cache_options,
)
from routing.selection.filters import CONTEXT_STEP
from routing.selection.select import select
from routing.selection.trace import freeze_state
from routing.selection.types import NO_PLAN, NOTHING_LEARNED, EndpointState, Plan
from routing.serving.attempts.upstream_call import find_total_s
from routing.serving.request.context import (
    Choice,
    RequestContext,
    RequestProgress,
    measure_demand,
    read_caller_headers,
)
from routing.serving.request.loop import Loop
from routing.serving.request.schema_check import start_schema_check
from routing.statistics import observation


@dataclass(slots=True)
class Planning:
    """A request on its way through the steps of `plan_request`: each makes more of it known.

    `refuse_early` raises what a request would be refused with whatever its plan is. `classify` asks
    the classifier of its router, where it may have one. `blocked` makes the error of what
    guardrails or plugins keep back, `passed` is the last body that plugins let pass.
    """

    caller: Caller
    format: CallerFormat
    chat: ChatRequest
    region: str
    deadline: float
    refuse_early: "Callable[[Planning], None] | None" = None
    classify: "Callable[[Planning], None] | None" = None
    is_dry_run: bool = False  # Takes no probe.
    asked: ResolvedRequest = field(init=False)
    plugins: tuple[Plugin, ...] = ()
    plugin_context: PluginContext | None = None
    passed: JsonObject | None = None
    stages: list[JsonObject] = field(default_factory=list)
    blocked: Callable[[], GatewayError] | None = None
    loop: Loop | None = None
    plan: Plan = NO_PLAN
    state: EndpointState = NOTHING_LEARNED

    @property
    def choice(self) -> Choice:
        resolved, resolution = self.asked, self.asked.resolution
        # Where there is none to choose from, the record speaks of the pool.
        models = resolution.models or resolution.pool
        state = freeze_state(self.plan, self.state)
        return Choice(resolved.references, models, resolved.ask, resolved.policy, state)

    @property
    def refusal(self) -> Callable[[], GatewayError] | None:
        """What makes the error of a request that no endpoint can serve."""
        if self.blocked is not None or self.plan.order:
            return self.blocked
        return partial(no_endpoint_error, self.asked, self.plan)


def admit(
    request: HttpRequest,
    caller: Caller,
    body: JsonObject,
    *,
    format: CallerFormat,
    chosen_id: str | None = None,
    classify: Callable[[HttpRequest, Planning], None] | None = None,
    is_dry_run: bool = False,
) -> RequestProgress:
    """Check, resolve and plan a request. Raises `GatewayError`; nothing is held or sent yet.

    `chosen_id` is a generation's id that was chosen before, `classify` asks the classifier of a
    virtual router. A request that no endpoint can serve comes back with its `refusal`.
    """
    parse = partial(
        format.parse,
        session_header=request.META.get("HTTP_X_SESSION_ID"),
        models_max=settings.ROUTER_MAX_MODELS,
    )
    try:
        if may_name_a_preset(body):
            # The preset that the request names is under it.
            read = read_with_preset(format.name, body, caller, parse)
        else:
            read = PresetRequest(parse(body))
    except ChatInvalid as error:
        raise SchemaInvalid(error.issues, error_type=error.error_type) from None
    planning = Planning(
        caller,
        format,
        read.chat,
        find_region(request),
        deadline=time.monotonic() + find_total_s(read.chat),
        refuse_early=partial(_refuse_early, request),
        classify=None if classify is None else partial(classify, request),
        is_dry_run=is_dry_run,
    )
    plan_request(planning)
    context = _build_context(request, planning, read, chosen_id)
    progress = RequestProgress(
        context, planning.loop, stages=planning.stages, content=_start_draft(context)
    )
    if context.chat.response_format_type == "json_schema":
        progress.schema_check = start_schema_check(context, progress.content)
    if caller.guard is not None and caller.guard.output_filters:
        filters = caller.guard.output_filters
        progress.output_guard = OutputGuard(filters, context.chat, caller.account_id)
    return progress


# --- The steps ------------------------------------------------------------------------------------


def plan_request(planning: Planning) -> None:
    """Carry out the steps from a checked request to its plan. Those with a condition concern few
    requests. Raises `GatewayError`."""
    references = planning.chat.candidates or [planning.caller.default_text_model]
    names_plugins = planning.chat.plugins or any(":" in name for name in references)
    if names_plugins and planning.chat.is_conversation:
        # The plugins that are in force, and the server tools that they add.
        default_model = planning.caller.default_text_model
        planning.chat, planning.plugins = add_plugins(planning.chat, default_model)
    if planning.chat.native_tools and planning.chat.server_tools:
        # One loop cannot have two authors.
        planning.chat = search_here(planning.chat)
    planning.asked = resolve(planning.chat, planning.caller, region=planning.region)
    if planning.asked.resolution.virtual is not None and planning.classify is not None:
        planning.classify(planning)
    if planning.plugins or planning.chat.native_tools:
        _reshape(planning)
    guard = planning.caller.guard
    if guard is not None and guard.filters:
        result = apply_filters(planning.chat, guard.filters, planning.caller.account_id)
        planning.chat, planning.blocked = result.chat, result.refusal
        planning.stages += result.stages
    if planning.plugins and planning.blocked is None:
        planning.blocked = _ask_plugins(planning, planning.chat)
    if planning.chat.server_tools:
        planning.chat, planning.loop = equip_request(planning.chat)
    if planning.stages or planning.loop is not None:
        planning.asked = planning.asked._replace(ask=read_requirements(planning.chat))
    if planning.chat.native_tools and planning.loop is None:
        # Only upstreams of the caller's own format can run the tools it named.
        if not _is_spoken(planning):
            tools = ", ".join(planning.chat.native_tools)
            raise InvalidRequest(f"server tool not available: {tools}")
        ask = planning.asked.ask._replace(kinds=frozenset({planning.format.wire}))
        planning.asked = planning.asked._replace(ask=ask)
    if planning.chat.native_fields:
        _hold_to_fields(planning)
    if planning.blocked is None:
        _choose(planning)
    for plugin in planning.plugins:
        planning.stages += plugin.stages
    if planning.plan.failed_step == CONTEXT_STEP:
        _compress(planning)


def _reshape(planning: Planning) -> None:
    """Search here where no provider of the models does, and let plugins change the request; one
    that is changed is resolved anew."""
    chat, models = planning.chat, planning.asked.resolution.models
    if chat.native_tools and models and not _is_spoken(planning):
        chat = search_here(chat)
    planning.plugin_context = context = _build_plugin_context(planning)
    for plugin in planning.plugins:
        chat = plugin.change_request(chat, context)
    if chat is not planning.chat:
        planning.chat = chat
        planning.asked = resolve(chat, planning.caller, region=planning.region)


def _build_plugin_context(planning: Planning) -> PluginContext:
    models = planning.asked.resolution.models
    context = PluginContext(planning.caller, models, planning.deadline)
    if planning.refuse_early is None:
        return context
    return replace(context, refuse=partial(planning.refuse_early, copy(planning)))


def _ask_plugins(planning: Planning, chat: ChatRequest) -> Callable[[], GatewayError] | None:
    """What makes the error of a request that a plugin keeps back. They are asked once of the same
    words."""
    if chat.body == planning.passed:
        return None
    context = planning.plugin_context or _build_plugin_context(planning)
    for plugin in planning.plugins:
        if (refusal := plugin.find_refusal(chat, context)) is not None:
            return refusal
    planning.passed = chat.body
    return None


def refuse_by_plugins(planning: Planning) -> None:
    """Before somebody is paid for a request: raise what its plugins would keep it back with, which
    see it as content filters leave it."""
    chat, guard, blocked = planning.chat, planning.caller.guard, None
    if planning.plugins and guard is not None and guard.filters:
        result = apply_filters(chat, guard.filters, planning.caller.account_id)
        chat, blocked = result.chat, result.refusal
    if planning.plugins and (refusal := blocked or _ask_plugins(planning, chat)) is not None:
        raise refusal()


def _is_spoken(planning: Planning) -> bool:
    """Whether some endpoint of the models speaks the caller's own format."""
    kinds, models = frozenset({planning.format.wire}), planning.asked.resolution.models
    return any(each.serves(kinds) for model in models for each in model.endpoints)


def _hold_to_fields(planning: Planning) -> None:
    """Only upstreams of the caller's own format know these fields, and of them those that list
    them. A request that is written anew has no place for them."""
    resolved, chat = planning.asked, planning.chat
    fields, kinds = chat.native_fields, frozenset({planning.format.wire})
    endpoints = [each for model in resolved.resolution.models for each in model.endpoints]
    takers = [each for each in endpoints if each.serves(kinds) and fields <= each.taken_fields]
    if planning.loop is not None or chat.rewritten or not takers:
        text = "not beside tools, plugins or filters that the gateway runs"
        text = f"Invalid input: {text if takers else 'no endpoint takes it'}"
        raise SchemaInvalid([Issue(name, text) for name in sorted(fields)])
    planning.asked = resolved._replace(ask=resolved.ask._replace(kinds=kinds, native_fields=fields))


def _choose(planning: Planning) -> None:
    """Make the plan. One that begins with another's probe is made anew."""
    resolved, byok = planning.asked, planning.caller.byok
    conversation, models = resolved.conversation, resolved.resolution.models
    state = state_for(conversation, models, resolved.policy, byok)
    plan = select(models, resolved.ask, resolved.policy, state, random=conversation.random())
    while not (planning.is_dry_run or plan.probe is None or may_go_on(plan, conversation.patience)):
        state = state._replace(health=observation.health_snapshot())
        plan = select(models, resolved.ask, resolved.policy, state, random=conversation.random())
    planning.plan, planning.state = plan, state


def _compress(planning: Planning) -> None:
    """Shorten a conversation that is too long for every endpoint, and plan again."""
    resolved = planning.asked
    shorter = compress_request(planning.chat, planning.plan.considered, resolved.ask.output_tokens)
    if shorter is not None:
        planning.chat = shorter.chat
        planning.asked = resolved._replace(ask=read_requirements(shorter.chat))
        planning.stages.append(shorter.stage)
        _choose(planning)


def _refuse_early(request: HttpRequest, planning: Planning) -> None:
    """Before work is done for a request: what guardrails, payment and rate limits say of it."""
    guard = planning.caller.guard
    if guard is not None and guard.filters:
        blocked = apply_filters(planning.chat, guard.filters, planning.caller.account_id).refusal
        if blocked is not None:
            raise blocked()
    refuse_early(RequestProgress(_build_context(request, planning, PresetRequest(planning.chat))))


# --- What is admitted -----------------------------------------------------------------------------


def _build_context(
    request: HttpRequest, planning: Planning, read: PresetRequest, chosen_id: str | None = None
) -> RequestContext:
    """What is admitted; payer and times are those of this moment. Raises `SchemaInvalid` for a
    header of tags that is none."""
    now, started = datetime.now(UTC), time.monotonic()
    caller, chat, resolved, choice = planning.caller, planning.chat, planning.asked, planning.choice
    headers, key = read_caller_headers(request), None
    if not resolved.policy.order and (chat.session_id or not resolved.policy.sort_named):
        key = resolved.conversation.key(resolved.resolution.models)
    options, caches = None, caller.shares_cache
    if may_cache := bool(caches or read.caching or MAY_SWITCH_ON in request.META):
        options = read_cache_options(request.META, read.caching, by_default=caches)
    # An answer of another's has no metadata.
    is_repeatable = chat.body.get("temperature") == 0 and not headers.wants_metadata
    tags, tag_header = find_token_tags(request), request.META.get("HTTP_X_TAGS")
    try:
        if tag_header or chat.metadata or chat.trace:
            tags = read_tags(tag_header, chat.metadata, chat.trace, tags)
    except TagsInvalid as error:
        raise SchemaInvalid([Issue("X-Tags", f"Invalid input: {error}")]) from None
    requested = None if read.preset_id is None else read.requested
    return RequestContext(
        generation_id=chosen_id or generation_id(planning.format.id_prefix),
        caller=caller,
        payer=build_payer(caller, now, chat.user, tags),
        format=planning.format,
        chat=chat,
        demand=measure_demand(chat),
        plan=planning.plan,
        choice=choice,
        requested_model=requested or chat.named_as or choice.requested[0],
        strategy=resolved.resolution.strategy,
        root_url=settings.PUBLIC_URL or f"{request.scheme}://{request.META.get('HTTP_HOST', '')}",
        app=headers.app,
        wants_metadata=headers.wants_metadata,
        created_at=now,
        started=started,
        deadline=started + find_total_s(chat),
        betas=headers.betas,
        region=planning.region,
        refusal=planning.refusal,
        preset_id=read.preset_id,
        conversation_key=key,
        plugins=planning.plugins,
        identity=get_identity(),
        cache_options=options,
        shares_answer=(may_cache or is_repeatable or MAY_SHARE in request.META)
        and may_share(
            request.META,
            read.caching,
            is_whole=not chat.stream,
            is_repeatable=is_repeatable,
            by_default=caches,
        ),
        tags=tags,
    )


def _start_draft(context: RequestContext) -> ContentDraft | None:
    """The draft of the contents to keep, where the workspace or a destination wants them."""
    caller, is_sent = context.caller, False
    if caller.broadcasts:
        assert caller.workspace_id is not None
        is_sent = workspace_destinations.may_want_content(caller.workspace_id)
    if (caller.io_logging is None and not is_sent) or context.choice.retains_nothing:
        return None
    return start_draft(
        caller,
        context.chat,
        context.choice.policy,
        generation_id=context.generation_id,
        created_at=context.created_at,
        bytes_max=settings.GENERATION_CONTENT_BYTES,
        is_sent=is_sent,
    )


def build_payer(caller: Caller, at: datetime, user: str | None, tags: Tags) -> Payer:
    """Whom a request of this moment for an end user is charged to; its windows are pinned here."""
    assert caller.workspace_id is not None
    return Payer(
        caller.account_id,
        caller.workspace_id,
        caller.key_id,
        list_windows(at.date()),
        caller.list_budgets(user, tags),
        caller.limits_version,
        caller.limited,
    )
