"""Fields for what people type otherwise than the tables keep it: money in USD, lists of words."""

import json
import re
from typing import Any

from django import forms
from pydantic import TypeAdapter, ValidationError

from accounts.models.budget import Enforcement
from accounts.money import usd_to_nano
from accounts.ports import higher_apps
from accounts.views.schemas import member_keys
from accounts.views.schemas.fields import RateLimits, resolve_rate_limits, resolve_weights
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import dumps
from gateway.http.validation import join_issues, list_issues
from gateway.limits.weights import WeightField

_USD_MAX = 1_000_000_000
# Any number of this length fits a row's id.
_DIGITS_MAX = 18


def build_checkboxes() -> forms.CheckboxSelectMultiple:
    """Several of a list. The class is the admin's own for lists whose labels keep their width."""
    return forms.CheckboxSelectMultiple(attrs={"class": "radiolist"})


class UsdField(forms.DecimalField):
    """USD as typed, whole nano-USD (or None) once cleaned. Initial values are USD text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_value=_USD_MAX, max_digits=19, decimal_places=9, **options)

    def clean(self, value: object) -> Any:
        usd = super().clean(value)
        return None if usd is None else usd_to_nano(usd)


class EnforcementField(forms.TypedChoiceField):
    """What a limit does when it is spent; a form that does not say it refuses requests."""

    def __init__(self, **options: Any) -> None:
        choices = Enforcement.choices
        super().__init__(
            choices=choices, required=False, initial="block", empty_value="block", **options
        )


class WordsField(forms.CharField):
    """A list of words, typed with commas or line breaks between them; None where there are none."""

    widget = forms.Textarea(attrs={"rows": 2, "cols": 90})

    def prepare_value(self, value: object) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        words = [word.strip() for word in re.split(r"[,\n]", value or "")]
        return list(dict.fromkeys(word for word in words if word)) or None

    def run_validators(self, value: object) -> None:
        """The validators of text do not suit a list."""

    def has_changed(self, initial: object, data: object) -> bool:
        return bool(self.to_python(data) != (initial or None))


class ModelsField(WordsField):
    """Names of models, their canonical slugs once cleaned; None where there are none."""

    def clean(self, value: object) -> Any:
        names = super().clean(value)
        if not names:
            return None
        known = higher_apps().find_model_slugs(names)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise forms.ValidationError(f"No model has this name: {', '.join(unknown)[:200]}")
        return list(dict.fromkeys(known[name] for name in names))


class ModelField(forms.CharField):
    """The name of a model, or nothing."""

    def clean(self, value: object) -> Any:
        name = super().clean(value)
        if name and not higher_apps().is_known_model(name):
            raise forms.ValidationError("No model has this name.")
        return name


class RateLimitsField(forms.JSONField):
    """Rate limits as the API takes them; None where there are none."""

    _limits: TypeAdapter[Any] = TypeAdapter(RateLimits)

    def __init__(self, **options: Any) -> None:
        help_text = (
            "A list of limits with requests_per_minute, requests_per_day, tokens_per_minute, "
            "concurrent and perhaps burst, weights (by model) and a scope (model, provider, user, "
            "tag); empty for none."
        )
        super().__init__(required=False, **{"help_text": help_text, **options})

    def clean(self, value: object) -> Any:
        typed = super().clean(value)
        if not typed:
            return None
        try:
            self._limits.validate_python(typed, strict=True)
            return resolve_rate_limits(typed)
        except ValidationError as error:
            raise forms.ValidationError(join_issues(list_issues(error))) from None
        except SchemaInvalid as error:
            raise forms.ValidationError(error.text) from None


class WeightsField(WordsField):
    """Weights of models in a rate limit, typed as `acme/large=5`; None where there are none."""

    _weights: TypeAdapter[Any] = TypeAdapter(WeightField)

    def prepare_value(self, value: object) -> Any:
        if isinstance(value, dict):
            value = [f"{name}={weight}" for name, weight in value.items()]
        return super().prepare_value(value)

    def clean(self, value: object) -> Any:
        words = super().clean(value)
        if not words:
            return None
        try:
            parts = [word.partition("=") for word in words]
            typed = {name.strip(): int(weight) for name, _, weight in parts}
        except ValueError:
            raise forms.ValidationError("Each is a model, = and a whole number.") from None
        try:
            weights = self._weights.validate_python(typed)
        except ValidationError as error:
            raise forms.ValidationError(join_issues(list_issues(error))) from None
        resolved, issues = resolve_weights("weights", weights)
        if issues:
            raise forms.ValidationError(join_issues(issues))
        return resolved


class MemberKeyLimitsField(forms.JSONField):
    """What keys of members have, as the API takes it; None where there is nothing."""

    def __init__(self) -> None:
        help_text = (
            "Keys that members make in the workspace have, and may ask for at most, this limit (in "
            "USD), limit_reset, allowed_models and rate_limits; empty for none."
        )
        super().__init__(required=False, help_text=help_text)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict) and "limit_nano" in value:
            # The column, and not what was typed.
            value = json.loads(dumps(member_keys.show_limits(value)))
        return super().prepare_value(value)

    def clean(self, value: object) -> Any:
        typed = super().clean(value)
        if not typed:
            return None
        try:
            return member_keys.read_limits(member_keys.NewMemberKeyLimits.read(typed).model_dump())
        except SchemaInvalid as error:
            raise forms.ValidationError(error.text) from None

    def has_changed(self, initial: object, data: object) -> bool:
        try:
            return bool(self.clean(data) != initial)
        except forms.ValidationError:
            return True


class NumbersField(WordsField):
    """A list of whole numbers, typed with commas or line breaks between them."""

    def to_python(self, value: object) -> Any:
        words = super().to_python(value)
        if words is None:
            return None
        if not all(
            word.isascii() and word.isdigit() and len(word) <= _DIGITS_MAX for word in words
        ):
            raise forms.ValidationError("Whole numbers, with commas between.")
        return [int(word) for word in words]

    def has_changed(self, initial: object, data: object) -> bool:
        try:
            return super().has_changed(initial, data)
        except forms.ValidationError:
            return True
