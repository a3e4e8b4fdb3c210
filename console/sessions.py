"""The store of sessions (`SESSION_ENGINE`): Django's own, with a row that says whose each is."""

from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db.models import QuerySet
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from accounts.models import User
from console.models import SignInSession
from gateway.http.address import find_address

_PLACE: Final = "signed_in_from"
_CLIENT_CHARS_MAX: Final = 300


class SessionStore(DatabaseStore):
    """Sessions in the database, found by user."""

    @classmethod
    def get_model_class(cls) -> Any:
        return SignInSession

    def create_model_instance(self, data: Any) -> Any:
        row: Any = super().create_model_instance(data)
        user_id = data.get(SESSION_KEY)
        row.user_id = int(user_id) if user_id else None
        if place := data.get(_PLACE):
            row.address, row.client, begun = place
            row.begun_at = datetime.fromisoformat(begun)
        return row


@receiver(user_logged_in)
def note_place(sender: Any, request: HttpRequest | None, user: User, **_: Any) -> None:
    """Where somebody signs in from, for the list of their sessions."""
    if request is None:
        return
    address = str(find_address(request) or "")
    client = request.headers.get("User-Agent", "")[:_CLIENT_CHARS_MAX]
    request.session[_PLACE] = [address, client, timezone.now().isoformat()]


def list_sessions(user: Any) -> QuerySet[SignInSession]:
    """The person's sessions that have not ended, the newest first."""
    rows = SignInSession.objects.filter(user=user, expire_date__gt=timezone.now())
    return rows.order_by("-begun_at", "pk")


def name_session(row: SignInSession) -> str:
    """A name by which it can be ended, and nothing else."""
    return sha256(row.session_key.encode()).hexdigest()[:24]


def end_session(user: Any, name: str) -> bool:
    """Sign that browser out; whether the person has such a session."""
    for row in list_sessions(user):
        if name_session(row) == name:
            row.delete()
            return True
    return False


def end_other_sessions(user: Any, own_key: str | None) -> int:
    """Sign the person out everywhere else; how many sessions that were."""
    return SignInSession.objects.filter(user=user).exclude(pk=own_key or "").delete()[0]
