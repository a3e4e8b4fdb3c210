"""Forms of a team's own credentials: bringing one, and changing what may change."""

from typing import Any

from django import forms

from accounts.admin.fields import NumbersField, WordsField
from accounts.byok import KEY_CHARS_MAX, InvalidProviderKey, clean_key
from accounts.models import Account, ApiKey, ByokCredential
from accounts.ports.known_providers import KeyTrial, is_known_provider, try_key
from accounts.services.byok import ProviderKeyRefused
from gateway.admin import Form

_FILTERS = ("allowed_models", "allowed_keys", "allowed_user_ids")
_SETTINGS = ("name", "is_fallback", "is_required", "is_byok_only", "disabled")
_HELP = {
    "is_required": "The models that it is for are not served on the gateway's own credential.",
    "is_byok_only": "Nothing of the provider is served on the gateway's own credential.",
}


def try_typed_key(provider: str, text: str) -> KeyTrial | None:
    """What the provider says of a key as it was typed; None where there is nothing to ask."""
    try:
        key = clean_key(text)
    except InvalidProviderKey:
        return None
    return try_key(provider, key) if is_known_provider(provider) else None


class _CredentialForm(Form):
    """What both pages have. `trial` is what the provider has said of the key by now: the page asks
    before its transaction begins."""

    allowed_models = WordsField(required=False, help_text="Model ids; empty for all models.")
    allowed_keys = NumbersField(
        label="Allowed keys", required=False, help_text="Numbers of keys; empty for all keys."
    )
    allowed_user_ids = WordsField(
        required=False, help_text="Ids of users whose keys may use it; empty for all keys."
    )
    trial: KeyTrial | None = None

    def allowed_hashes(self) -> list[str] | None:
        """The keys as the service names them."""
        numbers = self.cleaned_data["allowed_keys"]
        if numbers is None:
            return None
        found = dict(self._keys().filter(pk__in=numbers).values_list("pk", "hash"))
        return [found[number] for number in numbers if number in found]

    def clean_key(self) -> str:
        text: str = self.cleaned_data["key"]
        try:
            return clean_key(text) if text else ""
        except InvalidProviderKey:
            raise forms.ValidationError("Visible ASCII characters or a JSON object.") from None

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        numbers, account = said.get("allowed_keys"), self._account()
        if numbers and account and self._keys().filter(pk__in=numbers).count() != len(numbers):
            self.add_error("allowed_keys", "One of these is no key of this account.")
        if said.get("is_byok_only") and said.get("is_fallback"):
            self.add_error("is_byok_only", "Not for a fallback credential.")
        if said.get("key") and not self.errors:
            if self.trial is None:
                self.add_error("key", "The provider was not asked about it. Try again.")
            elif self.trial.verdict == "refused":
                self.add_error("key", ProviderKeyRefused(self.trial).text)
        return said

    def _account(self) -> Account | None:
        return self.cleaned_data.get("account") or getattr(self.instance, "account", None)

    def _keys(self) -> Any:
        account = self._account()
        return ApiKey.objects.filter(account=account, kind=ApiKey.Kind.INFERENCE)


class NewCredentialForm(_CredentialForm):
    key = forms.CharField(
        max_length=KEY_CHARS_MAX,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text="The provider is asked about it. It is shown to nobody again.",
    )

    class Meta:
        model = ByokCredential
        fields = ("account", "workspace", "provider", *_SETTINGS)
        help_texts = {"workspace": "Empty for all workspaces of the account.", **_HELP}

    def clean_provider(self) -> str:
        slug: str = self.cleaned_data["provider"]
        if not is_known_provider(slug):
            raise forms.ValidationError("No provider of the catalogue has this slug.")
        return slug

    def clean(self) -> dict[str, Any]:
        workspace, account = (self.cleaned_data.get(name) for name in ("workspace", "account"))
        if workspace is not None and account is not None and workspace.account_id != account.pk:
            self.add_error("workspace", "This workspace belongs to another account.")
        return super().clean()


class CredentialForm(_CredentialForm):
    key = forms.CharField(
        label="New key",
        max_length=KEY_CHARS_MAX,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text="Takes the place of the old one; empty keeps that.",
    )

    class Meta:
        model = ByokCredential
        fields = _SETTINGS
        help_texts = _HELP

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Someone who may only look gets the page without the fields.
        for name, field in zip(_FILTERS, _COLUMNS, strict=True):
            if name in self.fields:
                self.fields[name].initial = getattr(self.instance, field)

    def changes(self) -> dict[str, Any]:
        """What was changed, as the service names it."""
        said = {name: self.cleaned_data[name] for name in self.changed_data if name != "key"}
        if "allowed_keys" in said:
            del said["allowed_keys"]
            said["allowed_api_key_hashes"] = self.allowed_hashes()
        return said


_COLUMNS = ("allowed_models", "allowed_key_ids", "allowed_user_ids")
NEW_FIELDS = ("account", "workspace", "provider", "key", *_SETTINGS, *_FILTERS)
FIELDS = ("key", *_SETTINGS, *_FILTERS)
