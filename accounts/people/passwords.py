"""Hashing passwords, which takes half a second, without keeping requests waiting."""

from functools import cache, partial
from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from gevent.threadpool import ThreadPool

from gateway.database.db import run_aside


class PasswordHasher(PBKDF2PasswordHasher):
    """Django's own, one password after the other beside the event loop of a web process."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        work = partial(super().encode, password, salt, iterations)
        return run_aside(work, threads=_threads)


@cache
def _threads() -> Any:
    return ThreadPool(1)
