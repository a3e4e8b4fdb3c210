"""Reasoning: the request fields and what they add up to, and the details that clients replay."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from routing.entities.efforts import Effort
from routing.formats.fields import REQUIRED, WHOLE, Integer, Tagged

ReasoningBudget = Annotated[int, Field(ge=0), WHOLE]


class ReasoningField(TypedDict, total=False):
    effort: Effort | None
    summary: Literal["auto", "concise", "detailed"] | None
    max_tokens: ReasoningBudget | None
    exclude: bool
    enabled: bool | None


class ToolReasoningField(TypedDict, total=False):
    """The shorter form that server tools take."""

    effort: Effort | None
    max_tokens: ReasoningBudget | None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What `reasoning`, `reasoning_effort` and `include_reasoning` ask for together.

    `effort` already counts `enabled`: true alone is "medium", false is "none". A given
    `max_tokens` budget wins over the effort wherever budgets are supported.
    """

    effort: Effort | None = None
    max_tokens: int | None = None
    exclude: bool = False
    enabled: bool | None = None
    summary: str | None = None

    @property
    def is_off(self) -> bool:
        """Whether the model is not to reason at all."""
        return self.max_tokens == 0 or (self.effort == "none" and self.max_tokens is None)


def resolve_reasoning(
    field: ReasoningField | None, *, effort: Effort | None, include: bool | None
) -> Reasoning | None:
    """Fold the object and its two shorthands into one. None when the caller gave none of them."""
    if field is None and effort is None and include is None:
        return None
    fields: ReasoningField = field or {}
    enabled = fields.get("enabled")
    budget = fields.get("max_tokens")
    effort = fields.get("effort") or effort
    if enabled is False:
        effort = "none"
    elif enabled and effort is None and budget is None:
        effort = "medium"
    return Reasoning(
        effort=effort,
        max_tokens=budget,
        exclude=fields.get("exclude", include is False),
        enabled=enabled,
        summary=fields.get("summary"),
    )


class _Detail(TypedDict, total=False):
    id: str | None
    format: str | None
    index: Integer


class TextDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.text"], REQUIRED]
    text: str | None
    signature: str | None


class SummaryDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.summary"], REQUIRED]
    summary: Annotated[str, REQUIRED]


class EncryptedDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.encrypted"], REQUIRED]
    data: Annotated[str, REQUIRED]


class ServerToolCallDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.server_tool_call"], REQUIRED]
    tool_name: Annotated[str, REQUIRED]
    arguments: Any
    result: Any
    tool_call_id: str | None


ReasoningDetail = Annotated[
    TextDetail | SummaryDetail | EncryptedDetail | ServerToolCallDetail,
    Tagged("type", opaque=True),
]
