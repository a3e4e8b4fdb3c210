"""What allauth asks about sign-ins here: nobody registers by himself, and secrets are sealed."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.stagekit import clear_login
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.people.known_browsers import remember_browser
from accounts.people.oidc import list_forced_providers
from accounts.people.records import record_limit, record_sign_in
from accounts.sign_in import forgive_tries
from gateway.http.address import find_address
from gateway.live_settings import settings
from gateway.sealing import seal, unseal

_PURPOSE = "second-factor"
# allauth seals before there is a row, so that values are bound to the purpose alone.
_ROW = "any"


class SignInAdapter(DefaultAccountAdapter):
    """People come from operators, teams and directories. `accounts.sign_in` bounds guesses."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": "This user name and password do not fit together. "
        "After several tries, wait a little before the next.",
    }

    def validation_error(self, code: str, *args: object) -> ValidationError:
        """What a form says. Where somebody tries too often there is a record too."""
        if code in ("too_many_login_attempts", "rate_limited"):
            record_limit(context.request, "too many wrong codes")
        error: ValidationError = super().validation_error(code, *args)
        return error

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: object) -> None:
        """Does nothing: the first backend counts tries, and tells nobody."""

    def get_login_stages(self) -> list[str]:
        """After the second factor, so that nobody else lets people have mail."""
        return [*super().get_login_stages(), "accounts.people.addresses.AddressStage"]

    def pre_login(self, request: HttpRequest, user: Any, **hooks: Any) -> HttpResponse | None:
        """Whose organization signs in at its provider comes by no other way, operators excepted."""
        forced = [] if user.is_staff else list_forced_providers(user.username, user.email)
        ids = {provider.id for provider in forced}
        # A step at such a provider itself, or a link that an operator made.
        is_let_in = not forced or any(
            step["method"] == "link" or (step["method"] == "oidc" and step.get("provider") in ids)
            for step in get_authentication_records(request, user)
        )
        if is_let_in:
            refusal: HttpResponse | None = super().pre_login(request, user, **hooks)
            return refusal
        clear_login(request)
        provider = forced[0]
        reason = f"signs in at {provider.id} only"
        record_sign_in(request, "failed", user=user, reason=reason)
        return render(request, "console/provider_only.html", {"provider": provider}, status=403)

    def post_login(self, request: HttpRequest, user: Any, **options: Any) -> HttpResponse:
        """Where the person wanted to go, in a browser that is known from now on."""
        answer: HttpResponse = super().post_login(request, user, **options)
        remember_browser(request, answer, user)
        return answer

    def is_reauthentication_required(self, *, app: str, **options: object) -> bool:
        """Not of somebody who came by a link or a provider and has nothing to repeat yet."""
        return bool(self.get_reauthentication_methods(context.request.user))

    def reauthenticate(self, user: Any, password: str) -> bool:
        """Whether it is the password; a right one was no guess."""
        is_right: bool = super().reauthenticate(user, password)
        if is_right:
            forgive_tries(context.request, user, is_inside=True)
        return is_right

    def get_client_ip(self, request: HttpRequest) -> str:
        """Where the request comes from; a socket without an address has the unspecified one."""
        return str(find_address(request) or "0.0.0.0")  # noqa: S104 - Nothing listens on it.

    def add_message(self, *args: object, **options: object) -> None:
        """Says nothing: the page that follows shows what changed."""


class SecondFactorAdapter(DefaultMFAAdapter):
    """Seeds and recovery codes are sealed under the master key."""

    def encrypt(self, text: str) -> str:
        return seal(text, purpose=_PURPOSE, row=_ROW)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text, purpose=_PURPOSE, row=_ROW)

    def can_delete_authenticator(self, authenticator: Any) -> bool:
        """A user who needs a second factor keeps the last one."""
        if not needs_second_factor(authenticator.user):
            return True
        factors = list_factors(authenticator.user)
        return any(each.pk != authenticator.pk for each in factors)


def needs_second_factor(user: Any) -> bool:
    """Whether pages stay closed to this person without one."""
    by_role = settings.STAFF_SECOND_FACTOR and user.is_staff
    return bool(by_role or settings.EVERYBODY_SECOND_FACTOR)


def lacks_second_factor(request: HttpRequest, user: Any) -> bool:
    """Whether pages stay closed in this session. People whom an identity provider let in used its
    factors, but no operator did."""
    if not needs_second_factor(user):
        return False
    methods = {step["method"] for step in get_authentication_records(request, user)}
    return "mfa" not in methods and (user.is_staff or "oidc" not in methods)


def list_factors(user: Any) -> list[Any]:
    """The person's second factors, oldest first; recovery codes alone are none."""
    # allauth's models need the apps to be loaded.
    from allauth.mfa.models import Authenticator

    kinds = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
    return list(Authenticator.objects.filter(user=user.pk, type__in=kinds).order_by("pk"))


def may_have_password(user: Any) -> bool:
    """Whether the person may choose a password. People whom a provider lets in may not: the
    password would still work once the provider refuses them. An operator keeps one for the day on
    which the provider is away."""
    if user.is_staff:
        return True
    if list_forced_providers(user.username, user.email):
        return False
    return user.has_usable_password() or not user.identities.exists()
