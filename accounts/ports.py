"""What accounts needs from the apps above it; their implementation registers at start-up."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

UsageScope = Literal["account", "workspace", "key"]


class KeyTrial(NamedTuple):
    """A provider's verdict on a key: `accepted`, `refused`, or `untold` where it gave none.

    `explanation` puts it into words, without the key.
    """

    verdict: Literal["accepted", "refused", "untold"]
    explanation: str


class ByokUsage(NamedTuple):
    """Calls that a credential served, their cost at list price, and what they were charged."""

    calls: int
    list_nano: int
    fees_nano: int


class RecentUsage(NamedTuple):
    """Money is nano-USD."""

    requests: int
    tokens: int
    charge_nano: int


class HigherApps(Protocol):
    """Questions that only the catalogue and the records of calls answer.

    Those about names raise `DatabaseGone` while there is no catalogue.
    """

    def is_known_model(self, name: str) -> bool:
        """Whether a request could name this model."""
        ...

    def is_known_provider(self, slug: str) -> bool:
        """Whether the catalogue has the provider."""
        ...

    def find_model_slugs(self, names: Iterable[str]) -> Mapping[str, str]:
        """The canonical slug of each name; names of no model are missing."""
        ...

    def find_provider_slugs(self, names: Iterable[str]) -> Mapping[str, str]:
        """The slug of each name; names of no provider are missing."""
        ...

    def try_key(self, slug: str, key: str) -> KeyTrial:
        """Ask the provider about a key. It takes a few seconds: never in a transaction."""
        ...

    def count_byok_usage(self, account_id: UUID, credential_id: UUID, since: datetime) -> ByokUsage:
        """Sum up the calls of an account's credential. It reads all of the account's calls."""
        ...

    def read_recent_usage(
        self, account_id: UUID, scope: UsageScope, pk: object
    ) -> Mapping[str, RecentUsage]:
        """Recent usage of the account, workspace or key `pk`, by the title of each period."""
        ...


_registered: list[HigherApps] = []


def register_higher_apps(apps: HigherApps) -> None:
    """Answer through `apps` from now on."""
    _registered[:] = [apps]


def higher_apps() -> HigherApps:
    """The registered implementation."""
    assert _registered, "no app has registered what accounts needs from it"
    return _registered[0]
