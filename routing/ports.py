"""What accounts asks of the apps above it, and which names of routers are models'.

Whatever asks the catalogue raises `DatabaseGone` while there is none.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from accounts.ports import ByokUsage, KeyTrial, RecentUsage, UsageScope
from gateway.http.errors import DatabaseGone, Unavailable
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import Snapshot
from routing.history.activity import read_recent_usage
from routing.metering.byok import read_byok_usage
from routing.selection.model_references import CHARS_MAX, ROUTERS, parse_reference
from routing.selection.resolution import find_model
from routing.statistics.probes import probe_provider

# Somebody waits for the answer.
TRIAL_S: Final = 4.0
_REFUSALS: Final = (401, 403)


class AccountPorts:
    """`accounts.ports.HigherApps`."""

    def is_known_model(self, name: str) -> bool:
        """Whether a request may give it as its model: models, aliases, families and virtual
        routers, with suffixes or without."""
        snapshot = _snapshot()
        return parse_reference(name).base in ROUTERS or find_model(snapshot, name) is not None

    def is_known_provider(self, slug: str) -> bool:
        """Whether GET /providers has it."""
        return slug in _snapshot().providers

    def find_model_slugs(self, names: Iterable[str]) -> dict[str, str]:
        """Canonical slugs by name: of an id, an alias, or the newest of a family, with suffixes or
        without."""
        snapshot = _snapshot()
        canonical = snapshot.derive(_list_canonical_slugs)
        slugs: dict[str, str] = {}
        for name in names:
            if len(name) > CHARS_MAX:
                continue
            model = find_model(snapshot, name)
            base = parse_reference(name).base
            if model is not None:
                slugs[name] = model.canonical_slug
            elif base in canonical:
                slugs[name] = base
        return slugs

    def find_provider_slugs(self, names: Iterable[str]) -> dict[str, str]:
        """Slugs by name: of a slug or a display name in any case."""
        slugs = {
            name: provider.slug
            for provider in _snapshot().providers.values()
            for name in provider.names
        }
        return {name: slugs[name.casefold()] for name in names if name.casefold() in slugs}

    def try_key(self, slug: str, key: str) -> KeyTrial:
        """Ask for the provider's list of models with this key, which costs nothing anywhere."""
        provider = _snapshot().providers.get(slug)
        if provider is None:
            return KeyTrial("untold", "the provider is gone from the catalogue")
        probe = probe_provider(provider.base_url, provider.kind, key, total_s=TRIAL_S)
        if probe.status is None:
            return KeyTrial("untold", "the provider did not answer")
        if probe.status in _REFUSALS:
            return KeyTrial("refused", f"the provider answered {probe.status}")
        verdict: Final = "accepted" if 200 <= probe.status < 300 else "untold"
        return KeyTrial(verdict, f"the provider answered {probe.status}")

    def count_byok_usage(self, account_id: UUID, credential_id: UUID, since: datetime) -> ByokUsage:
        return read_byok_usage(account_id, credential_id, since)

    def read_recent_usage(
        self, account_id: UUID, scope: UsageScope, pk: object
    ) -> dict[str, RecentUsage]:
        return read_recent_usage(account_id, scope, pk)


def is_router_alias(theirs: str, ours: str) -> bool:
    """Whether `ours` is a virtual router, and `theirs`, another name for it, is no model's."""
    snapshot, name = _snapshot(), theirs.partition("@")[0]
    is_router = parse_reference(ours.partition("@")[0]).base in ROUTERS
    return is_router and not any(map(snapshot.model, (name, parse_reference(name).base)))


def _list_canonical_slugs(snapshot: Snapshot) -> frozenset[str]:
    return frozenset([model.canonical_slug for model in snapshot.models.values()])


def _snapshot() -> Snapshot:
    try:
        return catalogue.current()
    except Unavailable as error:
        raise DatabaseGone from error
