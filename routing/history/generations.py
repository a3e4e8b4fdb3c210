"""Single generations: the one of a request id, and feedback on one."""

from datetime import datetime, timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

from django.db.models.fields.json import KeyTextTransform
from pydantic import ConfigDict, Field

from accounts.caller import Caller
from gateway.http.errors import NotFound
from gateway.http.request_id import read_request_time
from gateway.http.resources import Body
from routing.history.models import GenerationFeedback
from routing.metering.models import Generation

# So many of an account's records are looked at, in the order of its index by time.
_RECORDS_MAX: Final = 1_000
# From a request's arrival to the time of its record: clocks differ, and a body may come slowly.
_BEFORE: Final = timedelta(seconds=1)
_AFTER: Final = timedelta(minutes=10)


def find_generation_id(account_id: UUID, request_id: str) -> str | None:
    """Find the account's generation whose request had that id; there is no index of them, because
    every answer would pay for one. An id that the gateway made says when to look; one that its
    caller chose is looked for among the newest records."""
    rows = Generation.objects.filter(account_id=account_id, lost=False)
    made_at = read_request_time(request_id)
    if made_at is None:
        rows = rows.order_by("-created_at")
    else:
        rows = rows.filter(created_at__range=(made_at - _BEFORE, made_at + _AFTER))
        rows = rows.order_by("created_at")
    asked = rows.values_list("pk", KeyTextTransform("request_id", "detail"))[:_RECORDS_MAX]
    return next((pk for pk, own_id in asked if own_id == request_id), None)


class Feedback(Body):
    """Unknown fields are ignored."""

    model_config = ConfigDict(title="GenerationFeedback")

    generation_id: str = Field(min_length=1)
    category: Literal[
        "latency",
        "incoherence",
        "incorrect_response",
        "formatting",
        "billing",
        "api_error",
        "other",
    ]
    comment: Annotated[str, Field(max_length=GenerationFeedback.COMMENT_CHARS_MAX)] | None = None


def store_feedback(*, caller: Caller, feedback: Feedback, at: datetime) -> GenerationFeedback:
    """Store feedback on one of the account's generations, for the operator alone.

    Raises `NotFound`.
    """
    own = Generation.objects.filter(
        pk=feedback.generation_id, account_id=caller.account_id, lost=False
    )
    generation_at = own.values_list("created_at", flat=True).first()
    if generation_at is None:
        raise NotFound
    return GenerationFeedback.objects.create(
        account_id=caller.account_id,
        generation_id=feedback.generation_id,
        api_key_id=caller.key_id,
        category=feedback.category,
        comment=feedback.comment or "",
        created_at=at,
        generation_at=generation_at,
    )
