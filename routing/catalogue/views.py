"""GET /models and what belongs to it: the catalogue as callers read it."""

import time

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from accounts.authentication import optional_caller, required_caller
from gateway.http.errors import NotFound
from gateway.http.responses import json_response
from gateway.http.viewset import LeanViewSet
from routing.catalogue import public, query
from routing.catalogue.description import (
    describe_model,
    describe_model_count,
    describe_model_endpoints,
    describe_model_list,
    describe_providers,
    describe_zdr_endpoints,
)
from routing.catalogue.entries import ModelEntry, Snapshot
from routing.catalogue.snapshot import catalogue


class CatalogueViewSet(LeanViewSet):
    """Open to everyone, but a credential that is sent must be good; see `PUBLIC_CATALOG`."""

    def snapshot(self, request: HttpRequest) -> Snapshot:
        """Check the caller and take the catalogue to answer from."""
        if settings.PUBLIC_CATALOG:
            optional_caller(request)
        else:
            required_caller(request)
        return catalogue.current()


class ModelViewSet(CatalogueViewSet):
    """Models: the list, its length, one of them, its endpoints."""

    @describe_model_list
    def list(self, request: HttpRequest) -> HttpResponse:
        snapshot = self.snapshot(request)
        found = query.page(snapshot, request.GET.dict(), path=request.path_info, now_s=time.time())
        objects = public.listed_objects(snapshot)
        return json_response(
            {
                "data": [objects[model.id] for model in found.models],
                "total_count": found.total_count,
                "links": {"next": found.next},
            }
        )

    @describe_model_count
    def count(self, request: HttpRequest) -> HttpResponse:
        snapshot = self.snapshot(request)
        return json_response({"data": {"count": query.count(snapshot, request.GET.dict())}})

    @describe_model
    def retrieve(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        model, alias = self._model(request, author, slug)
        shown = public.model_object(model)
        if alias:
            shown["alias_target"] = {"slug": model.id, "name": model.name}
        return json_response({"data": shown})

    @describe_model_endpoints
    def endpoints(self, request: HttpRequest, author: str, slug: str) -> HttpResponse:
        model, _ = self._model(request, author, slug)
        return json_response({"data": public.endpoints_object(model)})

    def _model(self, request: HttpRequest, author: str, slug: str) -> tuple[ModelEntry, bool]:
        """The listed model of that name, and whether the name is an alias."""
        reference = f"{author}/{slug}"
        model = self.snapshot(request).model(reference)
        if model is None or not model.visible or not public.published(model):
            raise NotFound(f"Model {reference[:200]} not found")
        return model, model.id != reference


class EndpointViewSet(CatalogueViewSet):
    """Endpoints across models."""

    @describe_zdr_endpoints
    def zdr(self, request: HttpRequest) -> HttpResponse:
        return json_response({"data": public.zdr_objects(self.snapshot(request))})


class ProviderViewSet(CatalogueViewSet):
    """Providers."""

    @describe_providers
    def list(self, request: HttpRequest) -> HttpResponse:
        return json_response({"data": public.provider_objects(self.snapshot(request))})
