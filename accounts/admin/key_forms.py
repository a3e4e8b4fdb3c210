"""Forms of API keys: making one, and changing what may change."""

from datetime import UTC, datetime
from typing import Any

from django import forms

from accounts.admin.fields import UsdField
from accounts.models import ApiKey, Membership, Workspace
from gateway.admin import Form
from gateway.http.jsonio import usd_text

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
        if "account" in said and "workspace" in said:
            self._check_workspace(said)
            self._check_creator(said)
        return said

    def _check_workspace(self, said: dict[str, Any]) -> None:
        workspace = said["workspace"]
        if said.get("kind") == ApiKey.Kind.MANAGEMENT:
            if workspace is not None:
                self.add_error("workspace", "A management key has no workspace.")
        elif workspace is None:
            said["workspace"] = Workspace.objects.filter(
                account=said["account"], is_default=True
            ).first()
        elif workspace.account_id != said["account"].pk:
            self.add_error("workspace", "This workspace belongs to another account.")

    def _check_creator(self, said: dict[str, Any]) -> None:
        creator = said.get("creator")
        members = Membership.objects.filter(account=said["account"], user=creator)
        if creator is not None and not members.exists():
            self.add_error("creator", "This person is no member of the account.")


class KeyForm(Form):
    """What may change of a key; the limit applies to what is already counted."""

    limit_usd = UsdField(label="Limit in USD", required=False, min_value=0, help_text=_LIMIT_HELP)

    class Meta:
        model = ApiKey
        fields = ("name", "limit_usd", "limit_reset", "include_byok_in_limit", "disabled")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        limit_nano = self.instance.limit_nano
        # Someone who may only look gets the page without the field.
        if limit_nano is not None and "limit_usd" in self.fields:
            self.fields["limit_usd"].initial = usd_text(limit_nano)
