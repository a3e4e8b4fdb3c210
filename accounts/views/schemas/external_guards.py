"""External guards of guardrails: the fields of bodies and objects."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from accounts.external_guards import MODERATION_MODEL
from accounts.limit_words import ManagedBody
from accounts.ports import higher_apps
from accounts.views.schemas.fields import find_models
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.resources import ResourceObject
from gateway.http.validation import Issue

_Name = Annotated[str, Field(min_length=1, max_length=200)]


class _NewGuard(ManagedBody):
    on: Literal["input", "output", "both"] = "both"
    action: Literal["block", "flag"]
    shadow: bool = Field(False, description="It only says what it would have done.")
    timeout_ms: int = Field(2_000, ge=100, le=30_000)
    on_failure: Literal["open", "closed"] = Field(
        "closed", description="Whether a text goes on that the guard says nothing about in time."
    )


class NewModerationGuard(_NewGuard):
    """Moderations of a provider, `POST {base_url}/moderations`, asked with the gateway's key."""

    kind: Literal["moderation"]
    provider: _Name
    model: _Name = MODERATION_MODEL
    thresholds: (
        Annotated[
            dict[Annotated[str, Field(max_length=100)], Annotated[float, Field(gt=0, le=1)]],
            Field(min_length=1, max_length=100),
        ]
        | None
    ) = Field(None, description="Scores by category; without them the provider's own flags count.")


class NewDecisionGuard(_NewGuard):
    """A question to a model by the decisions of this gateway: how likely is it yes?"""

    kind: Literal["decision"]
    model: _Name
    threshold: float = Field(0.5, gt=0, le=1)
    question: Annotated[str, Field(min_length=1, max_length=4_000)] | None = Field(
        None, description="Yes is what is kept back; whether the text is unsafe if absent."
    )


def _check_kinds(guards: list[Any] | None) -> list[Any] | None:
    kinds = [each.kind for each in guards or ()]
    if len(set(kinds)) < len(kinds):
        raise PydanticCustomError("kinds", "Invalid input: expected each kind once at most")
    return guards


NewGuards = Annotated[
    list[Annotated[NewModerationGuard | NewDecisionGuard, Field(discriminator="kind")]] | None,
    AfterValidator(_check_kinds),
]


class ModerationGuard(NewModerationGuard, ResourceObject):
    """Moderations of a provider, as a guardrail has them."""


class DecisionGuard(NewDecisionGuard, ResourceObject):
    """A question to a model, as a guardrail has it."""


def resolve_guards(field: str, guards: list[JsonObject] | None) -> list[JsonObject] | None:
    """Checked guards with the slugs of providers; models keep the names that they have here. Raises
    `SchemaInvalid`."""
    resolved, issues = [], list[Issue]()
    for index, guard in enumerate(guards or ()):
        place = f"{field}.{index}"
        if guard["kind"] == "decision":
            _, wrong = find_models(place, [guard["model"]])
            issues += [Issue(f"{place}.model", each.message) for each in wrong]
            resolved.append(guard)
            continue
        slug = higher_apps().find_provider_slugs([guard["provider"]]).get(guard["provider"])
        if slug is None:
            issues.append(Issue(f"{place}.provider", "Invalid input: no provider has this name"))
        resolved.append({**guard, "provider": slug})
    if issues:
        raise SchemaInvalid(issues)
    return resolved or None
