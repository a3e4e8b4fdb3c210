"""GET /models and what belongs to it: the catalogue as callers read it."""

import time
from collections.abc import Sequence

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from accounts.authentication import authenticate, authenticate_optional
from accounts.caller import Caller
from gateway.http.errors import NotFound
from gateway.http.responses import json_response
from gateway.http.viewset import LeanViewSet
from gateway.regions import MAIN, region_of
from routing.catalogue import public, query
from routing.catalogue.listing import (
    BY_CALLS,
    NOTHING,
    LearnedStats,
    ListingRules,
    list_permitted,
    list_published,
)
from routing.catalogue.snapshot import catalogue, run_in_thread
from routing.entities.entries import ModelEntry, Snapshot
from routing.metering.popularity import popularity
from routing.selection.model_references import parse_reference
from routing.selection.resolution import find_model
from routing.statistics import observation
from routing.views.openapi.catalogue import (
    describe_model,
    describe_model_count,
    describe_model_endpoints,
    describe_model_list,
    describe_named_model,
    describe_providers,
    describe_user_models,
    describe_zdr_endpoints,
)


class CatalogueViewSet(LeanViewSet):
    """Open to everyone, but a credential that is sent must be good; see `PUBLIC_CATALOG`."""

    def caller(self, request: HttpRequest) -> Caller | None:
        """Whoever asks, None for somebody without a credential."""
        caller = (
            authenticate_optional(request) if settings.PUBLIC_CATALOG else authenticate(request)
        )
        return self.known(caller) if caller else None

    def known(self, caller: Caller) -> Caller:
        self.beside = {"user_id": caller.creator_id}
        return caller

    def learned(self, caller: Caller | None) -> LearnedStats:
        """What traffic has taught, for those who have a key."""
        if caller is None:
            return NOTHING
        return LearnedStats(observation.endpoint_stats(), observation.health_snapshot())


class ModelViewSet(CatalogueViewSet):
    """Models: the list, its length, one of them, its endpoints."""

    @describe_model_list
    def list(self, request: HttpRequest) -> HttpResponse:
        learned = self.learned(self.caller(request))
        snapshot = catalogue.current()
        return _listed(request, snapshot, snapshot.listing, learned)

    @describe_user_models
    def user(self, request: HttpRequest) -> HttpResponse:
        caller = self.known(authenticate(request))
        snapshot, rules = catalogue.current(), _rules_of(caller, region_of(request))
        models = run_in_thread(lambda: list_permitted(snapshot, rules))
        return _listed(request, snapshot, models, self.learned(caller))

    @describe_model_count
    def count(self, request: HttpRequest) -> HttpResponse:
        self.caller(request)
        number = query.count_models(catalogue.current().listing, request.GET.dict())
        return json_response({"data": {"count": number}})

    @describe_model
    def retrieve(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        self.caller(request)
        return json_response({"data": _model_object(f"{author}/{slug}")})

    @describe_named_model
    def named(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        self.caller(request)
        reference = f"{author}/{slug}"
        data = _model_object(reference)
        plain = {"id": reference, "object": "model", "created": data["created"], "owned_by": author}
        return json_response({**plain, "data": data})

    @describe_model_endpoints
    def endpoints(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        learned = self.learned(self.caller(request))
        model = _shown(f"{author}/{slug}")
        return json_response({"data": public.serialize_model_endpoints(model, learned)})


class EndpointViewSet(CatalogueViewSet):
    """Endpoints across models."""

    @describe_zdr_endpoints
    def zdr(self, request: HttpRequest) -> HttpResponse:
        learned = self.learned(self.caller(request))
        snapshot = catalogue.current()
        shown = run_in_thread(lambda: public.serialize_zdr_endpoints(snapshot, learned))
        return json_response({"data": shown})


class ProviderViewSet(CatalogueViewSet):
    """Providers."""

    @describe_providers
    def list(self, request: HttpRequest) -> HttpResponse:
        self.caller(request)
        return json_response({"data": public.serialize_providers(catalogue.current())})


def _listed(
    request: HttpRequest, snapshot: Snapshot, models: Sequence[ModelEntry], learned: LearnedStats
) -> HttpResponse:
    """One page of models. A big catalogue takes a while to look through."""
    words, path = request.GET.dict(), request.path_info
    if words.get("sort") in BY_CALLS:
        learned = learned._replace(calls=popularity.calls())
    asked = query.ModelQuery(words, time.time(), learned)

    def work() -> tuple[query.ModelPage, list[dict[str, object]]]:
        found = query.list_page(models, asked, path=path)
        return found, public.serialize_models(snapshot, found.models)

    found, objects = run_in_thread(work)
    return json_response(
        {"data": objects, "total_count": found.total_count, "links": {"next": found.next}}
    )


def _rules_of(caller: Caller, region: str) -> ListingRules:
    return ListingRules(
        allowed_providers=caller.allowed_providers,
        ignored_providers=caller.ignored_providers,
        region=None if region == MAIN else region,
        guarded=caller.guard.rules if caller.guard else None,
    )


def _model_object(reference: str) -> dict[str, object]:
    """The Model object, with what the name stands for where it is another. Raises `NotFound`."""
    model = _shown(reference)
    shown = public.serialize_model(model)
    if parse_reference(reference).base != model.id:
        shown["alias_target"] = {"slug": model.id, "name": model.name}
    return shown


def _shown(reference: str) -> ModelEntry:
    """The model of that name, which may be an alias or carry a suffix. Raises `NotFound`."""
    model = find_model(catalogue.current(), reference)
    if model is None or not model.visible or not list_published(model):
        raise NotFound(f"Model {reference[:200]} not found")
    return model
