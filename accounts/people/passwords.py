"""Passwords: hashing them, which takes half a second, without keeping requests waiting; and words
that anybody here would guess."""

import re
from functools import cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.core.exceptions import ValidationError
from gevent.threadpool import ThreadPool

from gateway.database.db import run_aside
from gateway.live_settings import settings

CHARS_MIN: Final = 8
_PRODUCT: Final = ("routing", "router", "gateway")
_WORD: Final = re.compile(r"[^\W_]{4,}")


class PasswordHasher(PBKDF2PasswordHasher):
    """Django's own, one password after the other beside the event loop of a web process."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        work = partial(super().encode, password, salt, iterations)
        return run_aside(work, threads=_threads)


@cache
def _threads() -> Any:
    return ThreadPool(1)


class WordsOfThePlace:
    """Refuses a password that is too short without names of the product, the gateway's host, the
    provider, the person and their accounts, and `PASSWORD_WORDS`."""

    def validate(self, password: str, user: Any = None) -> None:
        """Raises `ValidationError`."""
        left = password.casefold()
        for word in sorted(_list_words(user), key=len, reverse=True):
            left = left.replace(word, "")
        if len(left) < CHARS_MIN and len(left) < len(password):
            raise ValidationError(self.get_help_text(), code="password_of_the_place")

    def get_help_text(self) -> str:
        return (
            f"{CHARS_MIN} characters have to be left without names of people, accounts, hosts and "
            "products, which anybody here would guess."
        )


def _list_words(user: Any) -> set[str]:
    texts = [
        *_PRODUCT,
        *settings.PASSWORD_WORDS,
        settings.OIDC_NAME,
        urlsplit(settings.PUBLIC_URL).hostname or "",
    ]
    if user is not None:
        texts += [user.get_username(), user.first_name, user.last_name, user.email]
        if user.pk is not None:
            texts += user.memberships.values_list("account__name", flat=True)
    name = "" if user is None else user.get_username().casefold()
    return {name} - {""} | {word for text in texts for word in _WORD.findall(text.casefold())}
