"""Placeholders for secrets in a request, and which secrets a request may carry to which host.

`{{secret:name}}` and `{{basic:user:name}}` stand where a secret's value is to be.
"""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final
from urllib.parse import quote_plus

from django.conf import settings

from gateway.database.db import Lane, run_queries
from gateway.outbound.targets import Target
from interns.errors import InternError
from interns.models import Intern
from interns.vault.effective_secrets import (
    AttachedVaultGone,
    EffectiveSecret,
    filter_by_host,
    open_values,
    read_effective_secrets,
)

_NAME: Final = r"[a-z0-9_]{1,255}"
_PLACEHOLDER: Final = re.compile(
    rf"\{{\{{\s*(?:secret:\s*(?P<name>{_NAME})"
    rf"|basic:\s*(?P<user>[^:{{}}\s]{{0,255}}):\s*(?P<of>{_NAME}))\s*\}}\}}"
)
Encode = Callable[[str], str]


class SecretNotReleased(InternError):
    status, reason = 403, "secret_not_released"
    message = "The secret is not bound to this host"


class SecretUnknown(InternError):
    status, reason = 404, "secret_unknown"
    message = "The intern has no such secret"


class VaultGone(InternError):
    status, reason = 404, "not_found"
    message = "The attached vault is gone, so the intern has no secrets"


class UnusableValue(ValueError):
    """A value that cannot stand where it is wanted. The text names the secret, not its value."""


def find_names(texts: Iterable[str]) -> set[str]:
    """The secrets that these ask for."""
    return {found["name"] or found["of"] for text in texts for found in _PLACEHOLDER.finditer(text)}


def fill_placeholders(text: str, values: Mapping[str, str], encode: Encode) -> str:
    """The text with values in the places of their names, which all are in `values`."""

    def value(found: re.Match[str]) -> str:
        if found["name"]:
            return encode(values[found["name"]])
        pair = f"{found['user']}:{values[found['of']]}"
        return encode(base64.b64encode(pair.encode()).decode())

    return _PLACEHOLDER.sub(value, text)


def encode_header(value: str) -> str:
    """As it is, without the line break that a file ends with. Raises `UnusableValue`."""
    value = value.strip("\r\n")
    if not value.isprintable() or any(char > "\xff" for char in value):
        raise UnusableValue("holds characters that no header can carry")
    return value


def choose_body_encoding(content_type: str) -> Encode:
    """How a value stands in a body of that type."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _in_json
    return quote_plus if kind == "application/x-www-form-urlencoded" else str


def _in_json(value: str) -> str:
    """Inside the quotes of a string."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


# Each is looked for in all that the site answers.
SECRETS_PER_HOST_MAX: Final = 200
VALUES_CHARS_MAX: Final = 262_144


class SecretRelease:
    """The secrets of one intern for one request. `released` are the names that left the gateway,
    `values` all that the hosts asked so far could know, and so could say."""

    def __init__(self, intern: Intern) -> None:
        self.released: set[str] = set()
        self.values: dict[str, str] = {}
        self._hosts: set[str] = set()
        # By name; nothing where the vault that the intern borrows is gone.
        self._secrets: dict[str, EffectiveSecret] = {}
        self._is_vault_gone = False
        try:
            found = run_queries(Lane.READ, lambda: read_effective_secrets(intern))
            self._secrets = {each.name: each for each in found}
        except AttachedVaultGone:
            self._is_vault_gone = True

    def require_secrets(self, names: Collection[str]) -> None:
        """Raises `VaultGone` and `SecretUnknown` for names that the intern cannot use."""
        if names and self._is_vault_gone:
            raise VaultGone
        for name in sorted(names):
            if name not in self._secrets:
                raise SecretUnknown(f"The intern has no secret {name}")

    def learn_host(self, target: Target) -> None:
        """Learn what this host may know before anything is sent there."""
        if target.host in self._hosts:
            return
        self._hosts.add(target.host)
        bound = filter_by_host(self._secrets.values(), [target.host])
        if len(bound) > SECRETS_PER_HOST_MAX:
            text = f"More than {SECRETS_PER_HOST_MAX} secrets are bound to {target.host}"
            raise SecretNotReleased(text)
        if bound:
            self.values |= run_queries(Lane.READ, lambda: open_values(bound))
        if sum(map(len, self.values.values())) > VALUES_CHARS_MAX:
            raise SecretNotReleased(f"The secrets bound to {target.host} are too long together")

    def may_receive(self, names: Iterable[str], target: Target) -> bool:
        """Whether all of these may go there: the exact host, and nobody listens on the way."""
        private = target.host in settings.INTERN_FETCH_PRIVATE_HOSTS
        return all(
            target.host in (self._secrets[name].hosts or ()) and (target.origin.is_tls or private)
            for name in names
        )

    def require_allowed(self, names: Collection[str], target: Target) -> None:
        """Raises `SecretNotReleased`."""
        for name in sorted(names):
            if not self.may_receive([name], target):
                bound = target.host in (self._secrets[name].hosts or ())
                over = " over plain http" if bound else ""
                raise SecretNotReleased(f"The secret {name} is not released to {target.host}{over}")

    def fill(self, text: str, encode: Encode) -> str:
        """The text with values in it, whose secrets `may_receive` allowed."""
        names = find_names([text])
        try:
            done = fill_placeholders(text, self.values, encode)
        except UnusableValue as error:
            why = f"The secret {', '.join(sorted(names))} {error}"
            raise SecretNotReleased(why) from None
        except KeyError:
            # Removed between the two looks at the vault.
            raise SecretUnknown from None
        self.released |= names
        return done
