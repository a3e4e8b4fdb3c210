"""What may be said of a workspace: its budgets, those of end users and tags, and its defaults."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from django import forms
from django.utils.text import slugify

from accounts.admin.fields import (
    EnforcementField,
    ModelField,
    ModelsField,
    UsdField,
    build_checkboxes,
)
from accounts.models import ApiKey, Workspace, WorkspaceBudget
from accounts.models.account import SAMPLING_RATE_MIN, SERVER_TOOLS
from accounts.roles import Action
from accounts.services.member_keys import describe_limit
from accounts.services.workspaces import SLUG_CHARS_MAX, SLUG_PATTERN
from accounts.views.schemas.workspace import (
    END_USER_LIMITS_MAX,
    TAG_BUDGET_PATTERN,
    TAG_BUDGETS_MAX,
)
from console.forms.rate_limits import (
    FiguresForm,
    describe_figures,
    find_whole_limit,
    list_scoped_limits,
)
from console.queries.keys import choose_workspace, list_workspaces_for_keys
from console.scope import Scope
from gateway.end_users import hash_user
from gateway.http.jsonio import JsonObject, format_usd
from gateway.limits.rules import FIGURES

# What decides who gets to see prompts and answers, and is for those alone who may read them.
_CONTENTS: Final = (
    "is_observability_io_logging_enabled",
    "io_logging_sampling_rate",
    "is_observability_broadcast_enabled",
)
RESETS: Final = [("", "Never: it is for all time"), *ApiKey.Reset.choices]


def _build_amount(label: str, **options: Any) -> UsdField:
    """More than nothing."""
    # Browsers compare steps as small as a billionth badly.
    widget = forms.NumberInput(attrs={"step": "any"})
    return UsdField(label=label, min_value=Decimal("1E-9"), widget=widget, **options)


def _build_switch(label: str, help_text: str) -> forms.BooleanField:
    return forms.BooleanField(required=False, label=label, help_text=help_text)


def fill_workspaces(field: forms.Field, scope: Scope) -> dict[str, Workspace]:
    """Let somebody choose where something of theirs is made; the workspaces by their ids."""
    rows = list_workspaces_for_keys(scope)
    workspaces = {str(each.pk): each for each in rows}
    choices = [(pk, workspace.name) for pk, workspace in workspaces.items()]
    field.choices = choices  # type: ignore[attr-defined]  # It is a choice.
    chosen = choose_workspace(scope, rows)
    field.initial = chosen and str(chosen.pk)
    return workspaces


class BudgetForm(forms.Form):
    """A budget of one interval. It holds from the moment it is saved."""

    interval = forms.ChoiceField(
        label="Interval",
        choices=WorkspaceBudget.Interval.choices,
        initial=WorkspaceBudget.Interval.MONTHLY,
    )
    limit_usd = _build_amount("Limit in USD")
    enforcement = EnforcementField(label="When it is spent")


class SettingsForm(forms.Form):
    """What holds for requests of a workspace that do not say otherwise, and what it keeps."""

    name = forms.CharField(max_length=100, label="Name")
    default_text_model = ModelField(
        max_length=200,
        required=False,
        label="Default model",
        help_text="For requests that name none.",
    )
    default_image_model = ModelField(max_length=200, required=False, label="Default image model")
    default_provider_sort = forms.TypedChoiceField(
        label="Order of providers",
        required=False,
        empty_value=None,
        choices=[("", "Balanced by price and health"), *Workspace.ProviderSort.choices],
    )
    hedge = _build_switch(
        "Ask a second endpoint where the first is late",
        "Both are charged. Requests may say otherwise.",
    )
    rescue = _build_switch(
        "Continue streams that break off", "Both parts are charged. Requests may say otherwise."
    )
    response_cache = _build_switch(
        "Answer the same requests from a cache",
        "All keys share its answers, where the gateway has the cache. Requests may say otherwise.",
    )
    is_observability_io_logging_enabled = _build_switch(
        "Keep prompts and answers", "Sealed; admins of the account can read them."
    )
    io_logging_sampling_rate = forms.FloatField(
        min_value=SAMPLING_RATE_MIN,
        max_value=1,
        label="Share of requests that are kept",
        help_text="1 keeps all of them.",
    )
    is_observability_broadcast_enabled = _build_switch(
        "Send traces to destinations", "See Settings, Destinations."
    )
    disabled_server_tools = forms.TypedMultipleChoiceField(
        choices=[(name, name.removeprefix("router:")) for name in SERVER_TOOLS],
        widget=build_checkboxes(),
        required=False,
        empty_value=None,
        label="Server tools that are off",
    )

    def __init__(self, scope: Scope, workspace: Workspace, data: Any = None) -> None:
        initial = {name: getattr(workspace, name) for name in self.base_fields}
        super().__init__(data, initial=initial)
        if not scope.allows(Action.CONTENTS):
            for name in _CONTENTS:
                self.fields[name].disabled = True
                self.fields[name].help_text = "Admins of the account change it."

    def read_changes(self) -> dict[str, Any]:
        """What the person may change."""
        return {n: value for n, value in self.cleaned_data.items() if not self.fields[n].disabled}


class MemberKeysForm(FiguresForm):
    """What each key has that a member makes in a workspace, and has at most."""

    limit_usd = UsdField(
        label="Limit of each key in USD", required=False, min_value=0, help_text="Empty: no limit."
    )
    limit_reset = forms.ChoiceField(label="The limit starts over", required=False, choices=RESETS)
    allowed_models = ModelsField(
        label="Only these models",
        required=False,
        help_text="Ids, with commas between; empty for all models.",
    )

    field_order = ("limit_usd", "limit_reset", "allowed_models", *FIGURES)

    def __init__(self, workspace: Workspace, data: Any = None) -> None:
        self._before: JsonObject = workspace.member_key_limits or {}
        limit_nano = self._before.get("limit_nano")
        initial = {
            "limit_usd": "" if limit_nano is None else format_usd(limit_nano),
            "limit_reset": self._before.get("limit_reset") or "",
            "allowed_models": self._before.get("allowed_models"),
            **find_whole_limit(self._before.get("rate_limits")),
        }
        super().__init__(data, initial=initial, auto_id="member_keys_%s")

    def build_limits(self) -> JsonObject | None:
        """The column."""
        cleaned = self.cleaned_data
        limit_nano: int | None = cleaned["limit_usd"]
        column = {
            "limit_nano": limit_nano,
            "limit_reset": None if limit_nano is None else cleaned["limit_reset"] or None,
            "allowed_models": cleaned["allowed_models"],
            "rate_limits": self.read_rate_limits(self._before.get("rate_limits")),
        }
        return None if all(each is None for each in column.values()) else column


def describe_member_limits(column: JsonObject | None) -> str:
    """What keys of members have at most, in words; empty for nothing."""
    if column is None:
        return ""
    parts = []
    if column["limit_nano"] is not None:
        parts.append(describe_limit(column["limit_nano"], column["limit_reset"]))
    if column["allowed_models"] is not None:
        parts.append(f"only {', '.join(column['allowed_models'])}")
    parts += [each for each in [describe_figures(find_whole_limit(column["rate_limits"]))] if each]
    parts += [words for _, words in list_scoped_limits(column["rate_limits"])]
    return "; ".join(parts)


class EndUserBudgetForm(forms.Form):
    """What each end user of a workspace may spend, and one of them where that differs."""

    interval = forms.ChoiceField(
        required=False,
        label="Interval",
        choices=[("", "No budget"), *ApiKey.Reset.choices],
    )
    limit_usd = _build_amount(
        "Limit of each in USD",
        required=False,
        help_text="Empty: only those with a limit of their own are held to one.",
    )
    user = forms.CharField(
        required=False,
        max_length=256,
        label="An end user who differs",
        help_text="The id as requests give it in user.",
    )
    user_limit_usd = _build_amount(
        "Their limit in USD", required=False, help_text="Empty: no limit."
    )

    def __init__(self, workspace: Workspace, data: Any = None) -> None:
        self._workspace = workspace
        self._before: JsonObject = workspace.end_user_budget or {"limits": {}}
        limit_nano = self._before.get("limit_nano")
        initial = {
            "interval": self._before.get("interval", ""),
            "limit_usd": "" if limit_nano is None else format_usd(limit_nano),
        }
        # The form of budgets has fields of the same names on the same page.
        super().__init__(data, initial=initial, auto_id="end_user_%s")

    def count_differing(self) -> int:
        """How many end users have limits of their own. Their names are kept as hashes only."""
        return len(self._before["limits"])

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("user") and self.count_differing() >= END_USER_LIMITS_MAX:
            self.add_error("user", f"{END_USER_LIMITS_MAX} end users have limits of their own.")
        return cleaned

    def build_budget(self) -> JsonObject | None:
        """The column."""
        cleaned = self.cleaned_data
        if not cleaned["interval"]:
            return None
        limits = dict(self._before["limits"])
        if cleaned["user"]:
            limits[hash_user(self._workspace.account_id, cleaned["user"])] = cleaned[
                "user_limit_usd"
            ]
        return {
            "interval": cleaned["interval"],
            "limit_nano": cleaned["limit_usd"],
            "limits": limits,
        }


class TagBudgetForm(forms.Form):
    """What requests of a workspace with a tag may spend in an interval."""

    tag = forms.RegexField(
        TAG_BUDGET_PATTERN,
        label="Tag",
        help_text="As team=blue; with team=* each value apart that has none of its own.",
        error_messages={"invalid": "Write a name, = and a value, as team=blue or team=*."},
    )
    interval = forms.ChoiceField(label="Interval", choices=ApiKey.Reset.choices)
    limit_usd = _build_amount("Limit of the tag in USD")

    def __init__(self, workspace: Workspace, data: Any = None) -> None:
        self._before: list[JsonObject] = workspace.tag_budgets or []
        super().__init__(data, auto_id="tag_%s")

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors and len(self.build_budgets(cleaned)) > TAG_BUDGETS_MAX:
            self.add_error("tag", f"A workspace has {TAG_BUDGETS_MAX} budgets of tags at most.")
        return cleaned

    def build_budgets(self, cleaned: Mapping[str, Any]) -> list[JsonObject]:
        """The column: the one of this tag and interval stands in its former one's place."""
        fresh = {
            "tag": cleaned["tag"],
            "interval": cleaned["interval"],
            "limit_nano": cleaned["limit_usd"],
        }
        place = fresh["tag"], fresh["interval"]
        others = [each for each in self._before if (each["tag"], each["interval"]) != place]
        return [*others, fresh]


class NewWorkspaceForm(forms.Form):
    """A workspace; its slug is part of what callers write."""

    name = forms.CharField(max_length=100, label="Name")
    slug = forms.RegexField(
        SLUG_PATTERN,
        max_length=SLUG_CHARS_MAX,
        label="Short name",
        required=False,
        help_text="What programs call it: small letters and digits, with single hyphens between."
        " Empty: made of the name.",
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if "name" in cleaned and not cleaned.get("slug", True):
            cleaned["slug"] = slugify(cleaned["name"]).replace("_", "-")[:SLUG_CHARS_MAX].strip("-")
            if not re.fullmatch(SLUG_PATTERN, cleaned["slug"]):
                self.add_error("slug", "None can be made of this name: choose one.")
        return cleaned
