"""Feedback on generations, stored for the operator. It affects nothing else."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accounts.caller import Caller
from gateway.http.errors import NotFound, SchemaInvalid
from gateway.http.validation import UNDEFINED, list_issues
from routing.history.models import GenerationFeedback
from routing.metering.models import Generation


class Feedback(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(strict=True, validate_default=True)

    generation_id: Annotated[str, Field(min_length=1)] = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.
    category: Literal[
        "latency",
        "incoherence",
        "incorrect_response",
        "formatting",
        "billing",
        "api_error",
        "other",
    ] = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.
    comment: Annotated[str, Field(max_length=GenerationFeedback.COMMENT_CHARS_MAX)] | None = None


def read_feedback(body: Mapping[str, Any]) -> Feedback:
    """Check the body. Raises `SchemaInvalid`."""
    try:
        return Feedback.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None


def store_feedback(*, caller: Caller, feedback: Feedback, at: datetime) -> GenerationFeedback:
    """Store feedback on one of the account's generations. Raises `NotFound`."""
    mine = Generation.objects.filter(
        pk=feedback.generation_id, account_id=caller.account_id, lost=False
    )
    if not mine.exists():
        raise NotFound
    return GenerationFeedback.objects.create(
        account_id=caller.account_id,
        generation_id=feedback.generation_id,
        api_key_id=caller.key_id,
        category=feedback.category,
        comment=feedback.comment or "",
        created_at=at,
    )
