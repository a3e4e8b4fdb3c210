"""Erasing one end user: what he asked and was answered goes, and so does what names him.

Higher apps that keep something of end users register what erases it.

Amounts, tokens and times stay: they are the account's books. A day of generations is a few short
transactions, so an account of any size can go on meanwhile. What is erased matches no more, and
whoever was interrupted asks again.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL

from accounts.models import ApiKey, RepeatableRequest
from accounts.services.end_user_budgets import erase_end_user_budget
from accounts.services.records import Actor, record_change
from gateway.database.db import Lane, run_queries
from gateway.end_users import hash_user, user_salt
from routing.entities.tags import Tags
from routing.history.dialect import dialect
from routing.history.models import GenerationContent, GenerationFact, GenerationFeedback
from routing.history.spans import DAY, day_of
from routing.metering.models import Generation

_AT_ONCE: Final = 500
# Of a record's detail what tells of a person's machine or whereabouts.
_PERSONAL: Final = ("http_referer", "user_agent", "request_id")


@dataclass(frozen=True)
class EndUser:
    """An end user of an account, by the hash that history knows; `name` is the raw id, if told."""

    account_id: UUID
    hash: str
    name: str | None = None

    @classmethod
    def named(cls, account_id: UUID, name: str) -> "EndUser":
        return cls(account_id, hash_user(account_id, name), name)

    def matches(self, column: str) -> Any:
        """The condition that a column is his raw id."""
        if self.name is not None:
            return Q(**{column: self.name})
        sql = f"{column} IS NOT NULL AND {dialect().hash_text('%s', column)} = %s"
        return RawSQL(sql, (user_salt(self.account_id), self.hash), BooleanField())  # noqa: S611 - A column of ours and placeholders.


@dataclass
class ErasedRows:
    """How many rows lost something: records, figures for analytics, contents, answers kept for
    repeated requests, comments of feedback, keys that were made for him, and interns'
    conversations."""

    generations: int = 0
    facts: int = 0
    contents: int = 0
    kept_answers: int = 0
    comments: int = 0
    keys: int = 0
    sessions: int = 0


_erase_sessions: list[Callable[[EndUser], int]] = []


def register_session_eraser(erase: Callable[[EndUser], int]) -> None:
    """`erase` blanks conversations of a higher app that are named after an end user, and returns
    how many; it runs in the operators' lane."""
    _erase_sessions[:] = [erase]


def erase_end_user(user: EndUser, *, by: Actor) -> ErasedRows:
    """Erase an end user, and write an audit record; again it finds nothing more.

    Each step is queries of their own in the operators' lane.
    """
    erased = ErasedRows()
    day = run_queries(Lane.OPERATOR, partial(_find_day, user.account_id, None))
    while day is not None:
        while run_queries(Lane.OPERATOR, partial(_erase_some, user, day, erased)):
            pass
        day = run_queries(Lane.OPERATOR, partial(_find_day, user.account_id, day + DAY))
    for erase in _erase_sessions:
        erased.sessions += run_queries(Lane.OPERATOR, partial(erase, user))
    run_queries(Lane.OPERATOR, partial(erase_end_user_budget, user.account_id, user.hash))
    run_queries(Lane.OPERATOR, partial(_erase_keys, user, erased, by))
    return erased


def _find_day(account_id: UUID, start: datetime | None) -> datetime | None:
    """The first day, not before `start`, on which the account has generations or figures of some:
    either may be there without the other."""
    records = Generation.objects.filter(account_id=account_id)
    facts = GenerationFact.objects.filter(account_id=account_id)
    if start is not None:
        records, facts = records.filter(created_at__gte=start), facts.filter(at__gte=start)
    first = [
        *records.order_by("created_at").values_list("created_at", flat=True)[:1],
        *facts.order_by("at").values_list("at", flat=True)[:1],
    ]
    return day_of(min(first)) if first else None


def _erase_some(user: EndUser, day: datetime, erased: ErasedRows) -> bool:
    """Erase up to `_AT_ONCE` generations of a day; False where none was left."""
    with transaction.atomic():
        rows = list(_select_generations(user, day)[:_AT_ONCE])
        ids = [row.pk for row in rows]
        for row in rows:
            row.external_user = row.session_id = None
            row.detail = _erase_detail(row.detail, user)
        Generation.objects.bulk_update(rows, ["external_user", "session_id", "detail"])
        facts = GenerationFact.objects.filter(
            account_id=user.account_id,
            at__gte=day,
            at__lt=day + DAY,
            external_user=user.hash,
        )
        erased.generations += len(rows)
        tagged = list(facts.filter(tags__isnull=False).only("tags"))
        for fact in tagged:
            fact.tags = _erase_tags(fact.tags or {}, user)
        GenerationFact.objects.bulk_update(tagged, ["tags"], batch_size=_AT_ONCE)
        erased.facts += facts.update(external_user="")
        if ids:
            contents = GenerationContent.objects.filter(pk__in=ids)
            erased.contents += contents.delete()[0]
            answers = RepeatableRequest.objects.filter(generation_id__in=ids)
            erased.kept_answers += answers.exclude(sealed_answer=None).update(
                sealed_answer=None, answer_until=None
            )
            feedback = GenerationFeedback.objects.filter(generation_id__in=ids)
            erased.comments += feedback.exclude(comment="").update(comment="")
    return len(rows) == _AT_ONCE


def _erase_detail(detail: dict[str, Any], user: EndUser) -> dict[str, Any]:
    """Without what tells of a person, and without tags that name him."""
    kept = {name: value for name, value in detail.items() if name not in _PERSONAL}
    if "tags" in kept:
        kept["tags"] = _erase_tags(kept["tags"], user)
    return kept


def _erase_tags(tags: Tags, user: EndUser) -> Tags:
    return {
        name: value
        for name, value in tags.items()
        if hash_user(user.account_id, value) != user.hash
    }


def _select_generations(user: EndUser, day: datetime) -> QuerySet[Generation]:
    """Those that he asked for, or whose session is named after him."""
    return (
        Generation.objects.filter(
            account_id=user.account_id, created_at__gte=day, created_at__lt=day + DAY
        )
        .filter(Q(user.matches("external_user")) | Q(user.matches("session_id")))
        .only("external_user", "session_id", "detail")
        .order_by("created_at")
    )


def _erase_keys(user: EndUser, erased: ErasedRows, by: Actor) -> None:
    keys = ApiKey.objects.filter(account_id=user.account_id, external_user__isnull=False)
    pks = [
        pk
        for pk, name in keys.values_list("pk", "external_user")
        if hash_user(user.account_id, name or "") == user.hash
    ]
    with transaction.atomic():
        if pks:
            erased.keys += ApiKey.objects.filter(pk__in=pks).update(external_user=None)
        record_change(
            by=by,
            action="erased",
            object_type="end_user",
            object_id=user.hash,
            account_id=user.account_id,
            before=None,
            after=asdict(erased),
        )
