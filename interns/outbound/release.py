"""Which secrets one request may carry, to which host, and what the hosts know of them."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings

from gateway.database.db import Lane, run_queries
from interns.models import Intern
from interns.outbound.errors import SecretNotReleased, SecretUnknown, VaultGone
from interns.outbound.placeholders import Encode, UnusableValue, fill_placeholders, find_names
from interns.vault.effective_secrets import (
    AttachedVaultGone,
    EffectiveSecret,
    filter_by_host,
    open_values,
    read_effective_secrets,
)
from routing.fetching.targets import Target

# Each is looked for in all that the site answers.
SECRETS_PER_HOST_MAX: Final = 200
VALUES_CHARS_MAX: Final = 262_144


class SecretRelease:
    """The secrets of one intern for one request. `released` are the names that left the gateway,
    `values` all that the hosts asked so far could know, and so could say."""

    def __init__(self, intern: Intern) -> None:
        self.released: set[str] = set()
        self.values: dict[str, str] = {}
        self._secrets, self._is_vault_gone = _load_secrets(intern)
        self._hosts: set[str] = set()

    def require_known(self, names: Collection[str]) -> None:
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
        """The text with values in it, which `allows` said may be there."""
        names = find_names([text])
        with _name_errors(names):
            done = fill_placeholders(text, self.values, encode)
        self.released |= names
        return done


@contextmanager
def _name_errors(names: Collection[str]) -> Iterator[None]:
    try:
        yield
    except UnusableValue as error:
        text = f"The secret {', '.join(sorted(names))} {error}"
        raise SecretNotReleased(text) from None
    except KeyError:
        # Removed between the two looks at the vault.
        raise SecretUnknown from None


def _load_secrets(intern: Intern) -> tuple[dict[str, EffectiveSecret], bool]:
    """What the intern has by name; nothing where the vault that it borrows is gone."""
    try:
        found = run_queries(Lane.READ, lambda: read_effective_secrets(intern))
    except AttachedVaultGone:
        return {}, True
    return {each.name: each for each in found}, False
