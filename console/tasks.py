"""Links for people who forgot their password: a worker finds out whose name or address it is."""

import logging
import threading
from smtplib import SMTPException
from typing import Any, Final

from celery import shared_task
from django.conf import settings
from django.core.cache import cache
from django.core.mail import EmailMessage
from django.db.models import F, Q
from django.db.models.functions import Lower

from accounts.models import User
from accounts.people.adapter import may_have_password
from accounts.people.records import record_mailed_link
from console.sign_in_links import build_link_path

log = logging.getLogger("gateway.sign_in")
# One person gets one mail in this time, whoever asks.
_PAUSE_S: Final = 900
_PAUSE_OF_FAILED_S: Final = 60
# The other threads of the worker `events` watch and send alerts, however slow the mail server is.
_mailer: Final = threading.BoundedSemaphore(1)
_BUSY_S: Final = 10
# An address may be that of several people.
_PEOPLE_MAX: Final = 5


@shared_task(bind=True, max_retries=None)
def mail_link(self: Any, name: str) -> int:
    """Mail a link that signs in once to whoever has this user name, or this address; how many.

    Only to addresses that their people have confirmed: an account's directory may say any other.
    While another thread does that, the task comes back until it expires.
    """
    if not _mailer.acquire(blocking=False):
        raise self.retry(countdown=_BUSY_S)
    people = User.objects.annotate(address=Lower("email"), confirmed=Lower("confirmed_email"))
    people = people.filter(Q(username__iexact=name) | Q(address=name.lower()))
    # Operators have links of `manage.py console_link`.
    known = (
        people.filter(is_active=True, is_staff=False, address=F("confirmed"))
        .exclude(email="")
        .order_by("pk")
    )
    try:
        return sum(_mail(each) for each in known[:_PEOPLE_MAX] if may_have_password(each))
    finally:
        _mailer.release()


def _mail(user: User) -> bool:
    pause = f"link:{user.pk}"
    if not cache.add(pause, 1, _PAUSE_S):
        return False
    # Never below the host that a request names: somebody else may have sent it.
    url = f"{settings.PUBLIC_URL.rstrip('/')}{build_link_path(user)}?next=/console/you/password/new"
    message = EmailMessage(
        subject="[Routing Gateway] A link to sign in",
        body=f"Somebody asked for a link for {user.get_username()}, who forgot the password.\n\n"
        f"If that was you, it signs you in once, within an hour, to choose another one:\n{url}\n\n"
        "If it was not you, do nothing: your password stays as it is.\n",
        to=[user.email],
    )
    try:
        message.send()
    except (SMTPException, OSError, ValueError) as error:
        log.warning("No link to sign in was sent: %s", type(error).__name__)
        cache.set(pause, 1, _PAUSE_OF_FAILED_S)
        return False
    record_mailed_link(user)
    return True
