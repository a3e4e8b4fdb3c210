"""What accounts ask about providers: whether one is known, and what it makes of a key."""

from typing import Final

from accounts.ports import KeyTrial
from gateway.http.errors import DatabaseGone, Unavailable
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import Snapshot
from routing.statistics.probes import probe_provider

# Somebody waits for the answer.
TRIAL_S: Final = 4.0
_REFUSALS: Final = (401, 403)


def is_provider_slug(slug: str) -> bool:
    """Whether GET /providers has it. Raises `DatabaseGone` while there is no catalogue to ask."""
    return slug in _snapshot().providers


def try_key(slug: str, key: str) -> KeyTrial:
    """Ask for the provider's list of models with this key, which costs nothing anywhere."""
    provider = _snapshot().providers.get(slug)
    if provider is None:
        return KeyTrial("untold", "the provider is gone from the catalogue")
    found = probe_provider(provider.base_url, provider.kind, key, total_s=TRIAL_S)
    if found.status is None:
        return KeyTrial("untold", "the provider did not answer")
    if found.status in _REFUSALS:
        return KeyTrial("refused", f"the provider answered {found.status}")
    verdict: Final = "accepted" if 200 <= found.status < 300 else "untold"
    return KeyTrial(verdict, f"the provider answered {found.status}")


def _snapshot() -> Snapshot:
    try:
        return catalogue.current()
    except Unavailable as error:
        raise DatabaseGone from error
