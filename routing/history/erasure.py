"""Erasing one end user: what he asked and was answered goes, and so does what names him.

Each app that keeps something of end users registers what erases it.

Amounts, tokens and times stay: they are the account's books. It goes in short transactions, so an
account of any size can go on meanwhile. What is erased matches no more, and whoever was interrupted
asks again.
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
from accounts.services.records import Actor, record_change
from accounts.services.spend_scopes import erase_end_user_budget
from gateway.database.db import Lane, run_queries
from gateway.end_users import hash_user, user_salt
from gateway.http.tags import Tags
from routing.history.dialect import dialect
from routing.history.models import GenerationContent, GenerationFact, GenerationFeedback
from routing.metering.models import Generation

AT_ONCE: Final = 500
# So many rows of an account a query looks through at most.
_WINDOW_ROWS: Final = 50_000
# What a record's detail has of a person's machine or whereabouts.
_PERSONAL: Final = ("http_referer", "user_agent", "request_id")


@dataclass(frozen=True)
class EndUser:
    """An end user of an account, by the hash that history knows; `name` is the raw id, if known."""

    account_id: UUID
    hash: str
    name: str | None = None

    @classmethod
    def from_name(cls, account_id: UUID, name: str) -> "EndUser":
        return cls(account_id, hash_user(account_id, name), name)

    def is_named_in(self, tags: str) -> Any:
        """The condition that one of the tags in a column is his id."""
        hashed = dialect().hash_text("%s", "tag.value")
        sql = f"EXISTS (SELECT 1 FROM {dialect().tags(tags)} WHERE {hashed} = %s)"  # noqa: S608 - A column of ours and placeholders.
        return RawSQL(sql, (user_salt(self.account_id), self.hash), BooleanField())  # noqa: S611 - As above.

    def matches(self, column: str) -> Any:
        """The condition that a column is his raw id."""
        if self.name is not None:
            return Q(**{column: self.name})
        sql = f"{column} IS NOT NULL AND {dialect().hash_text('%s', column)} = %s"
        return RawSQL(sql, (user_salt(self.account_id), self.hash), BooleanField())  # noqa: S611 - A column of ours and placeholders.


@dataclass
class ErasedRows:
    """How many rows lost something. They are records, figures for analytics, contents, answers kept
    for repeated requests, and comments of feedback. They are also keys that were made for him,
    interns' conversations, and records of failed and refused requests."""

    generations: int = 0
    facts: int = 0
    contents: int = 0
    kept_answers: int = 0
    comments: int = 0
    keys: int = 0
    sessions: int = 0
    failures: int = 0


# By what they erase, which is a field of `ErasedRows`.
_erasers: dict[str, Callable[[EndUser], int]] = {}


def register_eraser(rows: str, erase: Callable[[EndUser], int]) -> None:
    """`erase` erases an end user from rows that a higher folder or app keeps, and returns how many
    lost something."""
    _erasers[rows] = erase


def erase_end_user(user: EndUser, *, by: Actor) -> ErasedRows:
    """Erase an end user, and write an audit record; again it finds nothing more.

    Each step is queries of their own in the operators' lane.
    """
    erased = ErasedRows()
    # First, because some find their rows by his generations.
    for name, erase in _erasers.items():
        setattr(erased, name, erase(user))
    generations = Generation.objects.filter(account_id=user.account_id)
    walk_rows(generations, "created_at", lambda rows: _erase_generations(user, rows, erased))
    facts = GenerationFact.objects.filter(account_id=user.account_id)
    walk_rows(facts, "at", lambda rows: _erase_facts(user, rows, erased))
    run_queries(Lane.OPERATOR, partial(erase_end_user_budget, user.account_id, user.hash))
    run_queries(Lane.OPERATOR, partial(_erase_keys, user, erased, by))
    return erased


def walk_rows(rows: QuerySet[Any], column: str, erase: Callable[[QuerySet[Any]], int]) -> None:
    """Let `erase` look through the rows in the order of their moments, a batch in a query of the
    operators' lane. It returns how many it erased, at most `AT_ONCE`."""
    end: datetime | None = None
    while True:
        left = rows if end is None else rows.filter(**{f"{column}__gt": end})
        end = run_queries(Lane.OPERATOR, partial(_find_end, left, column))
        window = left if end is None else left.filter(**{f"{column}__lte": end})
        while run_queries(Lane.OPERATOR, partial(erase, window)) == AT_ONCE:
            pass
        if end is None:
            return


def _find_end(rows: QuerySet[Any], column: str) -> datetime | None:
    """The moment of the last row of a window; None where one window holds them all."""
    moments = rows.order_by(column).values_list(column, flat=True)
    found: datetime | None = next(iter(moments[_WINDOW_ROWS - 1 : _WINDOW_ROWS]), None)
    return found


def _erase_generations(user: EndUser, window: QuerySet[Generation], erased: ErasedRows) -> int:
    """Erase those that he asked for, and those whose session is named after him."""
    with transaction.atomic():
        of_user = Q(user.matches("external_user")) | Q(user.matches("session_id"))
        found = window.filter(of_user).only("external_user", "session_id", "detail")
        rows = list(found.order_by("created_at")[:AT_ONCE])
        if not rows:
            return 0
        ids = [row.pk for row in rows]
        for row in rows:
            row.external_user = row.session_id = None
            row.detail = {
                name: value for name, value in row.detail.items() if name not in _PERSONAL
            }
            if "tags" in row.detail:
                row.detail["tags"] = erase_tags(row.detail["tags"], user)
        Generation.objects.bulk_update(rows, ["external_user", "session_id", "detail"])
        erased.generations += len(rows)
        erased.contents += GenerationContent.objects.filter(pk__in=ids).delete()[0]
        answers = RepeatableRequest.objects.filter(generation_id__in=ids)
        erased.kept_answers += answers.exclude(sealed_answer=None).update(
            sealed_answer=None, answer_until=None
        )
        feedback = GenerationFeedback.objects.filter(generation_id__in=ids)
        erased.comments += feedback.exclude(comment="").update(comment="")
    return len(rows)


def _erase_facts(user: EndUser, window: QuerySet[GenerationFact], erased: ErasedRows) -> int:
    """Erase figures that name him, also those whose generations are gone."""
    with transaction.atomic():
        found = window.filter(external_user=user.hash).only("external_user", "tags")
        rows = list(found.order_by("at")[:AT_ONCE])
        for row in rows:
            row.external_user = ""
            row.tags = row.tags and erase_tags(row.tags, user)
        GenerationFact.objects.bulk_update(rows, ["external_user", "tags"])
    erased.facts += len(rows)
    return len(rows)


def erase_tags(tags: Tags, user: EndUser) -> Tags:
    return {
        name: value
        for name, value in tags.items()
        if hash_user(user.account_id, value) != user.hash
    }


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
