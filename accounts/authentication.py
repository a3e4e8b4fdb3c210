"""From the Authorization header to a `Caller`. Only what could be a key of ours is looked up."""

from collections.abc import Callable
from datetime import UTC, datetime

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest

from accounts.caller import Caller, read_caller
from accounts.keycache import KeyCache
from accounts.keystring import hash_of, looks_real
from accounts.rates import count_management, guarded
from gateway.database.db import Lane, run
from gateway.http.errors import (
    DatabaseGone,
    MissingCredential,
    PermissionDenied,
    Unauthenticated,
)
from gateway.live_settings import settings

_CREATOR_LEFT = (
    "This API key's creator is no longer a member of the organization. "
    "Ask an organization admin to reassign the key to an active member."
)
_keys = KeyCache(
    lambda key_hash: run(Lane.READ, lambda: read_caller(key_hash)),
    age_max_s=settings.API_KEY_CACHE_SECONDS,
)


def known_caller(request: HttpRequest) -> Caller:
    """Whoever holds the key in the request.

    Raises `MissingCredential` or `Unauthenticated` (401), `RateLimited` (429, too many wrong ones
    from there), `PermissionDenied` (403, the creator left), `DatabaseGone` (503, the database does
    not answer: never a 401 for a good key).
    """
    return _caller_of(request, _bearer(request.META.get("HTTP_AUTHORIZATION", "")))


def required_caller(request: HttpRequest) -> Caller:
    """Any key, for what counts as managing. Raises `RateLimited` as well."""
    caller = known_caller(request)
    count_management(caller, request)
    return caller


def optional_caller(request: HttpRequest) -> Caller | None:
    """Like `known_caller`, but no credential at all is fine. A wrong one is not."""
    if "HTTP_AUTHORIZATION" not in request.META:
        return None
    return known_caller(request)


def inference_caller(request: HttpRequest, *, by_api_key_header: bool = False) -> Caller:
    """A caller that may spend: raises `Unauthenticated` for a management key.

    With `by_api_key_header` a key in `x-api-key` is as good, where there is no Authorization.
    """
    caller = _caller_of(request, _api_key(request)) if by_api_key_header else known_caller(request)
    if caller.management:
        raise Unauthenticated("Management keys cannot be used for inference")
    return caller


def management_caller(request: HttpRequest) -> Caller:
    """A caller that may manage: raises `PermissionDenied` for an inference key, `RateLimited`."""
    caller = known_caller(request)
    if not caller.management:
        raise PermissionDenied("Only management keys can perform this operation")
    count_management(caller, request)
    return caller


def renewed(caller: Caller) -> Caller:
    """The same caller read again, where its limits were found to be older ones.

    Raises as `required_caller` does, should the key not open the door any more.
    """
    return _let_in(lambda: _keys.find_newer(caller.key_hash, caller))


def string_of(request: HttpRequest) -> str | None:
    """The key's string in the Authorization header, where it could be one of ours."""
    try:
        key = _bearer(request.META.get("HTTP_AUTHORIZATION", ""))
    except MissingCredential:
        return None
    return key if looks_real(key, settings.API_KEY_PREFIX) else None


def forget_keys() -> None:
    """Drop what this process remembers of keys."""
    _keys.forget()


def _bearer(header: str) -> str:
    scheme, _, key = header.partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise MissingCredential
    return key


def _api_key(request: HttpRequest) -> str:
    key = str(request.META.get("HTTP_X_API_KEY", "")).strip()
    if key and "HTTP_AUTHORIZATION" not in request.META:
        return key
    return _bearer(request.META.get("HTTP_AUTHORIZATION", ""))


def _caller_of(request: HttpRequest, key: str) -> Caller:
    key_hash = hash_of(key) if looks_real(key, settings.API_KEY_PREFIX) else None
    if not settings.RATE_FAILED_CREDENTIALS:
        return _looked_up(key_hash)
    was_good = key_hash is not None and _keys.knows(key_hash)
    return guarded(request, lambda: _looked_up(key_hash), trusted=was_good)


def _looked_up(key_hash: str | None) -> Caller:
    if key_hash is None:
        raise Unauthenticated
    return _let_in(lambda: _keys.find(key_hash))


def _let_in(find: Callable[[], Caller | None]) -> Caller:
    try:
        caller = find()
    except (DatabaseError, InterfaceError, TimeoutError) as error:
        raise DatabaseGone from error
    if caller is None or not caller.usable(datetime.now(UTC)):
        raise Unauthenticated
    if caller.creator_left:
        raise PermissionDenied(_CREATOR_LEFT)
    return caller
