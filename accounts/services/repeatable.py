"""Requests that are to happen once, however often they are sent with one `Idempotency-Key`.

The row is the truth, in every process. The request that inserts it is carried out and owns its
lease. The others get the answer, or have to wait. Only good answers are remembered: after a refusal
the row goes, and the next one begins anew.

A process that dies leaves its row behind. A later try may take it over once its lease and the hold
of its generation have ended, unless that was charged. It then settles the old generation for
nothing, so that nothing can be charged under it any more, and goes on under a new one.
"""

import logging
import uuid
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from accounts.caller import Caller
from accounts.models import Hold, LedgerEntry, RepeatableRequest
from gateway.http.errors import Conflict
from gateway.sealing import UnsealError, seal, unseal

log = logging.getLogger("gateway")
ANSWER_BYTES_MAX: Final = 262_144
ANSWER_RETENTION: Final = timedelta(hours=1)
ROW_RETENTION: Final = timedelta(hours=24)
# A management request is over long before: a database that says nothing is given up.
_MANAGEMENT_LEASE_S: Final = 60.0
# From a charge to the row that says so it is milliseconds, with a database that answers.
_FINISH_DELAY_MAX: Final = timedelta(seconds=60)
_BATCH: Final = 500
_BATCHES_MAX: Final = 200
PURPOSE: Final = "idempotency"


class RequestIdentity(NamedTuple):
    """What is asked for: who, where, under which key, with which body. `generation_id` is what an
    inference request is going to be charged under."""

    caller: Caller
    path: str
    key: str
    body_hash: str
    generation_id: str | None = None

    @property
    def row_id(self) -> uuid.UUID:
        named = f"{self.caller.key_id}\n{self.path}\n{self.key}"
        return uuid.UUID(bytes=sha256(named.encode("utf-8", "surrogatepass")).digest()[:16])


class Claim(NamedTuple):
    """The right to carry the request out."""

    row_id: uuid.UUID
    lease_id: uuid.UUID
    generation_id: str | None


class StoredAnswer(NamedTuple):
    """What was answered the first time."""

    status: int
    body: bytes
    generation_id: str | None


class IdempotencyKeyReused(Conflict):
    """The key came with another body before."""

    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key was already used with a different request",
            metadata={"reason": "idempotency_key_reused", "retryable": False},
        )


class RequestInProgress(Conflict):
    """The first request with this key has not been answered yet."""

    def __init__(self) -> None:
        super().__init__(
            "A request with this Idempotency-Key is in progress",
            metadata={"reason": "idempotency_key_in_use", "retryable": True},
            headers={"Retry-After": "1"},
        )


class AnswerNotStored(Conflict):
    """It was carried out; its answer was not stored and cannot be given again."""

    def __init__(self, row: RepeatableRequest) -> None:
        metadata = {"reason": "answer_not_kept", "retryable": False}
        headers: dict[str, str] = {}
        if row.generation_id:
            metadata["generation_id"] = headers["X-Generation-Id"] = row.generation_id
        if row.made:
            metadata["made"] = row.made
        which = row.generation_id or row.made
        text = "The request with this Idempotency-Key was carried out, and its answer is not kept"
        super().__init__(f"{text}: {which}" if which else text, metadata=metadata, headers=headers)


def claim_request(wanted: RequestIdentity, *, now: datetime | None = None) -> Claim | StoredAnswer:
    """The right to carry a request out, or what it was answered before.

    Raises `IdempotencyKeyReused`, `RequestInProgress` and `AnswerNotStored`.
    """
    now = now or datetime.now(UTC)
    mine = Claim(wanted.row_id, uuid.uuid4(), wanted.generation_id)
    try:
        with transaction.atomic():
            RepeatableRequest.objects.create(
                id=mine.row_id,
                account_id=wanted.caller.account_id,
                api_key_id=wanted.caller.key_id,
                path=wanted.path[:200],
                body_hash=wanted.body_hash,
                lease_id=mine.lease_id,
                lease_until=_find_lease_end(wanted, now),
                generation_id=mine.generation_id,
                created_at=now,
                expires_at=now + ROW_RETENTION,
            )
    except IntegrityError:
        row = RepeatableRequest.objects.filter(pk=mine.row_id).first()
    else:
        return mine
    if row is None:
        # It was refused this very moment.
        raise RequestInProgress
    is_over = row.expires_at <= now and row.lease_until <= now
    if not is_over:
        if row.body_hash != wanted.body_hash:
            raise IdempotencyKeyReused
        if row.finished_at is not None:
            return _load_answer(row, now)
        if row.lease_until > now:
            raise AnswerNotStored(row) if _was_abandoned(row, now) else RequestInProgress()
    return _take_over(row, wanted, mine, now)


def finish_request(claim: Claim, *, status: int, body: bytes | None, made: str = "") -> None:
    """The request was carried out. `body` is None where it is not to be kept."""
    now = datetime.now(UTC)
    kept = body is not None and len(body) <= ANSWER_BYTES_MAX
    sealed = seal((body or b"").decode(), purpose=PURPOSE, row=str(claim.row_id)) if kept else None
    _select_owned(claim).update(
        finished_at=now,
        status=status,
        sealed_answer=sealed,
        answer_until=now + ANSWER_RETENTION if kept else None,
        made=made[:64],
    )


def forget_request(claim: Claim) -> None:
    """The request was refused, and nothing came of it."""
    _select_owned(claim).delete()


def delete_expired_requests(*, now: datetime) -> int:
    """Drop answers and rows whose time is over, a batch at a time. Returns how many."""
    rows = RepeatableRequest.objects
    done = 0
    for _ in range(_BATCHES_MAX):
        over = Q(sealed_answer__isnull=False, answer_until__lte=now)
        answers = list(rows.filter(over).values_list("pk", flat=True)[:_BATCH])
        old = list(rows.filter(expires_at__lte=now).values_list("pk", flat=True)[:_BATCH])
        if not answers and not old:
            break
        # Both are asked for again: a row may have been begun anew meanwhile.
        done += rows.filter(over, pk__in=answers).update(sealed_answer=None)
        done += rows.filter(pk__in=old, expires_at__lte=now).delete()[0]
    return done


def _select_owned(claim: Claim) -> QuerySet[RepeatableRequest]:
    return RepeatableRequest.objects.filter(
        pk=claim.row_id, lease_id=claim.lease_id, finished_at__isnull=True
    )


def _find_lease_end(wanted: RequestIdentity, now: datetime) -> datetime:
    """No request lives longer than a hold: its deadline is shorter (system check E001)."""
    lease_s = settings.HOLD_LEASE_SECONDS if wanted.generation_id else _MANAGEMENT_LEASE_S
    return now + timedelta(seconds=lease_s)


def _was_abandoned(row: RepeatableRequest, now: datetime) -> bool:
    """Whether it was charged some time ago: its process died before it could say so."""
    if row.generation_id is None:
        return False
    charges = LedgerEntry.objects.filter(generation_id=row.generation_id, kind="usage")
    return charges.filter(created_at__lt=now - _FINISH_DELAY_MAX).exists()


def _load_answer(row: RepeatableRequest, now: datetime) -> StoredAnswer:
    if row.sealed_answer is None or row.answer_until is None or row.answer_until <= now:
        raise AnswerNotStored(row)
    try:
        body = unseal(row.sealed_answer, purpose=PURPOSE, row=str(row.pk))
    except UnsealError:
        log.warning("An answer kept under another VAULT_MASTER_KEY cannot be told again")
        raise AnswerNotStored(row) from None
    assert row.status is not None
    return StoredAnswer(row.status, body.encode(), row.generation_id)


def _take_over(
    row: RepeatableRequest, wanted: RequestIdentity, mine: Claim, now: datetime
) -> Claim:
    """Take over what a dead process left, or what is long over."""
    with transaction.atomic():
        if row.finished_at is None and row.generation_id:
            _close_generation(row, wanted)
        moved = RepeatableRequest.objects.filter(pk=row.pk, lease_id=row.lease_id).update(
            lease_id=mine.lease_id,
            lease_until=_find_lease_end(wanted, now),
            body_hash=wanted.body_hash,
            generation_id=mine.generation_id,
            made="",
            status=None,
            sealed_answer=None,
            answer_until=None,
            finished_at=None,
            created_at=now,
            expires_at=now + ROW_RETENTION,
        )
        if not moved:
            raise RequestInProgress
    return mine


def _close_generation(row: RepeatableRequest, wanted: RequestIdentity) -> None:
    """See to it that nothing is ever charged under the old generation."""
    if Hold.objects.filter(pk=row.generation_id).exists():
        # It is freed within a minute; until then its process may still be there.
        raise RequestInProgress
    charged = LedgerEntry.objects.filter(generation_id=row.generation_id, kind="usage")
    if charged.exists():
        raise AnswerNotStored(row)
    try:
        with transaction.atomic():
            LedgerEntry.objects.create(
                account_id=row.account_id,
                workspace_id=wanted.caller.workspace_id,
                api_key_id=row.api_key_id,
                kind=LedgerEntry.Kind.USAGE,
                amount_nano=0,
                generation_id=row.generation_id,
                source="generation",
                source_ref=str(row.generation_id),
                note="given up: the process that carried it out is gone",
                created_at=datetime.now(UTC),
            )
    except IntegrityError:
        raise AnswerNotStored(row) from None
