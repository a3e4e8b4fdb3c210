"""Forms of API keys: making one, and changing what may change."""

from datetime import UTC, datetime
from typing import Any

from django import forms

from accounts.admin.fields import UsdField
from accounts.models import Account, ApiKey, Membership, Workspace
from gateway.admin import Form
from gateway.http.jsonio import format_usd

_LIMIT_HELP = "Empty for no limit; 0 blocks every paid call."


class NewKeyForm(Form):
    """What a new key is made from. A key without a workspace manages."""

    limit_usd = UsdField(label="Limit in USD", required=False, min_value=0, help_text=_LIMIT_HELP)

    class Meta:
        model = ApiKey
        fields = (
            *("account", "kind", "workspace", "creator", "name"),
            *("limit_usd", "limit_reset", "expires_at"),
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

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        if "account" not in said or "workspace" not in said:
            return said
        account = said["account"]
        if said["workspace"] is None and said.get("kind") != ApiKey.Kind.MANAGEMENT:
            said["workspace"] = Workspace.objects.filter(account=account, is_default=True).first()
        _check_owner(self, account, said.get("kind"))
        return said


class KeyForm(Form):
    """What may change of a key; the limit applies to what is already counted."""

    limit_usd = UsdField(label="Limit in USD", required=False, min_value=0, help_text=_LIMIT_HELP)

    class Meta:
        model = ApiKey
        fields = (
            *("name", "workspace", "creator"),
            *("limit_usd", "limit_reset", "include_byok_in_limit", "disabled"),
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
        if self.instance.intern_id is not None and "workspace" in self.fields:
            self.fields["workspace"].disabled = True
            self.fields["workspace"].help_text = "An intern's key stays where the intern works."

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        _check_owner(self, self.instance.account, self.instance.kind)
        return said

    def changes(self) -> dict[str, Any]:
        """What was changed, as the key's row has it."""
        return dict(_to_column(name, self.cleaned_data[name]) for name in self.changed_data)


def _to_column(name: str, value: Any) -> tuple[str, Any]:
    match name:
        case "workspace" | "creator":
            return f"{name}_id", value.pk if value else None
        case "limit_usd":
            return "limit_nano", value
        case _:
            return name, value


def _check_owner(form: Form, account: Account, kind: str | None) -> None:
    """Workspace and creator must be the account's own, and a management key has no workspace."""
    workspace, creator = (form.cleaned_data.get(name) for name in ("workspace", "creator"))
    if kind == ApiKey.Kind.MANAGEMENT:
        if workspace is not None:
            form.add_error("workspace", "A management key has no workspace.")
    elif workspace is None:
        form.add_error("workspace", "An inference key needs a workspace.")
    elif workspace.account_id != account.pk:
        form.add_error("workspace", "This workspace belongs to another account.")
    members = Membership.objects.filter(account=account, user=creator)
    # Somebody who left already stays named until somebody else takes the key up.
    if creator is not None and "creator" in form.changed_data and not members.exists():
        form.add_error("creator", "This person is no member of the account.")
