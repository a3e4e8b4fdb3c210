"""E-mail addresses that people confirm by a link before they come in.

Links hold the person and the address: one to a former address confirms nothing.
"""

import logging
from smtplib import SMTPException
from typing import Any, Final

from allauth.account.stages import LoginStage
from allauth.core.internal import ratelimit
from django.core import signing
from django.core.mail import EmailMessage
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from gevent import Timeout

from accounts.models import User
from accounts.people.oidc import Identity
from accounts.people.records import record_sign_in
from accounts.services.records import operator_actor
from accounts.sign_in import forgive_tries
from gateway.database.db import release_connection
from gateway.live_settings import settings

log = logging.getLogger("gateway.sign_in")
LIFETIME_S: Final = 24 * 3600
SALT: Final = "accounts.people.addresses"
# Other sign-ins wait behind a form (`accounts.people.middleware`).
_SEND_WITHIN_S: Final = 4.0
_LEAVE_WITHIN_S: Final = 1.0


class AddressStage(LoginStage):
    """The last step of a sign-in: whose address is not confirmed gets a link, and comes again."""

    key = "confirm_address"

    def handle(self) -> tuple[HttpResponse | None, bool]:
        user: Any = self.login.user
        if not needs_confirmation(user):
            return None, True
        # The password was right, as often as it is given before the link is used.
        forgive_tries(self.request, user)
        return ask_to_confirm(self.request, user), False


def ask_to_confirm(request: HttpRequest, user: User) -> HttpResponse:
    """Send the link, and say so in place of letting the person in.

    The page says the same whether this is the first try or the next within minutes.
    """
    record_sign_in(request, "failed", user=user, reason="address not confirmed")
    limit: dict[str, Any] = {
        "app": "allauth.account",
        "action": "confirm_email",
        "key": user.email.lower(),
    }
    is_sent = True
    # A provider sends people back by a GET.
    if ratelimit.consume(request, **limit, limit_get=True):
        is_sent = False
        try:
            is_sent = _send_link(user)
        finally:
            # The page itself may run out of time meanwhile.
            if not is_sent:
                ratelimit.clear(request, **limit)
    context = {"address": user.email, "is_sent": is_sent}
    status = 200 if is_sent else 503
    return render(request, "console/address_unconfirmed.html", context, status=status)


def needs_confirmation(user: User) -> bool:
    """Whether the person stays out until a link was used. Operators come in without mail."""
    is_confirmed = user.email.lower() == user.confirmed_email.lower()
    return bool(settings.EMAIL_CONFIRMATION and user.email and not user.is_staff) and (
        not is_confirmed
    )


def build_token(user: User) -> str:
    return signing.dumps([user.public_id, user.email], salt=SALT)


def find_person(token: str) -> User | None:
    """Whose address a link confirms, if it still does."""
    try:
        public_id, address = signing.loads(token, salt=SALT, max_age=LIFETIME_S)
    except signing.BadSignature:
        return None
    user = User.objects.filter(public_id=public_id, email=address, is_active=True).first()
    return user if user is not None and user.confirmed_email != address else None


def confirm_address(request: HttpRequest, token: str) -> User | None:
    """The person whose address is confirmed now; None where the link does not work any more."""
    with transaction.atomic():
        user = find_person(token)
        # The address may have changed since it was read.
        rows = User.objects.filter(pk=user.pk, email=user.email) if user else User.objects.none()
        if user is None or not rows.update(confirmed_email=user.email):
            return None
        by = operator_actor(user)
        record_sign_in(request, "address confirmed", user=user, by=by, email=user.email)
    return user


def trust_provider(user: User, identity: Identity) -> None:
    """Take over what the identity provider has proved: that the address is the person's."""
    address = str(identity.claims.get("email") or "")
    is_proved = str(identity.claims.get("email_verified", "")).lower() == "true"
    if is_proved and address and user.email.lower() == address.lower():
        user.confirmed_email = user.email
        user.save(update_fields=["confirmed_email"])


def _send_link(user: User) -> bool:
    """Whether the mail server took it, in time."""
    # Never below the host that a request names: somebody else may have sent it.
    url = settings.PUBLIC_URL.rstrip("/") + reverse("confirm_address", args=[build_token(user)])
    message = EmailMessage(
        subject="[Routing Gateway] Confirm your e-mail address",
        body=f"Somebody signed in as {user.get_username()}, who has this address.\n\n"
        f"If that was you, confirm it within a day:\n{url}\n\n"
        "If it was not you, tell whoever runs the gateway: your password may be known.\n",
        to=[user.email],
    )
    release_connection()
    is_sent, reason = False, "the mail server took too long"
    try:
        # Even to a server that fell silent the library says goodbye, which the outer one ends.
        with Timeout(_SEND_WITHIN_S + _LEAVE_WITHIN_S, False), Timeout(_SEND_WITHIN_S, False):
            message.send()
            is_sent = True
    except (SMTPException, OSError, ValueError) as error:
        reason = type(error).__name__
    if not is_sent:
        log.warning("No link to confirm an address was sent: %s", reason)
    return is_sent
