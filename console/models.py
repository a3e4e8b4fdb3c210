"""Who is signed in where."""

from typing import Any

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class SignInSession(AbstractBaseSession):
    """A session in a browser, and whose it is; of nobody before the sign-in.

    Its key signs in whoever has it, so no page shows it; `address` and `client` (the browser's
    own words) tell people which of theirs it is.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    address = models.CharField(max_length=64, blank=True, default="")
    client = models.CharField(max_length=300, blank=True, default="")
    begun_at = models.DateTimeField(null=True)

    class Meta(AbstractBaseSession.Meta):
        abstract = False

    @classmethod
    def get_session_store_class(cls) -> Any:
        from console.sessions import SessionStore

        return SessionStore
