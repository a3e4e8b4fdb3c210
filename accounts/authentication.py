"""From the Authorization header to a `Caller`. Only what could be a key of ours, or a token, is
looked up."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction
from django.http import HttpRequest

from accounts.caller import Caller, read_caller
from accounts.identity.issuers import IssuerSilent, TokenRefused
from accounts.identity.workloads import (
    KnownToken,
    examine,
    find_claimed_account,
    is_verified,
    proves_itself,
    recall_tags,
)
from accounts.keystring import hash_key, is_token, is_well_formed
from accounts.models import ApiKey
from accounts.rates import (
    count_management_request,
    guard_lookup,
    limit_wrong_keys,
    limit_wrong_tokens,
)
from accounts.scopes import check_address, check_scope
from accounts.services.attempts import record_attempt
from gateway.database.db import Lane, run_queries
from gateway.http.errors import (
    DatabaseGone,
    GatewayError,
    MissingCredential,
    PermissionDenied,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from gateway.http.tags import NO_TAGS, Tags
from gateway.live_settings import settings
from gateway.ttl_cache import TtlCache

log = logging.getLogger("routing.key_uses")


class KeyUses:
    """When each key was last used, noted in memory and written every few seconds, so that no
    request pays for a write. `record` writes uses by the numbers of their keys, and returns the
    keys that it is done with."""

    def __init__(self, record: Callable[[Mapping[int, datetime]], set[int]]) -> None:
        self._record = record
        self._noted: dict[int, datetime] = {}

    def note(self, key_id: int, at: datetime) -> None:
        self._noted[key_id] = at

    def write(self) -> None:
        """Write what was noted. What could not be written is noted still."""
        noted = dict(self._noted)
        if not noted:
            return
        try:
            written = run_queries(Lane.OPERATOR, partial(self._record, noted))
        except (DatabaseError, InterfaceError) as error:
            log.warning("When keys were used is written later: %s", error)
            return
        for key_id in written:
            # A key that was used meanwhile has a newer note.
            if self._noted.get(key_id) == noted[key_id]:
                del self._noted[key_id]


def record_uses(uses: Mapping[int, datetime]) -> set[int]:
    """Write when keys were last used, by number; those it wrote or knew better of.

    It waits for nobody: rows that somebody has locked are left out.
    """
    with transaction.atomic():
        rows = ApiKey.objects.filter(pk__in=uses)
        free = rows.select_for_update(skip_locked=True, no_key=True).order_by("pk")
        known = dict(free.values_list("pk", "last_used_at"))
        newer = [
            ApiKey(pk=pk, last_used_at=uses[pk])
            for pk, before in known.items()
            if before is None or before < uses[pk]
        ]
        ApiKey.objects.bulk_update(newer, ["last_used_at"], batch_size=200)
    return set(known)


uses: Final = KeyUses(record_uses)


class IssuerGone(Unavailable):
    """Nobody knows whether the token is good before its issuer answers."""

    message, default_reason = "The token's issuer does not answer", "issuer"


class KeyCache(TtlCache[str, Caller]):
    """`find(hash)` gives the caller or None."""


_REASON_CHARS_MAX: Final = 200
_CREATOR_LEFT = (
    "This API key's creator is no longer a member of the organization. "
    "Ask an organization admin to reassign the key to an active member."
)
_keys = KeyCache(
    lambda key_hash: run_queries(Lane.READ, lambda: read_caller(key_hash)),
    age_max_s=settings.API_KEY_CACHE_SECONDS,
)


def authenticate(request: HttpRequest) -> Caller:
    """The holder of the key in the request.

    Raises `MissingCredential` or `Unauthenticated` (401) and `RateLimited` (429, too many wrong
    ones from there). `PermissionDenied` (403): the creator left, or the key is for other addresses.
    `DatabaseGone` (503): the database does not answer; never a 401 for a good key.
    """
    return _find_caller(request, _parse_bearer(request.META.get("HTTP_AUTHORIZATION", "")))


def authenticate_counted(request: HttpRequest) -> Caller:
    """Any key, for what counts as managing. Raises `RateLimited` as well."""
    caller = authenticate(request)
    if caller.management:
        open_to_manager(caller, request)
    count_management_request(caller, request)
    return caller


def authenticate_optional(request: HttpRequest) -> Caller | None:
    """Like `authenticate`, but no credential at all is fine. A wrong one is not."""
    if "HTTP_AUTHORIZATION" not in request.META:
        return None
    return authenticate(request)


def authenticate_inference(request: HttpRequest, *, by_api_key_header: bool = False) -> Caller:
    """A caller that may spend: raises `Unauthenticated` for a management key.

    With `by_api_key_header` a key in `x-api-key` is as good, where there is no Authorization.
    """
    caller = _find_caller(request, _read_key(request, by_api_key_header=by_api_key_header))
    if caller.management:
        text = "Management keys cannot be used for inference"
        raise Unauthenticated(text, reason="management_key")
    return caller


def authenticate_management(request: HttpRequest) -> Caller:
    """A caller that may manage: raises `PermissionDenied` for an inference key, `RateLimited`."""
    caller = authenticate(request)
    if not caller.management:
        raise PermissionDenied("Only management keys can perform this operation")
    open_to_manager(caller, request)
    count_management_request(caller, request)
    return caller


def open_to_manager(caller: Caller, request: HttpRequest) -> None:
    """Note the use of a management key. Raises what `check_scope` raises."""
    check_scope(caller, request)
    uses.note(caller.key_id, datetime.now(UTC))


def reload_caller(caller: Caller) -> Caller:
    """The same caller read again, where its limits were found to be older ones.

    Raises as `authenticate_counted` does, should the key not open the door any more.
    """
    return _admit(lambda: _keys.find_newer(caller.key_hash, caller))


def recall_caller(request: HttpRequest, *, by_api_key_header: bool = False) -> Caller | None:
    """The key in the request as this process last read it, whatever it may do; None where nobody
    has read such a key. It asks no database."""
    try:
        key = _read_key(request, by_api_key_header=by_api_key_header)
    except MissingCredential:
        return None
    return _keys.recall(hash_key(key)) if is_well_formed(key, settings.API_KEY_PREFIX) else None


def read_key_string(request: HttpRequest) -> str | None:
    """The key's string in the Authorization header, where it could be one of ours."""
    try:
        key = _parse_bearer(request.META.get("HTTP_AUTHORIZATION", ""))
    except MissingCredential:
        return None
    return key if is_well_formed(key, settings.API_KEY_PREFIX) else None


def forget_keys() -> None:
    """Drop what this process remembers of keys."""
    _keys.forget()


def _parse_bearer(header: str) -> str:
    scheme, _, key = header.partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise MissingCredential
    return key


def _read_key(request: HttpRequest, *, by_api_key_header: bool) -> str:
    if by_api_key_header and "HTTP_AUTHORIZATION" not in request.META:
        key = str(request.META.get("HTTP_X_API_KEY", "")).strip()
        if key:
            return key
    return _parse_bearer(request.META.get("HTTP_AUTHORIZATION", ""))


def authenticate_credential(
    request: HttpRequest, credential: str
) -> tuple[Caller, KnownToken | None]:
    """The caller behind a key or a token from a request's body, and what is known of the token.
    Raises what `authenticate` raises."""
    try:
        caller = _find_caller(request, credential)
    except (Unauthenticated, PermissionDenied, RateLimited) as refusal:
        if not is_token(credential):
            _record_refusal("exchange refused", refusal)
        raise
    return caller, examine(credential) if is_token(credential) else None


def find_token_tags(request: HttpRequest) -> Tags:
    """The tags that the token in the request gives it; none for a key."""
    try:
        credential = _read_key(request, by_api_key_header=True)
    except MissingCredential:
        return NO_TAGS
    return recall_tags(credential) if is_token(credential) else NO_TAGS


def _find_caller(request: HttpRequest, key: str) -> Caller:
    if is_token(key):
        try:
            caller = guard_lookup(
                lambda: _look_up_token(key),
                limit=limit_wrong_tokens(request),
                trusted=is_verified(key),
                proves_itself=lambda: proves_itself(key),
            )
        except (Unauthenticated, PermissionDenied, RateLimited) as refusal:
            _record_refusal("refused", refusal, account_id=find_claimed_account(key))
            raise
    else:
        key_hash = hash_key(key) if is_well_formed(key, settings.API_KEY_PREFIX) else None
        if not settings.RATE_FAILED_CREDENTIALS:
            caller = _look_up(key_hash)
        else:
            was_good = key_hash is not None and _keys.knows(key_hash)
            limit = limit_wrong_keys(request)
            caller = guard_lookup(lambda: _look_up(key_hash), limit=limit, trusted=was_good)
    if caller.allowed_networks is not None:
        check_address(caller.allowed_networks, request)
    return caller


def _record_refusal(action: str, refusal: GatewayError, *, account_id: UUID | None = None) -> None:
    reason = str(refusal.__cause__ or refusal.text)[:_REASON_CHARS_MAX]
    # A part of the token may stand in it.
    clean = "".join(each if each.isprintable() else "?" for each in reason)
    record_attempt(action, object_type="token", account_id=account_id, reason=clean)


def _look_up_token(token: str) -> Caller:
    """Raises `IssuerGone` as well."""
    try:
        key_hash = examine(token).key_hash
    except TokenRefused as error:
        raise Unauthenticated from error
    except IssuerSilent as error:
        raise IssuerGone from error
    except (DatabaseError, InterfaceError) as error:
        raise DatabaseGone from error
    return _look_up(key_hash)


def _look_up(key_hash: str | None) -> Caller:
    if key_hash is None:
        raise Unauthenticated
    return _admit(lambda: _keys.find(key_hash))


def _admit(find: Callable[[], Caller | None]) -> Caller:
    try:
        caller = find()
    except (DatabaseError, InterfaceError) as error:
        raise DatabaseGone from error
    if caller is None:
        raise Unauthenticated
    if not caller.is_usable(datetime.now(UTC)):
        # For its holder's records; a caller reads the same of every wrong key.
        raise Unauthenticated(reason="key_disabled" if caller.disabled else "key_expired")
    if caller.creator_left:
        raise PermissionDenied(_CREATOR_LEFT, reason="creator_left")
    return caller
