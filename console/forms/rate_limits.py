"""Rate limits of a key or a workspace as forms: those of all its requests, and of parts of them."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from django import forms
from django.http import Http404
from pydantic import ValidationError

from accounts.admin.fields import WeightsField
from accounts.views.schemas.fields import resolve_rate_limits
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.limits.rules import (
    FIELDS,
    FIGURE_MAX,
    FIGURES,
    LIMITS_MAX,
    RateLimit,
    is_fitting_burst,
)
from gateway.limits.weights import merge_weights

# As columns keep them.
Limits = Sequence[JsonObject] | None
LIMIT_FIELDS: Final = (*FIELDS, "weights")
_PARTS: Final = [
    ("model", "model"),
    ("provider", "provider"),
    ("user", "end user"),
    ("tag", "tag"),
]


def _build_figure(label: str) -> forms.IntegerField:
    return forms.IntegerField(
        label=label, required=False, min_value=1, max_value=FIGURE_MAX, help_text="Empty: no limit."
    )


class FiguresForm(forms.Form):
    """How much may be asked for."""

    requests_per_minute = _build_figure("Requests per minute")
    requests_per_day = _build_figure("Requests per day")
    tokens_per_minute = _build_figure("Tokens per minute")
    concurrent = _build_figure("Requests at the same time")
    burst = _build_figure("Burst: of those per minute at once")
    weights = WeightsField(
        label="Weights of models",
        required=False,
        help_text="As how many requests one counts: acme/large=5, acme/*=2. Others count once.",
    )

    def clean_burst(self) -> int | None:
        burst: int | None = self.cleaned_data["burst"]
        per_minute = self.cleaned_data.get("requests_per_minute")
        if burst is not None and not is_fitting_burst(burst, per_minute):
            raise forms.ValidationError(
                "No more than the requests per minute, and no less than a sixtieth of them."
            )
        return burst

    def clean_weights(self) -> dict[str, int] | None:
        weights: dict[str, int] | None = self.cleaned_data["weights"]
        if weights and all(self.cleaned_data.get(name) is None for name in FIGURES):
            raise forms.ValidationError("There is no limit for them to count in.")
        return weights

    def read_figures(self) -> JsonObject:
        cleaned = self.cleaned_data
        return {name: cleaned[name] for name in LIMIT_FIELDS if cleaned[name] is not None}

    def read_rate_limits(self, before: Limits = None) -> list[JsonObject] | None:
        """The column with what the form says of all requests; limits with a scope stay."""
        scoped = [each for each in before or () if each.get("scope")]
        figures = self.read_figures()
        return ([figures, *scoped] if figures else scoped) or None


class ScopedLimitForm(FiguresForm):
    """A rate limit that counts a part of the requests."""

    part = forms.ChoiceField(label="It counts requests of one", choices=_PARTS)
    value = forms.CharField(
        max_length=600,
        label="Which one",
        help_text="An id, a slug, or a tag as name=value. With * each end user, with name=* each "
        "value has a count of their own.",
    )

    field_order = ("part", "value", *LIMIT_FIELDS)

    def __init__(self, data: Any = None) -> None:
        # The form of the limits of all requests has fields of the same names on the same page.
        super().__init__(data, auto_id="part_%s")

    def add_to(self, limits: Limits) -> list[JsonObject] | None:
        """The column with this limit; None, with the errors in the form, where it is none."""
        cleaned = self.cleaned_data
        if len(limits or ()) >= LIMITS_MAX:
            self.add_error(None, f"There are {LIMITS_MAX} limits, and no more can be kept.")
            return None
        try:
            limit = RateLimit.model_validate(
                {"scope": {cleaned["part"]: cleaned["value"]}, **self.read_figures()}
            )
            return resolve_rate_limits([*(limits or ()), limit.model_dump(exclude_none=True)])
        except ValidationError as error:
            self.add_error(None, str(error.errors()[0]["msg"]))
        except SchemaInvalid as error:
            self.add_error("value", error.text)
        return None


class ScopedChange(NamedTuple):
    """The column after a limit was added or removed; or the form with what is wrong."""

    limits: list[JsonObject] | None
    wrong: ScopedLimitForm | None = None


def read_scoped_change(limits: Limits, data: Any) -> ScopedChange:
    """What the form of one more limit says, or the button beside one. Raises `Http404` for a button
    that is not there."""
    before = list(limits or ())
    if removed := data.get("remove", ""):
        left = [each for place, each in enumerate(before) if str(place) != removed]
        if len(left) == len(before):
            raise Http404
        return ScopedChange(left or None)
    form = ScopedLimitForm(data)
    changed = form.add_to(before) if form.is_valid() else None
    return ScopedChange(changed, form if changed is None else None)


def find_whole_limit(limits: Limits) -> JsonObject:
    """What holds for all requests: of several limits without a scope the smaller figures, and the
    larger weights."""
    whole = [each for each in limits or () if not each.get("scope")]
    given = {name: [each[name] for each in whole if each.get(name)] for name in FIELDS}
    found: JsonObject = {name: min(figures) for name, figures in given.items() if figures}
    pairs = [pair for each in whole for pair in each.get("weights", {}).items()]
    if pairs:
        found["weights"] = merge_weights(pairs)
    return found


def list_scoped_limits(limits: Limits) -> list[tuple[int, str]]:
    """The limits with a scope, by their places, in words."""
    found = []
    for place, limit in enumerate(limits or ()):
        if limit.get("scope"):
            scope = ", ".join(f"{name} {value}" for name, value in limit["scope"].items())
            found.append((place, f"{scope}: {describe_figures(limit)}"))
    return found


def describe_figures(limit: JsonObject) -> str:
    named = ((name, limit[name]) for name in FIELDS if name in limit)
    words = [f"{figure:,} {name.replace('_', ' ')}" for name, figure in named]
    words += [f"{name} counts {weight:,}" for name, weight in limit.get("weights", {}).items()]
    return ", ".join(words)
