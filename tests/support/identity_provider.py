"""A real identity provider over loopback, and a browser's way to it and back."""

from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import requests
from django.test import Client
from oidc_provider_mock import User as Person
from oidc_provider_mock import run_server_in_thread

from accounts.identity.issuers import forget_issuers
from gateway.environment.sign_in import OidcProvider

CLAIMS: dict[str, object] = {
    "preferred_username": "ada",
    "email": "ada@acme.test",
    "email_verified": True,
    "given_name": "Ada",
    "groups": ["research"],
}


class Provider:
    """The identity provider of a test, which can be restarted with other keys."""

    def __init__(self, settings: Any) -> None:
        self._settings, self._stack, self._port = settings, ExitStack(), 0
        self.claims = dict(CLAIMS)
        self.start()

    def start(self, *, lifetime: timedelta = timedelta(hours=1)) -> None:
        people = [Person(sub="s-1", claims=self.claims)]
        server = self._stack.enter_context(
            run_server_in_thread(
                self._port, user_claims=people, access_token_max_age=lifetime, require_nonce=True
            )
        )
        self._port = server.server_port
        self.issuer = f"http://localhost:{self._port}"
        self._settings.OIDC_PROVIDERS = (
            OidcProvider("acme", "Acme", self.issuer, "gateway", "secret", ("acme.test",)),
        )

    def stop(self) -> None:
        self._stack.close()
        self._stack = ExitStack()

    def restart(self, **options: Any) -> None:
        """With new keys, which this process has time to learn of."""
        self.stop()
        forget_issuers()
        self.start(**options)

    def agree(self, url: str, **changes: str) -> str:
        """What the browser is sent back to once the person agreed; `changes` are to the URL."""
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changes
        asked = f"{self.issuer}{parts.path}?{urlencode(query)}"
        answer = requests.post(asked, data={"sub": "s-1"}, allow_redirects=False, timeout=60)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"].removeprefix("http://testserver")


def begin_sign_in(client: Client, target: str = "/console/keys") -> str:
    began = client.get(f"/console/sign-in/at/acme?next={target}")
    assert began.status_code == 302, began.content
    return began["Location"]


def sign_in(client: Client, provider: Provider) -> Any:
    return client.get(provider.agree(begin_sign_in(client)))


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def last_reason() -> str:
    # Django is not set up yet when this file is read.
    from accounts.models import AuditRecord

    record = AuditRecord.objects.filter(object_type="sign_in", action="failed").latest("pk")
    assert record.after
    return str(record.after["reason"])
