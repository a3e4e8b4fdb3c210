"""GET /models and what belongs to it: the catalogue as callers read it."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import OpenApiParameter

from accounts.authentication import authenticate, authenticate_optional
from accounts.caller import Caller
from gateway.eventloop import run_in_thread
from gateway.http.address import MAIN_REGION, find_region
from gateway.http.errors import NotFound
from gateway.http.jsonio import JsonObject
from gateway.http.responses import json_response
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import (
    OPTIONAL_KEY,
    TEXT,
    WHOLE,
    Component,
    answer_of,
    array,
    component,
    nullable,
    obj,
)
from routing.catalogue.listing import (
    BY_CALLS,
    NOTHING,
    LearnedStats,
    ListingRules,
    list_permitted,
    list_published,
)
from routing.catalogue.query import CountQuery, ModelQuery, Now, count_models, list_page
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import ModelEntry, Snapshot
from routing.metering.popularity import popularity
from routing.selection.model_references import parse_reference
from routing.selection.resolution import find_model
from routing.statistics import observation
from routing.views.openapi.operation import describe_operation
from routing.views.schemas.catalogue import (
    EndpointObject,
    ModelObject,
    ModelWithEndpoints,
    NamedModel,
    ProviderObject,
    serialize_model,
    serialize_model_endpoints,
    serialize_models,
    serialize_providers,
    serialize_zdr_endpoints,
)

_MODEL_PAGE: Final = Component(
    "ModelPage",
    obj(
        {
            "data": array(ModelObject),
            "total_count": WHOLE,
            "links": obj({"next": nullable(TEXT)}),
        }
    ),
)
_COUNT: Final = Component("Count", obj({"data": obj({"count": WHOLE})}))
_MODEL_ENDPOINTS: Final = Component("ModelEndpoints", obj({"data": ModelWithEndpoints}))
_ENDPOINTS: Final = Component("EndpointList", obj({"data": array(EndpointObject)}))
_PROVIDERS: Final = Component("ProviderList", obj({"data": array(ProviderObject)}))
_FILTERS: Final = [component(ModelQuery)]
_MODEL_NAME: Final = [
    OpenApiParameter("author", str, OpenApiParameter.PATH, description="As in `author/slug`."),
    OpenApiParameter(
        "slug",
        str,
        OpenApiParameter.PATH,
        description="With a variant (`:free`) or suffix (`:nitro`), if any; aliases and "
        "`~author/family-latest` resolve to their model.",
    ),
]
# Most are open to everyone, but a credential that is sent must be good.
_operation = partial(describe_operation, "Models", auth=OPTIONAL_KEY)


class CatalogueViewSet(LeanViewSet):
    """Open to everyone, but a credential that is sent must be good; see `PUBLIC_CATALOG`."""

    def find_caller(self, request: HttpRequest) -> Caller | None:
        """The caller, None for one without a credential."""
        if not settings.PUBLIC_CATALOG:
            return self.authenticate(request)
        caller = authenticate_optional(request)
        if caller:
            self.beside = {"user_id": caller.creator_id}
        return caller

    def authenticate(self, request: HttpRequest) -> Caller:
        caller = authenticate(request)
        self.beside = {"user_id": caller.creator_id}
        return caller

    def read_stats(self, caller: Caller | None) -> LearnedStats:
        """What traffic has taught, for those who have a key."""
        if caller is None:
            return NOTHING
        return LearnedStats(observation.endpoint_stats(), observation.health_snapshot())


class ModelViewSet(CatalogueViewSet):
    """Models: the list, its length, one of them, its endpoints."""

    @_operation(
        "listModels",
        "List models",
        "Models that can be called; where the account filters its catalogue, those that the key "
        "may use. Filters are combined with AND, comma lists with OR.",
        _MODEL_PAGE,
        *(400, 503),
        parameters=_FILTERS,
    )
    def list(self, request: HttpRequest) -> HttpResponse:
        caller, snapshot = self.find_caller(request), catalogue.current()
        models: Sequence[ModelEntry] = snapshot.listing
        if caller is not None and caller.filters_catalogue:
            models = _list_for_caller(request, snapshot, caller)
        return _list_models(request, snapshot, models, self.read_stats(caller))

    @_operation(
        "listUserModels",
        "List models for the caller",
        "Models that the caller's account may use, with the endpoints that its provider lists "
        "leave.",
        _MODEL_PAGE,
        *(400, 503),
        auth=None,
        parameters=_FILTERS,
    )
    def user(self, request: HttpRequest) -> HttpResponse:
        caller, snapshot = self.authenticate(request), catalogue.current()
        models = _list_for_caller(request, snapshot, caller)
        return _list_models(request, snapshot, models, self.read_stats(caller))

    @_operation(
        "countModels",
        "Count models",
        "How many models have one of the output modalities.",
        _COUNT,
        *(400, 503),
        parameters=[component(CountQuery)],
    )
    def count(self, request: HttpRequest) -> HttpResponse:
        self.find_caller(request)
        number = count_models(catalogue.current().listing, request.GET.dict())
        return json_response({"data": {"count": number}})

    @_operation(
        "getModel",
        "Get a model",
        "One model, by id, alias or family.",
        answer_of(ModelObject),
        *(404, 503),
        parameters=_MODEL_NAME,
    )
    def retrieve(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        self.find_caller(request)
        return json_response({"data": _serialize_named(f"{author}/{slug}")})

    @_operation(
        "getNamedModel",
        "Get a model as OpenAI's clients read it",
        "The same model in `data`, with `id`, `object`, `created` and `owned_by` beside it.",
        component(NamedModel),
        *(404, 503),
        parameters=_MODEL_NAME,
    )
    def named_model(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        self.find_caller(request)
        reference = f"{author}/{slug}"
        data = _serialize_named(reference)
        named = NamedModel.from_row(
            None,
            id=reference,
            object="model",
            created=data["created"],
            owned_by=author,
            data=data,
        )
        return json_response(named)

    @_operation(
        "listModelEndpoints",
        "List the endpoints of a model",
        "Which providers serve the model, at which price, and how they have done lately. Without a "
        "key the statistics are null.",
        _MODEL_ENDPOINTS,
        *(404, 503),
        parameters=_MODEL_NAME,
    )
    def endpoints(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        learned = self.read_stats(self.find_caller(request))
        model = _find_published(f"{author}/{slug}")
        return json_response({"data": serialize_model_endpoints(model, learned)})


class EndpointViewSet(CatalogueViewSet):
    """Endpoints across models."""

    @_operation(
        "listZeroDataRetentionEndpoints",
        "List zero-data-retention endpoints",
        "Every endpoint that keeps nothing of what it is sent. Without a key the statistics are "
        "null.",
        _ENDPOINTS,
        503,
    )
    def zdr(self, request: HttpRequest) -> HttpResponse:
        learned = self.read_stats(self.find_caller(request))
        snapshot = catalogue.current()
        endpoints = run_in_thread(lambda: serialize_zdr_endpoints(snapshot, learned))
        return json_response({"data": endpoints})


class ProviderViewSet(CatalogueViewSet):
    """Providers."""

    @_operation(
        "listProviders",
        "List providers",
        "Who serves the models, and under which terms.",
        _PROVIDERS,
        503,
    )
    def list(self, request: HttpRequest) -> HttpResponse:
        self.find_caller(request)
        return json_response({"data": serialize_providers(catalogue.current())})


def _list_for_caller(
    request: HttpRequest, snapshot: Snapshot, caller: Caller
) -> Sequence[ModelEntry]:
    """The models that the caller may use from that host. A big catalogue takes a while."""
    region = find_region(request)
    rules = ListingRules(
        allowed_providers=caller.allowed_providers,
        ignored_providers=caller.ignored_providers,
        region=None if region == MAIN_REGION else region,
        guarded=caller.guard.rules if caller.guard else None,
    )
    return run_in_thread(lambda: list_permitted(snapshot, rules))


def _list_models(
    request: HttpRequest, snapshot: Snapshot, models: Sequence[ModelEntry], learned: LearnedStats
) -> HttpResponse:
    """One page of models. A big catalogue takes a while to look through."""
    parameters, path = request.GET.dict(), request.path_info
    if parameters.get("sort") in BY_CALLS:
        learned = learned._replace(calls=popularity.calls())
    now = Now(time.time(), learned)

    def build() -> JsonObject:
        page = list_page(models, parameters, now, path=path)
        return {
            "data": serialize_models(snapshot, page.models),
            "total_count": page.total_count,
            "links": {"next": page.next},
        }

    return json_response(run_in_thread(build))


def _serialize_named(reference: str) -> JsonObject:
    """The model's JSON, with what the name stands for where it is another. Raises `NotFound`."""
    model = _find_published(reference)
    fields = serialize_model(model)
    if parse_reference(reference).base != model.id:
        fields["alias_target"] = {"slug": model.id, "name": model.name}
    return fields


def _find_published(reference: str) -> ModelEntry:
    """The model of that name, which may be an alias or carry a suffix. Raises `NotFound`."""
    model = find_model(catalogue.current(), reference)
    if model is None or not model.visible or not list_published(model):
        raise NotFound(f"Model {reference[:200]} not found")
    return model
