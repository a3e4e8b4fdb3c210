"""Forms of passkeys that record who was wrong, as those of passwords and codes are recorded."""

from typing import Any

from allauth.core import context
from allauth.mfa.webauthn.forms import (
    AuthenticateWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django.core.exceptions import ValidationError

from accounts.people.records import record_sign_in


class _RecordedForm:
    """To be mixed into a form of allauth's. Whose passkey it was said to be proves nothing: where
    nobody has signed in yet the record is of nobody."""

    user: Any

    def clean_credential(self) -> Any:
        try:
            return super().clean_credential()  # type: ignore[misc]  # That of the form.
        except ValidationError:
            record_sign_in(context.request, "passkey failed", user=self.user)
            raise


class LoginPasskeyForm(_RecordedForm, LoginWebAuthnForm):
    """In place of a password."""


class SecondPasskeyForm(_RecordedForm, AuthenticateWebAuthnForm):
    """After the password."""


class RepeatedPasskeyForm(_RecordedForm, ReauthenticateWebAuthnForm):
    """Of somebody who is in."""
