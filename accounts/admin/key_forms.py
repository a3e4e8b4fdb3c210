"""What an operator fills in for API keys: new ones, and what may change of them."""

from datetime import UTC, datetime
from typing import Any, Final

from django import forms

from accounts.admin.fields import (
    EnforcementField,
    ModelsField,
    RateLimitsField,
    UsdField,
    WordsField,
    build_checkboxes,
)
from accounts.models import Account, ApiKey, Membership, Workspace
from accounts.scopes import SCOPES, clean_networks
from gateway.admin import Form
from gateway.http.jsonio import JsonObject, format_usd

_LIMIT_HELP = "Empty for no limit; 0 blocks every paid call."


# What `_BoundsForm` and the key's limit have, in the order of the page.
_LIMIT: Final = ("limit_usd", "limit_reset", "limit_enforcement")
_BOUNDS: Final = (
    *("scopes", "for_workspaces", "allowed_models", "allowed_ips", "rate_limits"),
    *("hedge", "rescue"),
)


class _BoundsForm(Form):
    """What a key may do and spend, and from where."""

    limit_usd = UsdField(label="Limit in USD", required=False, min_value=0, help_text=_LIMIT_HELP)
    limit_enforcement = EnforcementField()
    scopes = forms.TypedMultipleChoiceField(
        choices=[(word, word) for word in SCOPES],
        widget=build_checkboxes(),
        required=False,
        empty_value=None,
        help_text="Management keys only; none for everything.",
    )
    for_workspaces = WordsField(
        required=False,
        help_text="Management keys only: slugs of the workspaces that it manages; empty for all, "
        "and the account itself.",
    )
    allowed_models = ModelsField(
        required=False, help_text="Inference keys only: model ids; empty for all models."
    )
    allowed_ips = WordsField(
        label="Allowed addresses",
        required=False,
        help_text="Addresses and networks, such as 192.0.2.0/24; empty for all.",
    )
    rate_limits = RateLimitsField()
    hedge = forms.NullBooleanField(
        required=False,
        label="Ask a second endpoint where the first is late",
        help_text="For requests that do not say so; unknown is as the workspace says.",
    )
    rescue = forms.NullBooleanField(
        required=False,
        label="Continue streams that break off",
        help_text="For requests that do not say so; unknown is as the workspace says.",
    )

    def read_workspaces(self, account: Account, kind: str | None) -> None:
        """Have the ids of the workspaces in the place of their slugs."""
        slugs = self.cleaned_data.get("for_workspaces")
        if not slugs:
            return
        if kind != ApiKey.Kind.MANAGEMENT:
            self.add_error("for_workspaces", "An inference key works in its own workspace.")
            return
        rows = Workspace.objects.filter(account=account, slug__in=slugs)
        found = dict(rows.values_list("slug", "pk"))
        if missing := [slug for slug in slugs if slug not in found]:
            text = f"The account has no workspace {', '.join(missing)[:200]}"
            self.add_error("for_workspaces", text)
            return
        self.cleaned_data["for_workspaces"] = [str(found[slug]) for slug in slugs]

    def clean_allowed_ips(self) -> list[str] | None:
        texts = self.cleaned_data["allowed_ips"]
        try:
            return clean_networks(texts) if texts else None
        except ValueError:
            raise forms.ValidationError("One of these is no address or network.") from None


class NewKeyForm(_BoundsForm):
    """What a new key is made from. A key without a workspace manages."""

    class Meta:
        model = ApiKey
        fields = (
            *("account", "kind", "workspace", "creator", "name"),
            *(*_LIMIT, "expires_at", *_BOUNDS),
        )
        help_texts = {
            "workspace": "Inference keys only; empty for the account's default workspace.",
            "creator": "The member the key belongs to. It stops working when that member leaves.",
        }

    def clean_expires_at(self) -> datetime | None:
        expires_at: datetime | None = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= datetime.now(UTC):
            raise forms.ValidationError("This time has passed.")
        return expires_at

    def clean(self) -> JsonObject:
        cleaned: JsonObject = super().clean() or self.cleaned_data
        if "account" not in cleaned or "workspace" not in cleaned:
            return cleaned
        account = cleaned["account"]
        if cleaned["workspace"] is None and cleaned.get("kind") != ApiKey.Kind.MANAGEMENT:
            cleaned["workspace"] = Workspace.objects.filter(
                account=account, is_default=True
            ).first()
        _check_owner(self, account, cleaned.get("kind"))
        self.read_workspaces(account, cleaned.get("kind"))
        return cleaned


class KeyForm(_BoundsForm):
    """What may change of a key; the limit applies to what is already counted."""

    class Meta:
        model = ApiKey
        fields = (
            *("name", "workspace", "creator"),
            *(*_LIMIT, "include_byok_in_limit", "disabled", *_BOUNDS),
        )
        help_texts = {
            "workspace": "A key that moves keeps its string, limit and spending.",
            "creator": "The member the key belongs to; a key whose member left is taken up by "
            "another one here.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        limit_nano = self.instance.limit_nano
        # Someone who may only look gets the page without the field.
        if limit_nano is not None and "limit_usd" in self.fields:
            self.fields["limit_usd"].initial = format_usd(limit_nano)
        if "for_workspaces" in self.fields:
            self.fields["for_workspaces"].initial = list_managed_slugs(self.instance)
        if self.instance.intern_id is not None and "workspace" in self.fields:
            self.fields["workspace"].disabled = True
            self.fields["workspace"].help_text = "An intern's key stays where the intern works."

    def clean(self) -> JsonObject:
        cleaned: JsonObject = super().clean() or self.cleaned_data
        _check_owner(self, self.instance.account, self.instance.kind)
        self.read_workspaces(self.instance.account, self.instance.kind)
        return cleaned

    def changes(self) -> JsonObject:
        """What was changed, as the key's row has it."""
        changes: JsonObject = {}
        for name in self.changed_data:
            value = self.cleaned_data[name]
            match name:
                case "workspace" | "creator":
                    changes[f"{name}_id"] = value.pk if value else None
                case "limit_usd":
                    changes["limit_nano"] = value
                case "for_workspaces":
                    changes["managed_workspaces"] = value
                case _:
                    changes[name] = value
        return changes


def list_managed_slugs(key: ApiKey) -> list[str] | None:
    """Slugs of the workspaces that a management key is for; None for all."""
    if key.managed_workspaces is None:
        return None
    rows = Workspace.objects.filter(account=key.account, pk__in=key.managed_workspaces)
    return list(rows.order_by("slug").values_list("slug", flat=True))


def _check_owner(form: Form, account: Account, kind: str | None) -> None:
    """Workspace and creator must be the account's own, and a management key has no workspace."""
    workspace, creator = (form.cleaned_data.get(name) for name in ("workspace", "creator"))
    if kind != ApiKey.Kind.MANAGEMENT and form.cleaned_data.get("scopes"):
        form.add_error("scopes", "Scopes are for management keys.")
    if kind == ApiKey.Kind.MANAGEMENT:
        if workspace is not None:
            form.add_error("workspace", "A management key has no workspace.")
        if form.cleaned_data.get("allowed_models"):
            form.add_error("allowed_models", "A management key sends no requests to models.")
    elif workspace is None:
        form.add_error("workspace", "An inference key needs a workspace.")
    elif workspace.account_id != account.pk:
        form.add_error("workspace", "This workspace belongs to another account.")
    members = Membership.objects.filter(account=account, user=creator)
    # Somebody who left already stays named until somebody else takes the key up.
    if creator is not None and "creator" in form.changed_data and not members.exists():
        form.add_error("creator", "This person is no member of the account.")
