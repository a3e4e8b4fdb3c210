"""A decisions body (inference reference 6.1)."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from routing.formats.chat.schema import SESSION_ID_CHARS_MAX, Trace
from routing.formats.fields import ONE_KIND, REQUIRED, NonEmpty, Tagged, tolerant_checker
from routing.formats.provider_preferences import ProviderField

USER_CHARS_MAX: Final = 256
QUESTIONS_MAX: Final = 1_000
LABELS_MAX: Final = 255
LEVELS_MIN: Final = 2
LEVELS_MAX: Final = 10

State = Annotated[str | dict[str, Any] | list[Any], ONE_KIND]
Instructions = Annotated[NonEmpty | dict[str, Any] | list[Any], ONE_KIND]
Criterion = Annotated[str | dict[str, Any] | list[Any], ONE_KIND]


class NoulCriteria(TypedDict, total=False):
    true: Annotated[Criterion, REQUIRED]
    false: Annotated[Criterion, REQUIRED]


class NoulQuestion(TypedDict, total=False):
    type: Annotated[Literal["noul"], REQUIRED]
    instructions: Annotated[Instructions, REQUIRED]
    criteria: NoulCriteria


class ChoiceQuestion(TypedDict, total=False):
    type: Annotated[Literal["choice"], REQUIRED]
    instructions: Annotated[Instructions, REQUIRED]
    criteria: Annotated[
        dict[str, Criterion | None], Field(min_length=1, max_length=LABELS_MAX), REQUIRED
    ]


class ScoreQuestion(TypedDict, total=False):
    type: Annotated[Literal["score"], REQUIRED]
    instructions: Annotated[Instructions, REQUIRED]
    criteria: Annotated[
        list[Criterion], Field(min_length=LEVELS_MIN, max_length=LEVELS_MAX), REQUIRED
    ]


Question = Annotated[NoulQuestion | ChoiceQuestion | ScoreQuestion, Tagged("type")]
Questions = Annotated[
    dict[NonEmpty, Question], Field(min_length=1, max_length=QUESTIONS_MAX), REQUIRED
]


class DecisionsBody(TypedDict, total=False):
    """Every named parameter; keys without a rule are allowed and ignored."""

    model: Annotated[str, Field(min_length=1), REQUIRED]
    state: Annotated[State, REQUIRED]
    questions: Questions
    provider: ProviderField | None
    preset: str
    session_id: Annotated[str, Field(max_length=SESSION_ID_CHARS_MAX)]
    trace: Trace
    user: Annotated[str, Field(max_length=USER_CHARS_MAX)]


check_decisions = tolerant_checker(DecisionsBody)
