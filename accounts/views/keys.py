"""/keys: an account's inference keys, managed with one of its management keys."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from accounts.models import ApiKey
from accounts.models.key import ApiKeyQuerySet
from accounts.services.key_limits import KeyUsage, build_zero_usage, read_usage, read_usages
from accounts.services.keys import change_key_with_usage, delete_keys, rotate_key
from accounts.services.records import Actor, key_actor
from accounts.views.bodies.key_body import read_key_body, read_key_changes, read_key_rotation
from accounts.views.bodies.key_objects import key_object
from accounts.views.key_creation import make_key
from accounts.views.key_query import KeyQuery, listed_keys, read_key_query
from accounts.views.managed import ManagedViewSet
from accounts.views.openapi.keys_description import (
    describe_key_change,
    describe_key_creation,
    describe_key_deletion,
    describe_key_list,
    describe_key_rotation,
    describe_one_key,
)
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object, read_optional_object
from gateway.http.errors import NotFound
from gateway.http.responses import json_response

T = TypeVar("T")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class KeysViewSet(ManagedViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    secret_answers = frozenset({"create", "rotate"})

    @describe_key_list
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        query = read_key_query(request.GET.dict())
        return json_response({"data": _run(lambda: _listed(caller, query))})

    @describe_key_creation
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        wanted = read_key_body(read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES))
        key, string = _run(lambda: make_key(caller, wanted))
        # Nothing was spent with it yet.
        answer = {"data": key_object(key, build_zero_usage(key.created_at)), "key": string}
        return json_response(answer, status=201)

    @describe_one_key
    def retrieve(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        keys = _keys_of(self.manager(request), key_hash)
        data = _run(lambda: _shown(keys.select_related("creator").get()))
        return json_response({"data": data})

    @describe_key_change
    def partial_update(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        caller = self.manager(request)
        keys = _keys_of(caller, key_hash)
        changes = read_key_changes(
            read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        )
        data = _run(
            lambda: _shown(*change_key_with_usage(keys=keys, changes=changes, by=key_actor(caller)))
        )
        return json_response({"data": data})

    @describe_key_deletion
    def destroy(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        caller = self.manager(request)
        keys = _keys_of(caller, key_hash)
        if not _run(lambda: delete_keys(keys=keys, by=key_actor(caller))):
            raise NotFound
        return json_response({"deleted": True})

    @describe_key_rotation
    def rotate(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        caller = self.manager(request)
        keys = _keys_of(caller, key_hash)
        body = read_optional_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        grace_s = read_key_rotation(body).grace_seconds
        return json_response(_run(lambda: _rotated(keys, grace_s, key_actor(caller))))


def _run(work: Callable[[], T]) -> T:
    """Queries about one key of the caller's account, or all; a key that is not there is 404."""
    try:
        return run_queries(Lane.READ, work)
    except ApiKey.DoesNotExist:
        raise NotFound from None


def _keys_of(caller: Caller, key_hash: str) -> ApiKeyQuerySet:
    """The account's inference key of that hash. Raises `NotFound` for what can be no hash."""
    if not _HASH.fullmatch(key_hash):
        raise NotFound
    return ApiKey.objects.inference(caller.account_id).filter(hash=key_hash)


def _listed(caller: Caller, query: KeyQuery) -> Sequence[dict[str, Any]]:
    now = datetime.now(UTC)
    keys = listed_keys(caller.account_id, query, at=now)
    usages = read_usages(keys=keys, at=now)
    return [key_object(key, usages[key.pk]) for key in keys]


def _shown(key: ApiKey, usage: KeyUsage | None = None) -> dict[str, Any]:
    return key_object(key, usage or read_usage(key=key, at=datetime.now(UTC)))


def _rotated(keys: ApiKeyQuerySet, grace_s: int, by: Actor) -> dict[str, Any]:
    key, string = rotate_key(keys=keys, grace_s=grace_s, by=by)
    return {"data": _shown(key), "key": string}
