"""Passwords of tests."""

from typing import ClassVar

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class QuickHasher(PBKDF2PasswordHasher):
    """Hashes in no time what Django's own hasher understands, also that of a running server."""

    iterations = 1


class CountingHasher(QuickHasher):
    """Counts what it hashes."""

    hashed: ClassVar[int] = 0

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        CountingHasher.hashed += 1
        return super().encode(password, salt, iterations)
