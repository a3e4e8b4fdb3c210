"""Audit records of who came in, who did not, and which factors were added and taken away."""

from typing import Any, Final
from uuid import UUID

from allauth.account.internal.stagekit import unstash_login
from allauth.mfa import signals as factors
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest

from accounts.models import Membership
from accounts.services.attempts import record_attempt
from accounts.services.records import Actor, command_actor, operator_actor, record_change
from gateway.http.address import clean_agent, find_client
from gateway.http.jsonio import JsonObject

_BY_NOBODY: Final = command_actor("sign-in")


def describe_client(request: HttpRequest) -> JsonObject:
    """Where a request comes from and what sent it, as audit records have it."""
    agent = clean_agent(request.META.get("HTTP_USER_AGENT", ""))
    return {"address": find_client(request), "agent": agent}


def record_sign_in(
    request: HttpRequest, action: str, *, user: Any, by: Actor = _BY_NOBODY, **facts: Any
) -> None:
    """One record of what somebody did to come in; `user` is None for a name that nobody has.

    It is in the audit trail of the person's account, where that is the only one.
    """
    with transaction.atomic():
        record_change(
            by=by,
            action=action,
            object_type="sign_in",
            object_id=user.pk if user else "unknown",
            account_id=_find_only_account(user),
            before=None,
            after=describe_client(request) | facts,
        )


def record_mailed_link(user: Any) -> None:
    """Record that a link to sign in went to the person's address: a worker sends it."""
    with transaction.atomic():
        record_change(
            by=_BY_NOBODY,
            action="link mailed",
            object_type="sign_in",
            object_id=user.pk,
            account_id=_find_only_account(user),
            before=None,
            after={"email": user.email},
        )


def record_limit(request: HttpRequest, reason: str) -> None:
    """Record that somebody, who has given the password or is in, tries too often: few of these."""
    user: Any = request.user if request.user.is_authenticated else None
    if user is None and (login := unstash_login(request, peek=True)) is not None:
        user = login.user
    record_attempt(
        "turned away",
        object_type="sign_in",
        object_id=user.pk if user else "unknown",
        account_id=_find_only_account(user),
        reason=reason,
    )


def _find_only_account(user: Any) -> UUID | None:
    """None of an operator: what operators do is nobody's account's."""
    if user is None or user.is_staff:
        return None
    rows = Membership.objects.filter(user=user.pk)
    accounts = list(rows.values_list("account_id", flat=True)[:2])
    return accounts[0] if len(accounts) == 1 else None


@receiver(user_logged_in)
def record_entry(sender: object, request: HttpRequest | None, user: object, **_: object) -> None:
    if request is not None:
        steps = request.session.get("account_authentication_methods", [])
        methods = [step.get("type") or step["method"] for step in steps]
        record_sign_in(request, "signed in", user=user, by=operator_actor(user), methods=methods)


@receiver(user_logged_out)
def record_exit(sender: object, request: HttpRequest, user: object, **_: object) -> None:
    if user is not None:
        record_sign_in(request, "signed out", user=user, by=operator_actor(user))


@receiver(factors.authentication_failed)
def record_wrong_code(
    sender: Any, request: HttpRequest, user: Any, authenticator: Any, **_: Any
) -> None:
    record_sign_in(request, "second factor failed", user=user, factor=authenticator.type)


def _record_factor(action: str) -> Any:
    def record(sender: Any, request: HttpRequest, user: Any, authenticator: Any, **_: Any) -> None:
        record_sign_in(
            request, action, user=user, by=operator_actor(user), factor=authenticator.type
        )

    return record


_RECORDERS: Final = {
    factors.authenticator_added: _record_factor("factor added"),
    factors.authenticator_removed: _record_factor("factor removed"),
    factors.authenticator_reset: _record_factor("factor renewed"),
}
for _signal, _recorder in _RECORDERS.items():
    _signal.connect(_recorder)
