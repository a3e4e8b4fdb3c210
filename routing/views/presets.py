"""/presets: settings of requests, kept under a name. Any key may read and make them, an intern's
own may only read them."""

import re
from typing import ClassVar, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_counted
from accounts.caller import Caller
from accounts.limit_words import describe_unknown_limit
from accounts.services.records import key_actor
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, PermissionDenied, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet
from routing.formats.chat.request import ChatInvalid
from routing.presets import read
from routing.presets.read import (
    resolve_scope,
    serialize_preset,
    serialize_preset_with_version,
    serialize_version,
)
from routing.presets.schema import SLUG_PATTERN, PresetContent, build_content, is_slug
from routing.presets.services import save_version
from routing.views.openapi import presets as described

# Leading zeros are a caller's own business, within reason.
_NUMBER: Final = re.compile(r"[0-9]{1,30}")
# Of the words for limits those that are fields of requests.
_MODEL_LISTS: Final = frozenset({"models"})


class _Presets(LeanViewSet):
    def caller_of(self, request: HttpRequest) -> Caller:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        return caller


class PresetsViewSet(_Presets):
    """Presets of the key's workspace; a management key sees those of the whole account."""

    @described.listing
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.caller_of(request)
        place, page = resolve_scope(caller, request.GET, lists=True), parse_page(request.GET)
        rows, total = run_queries(Lane.READ, lambda: read.list_presets(place, page))
        return json_response({"data": list(map(serialize_preset, rows)), "total_count": total})

    @described.retrieval
    def retrieve(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        caller = self.caller_of(request)
        _check_slug(slug)
        place = resolve_scope(caller, request.GET)
        row = run_queries(Lane.READ, lambda: read.find_preset(place, slug))
        return json_response({"data": serialize_preset_with_version(row)})


class _WithoutUnavailable(_Presets):
    """The lists of statuses have no 503, so a silent database is a 500."""

    def database_gone(self) -> GatewayError:
        return GatewayError()


class PresetVersionsViewSet(_WithoutUnavailable):
    """What a preset was at any time. Versions never change."""

    @described.versions
    def list(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        caller = self.caller_of(request)
        _check_slug(slug)
        place, page = resolve_scope(caller, request.GET), parse_page(request.GET)
        rows, total = run_queries(Lane.READ, lambda: read.list_versions(place, slug, page))
        return json_response({"data": list(map(serialize_version, rows)), "total_count": total})

    @described.version
    def retrieve(self, request: HttpRequest, slug: str, version: str) -> HttpResponseBase:
        caller = self.caller_of(request)
        _check_slug(slug)
        number, place = _number(version), resolve_scope(caller, request.GET)
        row = run_queries(Lane.READ, lambda: read.find_version(place, slug, number))
        return json_response({"data": serialize_version(row)})


class _Making(_WithoutUnavailable):
    """A preset, or its next version, from the body of a request."""

    body_format: ClassVar[str]

    def make(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        caller = self.caller_of(request)
        if caller.intern_id is not None:
            raise PermissionDenied
        _check_slug(slug)
        place = resolve_scope(caller, request.GET)
        body = read_object(request, bytes_max=settings.ROUTER_MAX_BODY_BYTES)
        if text := describe_unknown_limit(body, _MODEL_LISTS):
            raise SchemaInvalid([Issue("", text)])
        content = self._content(body)
        row = run_queries(
            Lane.OPERATOR,
            lambda: save_version(
                place=place,
                slug=slug,
                content=content,
                creator=caller.creator_id,
                by=key_actor(caller),
            ),
        )
        return json_response({"data": serialize_preset_with_version(row)})

    def _content(self, body: JsonObject) -> PresetContent:
        try:
            return build_content(self.body_format, body, models_max=settings.ROUTER_MAX_MODELS)
        except ChatInvalid as error:
            raise SchemaInvalid(error.issues, error_type=error.error_type) from None


class ChatPresetViewSet(_Making):
    body_format = "chat"

    @described.from_chat
    def create(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        return self.make(request, slug)


class ResponsesPresetViewSet(_Making):
    body_format = "responses"

    @described.from_responses
    def create(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        return self.make(request, slug)


class MessagesPresetViewSet(_Making):
    body_format = "messages"

    @described.from_messages
    def create(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        return self.make(request, slug)


def _check_slug(slug: str) -> None:
    if not is_slug(slug):
        text = f"Invalid string: must match pattern /{SLUG_PATTERN}/"
        raise SchemaInvalid([Issue("slug", text)])


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise SchemaInvalid([Issue("version", "Invalid input: expected int, received string")])
    if int(text) < 1:
        raise SchemaInvalid([Issue("version", "Too small: expected number to be >=1")])
    return int(text)
