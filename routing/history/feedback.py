"""Feedback on generations, stored for the operator. It affects nothing else."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from accounts.caller import Caller
from gateway.http.errors import NotFound
from gateway.http.resources import Body
from routing.history.models import GenerationFeedback
from routing.metering.models import Generation


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
    """Store feedback on one of the account's generations. Raises `NotFound`."""
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
