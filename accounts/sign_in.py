"""Password guesses are bounded, by the database alone and over all web processes.

Each try is counted before the password is looked at, so that tries at once are counted too. A user
who has tried too often waits twice as long each time, and reads what everybody with a wrong
password reads.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple

from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F
from django.dispatch import receiver
from django.http import HttpRequest

from accounts.models import SignInAttempts, User
from accounts.people.known_browsers import find_sign_in
from accounts.people.oidc import StrayAnswer
from accounts.people.records import record_sign_in
from accounts.services.attempts import record_attempt
from accounts.services.records import command_actor, record_change
from gateway.http.address import find_client

log = logging.getLogger("gateway.sign_in")
FORGOTTEN_AFTER: Final = timedelta(days=1)


class AttemptBound(NamedTuple):
    """From how many tries on each one blocks, and for how long at most."""

    tries: int
    longest: timedelta


# Others never lock a user out for long. From elsewhere he waits a minute at most, and from where he
# has signed in before not at all.
BOUNDS: Final = {
    "known": AttemptBound(5, timedelta(minutes=15)),
    "pair": AttemptBound(5, timedelta(minutes=15)),
    "user": AttemptBound(20, timedelta(minutes=1)),
    "address": AttemptBound(30, timedelta(minutes=15)),
    "provider": AttemptBound(30, timedelta(minutes=15)),
    "stray": AttemptBound(30, timedelta(minutes=15)),
}


class BoundedSignIn:
    """Comes before the backend that looks at passwords, and ends a try that comes too soon."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, **credentials: object
    ) -> None:
        """Raises `PermissionDenied`, at which no further backend is asked."""
        if request is None or not username:
            return
        is_counted = count_try(
            name=username,
            address=find_client(request),
            now=datetime.now(UTC),
            known_as=find_sign_in(request, username),
        )
        if not is_counted:
            record_attempt("turned away", object_type="sign_in", reason="too many wrong passwords")
            raise PermissionDenied


class WrongPassword:
    """Comes after the backend that looks at passwords: who reaches it was wrong."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, **credentials: object
    ) -> None:
        """Record it. A name that nobody has is not kept: it may be a password."""
        if request is not None and username:
            user = User.objects.filter(username__iexact=username).first()
            record_sign_in(request, "failed", user=user)


def count_try(*, name: str, address: str, now: datetime, known_as: str | None = None) -> bool:
    """Count one try to sign in; whether the password may be looked at.

    One from a browser in which this user has signed in, `known_as` that sign-in, is counted beside
    all others and all other browsers.
    """
    subjects = _hash_subjects(name, address)
    if known_as is not None:
        subjects = {"known": _hash(f"known:{known_as}")}
    return _count(subjects, name=name, address=address, now=now)


def count_answer(request: HttpRequest, *, is_stray: bool = False) -> bool:
    """Count one answer of an identity provider; whether it may be looked at.

    A stray one is to nothing that was begun in this browser. Any page can let browsers send these,
    so that they take no tries from answers to what was begun, and neither take any from passwords.
    """
    kind, address = "stray" if is_stray else "provider", find_client(request)
    subjects = {kind: _hash(f"{kind}:{address}")}
    return _count(subjects, name="", address=address, now=datetime.now(UTC))


def forget_answer(request: HttpRequest) -> None:
    """Take back one that was counted: it let somebody in, or the provider was silent."""
    _take_back(_hash(f"provider:{find_client(request)}"))


def use_state(state: str) -> None:
    """Note that what was begun with this state is answered. Raises `StrayAnswer` where it was:
    whoever has the browser's cookie may send an answer again."""
    subject, now = _hash(f"state:{state}"), datetime.now(UTC)
    _, is_new = SignInAttempts.objects.get_or_create(subject=subject, defaults={"last_at": now})
    if not is_new:
        raise StrayAnswer("the state was used")


@transaction.atomic
def _count(subjects: Mapping[str, str], *, name: str, address: str, now: datetime) -> bool:
    """Count for each of these subjects, by kind, unless one of them is blocked."""
    for subject in subjects.values():
        SignInAttempts.objects.get_or_create(subject=subject, defaults={"last_at": now})
    locked = SignInAttempts.objects.select_for_update().filter(subject__in=subjects.values())
    # In one order, so that two tries never wait for each other.
    rows = {row.subject: row for row in locked.order_by("subject")}
    if any(row.blocked_until and row.blocked_until > now for row in rows.values()):
        return False
    for kind, subject in subjects.items():
        row, bound = rows[subject], BOUNDS[kind]
        _let_fade(row, bound, now)
        row.count += 1
        over = row.count - bound.tries
        row.blocked_until = None
        if over >= 0:
            row.blocked_until = now + min(bound.longest, timedelta(seconds=2 ** min(over, 20)))
        row.save(update_fields=["count", "last_at", "blocked_until"])
        if over == 0:
            _record_block(kind, name, address, row.count)
    return True


def _let_fade(row: SignInAttempts, bound: AttemptBound, now: datetime) -> None:
    """Forget one try for each longest block since: no guess more than the blocks let through.

    `last_at` moves on by what was forgotten, so that tries in between forget nothing less.
    """
    forgotten = max(0, (now - row.last_at) // bound.longest)
    if forgotten >= row.count:
        row.count, row.last_at = 0, now
    else:
        row.count -= forgotten
        row.last_at += forgotten * bound.longest


@receiver(user_logged_in)
def forget_tries(sender: object, request: HttpRequest | None, user: User, **_: object) -> None:
    """A user who is in has not guessed; and tries of yesterday are forgotten."""
    if request is None:
        return
    forgive_tries(request, user)
    yesterday = datetime.now(UTC) - FORGOTTEN_AFTER
    SignInAttempts.objects.filter(last_at__lt=yesterday).delete()


def forgive_tries(request: HttpRequest, user: User, *, is_inside: bool = False) -> None:
    """Forget the tries of a person who has just proved to be that person; `is_inside`, by the
    password again.

    Of an address only this try is: somebody there may guess while a colleague signs in. A sign-in
    without a password has taken none.
    """
    name = user.get_username()
    known_as = find_sign_in(request, name)
    if known_as is not None:
        SignInAttempts.objects.filter(subject=_hash(f"known:{known_as}")).delete()
        return
    subjects = _hash_subjects(name, find_client(request))
    own = [subjects["pair"], subjects["user"]]
    SignInAttempts.objects.filter(subject__in=own).delete()
    steps = request.session.get("account_authentication_methods", [])
    if is_inside or any(step["method"] == "password" for step in steps):
        _take_back(subjects["address"])


def _hash_subjects(name: str, address: str) -> dict[str, str]:
    return {
        "pair": _hash(f"pair:{address}:{name.lower()}"),
        "user": _hash(f"user:{name.lower()}"),
        "address": _hash(f"address:{address}"),
    }


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _take_back(subject: str) -> None:
    SignInAttempts.objects.filter(subject=subject, count__gt=0).update(
        count=F("count") - 1, blocked_until=None
    )


def _record_block(kind: str, name: str, address: str, tries: int) -> None:
    """Once each time a bound is reached. A name that nobody has is not kept."""
    user = User.objects.filter(username__iexact=name).first()
    log.warning("Sign-in is slowed down: %s wrong tries from %s (by %s)", tries, address, kind)
    record_change(
        by=command_actor("sign-in"),
        action="blocked",
        object_type="sign_in",
        object_id=user.pk if user else "unknown",
        account_id=None,
        before=None,
        after={"by": kind, "address": address, "tries": tries},
    )
