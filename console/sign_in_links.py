"""Links that sign a person in once, without a password.

A link holds a token of the state of the person's row: using it changes `last_login`, which ends
every link that was made before. So does a change of the person's roles or address, and that an
organization begins to have its people sign in at its provider. A person who has a second factor is
asked for it all the same.
"""

import logging
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any, Final

from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.utils.http import base36_to_int
from gevent import Timeout, get_hub

from accounts.models import User
from accounts.people.adapter import may_have_password
from gateway.database.db import run_aside
from gateway.live_settings import settings

log = logging.getLogger("gateway.sign_in")
LIFETIME_S: Final = 3600
# Written out, because `make run` asks for one before any URL is loaded; a test compares it.
_PATH: Final = "/console/link/{}/{}"
# Other sign-ins wait behind the form that asks for one (`accounts.people.middleware`).
_PUBLISH_WITHIN_S: Final = 3.0
_MAILED_WITHIN_S: Final = 600.0


class LinkTokens(PasswordResetTokenGenerator):
    """Tokens of links, which are good for nothing else; unlike Django's own, they count the
    microseconds of the last sign-in."""

    key_salt = "console.sign_in_links"

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        last = user.last_login.isoformat() if user.last_login else ""
        # Whoever made a link for somebody must not come in with rights that the person got later.
        roles = sorted(f"{each.account_id} {each.role}" for each in user.memberships.all())
        rights = f"{user.is_active}{user.is_staff}{user.is_superuser}{roles}"
        # Links are mailed, and who reads a former mailbox must not come in.
        mail = f"{user.email} {may_have_password(user)}"
        return f"{user.pk}{user.password}{last}{timestamp}{rights}{mail}"

    def check_token(self, user: Any, token: str | None) -> bool:
        if not super().check_token(user, token):
            return False
        assert token is not None
        made = base36_to_int(token.partition("-")[0])
        return self._num_seconds(self._now()) - made <= LIFETIME_S


_tokens = LinkTokens()


def build_link_path(user: User) -> str:
    """The path of a link that signs this person in, once and within the hour."""
    return _PATH.format(user.public_id, _tokens.make_token(user))


def find_linked_user(public_id: str, token: str) -> User | None:
    """The person of a link that still works."""
    user = User.objects.filter(public_id=public_id, is_active=True).first()
    return user if user is not None and _tokens.check_token(user, token) else None


def use_link(public_id: str, token: str) -> User | None:
    """The person whose link it is, which ends it; None where it does not work any more."""
    with transaction.atomic():
        # Of two that use it at once, the second finds the row as the first left it.
        user = User.objects.select_for_update().filter(public_id=public_id, is_active=True).first()
        if user is None or not _tokens.check_token(user, token):
            return None
        user.last_login = datetime.now(UTC)
        user.save(update_fields=["last_login"])
    return user


def have_link_mailed(name: str) -> bool:
    """Have a worker mail a link to the person with this name or address. Returns whether the worker
    has the task.

    Whoever asks learns nothing of who is here, neither by the answer nor by its time.
    """
    # By name: importing the tasks would cost each web process Celery, which takes half a second.
    run_aside(partial(import_module, "gateway.celery"), threads=lambda: get_hub().threadpool)
    from kombu.exceptions import OperationalError

    from gateway.celery import app

    is_queued, reason = False, "the queue says nothing"
    try:
        # A connection of its own: one that was given up in between would harm whoever is next.
        with Timeout(_PUBLISH_WITHIN_S, False), app.connection_for_write() as connection:
            app.send_task(
                "console.tasks.mail_link",
                (name,),
                connection=connection,
                queue=settings.EVENT_QUEUE,
                expires=_MAILED_WITHIN_S,
                retry=False,
            )
            is_queued = True
    except (OSError, OperationalError) as error:
        reason = str(error)
    if not is_queued:
        log.warning("Nobody is told to mail a link: %s", reason)
    return is_queued
