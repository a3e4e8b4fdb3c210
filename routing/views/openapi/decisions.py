"""How /decisions and /systemone are described in the OpenAPI document."""

from collections.abc import Callable
from typing import Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema

from gateway.openapi.components import TEXT, USD, WHOLE, Component, add_description, obj, words
from gateway.openapi.errors import error_responses
from routing.formats.decisions import DecisionsBody
from routing.views.openapi.chat import CHAT_MEANINGS, ROUTER_METADATA
from routing.views.openapi.inference import ERROR_STATUSES, HEADERS, request_component

F = TypeVar("F", bound=Callable[..., object])

_STATUSES: Final = tuple(each for each in ERROR_STATUSES if each not in (408, 422))
_MEANINGS: Final = {
    **{name: CHAT_MEANINGS[name] for name in ("model", "provider", "preset", "trace", "user")},
    "session_id": "Groups requests for whoever looks at them later, at most 256 characters.",
    "state": "What is judged: a text, an object or an array.",
    "questions": "Questions by names of the caller's own, at most 1000. Each is judged by itself.",
}
_REQUEST: Final = request_component("DecisionsRequest", DecisionsBody, _MEANINGS)
_SHARE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_CONFIDENCE: Final = add_description(_SHARE, "How far the likeliest label is above chance.")
_NOUL: Final = Component(
    "NoulAnswer",
    obj({"type": words("noul"), "noul": add_description(_SHARE, "How likely the answer is yes.")}),
)
_CHOICE: Final = Component(
    "ChoiceAnswer",
    obj(
        {
            "type": words("choice"),
            "choice": add_description(TEXT, "The likeliest label; of equals the first."),
            "confidence": _CONFIDENCE,
            "probabilities": {"type": "object", "additionalProperties": _SHARE},
        }
    ),
)
_SCORE: Final = Component(
    "ScoreAnswer",
    obj(
        {
            "type": words("score"),
            "score": add_description({"type": "number", "minimum": 0}, "The mean level."),
            "confidence": _CONFIDENCE,
            "probabilities": {"type": "object", "additionalProperties": _SHARE},
            "legend": add_description(
                {"type": "object", "additionalProperties": True}, "The levels' criteria."
            ),
        }
    ),
)
_USAGE: Final = obj(
    {
        "input_tokens": WHOLE,
        "output_tokens": WHOLE,
        "cost": add_description(USD, "USD charged to the account, exactly."),
    }
)
_ANSWER: Final = Component(
    "DecisionsResponse",
    obj(
        {
            "id": TEXT,
            "model": add_description(TEXT, "The model that answered."),
            "provider": TEXT,
            "answers": {
                "type": "object",
                "additionalProperties": {"anyOf": [_NOUL, _CHOICE, _SCORE]},
            },
            "usage": _USAGE,
            "router_metadata": ROUTER_METADATA,
        },
        optional=("router_metadata",),
    ),
)
_QUESTIONS: Final = {
    "refund": {"type": "noul", "instructions": "Does the customer want money back?"},
    "mood": {
        "type": "score",
        "instructions": "How friendly is the customer?",
        "criteria": ["hostile", "neutral", "friendly"],
    },
    "team": {
        "type": "choice",
        "instructions": "Which team should answer?",
        "criteria": {"billing": "Money and invoices", "support": "Anything that does not work"},
    },
}


def _describe(name: str, model: str, *, summary: str, description: str) -> Callable[[F], F]:
    example = OpenApiExample(
        "Three questions",
        value={
            "model": model,
            "state": "The parcel came broken. I would like my money back, please.",
            "questions": _QUESTIONS,
        },
        request_only=True,
    )
    decorator: Callable[[F], F] = extend_schema(
        operation_id=name,
        summary=summary,
        description=description,
        tags=["Decisions"],
        parameters=HEADERS,
        request={"application/json": _REQUEST},
        examples=[example],
        responses={
            200: OpenApiResponse(_ANSWER, description="An answer to each question."),
            **error_responses(*_STATUSES),
        },
    )
    return decorator


describe_decisions = _describe(
    "createDecisions",
    "simulated/small",
    summary="Answer typed questions about a state",
    description=(
        "Each question gets an answer of its own type with probabilities: from an upstream that "
        "speaks this format, by the log-probabilities of any other model, or as numbers in JSON. "
        "A question that an endpoint does not answer is asked of the next one."
    ),
)
describe_systemone = _describe(
    "createSystemOne",
    "simulated/small",
    summary="The same, where models may be named without their author",
    description="As /api/alpha/decisions. A name without a slash means a model of one author.",
)
