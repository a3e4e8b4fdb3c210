"""The models that a chat request names: presets, references and routers resolved. Also what is
known of their endpoints at this moment."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from django.conf import settings

from accounts.byok import ByokEntry
from accounts.caller import Caller
from gateway.eventloop import yield_control
from gateway.http.errors import InvalidRequest, NotFound
from gateway.http.jsonio import JsonObject
from gateway.http.validation import shorten
from gateway.shared_cache import Patience
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import DECIDING, EndpointEntry, ModelEntry, Snapshot
from routing.entities.vocabulary import EMBEDDINGS
from routing.formats.chat.request import ChatRequest, list_provider_tools
from routing.metering.usage import estimate_tokens
from routing.planning.server_tools import refuse_disabled_tools, refuse_what_nothing_runs
from routing.plugins.registry import list_missing as missing_plugins
from routing.selection.auto import COST_TIERS, AutoOptions, AutoSettings, CostTier, UsableModels
from routing.selection.filters import list_filters
from routing.selection.model_references import (
    CHARS_MAX,
    EFFECTS,
    ROUTERS,
    family_of,
    parse_reference,
    preset_of,
)
from routing.selection.resolution import (
    UnknownModelReference,
    WrongKind,
    build_policy,
    find_model,
    resolve_models,
)
from routing.selection.types import EndpointState, Plan, Policy, Requirements, Resolution
from routing.serving.attempts.own_credentials import add_own_credentials
from routing.serving.request import process
from routing.serving.request.errors import UnknownModel
from routing.serving.request.stickiness import Conversation
from routing.statistics import observation, peer_sync
from routing.upstreams.wires import CHAT_KINDS

_ROUTER_OF: Final = {"auto-router": "router/auto", "auto-beta-router": "router/auto-beta"}
# The one plugin that has `pin_model`.
_PINS: Final = "auto-router"
# Of a plugin: the model that its classifier chose. Callers cannot send it.
CHOSEN_MODEL: Final = "classifier.model"
# `cost_quality_tradeoff` runs from 0, the best at any price, to 10, the cheapest.
_TRADEOFF_STEPS: Final = 11
# By what was asked for.
_REFUSES: Final = {
    "decisions": "does not answer decisions",
    "embeddings": "does not make embeddings",
}


# The wire kinds that serve a format; conversations go over each that knows them.
_KINDS: Final = {"decisions": DECIDING, "embeddings": frozenset({EMBEDDINGS})}
# Filters go over this many models at a stretch, at first, and over this many endpoints at the most.
_MODELS_AT_FIRST: Final = 8
_ENDPOINTS_AT_ONCE: Final = 400


class ResolvedRequest(NamedTuple):
    """What a request asks for: references as they were named, their models, and what it needs."""

    references: tuple[str, ...]
    ask: Requirements
    conversation: Conversation
    resolution: Resolution
    policy: Policy


def resolve(
    chat: ChatRequest,
    caller: Caller,
    *,
    dice: Callable[[], float] | None = None,
    region: str | None = None,
) -> ResolvedRequest:
    """What a request of this caller's asks of the catalogue of this moment. `dice` takes the place
    of the source that virtual routers draw from. Raises `GatewayError`."""
    references = list_references(chat, caller)
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
    snapshot, ask = catalogue.current(), read_requirements(chat)
    has_router = any(
        each not in snapshot.models and parse_reference(each).base in ROUTERS for each in references
    )
    conversation = Conversation(chat, account_id=caller.account_id, model=references[0])
    wanted = partial(build_request_policy, chat, caller, region=region)
    sticky_model = conversation.model_id() if has_router else None
    resolution = resolve_references(
        snapshot,
        references,
        chat,
        ask,
        policy=wanted if has_router else None,
        random=dice or conversation.random(b"model"),
        sticky_model=sticky_model,
    )
    return ResolvedRequest(tuple(references), ask, conversation, resolution, wanted(resolution))


def list_references(chat: ChatRequest, caller: Caller) -> list[str]:
    """Candidate models as named, in order; the workspace's default where none is named.

    Raises `InvalidRequest` where there is none, or presets are named that exclude each other, and
    `NotFound` for a preset.
    """
    references = chat.candidates or [caller.default_text_model]
    if chat.preset is not None or any("@" in reference for reference in references):
        _refuse_presets(chat.preset, references)
    if not references[0]:
        raise InvalidRequest("model: name a model, or set the workspace's default_text_model")
    return references


def resolve_references(
    snapshot: Snapshot,
    references: Sequence[str],
    chat: ChatRequest,
    ask: Requirements,
    *,
    policy: Callable[[Resolution], Policy] | None,
    random: Callable[[], float],
    sticky_model: str | None = None,
) -> Resolution:
    """The models behind the references.

    `policy` is for references that name a virtual router, which passes over models that the
    caller's provider preferences leave no endpoint; None where none does. Where a router or a
    family finds none there are none, and `no_model_error` says why. Raises `InvalidRequest` for an
    unknown model, one that does not serve chat and for `:online` where nothing searches.
    """
    try:
        resolution = resolve_models(
            snapshot,
            references,
            ask,
            auto=AutoSettings()
            if policy is None
            else _build_auto_settings(chat, ask, references, policy),
            random=random,
            sticky_model=sticky_model,
        )
    except UnknownModelReference as problem:
        raise UnknownModel(_quote_reference(chat.named_as or problem.reference)) from None
    except WrongKind as problem:
        what = _REFUSES.get(chat.format, "does not serve chat completions")
        raise InvalidRequest(f"{problem.reference} {what}") from None
    if not resolution.models and chat.named_as:
        raise UnknownModel(_quote_reference(chat.named_as))
    if chat.reasoning is not None and chat.reasoning.is_off:
        resolution = _keep_answering_without_reasoning(snapshot, references, resolution)
    if resolution.plugins:
        # The refusal that the plugin itself would get. An entry of its own has the last
        # word.
        entries = {plugin["id"]: plugin for plugin in chat.plugins}
        lacking = missing_plugins([entries.get(name, {"id": name}) for name in resolution.plugins])
        if lacking:
            raise InvalidRequest(f"server tool not available: {', '.join(lacking)}")
    return resolution


def _keep_answering_without_reasoning(
    snapshot: Snapshot, references: Sequence[str], resolution: Resolution
) -> Resolution:
    """Only the models that can answer without reasoning. Those that were named as the newest of
    their family stay, for the caller cannot know what it gets: their lowest effort is asked for.

    Raises `InvalidRequest` where none is left.
    """
    newest = [each for each in references if family_of(parse_reference(each).base) is not None]
    excused = {find_model(snapshot, each) for each in newest}
    able = [each for each in resolution.models if each in excused or not each.must_reason]
    if resolution.models and not able:
        raise InvalidRequest(
            f"reasoning: {resolution.models[0].id} cannot answer without it, ask for an effort"
        )
    return resolution._replace(models=tuple(able))


def _quote_reference(reference: str) -> str:
    return reference if len(reference) <= CHARS_MAX else shorten(reference)


def _refuse_presets(field: str | None, references: Iterable[str]) -> None:
    """What a request names of presets is under it by now; any that is left (the workspace's default
    model may name one) is found nowhere."""
    presets = [preset for reference in references if (preset := preset_of(reference))]
    slugs = {preset.slug for preset in presets}
    if field is not None and slugs - {field}:
        raise InvalidRequest("preset: differs from the preset that the model names")
    if any(":" in preset.slug for preset in presets):
        raise InvalidRequest("model: a suffix belongs before @preset/, not after")
    if field is not None or presets:
        raise NotFound(f"Preset not found: {shorten(field or presets[0].slug)}")


def find_auto_plugin(chat: ChatRequest, resolution: Resolution) -> JsonObject | None:
    """The entry in `plugins` that has a say in which model the request's virtual router chooses."""
    for each in chat.plugins:
        if _ROUTER_OF.get(each["id"]) == (resolution.virtual or "") and each.get("enabled", True):
            return each
    return None


def _build_auto_settings(
    chat: ChatRequest,
    ask: Requirements,
    references: Sequence[str],
    policy: Callable[[Resolution], Policy],
) -> AutoSettings:
    """What the routers go by."""
    names = [parse_reference(reference) for reference in references]
    # The model of the latest assistant message that says which one wrote it.
    wrote: Iterator[str] = (
        message["model"]
        for message in reversed(chat.body["messages"])
        if message["role"] == "assistant" and message.get("model")
    )
    tiers = frozenset(
        [tier for name in names for suffix in name.suffixes if (tier := EFFECTS[suffix].tier)]
    )
    return AutoSettings(
        candidates=tuple(settings.ROUTER_AUTO_MODELS),
        wishes={
            _ROUTER_OF[each["id"]]: AutoOptions(
                allowed=tuple(each.get("allowed_models", ())),
                excluded=tuple(each.get("excluded_models", ())),
                cost_tier=each.get("cost_tier") or _tier_of(each.get("cost_quality_tradeoff")),
                pinned=(
                    next(wrote, None) if each.get("pin_model") and each["id"] == _PINS else None
                )
                or each.get(CHOSEN_MODEL),
            )
            for each in chat.plugins
            if each["id"] in _ROUTER_OF and each.get("enabled", True)
        },
        usable=_build_usable_filter(
            ask,
            lambda: policy(Resolution((), "auto", admitted_tiers=tiers)),
            without_reasoning=chat.reasoning is not None and chat.reasoning.is_off,
        ),
    )


def _tier_of(tradeoff: float | None) -> CostTier:
    """The band of the older setting: the eleven steps spread evenly over the five."""
    steps_up = 0 if tradeoff is None else _TRADEOFF_STEPS - 1 - int(tradeoff)
    return COST_TIERS[steps_up * len(COST_TIERS) // _TRADEOFF_STEPS]


def _build_usable_filter(
    ask: Requirements, policy: Callable[[], Policy], *, without_reasoning: bool
) -> UsableModels:
    """Passes on the models with an endpoint left for the request."""

    @cache
    def filters() -> list[Any]:
        return [keep for _, keep in list_filters(ask, policy())]

    def passing(models: Iterable[ModelEntry]) -> Iterator[ModelEntry]:
        if without_reasoning:
            models = (model for model in models if not model.must_reason)
        for batch, endpoints in batches(
            models, lambda model: [each for each in model.by_price if each.serves(ask.kinds)]
        ):
            remaining: Sequence[EndpointEntry] = endpoints
            for keep in filters():
                remaining = keep(remaining)
            ids = {each.model_id for each in remaining}
            yield from [model for model in batch if model.id in ids]

    return passing


def batches(
    models: Iterable[ModelEntry], endpoints_of: Callable[[ModelEntry], list[EndpointEntry]]
) -> Iterator[tuple[list[ModelEntry], list[EndpointEntry]]]:
    """Some models and their endpoints at a time, more each time, as the first few mostly do. Other
    requests get their turn in between: preferences may leave nothing of a whole catalogue."""
    batch: list[ModelEntry] = []
    endpoints: list[EndpointEntry] = []
    models_max = _MODELS_AT_FIRST
    for model in models:
        batch.append(model)
        endpoints += endpoints_of(model)
        if len(batch) >= models_max or len(endpoints) >= _ENDPOINTS_AT_ONCE:
            yield batch, endpoints
            batch, endpoints, models_max = [], [], 2 * models_max
            yield_control()
    if batch:
        yield batch, endpoints


def build_request_policy(
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


def read_requirements(chat: ChatRequest) -> Requirements:
    """What the request needs of an endpoint."""
    return Requirements(
        kinds=_KINDS.get(chat.format, CHAT_KINDS),
        tools=chat.tools_given,
        input_modalities=chat.input_modalities,
        output_modalities=chat.output_modalities,
        supplied_parameters=chat.supplied_parameters,
        required_parameters=chat.required_parameters,
        prompt_tokens=estimate_tokens(max(chat.input_chars, default=chat.prompt_text_chars)),
        output_tokens=chat.max_output_tokens,
        service_tier=chat.service_tier,
    )


# A request that finds that another process is sending a probe looks again after this long. He hears
# of a probe that failed or succeeded, but not of one whose caller left.
LOOK_AGAIN_S: Final = 5.0


def state_for(
    conversation: Conversation,
    models: Sequence[ModelEntry],
    policy: Policy,
    own: Sequence[ByokEntry] = (),
) -> EndpointState:
    """The state of this moment for a request about these models, of a team with these credentials
    of its own."""
    key = conversation.key(models)
    by_session = key is not None and key.by_session
    state = EndpointState(
        figures=observation.endpoint_stats(),
        health=observation.health_snapshot(),
        sticky_by_session=by_session,
    )
    # Elsewhere it makes no difference, and asking takes time.
    if key is not None and not policy.order and (by_session or not policy.sort_named):
        last = conversation.recall(models)
        endpoint = None if last is None else last.endpoint_in(models)
        if last is not None and endpoint is not None:
            cache = last.warm_cache()
            # A session that was idle for too long is worth no more than what is cached of it.
            by_session = by_session and cache.age_s <= settings.ROUTER_STICKY_SECONDS
            state = state._replace(
                sticky=endpoint.pk, sticky_by_session=by_session, sticky_cache=cache
            )
    return (
        add_own_credentials(state, own, models, aliases=catalogue.current().aliases)
        if own
        else state
    )


def may_go_on(plan: Plan, patience: Patience | None = None) -> bool:
    """Whether a plan that begins with a probe may be carried out: one request of all processes may
    send it. If not, the endpoint counts as unstable from now on, and there is another plan to make.
    """
    if plan.probe is None:
        return True
    # First of all, so that of this process nobody else asks.
    process.health().begin_probe(plan.probe, process.now())
    # One that is alone is tried whatever the others do.
    if len(plan.order) == 1 or peer_sync.may_probe(plan.probe, patience):
        return True
    process.health().begin_probe(plan.probe, process.now(), lasts_s=LOOK_AGAIN_S)
    return False
