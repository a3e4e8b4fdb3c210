"""Passwords of tests."""

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class QuickHasher(PBKDF2PasswordHasher):
    """Hashes in no time what Django's own hasher understands, also that of a running server."""

    iterations = 1
