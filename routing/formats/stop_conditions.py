"""Conditions that end a request's use of server tools (`stop_server_tools_when`)."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from routing.formats.fields import REQUIRED, Amount, Count, Integer, NonEmpty, Tagged


class StepCountIs(TypedDict, total=False):
    type: Annotated[Literal["step_count_is"], REQUIRED]
    step_count: Annotated[Count, REQUIRED]


class HasToolCall(TypedDict, total=False):
    type: Annotated[Literal["has_tool_call"], REQUIRED]
    tool_name: Annotated[NonEmpty, REQUIRED]


class MaxTokensUsed(TypedDict, total=False):
    type: Annotated[Literal["max_tokens_used"], REQUIRED]
    max_tokens: Annotated[Integer, REQUIRED]


class MaxCost(TypedDict, total=False):
    type: Annotated[Literal["max_cost"], REQUIRED]
    max_cost_in_dollars: Annotated[Amount, REQUIRED]


class FinishReasonIs(TypedDict, total=False):
    type: Annotated[Literal["finish_reason_is"], REQUIRED]
    reason: Annotated[NonEmpty, REQUIRED]


StopCondition = Annotated[
    StepCountIs | HasToolCall | MaxTokensUsed | MaxCost | FinishReasonIs, Tagged("type")
]
StopConditions = Annotated[list[StopCondition], Field(min_length=1)]
